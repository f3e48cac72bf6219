package crash

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/prices"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/failpoint"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/postgres"
)

// walletShop is a server whose invoices are made at a wallet that outlives it.
type walletShop struct {
	*server.Victim
	t      *testing.T
	wallet *payoffertest.Wallet
	url    string
	env    []string
}

func openWalletShop(t *testing.T, ledger string) *walletShop {
	t.Helper()
	s := &walletShop{t: t, wallet: payoffertest.NewWallet(t, payoffertest.WalletAlby, time.Now), url: "http://localhost:" + payoffertest.FreePort(t), env: prices.Start(t)}
	s.Victim = server.NewVictim(t, s.url+"/v1/pay", fmt.Sprintf(`{
	admin off
	persist_config off
	default_bind 127.0.0.1
	storage file_system %s
	pay_offer {
		ledger %s
	}
}
%s {
	pay_offer {
		base_url %[3]s
		id crash-lightning
		card https://checkout.example/pay
		lightning %[4]s
	}
}
`, t.TempDir(), ledger, s.url, s.wallet.Address()))
	return s
}

// start launches the server, and returns when it can make invoices.
func (s *walletShop) start(env ...string) {
	s.t.Helper()
	s.Launch(s.t, append(env, s.env...)...)
	require.True(s.t, s.Answers(s.t))
	server.Eventually(s.t, "there is a price", func() bool {
		a, err := server.Do(server.Client, http.MethodGet, s.url+"/v1/pay/lightning.uri", "", nil)
		return err == nil && a.Status == http.StatusOK
	})
}

// order makes an invoice, and returns its hash and the address of its page.
func (s *walletShop) order() (hash, address string) {
	s.t.Helper()
	a := lab.Must(server.Do(server.Client, http.MethodPost, s.url+"/v1/pay/lightning", "", nil))(s.t)
	require.Equal(s.t, http.StatusOK, a.Status, a.Body)
	var made struct{ PaymentHash, URL string }
	require.NoError(s.t, json.Unmarshal([]byte(a.Body), &made))
	return made.PaymentHash, made.URL
}

// becomes waits until the page of an invoice has a status.
func (s *walletShop) becomes(address, status string) {
	s.t.Helper()
	server.Eventually(s.t, address+" is "+status, func() bool {
		a, err := server.Do(server.Client, http.MethodGet, address, "", nil)
		var p struct{ Status string }
		return err == nil && json.Unmarshal([]byte(a.Body), &p) == nil && p.Status == status
	})
}

// requireRecorded requires one receipt for each paid invoice.
func (s *walletShop) requireRecorded(hashes ...string) {
	s.t.Helper()
	var report struct{ Receipts []struct{ ID string } }
	require.NoError(s.t, json.Unmarshal([]byte(server.Get(s.t, s.url+"/v1/received", "")), &report))
	var found []string
	for _, r := range report.Receipts {
		found = append(found, r.ID)
	}
	require.ElementsMatch(s.t, hashes, found)
}

// A payment between a kill and the next start, one while it is recorded, and one after the end of its invoice are
// recorded once.
func TestKilledBetweenInvoiceAndPayment(t *testing.T) {
	t.Parallel()
	for name, ledger := range map[string]func(t *testing.T) string{
		"SQLite":     func(t *testing.T) string { return "sqlite " + filepath.Join(t.TempDir(), "ledger.db") },
		"PostgreSQL": func(t *testing.T) string { return fmt.Sprintf("postgres %q", postgres.Start(t).DSN(t)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openWalletShop(t, ledger(t))
			s.start()
			s.wallet.Set(payoffertest.WalletScript{Expiry: 35 * time.Second})
			late, lateAddress := s.order()
			s.wallet.Set(payoffertest.WalletScript{})
			away, awayAddress := s.order()
			torn, tornAddress := s.order()
			unpaid, unpaidAddress := s.order()
			s.Kill()

			s.wallet.Pay(t, away)
			s.start()
			s.becomes(awayAddress, "confirmed")
			s.Kill()

			s.wallet.Pay(t, torn)
			s.Launch(t, append(s.env, at(failpoint.TransactionRow, 1))...)
			select {
			case <-s.Ended():
			case <-time.After(patience):
				t.Fatal("the server did not record the payment")
			}
			require.True(t, s.Killed())
			s.start()
			s.becomes(tornAddress, "confirmed")

			s.becomes(lateAddress, "expired")
			s.Kill()
			s.wallet.Pay(t, late)
			s.start()
			s.becomes(lateAddress, "confirmed")
			s.Kill()
			s.start()
			s.becomes(unpaidAddress, "open")
			s.requireRecorded(late, away, torn)
			require.NotContains(t, []string{late, away, torn}, unpaid)
		})
	}
}
