package command

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/buyer"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// openMembers starts a seller whose pages are open to a payment or to the cookie of one. It counts payments, and answers
// requests with a valid cookie by answer.
func openMembers(t *testing.T, maxAge string, answer http.HandlerFunc) (url string, payments *int) {
	t.Helper()
	payments = new(int)
	var stall http.Handler
	members := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if cookie, err := r.Cookie("access"); err == nil && cookie.Value == "granted" && strings.HasPrefix(r.URL.Path, "/members/") {
			answer(w, r)
			return
		}
		stall.ServeHTTP(w, r)
	}))
	t.Cleanup(members.Close)
	stall = newStall(members.URL, payments, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Set-Cookie", "access=granted; Path=/members; HttpOnly"+maxAge)
		settled(w, r)
		_, _ = w.Write([]byte("paid " + r.URL.Path))
	})
	return members.URL, payments
}

func opens(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain")
	_, _ = w.Write([]byte("opened " + r.Method + " " + r.URL.Path))
}

func TestCommandPayOpensByCookieOfEarlierPayment(t *testing.T) {
	t.Setenv(keyVariable, payerKey)
	url, payments := openMembers(t, "; Max-Age=3600", opens)
	state := t.TempDir()
	must(pay(t, state, url+"/members/1.zip", "--yes"))(t)
	require.Equal(t, 1, *payments)

	output := filepath.Join(t.TempDir(), "2.txt")
	out := must(pay(t, state, url+"/members/2.txt", "--output", output, "--json"))(t) // needs no --yes
	require.Contains(t, out, "An earlier payment to "+strings.TrimPrefix(url, "http://")+" opens this URL. Nothing is paid now; --new pays again.")
	require.Contains(t, out, `"status":"opened"`)
	require.Contains(t, out, `"content":"opened GET /members/2.txt"`)
	require.Equal(t, "opened GET /members/2.txt", string(must(os.ReadFile(output))(t)))
	require.Contains(t, must(pay(t, state, url+"/members/2.txt"))(t), "opened GET", "nothing of it is stored")
	require.Contains(t, must(pay(t, state, url+"/members/post", "--method", "POST"))(t), "opened POST /members/post")
	require.Equal(t, 1, *payments)

	must(pay(t, state, url+"/members/2.txt", "--yes", "--new"))(t)
	require.Equal(t, 2, *payments, "--new")
	must(pay(t, state, url+"/other", "--yes"))(t)
	require.Equal(t, 3, *payments, "a path that the cookie is not for")
	t.Setenv(keyVariable, strings.Repeat("11", 32))
	must(pay(t, state, url+"/members/3.txt", "--yes"))(t)
	require.Equal(t, 4, *payments, "another payer")
}

func TestCommandPayIgnoresExpiredCookie(t *testing.T) {
	t.Setenv(keyVariable, payerKey)
	for name, attributes := range map[string]string{"no longer valid": "; Expires=Mon, 01 Jun 2026 00:00:00 GMT", "deleted": "; Max-Age=0"} {
		url, payments := openMembers(t, attributes, opens)
		state := t.TempDir()
		must(pay(t, state, url+"/members/1", "--yes"))(t)
		must(pay(t, state, url+"/members/2", "--yes"))(t)
		require.Equal(t, 2, *payments, name)
	}
}

func TestCommandPayIgnoresCookieThatOpensNothing(t *testing.T) {
	t.Setenv(keyVariable, payerKey)
	url, payments := openMembers(t, "", func(w http.ResponseWriter, r *http.Request) {
		r.Header.Del("Cookie") // its access has ended
		newStall("http://"+r.Host, new(int), settled).ServeHTTP(w, r)
	})
	state := t.TempDir()
	for n, path := range []string{"/members/1", "/members/2"} {
		must(pay(t, state, url+path, "--yes"))(t)
		require.Equal(t, n+1, *payments)
	}
}

