package payoffertest

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/btcsuite/btcd/address/v2/bech32"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/stretchr/testify/require"
)

// WalletKind is the provider whose answers a Wallet has.
type WalletKind int

const (
	// WalletAlby has one callback for all payers, and verifies with the preimage.
	WalletAlby WalletKind = iota
	// WalletBTCPay makes an invoice for each reading of the parameters: the same callback and amount return it again.
	WalletBTCPay
	// WalletLNbits verifies nothing.
	WalletLNbits
)

// WalletScript is how a wallet behaves. The zero value is that of its kind.
type WalletScript struct {
	// Repeat returns the last invoice for another reading of the parameters, too.
	Repeat bool
	// Status is that of every answer, with the error of LUD-06; 0 is none. Hang answers nothing until the wallet closes.
	Status int
	Hang   bool
	// Unknown has verify answer that there is no such invoice, with status 404, or 200 if UnknownOK.
	Unknown, UnknownOK bool
	// Preimage is what verify says of a paid invoice: "" the right one, "none" or "wrong".
	Preimage string
	// Lie has verify answer with the paid invoice of another payer.
	Lie bool
	// Settled has verify say so of every invoice.
	Settled bool
	// Verify replaces the address to verify; "none" leaves it out.
	Verify string
	// Expiry is that of invoices, default an hour; Network their prefix, default "bc"; Off is added to their millisatoshis.
	Expiry  time.Duration
	Network string
	Off     int64
	// Least and Most bound the amount in millisatoshis.
	Least, Most int64
}

// WalletInvoice is an invoice of a wallet.
type WalletInvoice struct {
	Request, Hash, Preimage string
	Millisatoshis           int64
	Paid                    bool
}

// Wallet stands in for the provider of the Lightning address alice@<its host>.
type Wallet struct {
	server *httptest.Server
	kind   WalletKind
	now    func() time.Time
	closed chan struct{}

	mu       sync.Mutex
	arrival  *sync.Cond // signalled for each request
	script   WalletScript
	invoices []*WalletInvoice
	byLink   map[string]*WalletInvoice // of BTCPay
	requests []string                  // paths with their queries
}

// walletKey signs every invoice.
var walletKey = sync.OnceValue(func() []byte {
	sum := sha256.Sum256([]byte("the node of the wallet"))
	return sum[:]
})

// NewWallet starts a wallet on a loopback address. It closes when the test ends.
func NewWallet(tb testing.TB, kind WalletKind, now func() time.Time) *Wallet {
	tb.Helper()
	w := &Wallet{kind: kind, now: now, closed: make(chan struct{}), byLink: make(map[string]*WalletInvoice)}
	w.arrival = sync.NewCond(&w.mu)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/lnurlp/alice", w.parameters)
	mux.HandleFunc("GET /pay/{link}", w.pay)
	mux.HandleFunc("GET /verify/{hash}", w.verify)
	w.server = httptest.NewServer(w.scripted(mux))
	tb.Cleanup(func() {
		close(w.closed)
		w.server.Close()
	})
	return w
}

// Host is the host of the wallet, with its port.
func (w *Wallet) Host() string { return strings.TrimPrefix(w.server.URL, "http://") }

// Address is the Lightning address.
func (w *Wallet) Address() string { return "alice@" + w.Host() }

// Transport reaches the wallet, with connections that end with the test.
func (w *Wallet) Transport() http.RoundTripper { return w.server.Client().Transport }

// Set scripts the wallet from its next request on.
func (w *Wallet) Set(script WalletScript) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.script = script
}

// Invoices are all that were made, oldest first.
func (w *Wallet) Invoices() (all []WalletInvoice) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, i := range w.invoices {
		all = append(all, *i)
	}
	return all
}

// Pay pays an invoice.
func (w *Wallet) Pay(tb testing.TB, hash string) {
	tb.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	n := slices.IndexFunc(w.invoices, func(i *WalletInvoice) bool { return i.Hash == hash })
	require.GreaterOrEqual(tb, n, 0, "the wallet has no invoice %s", hash)
	w.invoices[n].Paid = true
}

// Requests are the requests so far whose paths begin so.
func (w *Wallet) Requests(prefix string) (found []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, path := range w.requests {
		if strings.HasPrefix(path, prefix) {
			found = append(found, path)
		}
	}
	return found
}

// Await returns when so many requests have come whose paths begin so.
func (w *Wallet) Await(prefix string, count int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		found := 0
		for _, path := range w.requests {
			if strings.HasPrefix(path, prefix) {
				found++
			}
		}
		if found >= count {
			return
		}
		w.arrival.Wait()
	}
}

// scripted counts requests and makes them fail as scripted.
func (w *Wallet) scripted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		w.requests = append(w.requests, r.URL.RequestURI())
		script := w.script
		w.arrival.Broadcast()
		w.mu.Unlock()
		switch {
		case script.Hang:
			select {
			case <-w.closed:
			case <-r.Context().Done():
			}
		case script.Status != 0:
			w.answer(rw, script.Status, map[string]any{"status": "ERROR", "reason": "the wallet is as scripted"})
		default:
			next.ServeHTTP(rw, r)
		}
	})
}

func (*Wallet) answer(rw http.ResponseWriter, status int, body any) {
	rw.Header().Set("Content-Type", "application/json")
	rw.WriteHeader(status)
	_ = json.NewEncoder(rw).Encode(body) // the client may have left
}

func (w *Wallet) refuse(rw http.ResponseWriter, status int, reason string) {
	w.answer(rw, status, map[string]any{"status": "ERROR", "reason": reason})
}

