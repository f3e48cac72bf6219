package wallet

import (
	"crypto/ecdsa"
	"fmt"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/browser"
)

// baseSepolia is the chain's id as wallets write it.
const baseSepolia = "0x14a34"

// purse is a scripted wallet in the browser.
type purse struct {
	Name string `json:"name"`
	Key  string `json:"key"`
	RPC  string `json:"rpc"`
	// Chain is the network that it is on, and Known are those that it knows.
	Chain string   `json:"chain"`
	Known []string `json:"known"`
	// Icon is what it announces as its icon.
	Icon string `json:"icon"`
	// Legacy says that it is window.ethereum and announces nothing, or "initialized" that only.
	Legacy string `json:"legacy"`
	// Late says that it appears when the test lets it.
	Late bool `json:"late"`
	// Contract is the address of a wallet that is a contract.
	Contract string `json:"contract"`
	// Account is the one that it names after it was asked for access, if that is another one.
	Account string `json:"account"`
	// Locked and Forgetful say that it names no account when it is asked for access, or after that.
	Locked    bool `json:"locked"`
	Forgetful bool `json:"forgetful"`
	// Unknown is its error for a network that it does not know.
	Unknown int `json:"unknown"`
	// Slow is how often it names its old network after it changed.
	Slow int `json:"slow"`
	// Stuck says that it stays on its network, whatever it answers.
	Stuck bool `json:"stuck"`
	// Faults are the errors with which it answers a method.
	Faults map[string]fault `json:"faults"`
	// Longer is by how many bytes its signatures are longer than those of a key.
	Longer int `json:"longer"`
	// Hold is a method that it does not answer until the test lets it.
	Hold string `json:"hold"`
}

type fault struct {
	Code    int    `json:"code"`
	Message string `json:"message,omitempty"`
}

// weather is what becomes of the next request for a payment or a quote.
type weather struct {
	Of      string            `json:"of"`
	Does    string            `json:"does"`
	Status  int               `json:"status,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
	Body    string            `json:"body,omitempty"`
}

// shown is what a person reads in the place for wallets.
type shown struct {
	Text, Status, Step, Focus, HTML  string
	Buttons, Tabs, Links, Violations []string
	Icons                            []int // the widths of those in the buttons for wallets, 0 for a button without one
}

// names are those of the buttons and questions, without the marks that isolate a wallet's name.
func (s shown) names() (names []string) {
	for _, button := range s.Buttons {
		names = append(names, strings.NewReplacer("\u2068", "", "\u2069", "").Replace(button))
	}
	return names
}

// deeds are what happened in a person's browser.
type deeds struct {
	// Sent are the payments as they were sent, in their order.
	Sent     []string
	Messages []string
	Wallets  []struct {
		Calls  []string
		Added  []map[string]any
		Signed []string // nonces
	}
}

// visitor is a person with a browser of his own.
type visitor struct {
	browser *browser.Browser
	shop    *shop
	key     *ecdsa.PrivateKey
	name    string
	// purse is a wallet that can pay.
	purse purse
}

// options of a person's browser.
type options map[string]any

func (v *visitor) do(t testing.TB, command string, given options, result any) {
	t.Helper()
	if given == nil {
		given = options{}
	}
	given["who"] = v.name
	if given["tab"] == nil {
		given["tab"] = "first"
	}
	v.browser.Do(t, command, given, result)
}

func (v *visitor) done(t testing.TB, command string, given options) {
	t.Helper()
	var nothing any
	v.do(t, command, given, &nothing)
}

// open opens the page in the first tab.
func (v *visitor) open(t testing.TB) { t.Helper(); v.openIn(t, "first", "/v1/pay#usdc") } // the row is open

func (v *visitor) openIn(t testing.TB, tab, path string) {
	t.Helper()
	v.done(t, "open", options{"tab": tab, "url": v.shop.url + path})
}

func (v *visitor) press(t testing.TB, name string) {
	t.Helper()
	v.done(t, "press", options{"name": name})
}

// read waits in the first tab until a text is shown and nothing is under way.
func (v *visitor) read(t testing.TB, text string) shown {
	t.Helper()
	return v.readIn(t, "first", text, options{"idle": true})
}

func (v *visitor) readIn(t testing.TB, tab, text string, given options) (s shown) {
	t.Helper()
	given["tab"], given["text"] = tab, text
	v.do(t, "read", given, &s)
	require.Empty(t, s.Violations)
	return s
}

// readPassing is read for a visitor with a clock, while half a second passes again and again.
func (v *visitor) readPassing(t testing.TB, text string) shown {
	t.Helper()
	return v.readIn(t, "first", text, options{"idle": true, "passing": 500})
}

// picture takes pictures of the page for phones and desks, light and dark, where they are wanted.
func (v *visitor) picture(t testing.TB, name string) {
	t.Helper()
	for _, width := range []int{390, 1280} {
		for look, dark := range map[string]bool{"light": false, "dark": true} {
			if path := browser.Screenshot(fmt.Sprintf("wallet-%s-%d-%s", name, width, look)); path != "" {
				v.done(t, "picture", options{"path": path, "width": width, "dark": dark})
			}
		}
	}
}

func (v *visitor) did(t testing.TB) (d deeds) {
	t.Helper()
	v.do(t, "did", nil, &d)
	require.Empty(t, d.Messages)
	return d
}

// stored are the payments that the browser keeps.
func (v *visitor) stored(t testing.TB) map[string]string {
	t.Helper()
	var kept map[string]string
	v.do(t, "stored", nil, &kept)
	return kept
}

// become changes what it names of the wallet.
func (v *visitor) become(t testing.TB, changes any) {
	t.Helper()
	v.done(t, "become", options{"changes": changes})
}

// wallet makes the wallet one that can pay, but for what change does.
func (v *visitor) wallet(t testing.TB, change ...func(*purse)) {
	t.Helper()
	p := v.purse
	also(change...)(&p)
	v.become(t, p)
}

func (v *visitor) weather(t testing.TB, all ...weather) {
	t.Helper()
	v.done(t, "weather", options{"weather": all})
}

// privateKey is a key as the scripts read it.
func privateKey(key *ecdsa.PrivateKey) string { return hexutil.Encode(crypto.FromECDSA(key)) }
