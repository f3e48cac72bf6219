package bench

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// measureReceipts compares the report over many receipts with that over few. A million are recorded with FULL=1 alone.
func measureReceipts(b *testing.B, t *table) {
	sizes := []int{10, 1_000, 100_000}
	if os.Getenv("FULL") == "1" {
		sizes = append(sizes, 1_000_000)
	}
	var opens []func() *side
	for _, size := range sizes {
		opens = append(opens, startWithReceipts(b, size))
	}
	var sides []*side
	for _, open := range opens {
		sides = append(sides, open())
	}
	few := sides[0].ask(b, get(offer.PathReceived))
	require.Equal(b, http.StatusOK, few.Status)
	bare := startBare(b, map[string]answer{"GET " + offer.PathReceived: few.copied()}, clients)
	spent := costs(b, get(offer.PathReceived), http.StatusOK, append(slices.Clone(sides), bare)...)
	c := newChart(t, "receipts.svg", "Microseconds of a processor for one GET of /v1/received", "receipts")
	for i, size := range sizes {
		x := float64(size)
		c.point("pay_offer", x, spreadOf(spent[i]).median)
		c.point("bare Caddy handler", x, spreadOf(spent[len(sides)]).median)
		if i == 0 {
			t.add("/v1/received with 10 receipts: bare Caddy handler ÷ ours", ratio(spent[len(sides)], spent[0]), "≥ 0.9", microseconds(spent[0], spent[len(sides)]))
			continue
		}
		goal := map[bool]string{true: "≤ 1.1"}[size == 1_000_000]
		t.add(fmt.Sprintf("/v1/received: %d receipts ÷ 10", size), ratio(spent[i], spent[0]), goal, microseconds(spent[i], spent[0]))
	}
}

// startWithReceipts runs an offer whose ledger has so many receipts. The server makes the ledger itself. What it returns opens
// the lanes to it, which must not wait until the others have theirs.
func startWithReceipts(b *testing.B, size int) (open func() *side) {
	b.Helper()
	folder, port := b.TempDir(), payoffertest.FreePort(b)
	host := "localhost:" + port
	config := strings.NewReplacer("{GLOBAL}", "pay_offer {\n\t\tledger sqlite {DIR}/ledger.db\n\t}", "{SITE}", site).Replace(caddyfile)
	config = strings.NewReplacer("{DIR}", folder, "{PORT}", port, "{HOST}", host, "{FACILITATOR}", noFacilitator).Replace(config)
	answers := func(s *launched) *lane {
		l := s.opens(port)
		require.NotNil(b, l)
		require.True(b, s.until(func() bool {
			status, err := l.send(get(offer.PathReceived).bytes(host))
			return err == nil && status == http.StatusOK
		}), "%s", &s.log)
		return l
	}
	first := launch(b, server.Released(b), folder, config)
	answers(first)
	first.stop()
	record(b, filepath.Join(folder, "ledger.db"), host, size)
	s := launch(b, server.Released(b), folder, config)
	answers(s)
	return func() *side { return newSide(b, fmt.Sprint(size, " receipts"), host, s.pid, clients) }
}

// record writes confirmed transfers of USDC into a ledger, and that they were announced, which the server would be about for
// minutes.
func record(b *testing.B, file, offerID string, size int) {
	b.Helper()
	book := ledger.NewSQLite(file, time.Now)
	require.NoError(b, book.Open(b.Context()))
	defer func() { require.NoError(b, book.Close()) }()
	accounts, err := book.Accounts(b.Context(), offerID)
	require.NoError(b, err)
	at := slices.IndexFunc(accounts, func(a ledger.Account) bool { return a.Rail == "usdc" })
	require.GreaterOrEqual(b, at, 0, "%+v", accounts)
	value := int64(4200)
	for done := 0; done < size; {
		var batch []ledger.Sighting
		for ; len(batch) < 1000 && done < size; done++ {
			hash := fmt.Sprintf("0x%064x", done)
			batch = append(batch, ledger.Sighting{
				Offer: offerID, Account: accounts[at].ID, Rail: "usdc", ExternalID: "eip155:84532:" + hash + ":0", Transaction: hash, Asset: "USDC",
				Amount: 42_000_000, USDCents: &value, State: ledger.StatusConfirmed, Final: true, EvidenceLevel: ledger.LevelChain, Cause: "scan",
				Payer: fmt.Sprintf("0x%040x", done), Testnet: true, OccurredAt: time.Now().Unix(),
			})
		}
		_, err := book.Record(b.Context(), nil, batch...)
		require.NoError(b, err)
	}
	last, err := book.Last(b.Context(), offerID)
	require.NoError(b, err)
	now := time.Now().Unix()
	for _, name := range []string{"events", "log"} {
		_, held, err := book.LeaseSink(b.Context(), offerID, name, "recorder", now, now+60)
		require.NoError(b, err)
		require.True(b, held)
		require.NoError(b, book.AdvanceSink(b.Context(), offerID, name, "recorder", last.Seq))
		_, _, err = book.LeaseSink(b.Context(), offerID, name, "recorder", now, now) // given up
		require.NoError(b, err)
	}
}