// parameters answers LUD-06.
func (w *Wallet) parameters(rw http.ResponseWriter, _ *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	link := "alice"
	if w.kind == WalletBTCPay {
		link = strconv.Itoa(len(w.byLink))
		if w.script.Repeat && len(w.byLink) > 0 {
			link = strconv.Itoa(len(w.byLink) - 1)
		} else {
			w.byLink[link] = nil
		}
	}
	w.answer(rw, http.StatusOK, map[string]any{
		"tag": "payRequest", "callback": w.server.URL + "/pay/" + link + "?via=lnurl", "metadata": `[["text/plain","Payment to alice"]]`, "commentAllowed": 200,
		"minSendable": cmp.Or(w.script.Least, 1000), "maxSendable": cmp.Or(w.script.Most, 1_000_000_000),
	})
}

// pay answers the callback.
func (w *Wallet) pay(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	amount, err := strconv.ParseInt(r.URL.Query().Get("amount"), 10, 64)
	if err != nil || r.URL.Query().Get("via") != "lnurl" {
		w.refuse(rw, http.StatusBadRequest, "amount or via is missing")
		return
	}
	link := r.PathValue("link")
	made := w.byLink[link]
	if w.kind != WalletBTCPay && w.script.Repeat && len(w.invoices) > 0 {
		made = w.invoices[len(w.invoices)-1]
	}
	if made == nil {
		made = w.newInvoice(amount)
		if w.kind == WalletBTCPay {
			w.byLink[link] = made
		}
	}
	body := map[string]any{"pr": made.Request, "routes": []string{}, "disposable": false}
	if w.kind != WalletLNbits && w.script.Verify != "none" {
		body["verify"] = cmp.Or(w.script.Verify, w.server.URL+"/verify/"+made.Hash)
	}
	w.answer(rw, http.StatusOK, body)
}

func (w *Wallet) newInvoice(millisatoshis int64) *WalletInvoice {
	preimage := make([]byte, 32)
	_, _ = rand.Read(preimage) // it never fails
	hash := sha256.Sum256(preimage)
	made := &WalletInvoice{Hash: hex.EncodeToString(hash[:]), Preimage: hex.EncodeToString(preimage), Millisatoshis: millisatoshis}
	made.Request = SignedRequest(cmp.Or(w.script.Network, "bc"), millisatoshis+w.script.Off, hash[:], w.now(), cmp.Or(w.script.Expiry, time.Hour))
	w.invoices = append(w.invoices, made)
	return made
}

// verify answers LUD-21.
func (w *Wallet) verify(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := slices.IndexFunc(w.invoices, func(i *WalletInvoice) bool { return i.Hash == r.PathValue("hash") })
	switch {
	case w.script.UnknownOK:
		w.refuse(rw, http.StatusOK, "Not found")
		return
	case n < 0 || w.script.Unknown:
		w.refuse(rw, http.StatusNotFound, "Not found")
		return
	}
	shown := *w.invoices[n]
	if w.script.Lie {
		shown = *w.newInvoice(shown.Millisatoshis)
		shown.Paid = true
	}
	shown.Paid = shown.Paid || w.script.Settled
	body := map[string]any{"status": "OK", "settled": shown.Paid, "preimage": nil, "pr": shown.Request}
	if shown.Paid && w.script.Preimage != "none" {
		body["preimage"] = shown.Preimage
	}
	if shown.Paid && w.script.Preimage == "wrong" {
		body["preimage"] = strings.Repeat("ab", 32)
	}
	w.answer(rw, http.StatusOK, body)
}

// SignedRequest makes a payment request (BOLT 11), as a node does. bc is the main network.
func SignedRequest(network string, millisatoshis int64, hash []byte, at time.Time, expiry time.Duration) string {
	prefix := fmt.Sprintf("ln%s%dp", network, millisatoshis*10)
	if millisatoshis%100 == 0 {
		prefix = fmt.Sprintf("ln%s%dn", network, millisatoshis/100)
	}
	data := digits(at.Unix(), 7)
	field := func(kind byte, value []byte) {
		data = slices.Concat(data, []byte{kind}, digits(int64(len(value)), 2), value)
	}
	field(1, fives(hash))                                // p
	field(16, fives(crypto.Keccak256([]byte("secret")))) // s
	field(13, fives([]byte("Payment to alice")))         // d
	field(6, digits(int64(expiry/time.Second), 5))       // x
	field(24, digits(18, 1))                             // c
	field(5, []byte{16, 8, 0})                           // 9: var_onion_optin and payment_secret
	message, _ := bech32.ConvertBits(data, 5, 8, true)   // of whole digits
	digest := sha256.Sum256(append([]byte(prefix), message...))
	key, err := crypto.ToECDSA(walletKey())
	if err != nil {
		panic(err)
	}
	signature, err := crypto.Sign(digest[:], key)
	if err != nil {
		panic(err)
	}
	request, err := bech32.Encode(prefix, append(data, fives(signature)...))
	if err != nil {
		panic(err)
	}
	return request
}

// fives are bytes as digits of 5 bits.
func fives(data []byte) []byte {
	digits, _ := bech32.ConvertBits(data, 8, 5, true) // any bytes have digits
	return digits
}

// digits are a number as so many digits of 5 bits.
func digits(n int64, count int) []byte {
	all := make([]byte, count)
	for i := range all {
		all[count-1-i] = byte(n >> (5 * i) & 31)
	}
	return all
}
