package web

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/text"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// privateWorld is a world whose totals are private.
func privateWorld(t *testing.T) *world {
	w, private := newWorld(t), terms()
	private.PrivateReceived = true
	w.offer = payoffertest.Offer(t, private, "base")
	return w
}

func TestPrivateTotalsAre403(t *testing.T) {
	w := privateWorld(t)
	s := w.server(t)
	for _, query := range []string{"", "?after=0", "?before=7", "?limit=1", "?before=x"} {
		res := send(t, s, "GET", offer.PathReceived+query, "")
		require.Equal(t, http.StatusForbidden, res.StatusCode, query)
		require.Equal(t, "application/problem+json", res.Header.Get("Content-Type"))
		require.Equal(t, "no-store", res.Header.Get("Cache-Control"))
		problem := readJSON(t, res)
		require.Equal(t, "urn:pay-offer:problem:private-totals", problem["type"])
		require.Equal(t, "The seller does not publish the payments received. The page of your own receipt stays open.", problem["detail"])
	}
	for _, l := range text.Languages {
		page := getPage(s, offer.PathReceived, "text/html", l.Tag)
		require.Equal(t, http.StatusForbidden, page.Code)
		require.Contains(t, page.Body.String(), l.Text("error.private-totals.title"))
	}
	require.Equal(t, http.StatusMethodNotAllowed, send(t, s, "POST", offer.PathReceived, "").StatusCode)
	require.Zero(t, w.reads.Load(), "the ledger is not read for strangers")
	summary, err := s.Summary(t.Context())
	require.NoError(t, err, "the operator reads it")
	require.Equal(t, w.offer.ID, summary.Offer)
}

// Each document and page, in each form and language; package agent tests /mcp. The same table finds the link in a public offer, so that it finds it.
func TestPrivateTotalsAreNotLinked(t *testing.T) {
	public, private := newWorld(t).server(t), privateWorld(t).server(t)
	linking := make(map[string]bool)
	for _, row := range rows {
		if strings.HasPrefix(row.target, offer.PathReceived) {
			continue
		}
		for _, accept := range []string{"application/json", "text/html", "text/uri-list", "application/xrd+xml", "*/*"} {
			for _, l := range text.Languages {
				headers := []string{"Accept", accept, "Accept-Language", l.Tag, "Content-Type", "application/json"}
				for s, links := range map[*Server]bool{public: true, private: false} {
					res := send(t, s, row.method, row.target, "", headers...)
					said := read(t, res)
					require.Less(t, res.StatusCode, 403)
					found := strings.Contains(said, offer.PathReceived)
					if links && found {
						linking[row.target] = true
					}
					require.False(t, found && !links, "%s %s %s: %s", row.method, row.target, accept, said)
				}
			}
		}
	}
	for _, target := range []string{"/llms.txt", "/skills/pay/SKILL.md", "/openapi.json", "/v1/pay", "/v1/sponsor"} {
		require.True(t, linking[target], "%s of a public offer", target)
	}
	for _, link := range private.Links() {
		require.NotContains(t, link, offer.PathReceived)
	}
	require.Contains(t, strings.Join(public.Links(), " "), offer.PathReceived)
}

// A payer's own receipt stays, and a payer without a receipt yet is not led to the totals.
func TestPrivateTotalsKeepPayerReceipt(t *testing.T) {
	w := privateWorld(t)
	w.outcome = x402.Outcome{Status: x402.Settled, ByPayer: true, Account: "a", Intent: "0x1", Payer: payTo}
	s := w.server(t)
	require.Contains(t, s.PaidURL(w.outcome), baseURL+offer.PathReceipt+"/")
	w.key = nil
	starting := w.server(t)
	require.Empty(t, starting.PaidURL(w.outcome))

	w = privateWorld(t)
	row := w.payment(t, "usdc", nil)
	s = w.server(t)
	res := send(t, s, "GET", strings.TrimPrefix(s.ReceiptURL(row), baseURL), "", "Accept", "text/html")
	page, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, res.StatusCode, "%s", page)
	require.NotContains(t, string(page), offer.PathReceived)
}

func TestEverySchemaOfAnOfferIsUsed(t *testing.T) {
	for _, w := range []*world{newWorld(t), privateWorld(t)} {
		description := string(OpenAPI(w.offer, "card").Body)
		for name := range schemas(t, w.offer, "card") {
			require.Contains(t, description, `"#/components/schemas/`+name+`"`)
		}
	}
}
