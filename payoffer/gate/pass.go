package gate

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

const (
	// Parameter is the query parameter of an entry link.
	Parameter = "pay_offer"
	// CookieBack keeps the wanted address on the service host while a payer pays.
	CookieBack = "pay_offer_back"
	// codeLifetime is how long the code of a payer's entry link is valid.
	codeLifetime = time.Minute
	passPrefix   = "pass:"
)

// Holder is what opens the gates of an offer: a payment by its account and name, or an
// operator's pass, which has no account and the name "pass:<id>".
type Holder struct{ Account, Name string }

// HolderOf is the payment of a receipt.
func HolderOf(r ledger.Receipt) Holder { return Holder{r.Account, r.Name()} }

func (h Holder) passID() (id string, is bool) { return strings.CutPrefix(h.Name, passPrefix) }

// key is the holder in the table of browsers.
func (h Holder) key() string { return strings.TrimSpace(h.Account + " " + h.Name) }

// Code is the code of an entry link of a payment: valid for a minute, and once.
func (k *Keeper) Code(h Holder) string {
	return k.seal(useCode, h.Account, h.Name, strconv.FormatInt(k.Now().Unix(), 10), rand.Text())
}

// IsCode reports whether a text is a code of this offer, valid or not, as far as can be said now.
func (k *Keeper) IsCode(code string) bool {
	_, entry := k.open(useCode, code, 4)
	_, replaced := k.open(useReplace, code, 2)
	return !errors.Is(entry, ErrClosed) || !errors.Is(replaced, ErrClosed)
}

// IsPassCode reports whether a text is the code of a pass, valid or not.
func (k *Keeper) IsPassCode(code string) bool {
	h, _, _ := k.openCode(code)
	_, is := h.passID()
	return is
}

// PassCode is the code of an operator's pass. It is valid as long as the pass.
func (k *Keeper) PassCode(id string) string { return k.seal(useCode, "", passPrefix+id, "", "") }

// Back is a wanted address without its host: an index among the gates and a path with its
// query. It is sealed, so that nobody else chooses where a payer goes.
func (k *Keeper) Back(g offer.Gate, uri string) string {
	return k.seal(useBack, shortHash(g.Start), uri)
}

// Link is the entry link of a holder that leads to the address in back, or to the start of
// the first gate. The offer has a gate.
func (k *Keeper) Link(code, back string) string {
	g := k.Offer.Gates[0]
	address := g.Start
	if found, err := k.open(useBack, back, 2); err == nil {
		for _, other := range k.Offer.Gates {
			if shortHash(other.Start) == found[0] {
				g, address = other, other.Origin()+found[1]
			}
		}
	}
	return EntryLink(address, code)
}

// EntryLink is the entry link of an address.
func EntryLink(address, code string) string {
	if strings.Contains(address, "?") {
		return address + "&" + Parameter + "=" + code
	}
	return address + "?" + Parameter + "=" + code
}

// IsBack reports whether a text is one of Back.
func (k *Keeper) IsBack(back string) bool {
	_, err := k.open(useBack, back, 2)
	return err == nil
}

// seal and open add the ID of the offer, so that what one offer sealed opens no other.
func (k *Keeper) seal(use string, fields ...string) string {
	return seal(k.Key(), use, append([]string{k.Offer.ID}, fields...)...)
}

func (k *Keeper) open(use, sealed string, fields int) ([]string, error) {
	key := k.Key()
	if sealed != "" && key == nil {
		return nil, ErrUnreadable // the storage has not answered yet
	}
	found, ok := open(key, use, sealed, fields+1)
	if !ok || found[0] != k.Offer.ID {
		return nil, ErrClosed
	}
	return found[1:], nil
}

// shortHash names a value by 8 hexadecimal digits.
func shortHash(value string) string {
	sum := sha256.Sum256([]byte(value))
	return hex.EncodeToString(sum[:4])
}

// CookieName is the name of the cookie that opens the gates of the offer on a host. The
// prefix binds it to the host (RFC 6265bis); a browser accepts it from https only.
func (k *Keeper) CookieName(origin string) string {
	name := "pay_offer_" + shortHash(k.Offer.ID)
	if strings.HasPrefix(origin, "https:") {
		name = "__Host-" + name
	}
	return name
}

// Cookie is a cookie with the common attributes. SameSite is Lax, because Strict would
// lose the first click in an e-mail.
func Cookie(name, value, origin string, lifetime time.Duration) *http.Cookie {
	return &http.Cookie{
		Name: name, Value: value, Path: "/", MaxAge: int(lifetime / time.Second), HttpOnly: true,
		Secure: strings.HasPrefix(origin, "https:"), SameSite: http.SameSiteLaxMode,
	}
}