// While it is not known whether an earlier payment opens a URL, no other is signed.
func TestCommandPayDoesNotPayWhileCookieMayOpen(t *testing.T) {
	t.Setenv(keyVariable, payerKey)
	for said, answer := range map[string]http.HandlerFunc{
		"the answer is status 503": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) },
		"the answer is status 302": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/", http.StatusFound) },
		"sent no answer":           func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"is incomplete": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "9")
			_, _ = w.Write([]byte("half"))
		},
	} {
		url, payments := openMembers(t, "", answer)
		state := t.TempDir()
		must(pay(t, state, url+"/members/1", "--yes"))(t)
		require.ErrorContains(t, errorOf(pay(t, state, url+"/members/2", "--yes")), said)
		require.Equal(t, 1, *payments, said)
	}
}

// access is a seller whose offer and gate are at two origins. A payment at the offer names the address that opens the gate.
type access struct {
	*testing.T
	offer, gate string
	state       string
	payments    *int
	entered     atomic.Int64     // requests for the address of the first payment
	enter       http.HandlerFunc // of that address
	link        string           // of the gate's quotes, or empty
	payee       string           // of the gate, if another one
}

const gateCode = "/members/start?code=secret"

func openAccess(t *testing.T) *access {
	a := &access{T: t, state: t.TempDir()}
	t.Setenv(keyVariable, payerKey)
	members, payments := openMembers(t, "; Max-Age=3600", opens)
	a.payments = payments
	gate := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.RequestURI() == gateCode:
			w.Header().Set("Set-Cookie", "access=granted; Path=/members; HttpOnly; Max-Age=3600")
			http.Redirect(w, r, "/members/start", http.StatusSeeOther)
			return
		case r.URL.Query().Has("do"):
			t.Error("a seller chose a request to the gate")
		}
		request := must(http.NewRequest(r.Method, members+r.URL.RequestURI(), nil))(t)
		request.Header = r.Header
		answer := must(http.DefaultTransport.RoundTrip(request))(t)
		defer answer.Body.Close()
		for key, values := range answer.Header {
			w.Header()[key] = values
		}
		w.Header().Set("Link", a.link)
		if quote, err := x402.DecodeHeader(w.Header().Get(x402.HeaderRequired)); err == nil && len(quote) > 0 && a.payee != "" {
			quote = []byte(strings.Replace(string(quote), "0x52908400098527886E0F7030069857D2E4169EE7", a.payee, 1))
			w.Header().Set(x402.HeaderRequired, x402.EncodeHeader(json.RawMessage(quote)))
		}
		w.WriteHeader(answer.StatusCode)
		_, _ = io.Copy(w, answer.Body)
	}))
	t.Cleanup(gate.Close)
	a.gate = gate.URL
	a.enter = func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, a.gate+gateCode, http.StatusSeeOther)
	}
	a.offer = a.open("/enter", func(w http.ResponseWriter, r *http.Request) { a.entered.Add(1); a.enter(w, r) })
	return a
}

// open starts an offer with the same payee, whose payments name a path of it, or an address elsewhere.
func (a *access) open(path string, enter http.HandlerFunc) string {
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	a.Cleanup(server.Close)
	here := strings.HasPrefix(path, "/")
	if here {
		mux.HandleFunc(path, enter)
	}
	mux.HandleFunc("/v1/pay", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept") != "text/html" { // programs get the methods as JSON
			return
		}
		http.SetCookie(w, &http.Cookie{Name: "back", Value: r.URL.Query().Get("back"), Path: "/"})
	})
	mux.Handle("/v1/sponsor", newStall(server.URL, a.payments, func(w http.ResponseWriter, r *http.Request) {
		settled(w, r)
		address := path
		if here {
			address = fmt.Sprintf("http://%s%s?n=%d", r.Host, path, *a.payments)
		}
		_, _ = w.Write([]byte(`{"access":{"url":"` + address + `"}}`))
	}))
	return server.URL
}

// buy pays at an offer.
func (a *access) buy(offer string, args ...string) {
	must(pay(a.T, a.state, append(args, offer+"/v1/sponsor", "--yes")...))(a.T)
}

