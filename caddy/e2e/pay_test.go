package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/node"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// received is the part of GET /v1/received that a payee looks at first.
type received struct {
	GoalMet  bool
	Receipts []struct{ ID string }
}

func TestOfficialClientsPay(t *testing.T) {
	lab.RequireNode(t)
	c := chain.Start(t)
	facilitator := node.StartFacilitator(t, c.URL, c.Facilitator)
	payee := chain.NewAddress(t)
	base, process := server.StartPayable(t, payee.Hex(), facilitator, c.URL)

	for i, sale := range []struct {
		buyer   node.Buyer
		network string
	}{
		{node.BuyerV2, "eip155:84532"},
		{node.BuyerV1, "base-sepolia"},
	} {
		key := c.Buyers[i]
		answer := node.Pay(t, sale.buyer, base+"/v1/sponsor", key)
		require.Equal(t, http.StatusOK, answer.Status, "%s: %s", sale.buyer, answer.Body)
		require.NotNil(t, answer.Payment, "%s got no payment response header", sale.buyer)
		require.True(t, answer.Payment.Success)
		require.Equal(t, sale.network, answer.Payment.Network)
		require.Equal(t, chain.Address(key), answer.Payment.Payer)

		transfers := c.TransfersTo(t, payee)
		require.Len(t, transfers, i+1)
		require.Equal(t, transfers[i].Tx, answer.Payment.Transaction, "the named transaction is the one on the chain")
		require.Equal(t, chain.Address(key), transfers[i].From)
		require.Equal(t, big.NewInt(price), transfers[i].Value)
	}
	require.Equal(t, big.NewInt(2*price), c.BalanceOf(t, payee))

	var report received
	server.Eventually(t, "two receipts and the goal", func() bool {
		report = received{}
		_, body, err := fetch(base + "/v1/received")
		return err == nil && json.Unmarshal([]byte(body), &report) == nil && report.GoalMet && len(report.Receipts) == 2
	})

	var want, got []string
	for _, transfer := range c.TransfersTo(t, payee) {
		want = append(want, fmt.Sprintf("eip155:%d:%s:%d", chain.ID, transfer.Tx.Hex(), transfer.Ordinal))
	}
	for _, receipt := range report.Receipts {
		got = append(got, receipt.ID)
	}
	require.ElementsMatch(t, want, got)

	process.Terminate()
	process.Await(t)
	require.Contains(t, process.Log(), `"status":"success"`, "the facilitator, which has a Bazaar, lists what was paid for")
}

// The server finds out how a facilitator is by a payment of nobody. The official one has to read the chain for it and
// refuses it for want of money alone: everything else about it is right.
func TestOfficialFacilitatorAnswersProbe(t *testing.T) {
	lab.RequireNode(t)
	c := chain.Start(t)
	official := lab.Must(url.Parse(node.StartFacilitator(t, c.URL, c.Facilitator)))(t)
	verdicts := make(chan string, 10)
	proxy := httputil.NewSingleHostReverseProxy(official)
	proxy.Transport = lab.WholeBodies
	proxy.ModifyResponse = func(r *http.Response) error {
		body, err := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		if r.Request.URL.Path == "/verify" {
			verdicts <- string(body)
		}
		return err
	}
	between := httptest.NewServer(proxy)
	t.Cleanup(between.Close)
	base, shop := server.StartPayable(t, chain.NewAddress(t).Hex(), between.URL, c.URL)

	check := exec.CommandContext(t.Context(), server.Released(t), "pay-offer", "check", "--live", "--config", filepath.Join(shop.Home, "Caddyfile"))
	check.Env = append(server.Inherited(), "HOME="+t.TempDir())
	said, _ := check.CombinedOutput() // it has findings: the server is on loopback
	require.NotContains(t, string(said), "facilitator-")
	require.NotEmpty(t, verdicts, string(said))
	verdict := <-verdicts
	require.Contains(t, verdict, `"isValid":false`)
	require.Contains(t, verdict, `"invalidReason":"invalid_exact_evm_insufficient_balance"`)
	answer := node.Pay(t, node.BuyerV2, base+"/v1/sponsor", c.Buyers[0])
	require.Equal(t, http.StatusOK, answer.Status, answer.Body)
}

// object is a JSON object.
type object = map[string]any

// get returns answer and body of an address, without following a redirect. accept is the Accept header; without one the
// client is a program.
func get(t *testing.T, url string, accept ...string) (*http.Response, string) {
	t.Helper()
	answer, body, err := fetch(url, accept...)
	require.NoError(t, err)
	return answer, body
}

// fetch is get for conditions that are polled: those run beside the test's goroutine, where nothing may end the test.
func fetch(url string, accept ...string) (*http.Response, string, error) {
	request, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return nil, "", err
	}
	for _, a := range accept {
		request.Header.Add("Accept", a)
	}
	answer, err := server.Client.Do(request)
	if err != nil {
		return nil, "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	return answer, string(body), err
}

