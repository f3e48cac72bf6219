package web

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/gate"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// storeReturnAddress moves the address that the payer requested from the URL into a cookie, which stays while
// the payer is at a checkout. The 402 of a gate sent the payer to the payment page.
func (s *Server) storeReturnAddress(r *http.Request) *response {
	query, _ := url.ParseQuery(r.URL.RawQuery) // invalid parameters are ignored
	back := query.Get("back")
	if !s.Keeper.IsBack(back) {
		return nil
	}
	query.Del("back")
	target := offer.PathMethods
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	cookie := gate.Cookie(s.returnCookie(), back, s.Offer.BaseURL, time.Hour)
	return s.personal.redirect(target, header{"Set-Cookie", cookie.String()})
}

func (s *Server) returnCookie() string {
	if strings.HasPrefix(s.Offer.BaseURL, "https:") {
		return "__Host-" + gate.CookieBack
	}
	return gate.CookieBack
}

// enterGate is GET /v1/receipt/<id>/enter: it leads the payer into the gated site. A payment
// that does not open it leads to its receipt, which says why.
func (s *Server) enterGate(r *http.Request) *response {
	id := receiptOf(r)
	row, problem := s.findPayment(r, id)
	if problem != nil {
		return problem
	}
	switch _, err := s.Keeper.OpenUntil(r.Context(), gate.HolderOf(row)); {
	case errors.Is(err, gate.ErrUnreadable): // not that it opens nothing: the payer could pay again
		return s.orUnavailable(s.personal, err, r, nil, noIndex, noReferrer)
	case err != nil:
		return s.personal.redirect(offer.PathReceipt+"/"+id, noIndex, noReferrer)
	}
	var back string
	if cookie, err := r.Cookie(s.returnCookie()); err == nil {
		back = cookie.Value
	}
	link := s.Keeper.Link(s.Keeper.Code(gate.HolderOf(row)), back)
	gone := gate.Cookie(s.returnCookie(), "", s.Offer.BaseURL, -time.Second)
	return s.personal.redirect(link, noIndex, noReferrer, header{"Set-Cookie", gone.String()})
}

// signOut is POST /v1/receipt/<id>/sign-out: it ends all browsers of the payment.
func (s *Server) signOut(r *http.Request) *response {
	id := receiptOf(r)
	row, problem := s.findPayment(r, id)
	if problem != nil {
		return problem
	}
	if err := s.Keeper.End(r.Context(), gate.HolderOf(row)); err != nil {
		return s.orUnavailable(s.personal, err, r, nil, noIndex, noReferrer)
	}
	return s.personal.redirect(offer.PathReceipt+"/"+id, noIndex, noReferrer)
}

// entrance is where the payer with the address of a receipt enters the gated site; nil
// without a gate.
func (s *Server) entrance(receipt string) *entrance {
	if len(s.Offer.Gates) == 0 || !strings.HasPrefix(receipt, s.Offer.URL(offer.PathReceipt+"/")) {
		return nil
	}
	return &entrance{receipt + enterFile}
}

// access is what the page of a receipt offers its payer; empty paths if the payment opens
// nothing.
type access struct{ Enter, End, Until string }

func (s *Server) accessOf(r *http.Request, row ledger.Receipt, say formatter) (a access) {
	until, err := s.Keeper.OpenUntil(r.Context(), gate.HolderOf(row))
	if key := s.QRKey(); err == nil && key != nil {
		address := offer.PathReceipt + "/" + receiptID(key, row)
		a = access{address + enterFile, address + endFile, say.when(until.UTC().Format(time.RFC3339), "")}
	}
	return a
}
