package operator

import (
	"context"
	"crypto/rand"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/payoffer/caddy-pay-offer/payoffer/gate"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// PassChange makes a pass, or revokes one.
type PassChange struct {
	Offer   string `json:"offer,omitempty"`   // its id; optional if there is only one
	Seconds int64  `json:"seconds,omitempty"` // how long the new pass opens the gates
	Note    string `json:"note,omitempty"`    // the operator's, at most 200 characters
	Revoke  string `json:"revoke,omitempty"`  // the id of the pass to revoke
	Delete  string `json:"delete,omitempty"`  // the id of the pass to delete, which is then not listed
}

// Pass opens the gates of an offer without a payment. Times are RFC 3339.
type Pass struct {
	ID       string `json:"id"`
	Note     string `json:"note"`
	Created  string `json:"created"`
	Expires  string `json:"expires"`
	Revoked  string `json:"revoked,omitempty"`
	Browsers int    `json:"browsers"`      // that are signed in
	URL      string `json:"url,omitempty"` // a secret, only in the answer to a new pass
}

// Passes are all passes of an offer, newest first.
type Passes struct {
	Offer  string `json:"offer"`
	Passes []Pass `json:"passes"`
}

const (
	minPass, maxPass = time.Minute, 10 * 365 * 24 * time.Hour
	maxPassNote      = 200
)

// Passes lists the passes.
func (s *Service) Passes(ctx context.Context) (Passes, error) {
	all := Passes{Offer: s.Offer.ID, Passes: []Pass{}}
	rows, err := s.Ledger.Passes(ctx, s.Offer.ID)
	for _, row := range rows {
		var browsers []string
		if browsers, err = s.Ledger.Browsers(ctx, s.Offer.ID, "pass:"+row.ID); err != nil {
			break
		}
		p := newPass(row)
		p.Browsers = len(browsers)
		all.Passes = append(all.Passes, p)
	}
	if err != nil {
		return all, unreadable(err)
	}
	return all, nil
}

func newPass(row ledger.Pass) Pass {
	p := Pass{ID: row.ID, Note: row.Note, Created: timestamp(row.CreatedAt), Expires: timestamp(row.ExpiresAt)}
	if row.RevokedAt != 0 {
		p.Revoked = timestamp(row.RevokedAt)
	}
	return p
}

// ChangePass makes, revokes or deletes a pass.
func (s *Service) ChangePass(ctx context.Context, c PassChange) (Pass, error) {
	if c.Delete != "" {
		if err := s.Ledger.DeletePass(ctx, s.Offer.ID, c.Delete); err != nil {
			return Pass{}, notStored(err)
		}
		return Pass{ID: c.Delete}, nil
	}
	if c.Revoke != "" {
		if _, found, err := s.Ledger.Pass(ctx, s.Offer.ID, c.Revoke); err != nil {
			return Pass{}, unreadable(err)
		} else if !found {
			return Pass{}, refuse(Unknown, "there is no pass %.40q; list them with 'caddy pay-offer pass'", c.Revoke)
		}
		if err := s.Ledger.RevokePass(ctx, s.Offer.ID, c.Revoke); err != nil {
			return Pass{}, notStored(err)
		}
		row, _, err := s.Ledger.Pass(ctx, s.Offer.ID, c.Revoke)
		if err != nil {
			return Pass{}, unreadable(err)
		}
		return newPass(row), nil
	}
	lifetime := time.Duration(c.Seconds) * time.Second
	switch {
	case len(s.Offer.Gates) == 0:
		return Pass{}, refuse(Conflict, "the offer %q has no gate, so a pass would open nothing; add the directive pay_offer_gate to a site", s.Offer.ID)
	case c.Seconds > int64(maxPass/time.Second) || lifetime < minPass:
		return Pass{}, refuse(Invalid, "a pass cannot be valid for %d seconds; write 1m to 3650d, such as 30d", c.Seconds)
	case utf8.RuneCountInString(c.Note) > maxPassNote:
		return Pass{}, refuse(Invalid, "the note is longer than %d characters; shorten it", maxPassNote)
	}
	if err := offer.CheckPrintable(c.Note); err != nil {
		return Pass{}, invalid(err)
	}
	if s.Keeper.Key() == nil { // a link that is sealed without the key would never open
		return Pass{}, unreadable(gate.ErrUnreadable)
	}
	now := s.Now().Unix()
	row := ledger.Pass{ID: strings.ToLower(rand.Text()[:10]), Offer: s.Offer.ID, Note: c.Note, CreatedAt: now, ExpiresAt: now + c.Seconds}
	if err := s.Ledger.InsertPass(ctx, row); err != nil {
		return Pass{}, &Error{Unavailable, "the ledger is not available now; read the server's log for the reason, then list the passes before you make another one", err}
	}
	p := newPass(row)
	p.URL = s.Keeper.Link(s.Keeper.PassCode(row.ID), "")
	return p, nil
}
