package demo

import (
	"encoding/json"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/browser"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/node"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

func TestDemoSaleAndPurchase(t *testing.T) {
	lab.RequireBrowser(t)
	lab.RequireNode(t)
	proxy, connections := listen(t)
	demo, other := start(t, proxy, true), start(t, proxy, false)

	b := browser.Run(t, "caddy/e2e/demo/sale.mjs")
	for from, link := range map[string]string{demo.service + "/v1/pay": "#card a.button", demo.site + "/offer/": "#checkout"} {
		var sale struct {
			Pages                         []struct{ URL, Text string }
			Violations, Messages, Origins []string
		}
		b.Do(t, "buy", map[string]string{"url": from, "link": link, "pictures": os.Getenv("PAY_OFFER_SCREENSHOTS")}, &sale)
		require.Len(t, sale.Pages, 5)
		for i, said := range []string{"$42", "This is a pretend checkout", "Nothing was paid.", "Thank you, you paid $42", "The payment has arrived."} {
			require.Contains(t, sale.Pages[i].Text, said)
			require.True(t, i == 1 || i == 2 || strings.Contains(sale.Pages[i].Text, "This is a demo."), sale.Pages[i].URL)
		}
		require.Empty(t, sale.Violations)
		require.Empty(t, sale.Messages)
		for _, origin := range sale.Origins {
			require.True(t, strings.HasPrefix(origin, "http://localhost:") || strings.HasPrefix(origin, "http://127.0.0.1:"), origin)
		}
	}

	for _, buyer := range []node.Buyer{node.BuyerV1, node.BuyerV2} {
		key := chain.NewKey(t)
		answer := node.Pay(t, buyer, demo.service+"/v1/sponsor", key)
		require.Equal(t, http.StatusOK, answer.Status, "%s: %s", buyer, answer.Body)
		require.True(t, answer.Payment.Success)
		require.Equal(t, crypto.PubkeyToAddress(key.PublicKey), answer.Payment.Payer)
	}
	paid, err := demo.run("pay-offer", "pay", demo.service+"/v1/sponsor", "--demo").Output()
	require.NoError(t, err, "%s", paid)
	require.Contains(t, string(paid), "Paid 42 pretend USDC")
	require.Contains(t, string(paid), demo.service+"/v1/receipt/")

	gated, err := demo.run("pay-offer", "pay", demo.site+"/members/", "--demo").Output()
	require.NoError(t, err, "%s", gated)
	require.Contains(t, string(gated), "You paid, so this page is open for 30 days.")

	require.Equal(t, report{Test: test{6, 252}}, demo.report())
	require.Equal(t, report{}, other.report(), "it is a demo of its own")
	received, err := demo.run("pay-offer", "received").Output()
	require.NoError(t, err)
	require.Contains(t, string(received), ": 0.00 USD received in 0 payments\n6 test payments, 252.00 USD (test money, not counted)\nMETHOD")
	require.Contains(t, string(received), "\nSome payment methods are not monitored automatically: usdc\n")
	receipts, err := demo.run("pay-offer", "received", "--receipts").Output()
	require.NoError(t, err)
	require.Len(t, regexp.MustCompile(`(?m)^\d+ +20\d\d-`).FindAllString(string(receipts), -1), 6, "all that the report counts: %s", receipts)
	page := server.Get(t, demo.service+"/v1/received", "text/html")
	require.Contains(t, page, "6 test payments, $252 (not counted)")
	require.Contains(t, page, "Not monitored automatically: USDC")

	for _, c := range []*clone{demo, other} {
		c.interrupt()
		left, err := os.ReadDir(c.temporary)
		require.NoError(t, err)
		require.Empty(t, left)
	}
	require.Zero(t, connections.Load(), "nothing leaves the machine")
}

func TestDemoRemovesItsFilesAtEnd(t *testing.T) {
	proxy, _ := listen(t)
	demo := start(t, proxy, false)
	refused := func(second *exec.Cmd) {
		t.Helper()
		second.Env = append(second.Env, "CADDY_ADMIN=localhost:"+payoffertest.FreePort(t))
		out, err := second.CombinedOutput()
		require.Error(t, err, "%s", out)
	}
	kept := func() []string {
		t.Helper()
		found, err := filepath.Glob(filepath.Join(demo.temporary, "*"))
		require.NoError(t, err)
		return found
	}
	living := kept()
	require.Len(t, living, 1)
	taken, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	second := &clone{T: t, service: "http://localhost:" + strconv.Itoa(taken.Addr().(*net.TCPAddr).Port), site: demo.site, binary: demo.binary, env: demo.env}
	refused(second.serve())
	require.Equal(t, living, kept())

	require.NoError(t, syscall.Kill(-demo.command.Process.Pid, syscall.SIGKILL))
	<-demo.read
	_ = demo.command.Wait()
	require.Equal(t, living, kept(), "nobody could remove it")
	refused(demo.serve("bind 0.0.0.0"))
	require.Empty(t, kept())
}

// report is what a demo says that it received.
type report struct {
	Payments int
	Test     test
}

type test struct {
	Count     int
	AmountUSD float64
}

func (c *clone) report() (found report) {
	c.Helper()
	require.NoError(c, json.Unmarshal([]byte(server.Get(c, c.service+"/v1/received", "")), &found))
	return found
}