// A payment at the offer itself opens the gates of its offer by the address that its answer names. After it the payer asks for a
// file behind the gate. Whatever another seller says must change nothing.
func TestCommandPayOpensByAccessURLOfEarlierPayment(t *testing.T) {
	stranger := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a seller led a request elsewhere") }))
	defer stranger.Close()
	localhost := func(address string) string { return strings.Replace(address, "127.0.0.1", "localhost", 1) } // another site
	const mayOpen = "not paid: an earlier payment may open this URL"
	fails := func(status int) func(*access) {
		return func(a *access) { a.enter = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) } }
	}
	renewed := func(valid string) func(*access) { // the payment of this number still opens
		return func(a *access) {
			a.buy(a.offer, "--new")
			leads := a.enter
			a.enter = func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Query().Get("n") != valid {
					http.NotFound(w, r)
					return
				}
				leads(w, r)
			}
		}
	}
	for name, c := range map[string]struct {
		before func(*access)
		more   int // payments before, besides the one at the offer
		pays   bool
		says   string
	}{
		"opened":        {says: "opened GET /members/1"},
		"another payer": {before: func(a *access) { a.Setenv(keyVariable, strings.Repeat("11", 32)) }, pays: true},
		"another payee": {before: func(a *access) { a.payee = "0x8617E340B3D01FA5F11F306F4090FD50E238070D" }, pays: true},
		"access has ended": {before: func(a *access) {
			a.enter = func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, "/v1/receipt/1", http.StatusSeeOther)
			}
		}, pays: true},
		"not found": {before: func(a *access) { a.enter = http.NotFound }, pays: true},
		"no cookie": {before: func(a *access) {
			a.enter = func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, a.gate+"/members/2", http.StatusSeeOther)
			}
		}, pays: true},
		"leads elsewhere": {before: func(a *access) {
			a.enter = func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, stranger.URL, http.StatusSeeOther) }
		}, pays: true},
		"unavailable":       {before: fails(http.StatusServiceUnavailable), says: mayOpen},
		"too many requests": {before: fails(http.StatusTooManyRequests), says: mayOpen},
		"no answer": {before: func(a *access) {
			a.enter = func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
		}, says: mayOpen},
		"a newer payment whose access has ended": {before: func(a *access) { a.buy(a.open("/ended", http.NotFound)) }, more: 1, says: "opened GET"},
		"a newer one whose address is elsewhere": {before: func(a *access) { a.buy(a.open(stranger.URL, nil)) }, more: 1, says: "opened GET"},
		"a newer one whose address is the gate's": {before: func(a *access) {
			a.buy(a.open(a.gate+"/members/?do=delete", nil))
		}, more: 1, says: "opened GET"},
		"a newer one whose address is none": {before: func(a *access) { a.buy(a.open("http://[", nil)) }, more: 1, says: "opened GET"},
		"a newer one at another site": {before: func(a *access) {
			a.buy(localhost(a.open("/enter", func(http.ResponseWriter, *http.Request) { a.Error("another site decided") })))
		}, more: 1, says: "opened GET"},
		"renewed":                           {before: renewed("2"), more: 1, says: "opened GET"},
		"renewed, and the new one refunded": {before: renewed("1"), more: 1, says: "opened GET"},
		"both have ended": {before: func(a *access) {
			a.buy(a.offer, "--new")
			a.enter = http.NotFound
		}, more: 1, pays: true},
		"a second gate of the offer": {before: func(a *access) {
			a.link = "<" + a.offer + `/v1/pay?back=here>; rel="payment"; type="text/html"`
			a.enter = func(w http.ResponseWriter, r *http.Request) {
				to := stranger.URL // the first gate
				if back, err := r.Cookie("back"); err == nil && back.Value == "here" {
					to = a.gate + gateCode
				}
				http.Redirect(w, r, to, http.StatusSeeOther)
			}
		}, says: "opened GET"},
		"a page elsewhere": {before: func(a *access) { a.link = "<" + stranger.URL + `>; rel="payment"` }, says: "opened GET"},
	} {
		t.Run(name, func(t *testing.T) {
			a := openAccess(t)
			a.buy(a.offer)
			if c.before != nil {
				c.before(a)
			}
			before := *a.payments
			a.entered.Store(0)
			require.Equal(t, 1+c.more, before)
			out, err := pay(t, a.state, a.gate+"/members/1", "--yes")
			require.Contains(t, out+fmt.Sprint(err), c.says)
			require.Equal(t, c.pays, *a.payments > before)
			require.LessOrEqual(t, a.entered.Load(), int64(1+c.more))
		})
	}
}