// A logo is a file of the operator's own site, beside the offer.
func TestLogoServedBesideOffer(t *testing.T) {
	const logo = `<svg xmlns="http://www.w3.org/2000/svg"/>`
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "logo.svg"), []byte(logo), 0o600))
	shipped := server.StartEdited(t, []string{"logo /logo.svg", "log\n\thandle /logo.svg {\n\t\troot * " + folder + "\n\t\tfile_server\n\t}"})
	_, page := get(t, shipped.Service+"/v1/pay", "text/html")
	require.Contains(t, page, `<link rel="icon" href="/logo.svg">`)
	_, body := get(t, shipped.Service+"/logo.svg")
	require.Equal(t, logo, body)
}

// The page is made anew for each request, of a file that has ranges and validators.
func TestSitePageIgnoresRangesAndConditions(t *testing.T) {
	address := server.StartShipped(t).Site + "/offer/"
	plain := func(method string, header ...string) server.Answer {
		h := http.Header{"Accept-Encoding": {"identity"}}
		if len(header) > 0 {
			h.Set(header[0], header[1])
		}
		return lab.Must(server.Do(server.Client, method, address, "", h))(t)
	}
	whole := plain(http.MethodGet)
	page := whole.Body
	require.Contains(t, page, "</html>")
	names := func(h http.Header) []string {
		return slices.DeleteFunc(slices.Sorted(maps.Keys(h)), func(name string) bool { return name == "Date" || name == "Content-Length" })
	}
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		for _, header := range [][2]string{
			{"Accept", "*/*"}, {"Range", "bytes=0-9"}, {"Range", "bytes=0-0,-1"}, {"Range", "bytes=99999999-"}, {"If-None-Match", "*"}, {"If-Match", `"none"`},
			{"If-Modified-Since", "Tue, 01 Jan 2036 00:00:00 GMT"}, {"If-Unmodified-Since", "Mon, 01 Jan 1990 00:00:00 GMT"}, {"If-Range", `"none"`},
		} {
			t.Run(method+" "+strings.Join(header[:], " "), func(t *testing.T) {
				answer := plain(method, header[:]...)
				require.Equal(t, http.StatusOK, answer.Status)
				require.Equal(t, strconv.Itoa(len(page)), answer.Header.Get("Content-Length"))
				require.Equal(t, names(whole.Header), names(answer.Header))
				require.Equal(t, whole.Header.Get("Content-Security-Policy"), answer.Header.Get("Content-Security-Policy"))
				if method == http.MethodGet {
					require.Equal(t, page, answer.Body)
				}
			})
		}
	}
}

// TestCommandOutputHasNoLogLines runs the program as an operator does: nothing is logged before what a command
// prints, an error is one line, and one that is none of them fails.
func TestCommandOutputHasNoLogLines(t *testing.T) {
	program, shipped := server.Released(t), lab.Path(t, "Caddyfile")
	nobody, own := "127.0.0.1:"+payoffertest.FreePort(t), filepath.Join(t.TempDir(), "Caddyfile")
	require.NoError(t, os.WriteFile(own, []byte("http://localhost:8402 {\n\tpay_offer {\n\t\tbase_url http://localhost:8402\n\t\tcard https://buy.stripe.com/abc\n\t}\n}\n"), 0o600))
	for name, c := range map[string]struct {
		arguments      []string
		status         int
		printed, error string
	}{
		"a check":        {[]string{"check", "--config", own}, 0, "Payment offer: 42 USD for localhost:8402\n", ""},
		"no such file":   {[]string{"check", "--config", "none"}, 1, "", "Error: "},
		"no server":      {[]string{"received", "--config", shipped, "--address", nobody}, 1, "", "Error: "},
		"no command":     {[]string{"recieved"}, 1, "", "Error: "},
		"another status": {[]string{"pay", "http://" + nobody}, 1, "", "Error: the key file or PAY_OFFER_KEY has no private key; "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			command := exec.Command(program, append([]string{"pay-offer"}, c.arguments...)...)
			command.Env = append(command.Environ(), "PAY_OFFER_KEY=", "XDG_DATA_HOME="+t.TempDir())
			var out, failed bytes.Buffer
			command.Stdout, command.Stderr = &out, &failed
			_ = command.Run()
			require.Equal(t, c.status, command.ProcessState.ExitCode(), "%s", &failed)
			require.Equal(t, c.printed, out.String()[:min(len(c.printed), out.Len())])
			require.Equal(t, c.error, failed.String()[:min(len(c.error), failed.Len())])
			if c.error == "" {
				require.Empty(t, failed.String())
			} else {
				require.Empty(t, out.String())
				require.Equal(t, 1, bytes.Count(failed.Bytes(), []byte("\n")), "%s", &failed)
			}
		})
	}
}
