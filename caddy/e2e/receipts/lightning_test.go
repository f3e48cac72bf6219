package receipts

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/node"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/prices"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/handbook"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/skip"
)

// lightningShop is a shop that takes Lightning and has a gate.
type lightningShop struct {
	*shop
	wallet *payoffertest.Wallet
}

func openLightningShop(t *testing.T, kind payoffertest.WalletKind) *lightningShop {
	t.Helper()
	s := &lightningShop{
		&shop{t: t, url: "http://localhost:" + payoffertest.FreePort(t), admin: "localhost:" + payoffertest.FreePort(t)},
		payoffertest.NewWallet(t, kind, time.Now),
	}
	s.Process = server.Start(t, s.url, fmt.Sprintf(`{
	admin %s
	persist_config off
	default_bind 127.0.0.1
}
%s {
	log
	pay_offer {
		base_url %[2]s
		id lightning
		card https://checkout.example/pay
		lightning %[3]s
	}
	pay_offer_gate /paid/* {
		start /paid/
	}
	respond /paid/* "only payers read this"
}
`, s.admin, s.url, s.wallet.Address()), prices.Start(t)...)
	server.Eventually(t, "there is a price", func() bool { return s.status("/v1/pay/lightning.uri") == http.StatusOK })
	return s
}

// order makes an invoice.
func (s *lightningShop) order() (made lightningInvoice) {
	s.t.Helper()
	a, err := server.Do(server.Client, http.MethodPost, s.url+"/v1/pay/lightning", "", nil)
	require.NoError(s.t, err)
	require.Equal(s.t, http.StatusOK, a.Status, a.Body)
	require.NoError(s.t, json.Unmarshal([]byte(a.Body), &made))
	return made
}

type lightningInvoice struct {
	URL, Status, PaymentRequest, PaymentHash, AmountAtomic string
	ValidUntil                                             time.Time
	Monitored                                              bool
}

// state is the status of a payment at its address.
func (s *lightningShop) state(address string) string {
	var p struct{ Status string }
	require.NoError(s.t, json.Unmarshal([]byte(server.Get(s.t, address, "application/json")), &p))
	return p.Status
}

// An invoice is the same for the libraries of wallets, and its payment is the same in every report, to the cent.
func TestLightningPaymentAgreesEverywhere(t *testing.T) {
	t.Parallel()
	s := openLightningShop(t, payoffertest.WalletBTCPay)
	made := s.order()
	require.Equal(t, "open", made.Status)
	require.True(t, made.Monitored)

	t.Run("libraries of wallets", func(t *testing.T) {
		read := node.DecodeInvoice(t, made.PaymentRequest)
		require.Len(t, read, 2)
		for _, library := range read {
			require.Equal(t, made.AmountAtomic, library.Satoshis.String())
			require.Equal(t, made.PaymentHash, library.Hash)
			require.Equal(t, made.ValidUntil.Unix(), library.End)
		}
	})

	require.Equal(t, "open", s.state(made.URL))
	require.NotEqual(t, 1, server.Confirmed(s.url, "lightning"), "an invoice is no payment")
	s.wallet.Pay(t, made.PaymentHash)
	server.Eventually(t, "the page says received", func() bool { return s.state(made.URL) == "confirmed" })
	require.Contains(t, server.Get(t, made.URL, "text/html"), ">Paid</p>")

	report := s.get("/v1/received")
	require.Equal(t, "42", report.ReceivedUSD.String())
	require.Len(t, report.Receipts, 1)
	require.Equal(t, made.PaymentHash, report.Receipts[0].ID)
	require.Equal(t, made.AmountAtomic, report.Receipts[0].AmountAtomic)
	require.Equal(t, "provider", report.Receipts[0].Evidence)
	feed := s.get("/v1/received?after=0")
	require.Len(t, feed.Transitions, 1)
	require.Equal(t, "confirmed", feed.Transitions[0].To)

	exported := filepath.Join(t.TempDir(), "2026.csv")
	s.export(exported)
	lines := lab.Must(csv.NewReader(lab.Must(os.Open(exported))(t)).ReadAll())(t)
	require.Len(t, lines, 2)
	cell := func(name string) string { return lines[1][slices.Index(lines[0], name)] }
	require.Equal(t, []string{"lightning", made.PaymentHash, "BTC", made.AmountAtomic, "42.00", "quote", "yes"},
		[]string{cell("rail"), cell("reference"), cell("asset"), cell("amount_atomic"), cell("usd_value"), cell("value_basis"), cell("counted")})
	t.Run("hledger", func(t *testing.T) {
		skip.Full(t, "hledger")
		skip.Program(t, "hledger", "hledger")
		requireHledgerIncome(t, exported, "42.00")
	})

	opened := lab.Must(server.Do(server.Client, http.MethodGet, made.URL+"/enter", "", nil))(t)
	require.Equal(t, http.StatusFound, opened.Status)
	entered := lab.Must(server.Do(server.Client, http.MethodGet, opened.Header.Get("Location"), "", nil))(t)
	require.Equal(t, http.StatusSeeOther, entered.Status)
	cookie, _, _ := strings.Cut(entered.Header.Get("Set-Cookie"), ";")
	inside := lab.Must(server.Do(server.Client, http.MethodGet, s.url+"/paid/", "", http.Header{"Cookie": {cookie}}))(t)
	require.Equal(t, "only payers read this", inside.Body)

	output, err := server.Command(t, "", "record", "--address", s.admin, "--rail", "lightning", "--reference", made.PaymentHash, "--refund", "0.0001", "--reason", "too late")
	require.NoError(t, err, output)
	require.NotEqual(t, "42", s.get("/v1/received").ReceivedUSD.String())
}