// Of two payments at a gate the second was refunded. Its cookie has the name of the first one's.
func TestCommandPayOpensByCookieOfOlderPayment(t *testing.T) {
	t.Setenv(keyVariable, payerKey)
	payments, opened := 0, "access=1"
	var stall http.Handler
	gate := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Cookie") == opened {
			opens(w, r)
			return
		}
		stall.ServeHTTP(w, r)
	}))
	t.Cleanup(gate.Close)
	stall = newStall(gate.URL, &payments, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Set-Cookie", fmt.Sprintf("access=%d; Path=/; Max-Age=3600", payments))
		settled(w, r)
	})
	state := t.TempDir()
	must(pay(t, state, gate.URL+"/1", "--yes"))(t)
	must(pay(t, state, gate.URL+"/1", "--yes", "--new"))(t)
	for _, opened = range []string{"access=1", "access=2"} {
		require.Contains(t, must(pay(t, state, gate.URL+"/2", "--yes"))(t), "opened GET /2")
	}
	require.Equal(t, 2, payments)
}

// Each entry is a browser of the payer, of which a seller may limit the number: one is enough.
func TestCommandPayEntersOnce(t *testing.T) {
	a := openAccess(t)
	a.buy(a.offer)
	for _, file := range []string{"/members/1", "/members/2", "/members/1"} {
		require.Contains(t, must(pay(t, a.state, a.gate+file))(t), "opened GET "+file)
	}
	require.EqualValues(t, 1, a.entered.Load())
	require.Equal(t, 1, *a.payments)
}

// Runs beside each other pay once for what one payment opens.
func TestCommandPayAtOnceForOneSite(t *testing.T) {
	t.Setenv(keyVariable, payerKey)
	url, payments := openMembers(t, "; Max-Age=3600", opens)
	state := t.TempDir()
	var runs sync.WaitGroup
	for n := range 4 {
		runs.Go(func() {
			_, err := execute(t, payCommand(), fmt.Sprintf("%s/members/%d", url, n), "--state", state, "--yes")
			assert.NoError(t, err)
		})
	}
	runs.Wait()
	require.Equal(t, 1, *payments)
	lock := must(buyer.OpenPurchase(state, must(buyer.NewTarget("", url+"/members/9"))(t), payerAddress))(t)
	require.ErrorContains(t, errorOf(pay(t, state, url+"/members/1", "--yes")), buyer.ErrBusy.Error())
	require.NoError(t, lock.Close())
}

// Somebody who buys each day has only the newest payments tried: by their addresses, and by their cookies.
func TestCommandPayTriesNewestPayments(t *testing.T) {
	requests := 0
	var stall http.Handler
	seller := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests++
		w.Header().Set("Link", "<http://"+r.Host+`/v1/pay>; rel="payment"`)
		stall.ServeHTTP(w, r)
	}))
	t.Cleanup(seller.Close)
	stall = newStall(seller.URL, new(int), func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Set-Cookie", "session=1; Path=/; Max-Age=3600") // opens nothing
		settled(w, r)
	})
	state := t.TempDir()
	t.Setenv(keyVariable, payerKey)
	for n := range 14 {
		requests = 0
		must(pay(t, state, fmt.Sprintf("%s/%d", seller.URL, n), "--yes"))(t)
	}
	require.Equal(t, 13, requests, "the quote, all cookies, ten times those of one payment, and the payment")

	for valid, tries := range map[string]int64{"12": 1, "3": 10, "2": 10} {
		a := openAccess(t)
		for range 12 {
			a.buy(a.offer, "--new")
		}
		leads := a.enter
		a.enter = func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Get("n") == valid {
				leads(w, r)
			} else {
				http.NotFound(w, r)
			}
		}
		a.entered.Store(0)
		must(pay(t, a.state, a.gate+"/members/1", "--yes"))(t)
		require.Equal(t, tries, a.entered.Load(), valid)
		require.Equal(t, valid == "2", *a.payments == 13, "payment %s is the eleventh", valid)
	}
}
