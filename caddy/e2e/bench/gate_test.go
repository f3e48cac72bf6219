package bench

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/prices"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
)

// measureGate compares handlers behind a gate, for a browser with a valid pass, with the same handlers without a gate.
func measureGate(b *testing.B, t *table) {
	folder, text := b.TempDir(), strings.Repeat("0123456789abcde ", 128) // 2 KB
	require.NoError(b, os.WriteFile(filepath.Join(folder, "file"), []byte(text), 0o600))
	handlers := "\n\trespond /text `" + text + "`\n\thandle /file {\n\t\troot * " + folder + "\n\t\tfile_server\n\t}"
	f := startFacilitator(b, 0)
	const ledger = "pay_offer {\n\t\tledger sqlite {DIR}/ledger.db\n\t}"
	config := strings.ReplaceAll(site, "{FACILITATOR}", f.url)
	gated := startCaddy(b, server.Released(b), "behind a gate", ledger, config+"\n\tpay_offer_gate"+handlers, clients, prices.Start(b)...)
	open := startCaddy(b, server.Released(b), "without a gate", ledger, config+handlers, clients, prices.Start(b)...)
	for figure, r := range map[string]request{"file of 2 KB": get("/file"), "respond with 2 KB": get("/text")} {
		r.header = http.Header{"Cookie": {enter(b, gated, r)}}
		require.Equal(b, http.StatusOK, gated.ask(b, r).Status)
		require.Equal(b, http.StatusOK, open.ask(b, r).Status)
		spent := costs(b, r, http.StatusOK, gated, open)
		t.add("valid pass, "+figure+": without ÷ behind a gate", ratio(spent[1], spent[0]), "≥ 0.9", microseconds(spent[0], spent[1]))
	}
}

// enter pays at the gate and returns the cookie.
func enter(b *testing.B, gated *side, r request) (cookie string) {
	b.Helper()
	status, err := gated.lanes[0].exchange(demanded(b, gated, r).signed(b, chain.NewKey(b), gated.host), func(response *http.Response) error {
		cookie, _, _ = strings.Cut(response.Header.Get("Set-Cookie"), ";")
		return nil
	})
	require.NoError(b, requirePaid(status, err))
	require.NotEmpty(b, cookie)
	return cookie
}
