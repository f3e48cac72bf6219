package pay

import (
	"bytes"
	"crypto/ecdsa"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/node"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
)

// report is charged after the answer of the site, and upfront before it.
const (
	report  = "/report/daily?format=text"
	upfront = "/upfront/daily?format=text"
)

// visit is what an agent got at a gated address.
type visit struct {
	Requests                         int
	Paid, ByCookie, ByPayment, Again struct {
		Status       int
		Body, Cookie string
		Receipt      bool
	}
}

// purchase is one by an official client: of x402 or of MPP.
type purchase struct {
	URL, Method, Client string
	key                 *ecdsa.PrivateKey
}

// send lets official clients buy, one after the other.
func (s *shop) send(all ...purchase) (visits []visit) {
	s.Helper()
	var list []map[string]string
	for _, p := range all {
		list = append(list, map[string]string{
			"url": p.URL, "method": p.Method, "client": p.Client, "key": hexutil.Encode(crypto.FromECDSA(p.key)),
		})
	}
	given, err := json.Marshal(list)
	require.NoError(s, err)
	node.Visit(s, node.AgentGate, s.site, all[0].key, &visits, "PURCHASES="+string(given), "NODE_EXTRA_CA_CERTS="+s.authority)
	require.Len(s, visits, len(all))
	return visits
}

// transfers is how often a key paid.
func (s *shop) transfers(key *ecdsa.PrivateKey) (n int) {
	s.Helper()
	for _, transfer := range s.chain.TransfersTo(s, s.payee) {
		if transfer.From == chain.Address(key) {
			n++
		}
	}
	return n
}

// A client that signs again within two minutes is answered by its first payment. Later it would pay again.
func (s *shop) agents() {
	var all []purchase
	for _, client := range []string{"x402", "mppx"} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			all = append(all, purchase{s.site + report, method, client, s.chain.NewBuyer(s)})
		}
	}
	all = append(all, purchase{s.site + upfront, http.MethodGet, "x402", s.chain.NewBuyer(s)}, purchase{s.site + upfront, http.MethodPost, "mppx", s.chain.NewBuyer(s)})
	for i, v := range s.send(all...) {
		address := strings.TrimPrefix(all[i].URL, s.site)
		s.Run(all[i].Client+" "+all[i].Method+" "+address, func(t *testing.T) {
			require.GreaterOrEqual(t, v.Requests, 2)
			require.True(t, v.Paid.Receipt)
			require.NotEmpty(t, v.Paid.Cookie)
			content := said(all[i].Method, address, "usdc") + "eip155:84532:" + strings.ToLower(chain.Address(all[i].key).Hex()) + ":0x"
			if address == report {
				require.Contains(t, v.Paid.Body, said(all[i].Method, address, "usdc")+".", "the payment has no id before its charge")
			} else {
				require.Equal(t, v.ByCookie.Body, v.Paid.Body)
			}
			require.Equal(t, []int{200, 200, 200, 200}, []int{v.Paid.Status, v.ByCookie.Status, v.ByPayment.Status, v.Again.Status})
			require.Contains(t, v.ByCookie.Body, content)
			for _, answer := range []string{v.ByPayment.Body, v.Again.Body} {
				require.Equal(t, v.ByCookie.Body, answer)
			}
			require.Equal(t, 1, s.transfers(all[i].key))
		})
	}
}

// payByCommand runs "caddy pay-offer pay", which reaches the hosts by a proxy. It returns what it printed.
func (s *shop) payByCommand(binary, home string, arguments ...string) string {
	s.Helper()
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { lab.Tunnel(w, r, "127.0.0.1:"+s.https) }))
	defer proxy.Close()
	command := exec.Command(binary, append([]string{"pay-offer", "pay"}, arguments...)...)
	command.Dir = home
	command.Env = append(s.environment, "HOME="+home, "XDG_DATA_HOME="+home, "HTTPS_PROXY="+proxy.URL, "SSL_CERT_FILE="+s.authority)
	var failed bytes.Buffer
	command.Stderr = &failed
	output, err := command.Output()
	require.NoError(s, err, "%s%s", output, &failed)
	return string(output)
}

func (s *shop) command() {
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		key, home := s.chain.NewBuyer(s), s.TempDir()
		s.environment = append(s.environment, "PAY_OFFER_KEY="+hexutil.Encode(crypto.FromECDSA(key)))
		printed := s.payByCommand(server.Released(s), home, s.site+report, "--method", method, "--yes")
		require.Contains(s, printed, "Paid 42 USDC")
		files, err := filepath.Glob(filepath.Join(home, "caddy/pay_offer/payments/*/*.json"))
		require.NoError(s, err)
		require.Len(s, files, 1)
		var kept struct{ Answer string }
		text, err := os.ReadFile(files[0])
		require.NoError(s, err)
		require.NoError(s, json.Unmarshal(text, &kept))
		content, err := os.ReadFile(kept.Answer)
		require.NoError(s, err)
		require.Contains(s, string(content), said(method, report, "usdc"))

		again := s.payByCommand(server.Released(s), home, s.site+report, "--method", method, "--yes")
		require.Contains(s, again, "This was paid before")
		require.Contains(s, again, kept.Answer)
		other := s.payByCommand(server.Released(s), home, s.site+report+"2", "--method", method)
		require.Contains(s, other, "Nothing is paid now")
		require.Contains(s, other, said(method, report+"2", "usdc"))
		require.Equal(s, 1, s.transfers(key))

		home = s.TempDir() // a machine without that payment pays the offer itself
		s.payByCommand(server.Released(s), home, s.pay+"/v1/sponsor", "--yes")
		opened := s.payByCommand(server.Released(s), home, s.site+report, "--method", method)
		require.Contains(s, opened, "Nothing is paid now")
		require.Contains(s, opened, said(method, report, "usdc"))
		require.Equal(s, 2, s.transfers(key))
	}
}

// An agent pays the offer itself, and gives its browser the address that the answer names.
func (s *shop) leads(p person) {
	buyer := s.chain.NewBuyer(s)
	bought := s.send(purchase{s.pay + "/v1/sponsor", http.MethodPost, "x402", buyer})[0]
	require.Equal(s, http.StatusOK, bought.Paid.Status, bought.Paid.Body)
	var body struct{ Access struct{ URL string } }
	require.NoError(s, json.Unmarshal([]byte(bought.Paid.Body), &body))
	p.requireOutside(p.visit(s.site+wanted), s.site+wanted)
	p.requireInside(p.visit(body.Access.URL), s.site, "/members/", "usdc")
	p.requireInside(p.visit(s.site+wanted), s.site, wanted, "usdc")
	require.Equal(s, 1, s.transfers(buyer))
}
