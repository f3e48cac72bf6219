package signature

import (
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/node"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
)

// The official clients pay, and what they are given leads people and programs to the receipt.
func TestWhoPaysFindsTheReceiptAndCanProveIt(t *testing.T) {
	lab.RequireNode(t)
	c := chain.Start(t)
	s := openShop(t, node.StartFacilitator(t, c.URL, c.Facilitator), c.URL)
	for n, buyer := range []node.Buyer{node.BuyerV1, node.BuyerV2} {
		bought := node.Pay(t, buyer, s.base+"/v1/sponsor", c.Buyers[n])
		require.Equal(t, http.StatusOK, bought.Status, bought.Body)
		var paid struct{ ReceiptURL string }
		require.NoError(t, json.Unmarshal([]byte(bought.Body), &paid))
		require.Contains(t, paid.ReceiptURL, s.base+"/v1/receipt/")

		var receipt struct{ ID, Status, Evidence, Transaction, Payer, AmountAtomic, SignedReceiptURL string }
		var body string
		server.Eventually(t, "the receipt is confirmed", func() bool {
			body = server.Get(t, paid.ReceiptURL, "application/json")
			require.NoError(t, json.Unmarshal([]byte(body), &receipt))
			return receipt.Status == "confirmed"
		})
		transfers := c.TransfersTo(t, common.HexToAddress(payee))
		require.Len(t, transfers, n+1)
		require.Equal(t, transfers[n].Tx.Hex(), receipt.Transaction)
		require.Equal(t, strings.ToLower(transfers[n].From.Hex()), receipt.Payer)
		require.Equal(t, transfers[n].Value.String(), receipt.AmountAtomic)
		require.Equal(t, fmt.Sprintf("eip155:84532:%s:%d", receipt.Transaction, transfers[n].Ordinal), receipt.ID)
		require.Equal(t, "chain", receipt.Evidence)

		page := html.UnescapeString(server.Get(t, paid.ReceiptURL, "text/html"))
		for _, want := range []string{"<h1>Receipt</h1>", ">42 USDC<", receipt.ID, receipt.Transaction, receipt.Payer, "https://sepolia.basescan.org/tx/" + receipt.Transaction} {
			require.Contains(t, page, want)
		}

		for _, signed := range []string{body, server.Get(t, receipt.SignedReceiptURL, "*/*")} {
			out, err := server.Command(t, signed, "verify", "-")
			require.NoError(t, err, out)
			require.Contains(t, out, "VALID receipt: "+strings.TrimPrefix(s.base, "http://")+" says that "+receipt.Payer)
		}
		listed, err := server.Command(t, "", "received", "--receipts", "--address", s.admin)
		require.NoError(t, err, listed)
		require.Contains(t, listed, paid.ReceiptURL+"\n", "the operator knows the same page")
		require.NotContains(t, server.Get(t, s.base+"/v1/received", "application/json")+server.Get(t, s.base+"/v1/received", "text/html")+server.Get(t, s.base+"/v1/received?after=0", "*/*"), "/v1/receipt/")
	}
}
