package docs

import (
	"crypto/ecdsa"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/handbook"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/skip"
)

// payable is the address in the programs of guides/agents.
const payable = "https://pay.example.org/v1/sponsor"

// program is the block of a language in guides/agents.
func program(t *testing.T, language string) string {
	t.Helper()
	pages := lab.Must(handbook.Read(lab.Path(t, "")))(t)
	page := pages[slices.IndexFunc(pages, func(p handbook.Page) bool { return p.Name == "payoffer/docs/guides/agents.md" })]
	found := slices.IndexFunc(page.Blocks, func(b handbook.Block) bool { return b.Language == language })
	require.GreaterOrEqual(t, found, 0, "no program in %s", language)
	return page.Blocks[found].Text
}

// network is a proxy in front of a server. It records the payments and can change what a program gets.
type network struct {
	sync.Mutex
	url      string
	payments []string
	// faults are what the answers to the next payments become after the server has made them.
	faults []func(http.ResponseWriter)
	// price replaces the price in the quotes unless it is empty.
	price string
	// changed counts the quotes with another price.
	changed int
}

func startNetwork(t *testing.T, base string) *network {
	t.Helper()
	n := new(network)
	at := lab.Must(url.Parse(base))(t)
	target := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(at) }}
	target.ModifyResponse = func(r *http.Response) error {
		quote := lab.Must(base64.StdEncoding.DecodeString(r.Header.Get("PAYMENT-REQUIRED")))(t)
		n.Lock()
		defer n.Unlock()
		if n.price != "" && len(quote) > 0 {
			changed := strings.ReplaceAll(string(quote), `"42000000"`, `"`+n.price+`"`)
			r.Header.Set("PAYMENT-REQUIRED", base64.StdEncoding.EncodeToString([]byte(changed)))
			n.changed++
		}
		return nil
	}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		payment := r.Header.Get("PAYMENT-SIGNATURE")
		if payment == "" {
			target.ServeHTTP(w, r)
			return
		}
		n.Lock()
		n.payments = append(n.payments, payment)
		var fault func(http.ResponseWriter)
		if len(n.faults) > 0 {
			fault, n.faults = n.faults[0], n.faults[1:]
		}
		n.Unlock()
		if fault == nil {
			target.ServeHTTP(w, r)
			return
		}
		target.ServeHTTP(httptest.NewRecorder(), r)
		fault(w)
	}))
	t.Cleanup(front.Close)
	n.url = front.URL + "/v1/sponsor"
	return n
}

func cutOff(http.ResponseWriter) { panic(http.ErrAbortHandler) }

func answerLater(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "1")
	w.WriteHeader(http.StatusServiceUnavailable)
}

// requireProgramPays runs a program for a price that is not its own, and for the right one while answers get lost.
func requireProgramPays(t *testing.T, buyer int, command func(url string) *exec.Cmd) {
	t.Helper()
	c := chain.Start(t)
	facilitator := payoffertest.NewFacilitator(t)
	facilitator.OnBroadcast(func(s payoffertest.Settlement) (string, error) {
		hash, err := c.Broadcast(t, s)
		return hash.Hex(), err
	})
	payee := chain.NewAddress(t)
	base, _ := server.StartPayable(t, payee.Hex(), facilitator.URL(), c.URL)
	n := startNetwork(t, base)
	folder, key := t.TempDir(), c.Buyers[buyer]
	run := func() (string, error) {
		program := command(n.url)
		program.Dir, program.Env = folder, append(os.Environ(), "PAY_OFFER_KEY="+privateKey(key))
		var failed strings.Builder
		program.Stderr = &failed
		output, err := program.Output()
		if err != nil {
			err = fmt.Errorf("%w: %s", err, &failed)
		}
		return strings.TrimSpace(string(output)), err
	}
	for _, wrong := range []string{"42000001", "41999999"} {
		n.price = wrong
		output, err := run()
		require.Error(t, err, "it pays %s: %s", wrong, output)
	}
	require.Equal(t, 2, n.changed)
	require.Empty(t, n.payments)
	require.NoFileExists(t, filepath.Join(folder, "payment"))

	n.price, n.faults = "", []func(http.ResponseWriter){cutOff, answerLater}
	output, err := run()
	require.Error(t, err, "the answer was cut off: %s", output)
	output, err = run()
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(output, base+"/v1/receipt/"), output)
	again, err := run()
	require.NoError(t, err)
	require.Equal(t, output, again)
	require.Len(t, n.payments, 4)
	require.Len(t, slices.Compact(slices.Clone(n.payments)), 1, "it signed again")
	transfers := c.TransfersTo(t, payee)
	require.Len(t, transfers, 1)
	require.EqualValues(t, 42_000_000, transfers[0].Value.Int64())
	about, err := os.Stat(filepath.Join(folder, "payment"))
	require.NoError(t, err)
	require.EqualValues(t, 0o600, about.Mode().Perm())
}

func privateKey(key *ecdsa.PrivateKey) string { return hexutil.Encode(crypto.FromECDSA(key)) }

func TestProgramInJavaScriptPays(t *testing.T) {
	lab.RequireNode(t)
	lab.RequirePackages(t, "caddy/e2e/node")
	folder := t.TempDir()
	require.NoError(t, os.Symlink(lab.Path(t, "caddy/e2e/node/node_modules"), filepath.Join(folder, "node_modules")))
	requireProgramPays(t, 0, func(url string) *exec.Cmd {
		file := filepath.Join(folder, "pay.mjs")
		require.NoError(t, os.WriteFile(file, []byte(strings.ReplaceAll(program(t, "js"), payable, url)), 0o600))
		return exec.Command("node", file)
	})
}

func TestProgramInGoPays(t *testing.T) {
	text := string(lab.Must(os.ReadFile(lab.Path(t, "caddy/e2e/docs/pay/main.go")))(t))
	folder, built := t.TempDir(), ""
	requireProgramPays(t, 1, func(url string) *exec.Cmd {
		if built == "" {
			built = filepath.Join(folder, "pay")
			here := strings.NewReplacer(payable, url, `"8453"`, `"84532"`, "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913", chain.BaseSepolia.USDC.Hex())
			require.NoError(t, os.WriteFile(built+".go", []byte(here.Replace(text)), 0o600))
			build := exec.Command("go", "build", "-o", built, built+".go")
			build.Dir = lab.Path(t, "caddy/e2e")
			output, err := build.CombinedOutput()
			require.NoError(t, err, "%s", output)
		}
		return exec.Command(built)
	})
}

// TestProgramInPythonIsValid compiles the program; it is not run, because its packages are not installed.
func TestProgramInPythonIsValid(t *testing.T) {
	python := skip.Program(t, "Python", "python3")
	command := exec.Command(python, "-c", "import sys; compile(sys.stdin.read(), 'pay.py', 'exec')")
	command.Stdin = strings.NewReader(program(t, "python"))
	output, err := command.CombinedOutput()
	require.NoError(t, err, "%s", output)
}