// Two payers never get one invoice, and a wallet without verify leaves the payment to the seller, by its hash.
func TestLightningPaymentsEnteredByTheSeller(t *testing.T) {
	t.Parallel()
	s := openLightningShop(t, payoffertest.WalletLNbits)
	first, second := s.order(), s.order()
	require.NotEqual(t, first.PaymentHash, second.PaymentHash)
	require.False(t, first.Monitored)
	require.Contains(t, server.Get(t, first.URL, "text/html"), "The seller confirms the payment by hand")
	output, err := server.Command(t, "", "record", "--address", s.admin, "--rail", "lightning", "--reference", first.PaymentHash, "--amount", "42")
	require.NoError(t, err, output)
	require.NotContains(t, output, "counted twice", "the wallet reports no payment")
	require.Equal(t, "confirmed", s.state(first.URL), "the page of the invoice becomes the receipt")
	require.Equal(t, "open", s.state(second.URL))
	require.Equal(t, "42", s.get("/v1/received").ReceivedUSD.String())

	led := lab.Must(server.Do(server.Client, http.MethodPost, s.url+"/v1/pay/lightning", "", http.Header{"Accept": {"text/html"}}))(t)
	require.Equal(t, http.StatusFound, led.Status)
	address := led.Header.Get("Location")
	s.Terminate()
	s.Await(t)
	require.Contains(t, s.Log(), "/v1/pay/lightning", "requests are logged")
	for _, secret := range []string{address, strings.TrimPrefix(first.URL, s.url), strings.TrimPrefix(second.URL, s.url)} {
		require.NotContains(t, s.Log(), strings.TrimPrefix(secret, "/v1/receipt/"), "the address of a receipt is its payer's")
	}
}

// export writes every movement of the running server as CSV.
func (s *lightningShop) export(file string) {
	s.t.Helper()
	output, err := server.Command(s.t, "", "received", "--csv", "--address", s.admin)
	require.NoError(s.t, err, output)
	lines := strings.SplitAfterN(output, "\n", 3) // one payment; the sums, on standard error, come last
	require.NoError(s.t, os.WriteFile(file, []byte(lines[0]+lines[1]), 0o600))
}

// requireHledgerIncome imports an export by the rules of the guide.
func requireHledgerIncome(t *testing.T, exported, want string) {
	t.Helper()
	for _, page := range lab.Must(handbook.Read(lab.Path(t, "")))(t) {
		for _, block := range page.Blocks {
			if block.Language == "hledger" {
				require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(exported), "pay-offer.rules"), []byte(block.Text), 0o600))
			}
		}
	}
	command := exec.Command("hledger", "-f", filepath.Base(exported), "--rules-file", "pay-offer.rules", "balance", "-N", "income")
	command.Dir = filepath.Dir(exported)
	output, err := command.CombinedOutput()
	require.NoError(t, err, "%s", output)
	require.Contains(t, string(output), "-"+want+" USD")
}
