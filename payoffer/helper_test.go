package payoffer

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/rate"
	"github.com/payoffer/caddy-pay-offer/payoffer/service"
)

// standInRate holds the watcher of the source mempool, which asks a stand-in and
// has a rate already, in the pool until release or the end of the test.
func standInRate(t *testing.T) (prices *payoffertest.Prices, watcher *rate.Watcher, release func()) {
	t.Helper()
	prices = payoffertest.NewPrices(t, time.Now)
	const source = "mempool"
	var shared references
	watcher = must(rate.New(rate.Config{Sources: []string{source}, Transport: prices}))(t)
	watcher = shared.share(service.KeyOf("rates", []string{source}), watcher).(*rate.Watcher)
	watcher.Refresh(t.Context())
	release = sync.OnceFunc(shared.release)
	t.Cleanup(release)
	return prices, watcher, release
}

func decode(t *testing.T, config string) *caddy.Config {
	t.Helper()
	decoded := new(caddy.Config)
	require.NoError(t, json.Unmarshal([]byte(config), decoded))
	return decoded
}

func serve(t *testing.T, svc *service.Service, path string) *httptest.ResponseRecorder {
	t.Helper()
	recorder := httptest.NewRecorder()
	require.True(t, svc.Server.Serve(recorder, httptest.NewRequest(http.MethodGet, path, nil)))
	return recorder
}

// must fails the test if a call fails, and returns its value: must(call())(t).
func must[T any](value T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		require.NoError(t, err)
		return value
	}
}

// errorOf is the error of a call.
func errorOf[T any](_ T, err error) error { return err }

// instance is Caddy in this process, with ports and a folder of its own. There
// is one at a time.
type instance struct {
	t              *testing.T
	folder         string
	service, other string // origins on loopback
	client         *http.Client
	// held is how many things outlived their configuration before.
	held int
}

func newInstance(t *testing.T) *instance {
	t.Helper()
	require.NoError(t, awaitUnended(t.Context())) // for what the test before left to end
	// Not t.TempDir, whose removal fails a test if Caddy's certificate maintenance, which ends by itself, still logs into it.
	folder := must(os.MkdirTemp("", "instance_"))(t)
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	i := &instance{t: t, folder: folder, service: freeOrigin(t), other: freeOrigin(t), held: pooled()}
	transport := &http.Transport{}
	i.client = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		require.NoError(t, caddy.Stop())
		require.NoError(t, awaitUnended(context.WithoutCancel(t.Context())))
		require.Equal(t, i.held, pooled(), "nothing outlives the last configuration")
	})
	return i
}

func freeOrigin(t *testing.T) string {
	t.Helper()
	return "http://127.0.0.1:" + payoffertest.FreePort(t)
}

func (i *instance) ledgerPath() string { return filepath.Join(i.folder, "data", "ledger.db") }

// caddyfile puts the instance's global options before sites. SERVICE and OTHER
// become its origins.
func (i *instance) caddyfile(sites string) string {
	global := `{
	admin off
	persist_config off
	default_bind 127.0.0.1
	grace_period 5s
	storage file_system ` + filepath.Join(i.folder, "storage") + `
	log {
		output file ` + i.logPath() + `
		format json
	}
	pay_offer {
		ledger sqlite ` + i.ledgerPath() + `
	}
}

`
	return strings.NewReplacer("SERVICE", i.service, "OTHER", i.other).Replace(global + sites)
}

func (i *instance) load(sites string) error { return loadCaddyfile(i.t, i.caddyfile(sites)) }

// loadCaddyfile runs a whole Caddyfile.
func loadCaddyfile(t *testing.T, caddyfile string) error {
	t.Helper()
	return caddy.Load([]byte(must(adapt(t, caddyfile))(t)), true)
}

// provision loads sites without starting them. What they use is given back when the test
// ends.
func (i *instance) provision(sites string) *App {
	i.t.Helper()
	config := must(adapt(i.t, i.caddyfile(sites)))(i.t)
	ctx := must(caddy.ProvisionContext(decode(i.t, config)))(i.t)
	value := must(ctx.App("pay_offer"))(i.t)
	app := value.(*App)
	i.t.Cleanup(func() { require.NoError(i.t, app.Cleanup()) })
	return app
}

func (i *instance) logPath() string { return filepath.Join(i.folder, "caddy.log") }

func (i *instance) log() string {
	content := must(os.ReadFile(i.logPath()))(i.t)
	return string(content)
}

// answer is a response with its body read.
type answer struct {
	status int
	header http.Header
	body   string
}

// do asks again when a connection is reset: Caddy closes the listener of a
// replaced configuration after Load has returned.
func (i *instance) do(method, url string) answer {
	i.t.Helper()
	return i.doWith(method, url, nil)
}

func (i *instance) doWith(method, url string, header http.Header) answer {
	i.t.Helper()
	for attempt := 0; ; attempt++ {
		got, err := i.tryWith(method, url, header)
		if err == nil {
			return got
		}
		require.Less(i.t, attempt, 100, "%v", err)
	}
}

func (i *instance) try(method, url string) (answer, error) { return i.tryWith(method, url, nil) }

func (i *instance) tryWith(method, url string, header http.Header) (answer, error) {
	request, err := http.NewRequestWithContext(i.t.Context(), method, url, nil)
	if err != nil {
		return answer{}, err
	}
	maps.Copy(request.Header, header)
	response, err := i.client.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return answer{response.StatusCode, response.Header, string(body)}, err
}

// untilReceived asks for the report until it is answered. Caddy closes the
// listener of a configuration whose start failed after Load has returned, and
// that one's ledger cannot be read.
func (i *instance) untilReceived() {
	i.t.Helper()
	for i.get(i.service+"/v1/received").status != http.StatusOK {
		runtime.Gosched()
	}
}

func (i *instance) get(url string) answer {
	i.t.Helper()
	return i.do(http.MethodGet, url)
}

// smallest is a site with the smallest useful offer.
const smallest = `SERVICE {
	pay_offer {
		base_url SERVICE
		card https://checkout.example/pay
		usdc base-sepolia 0x52908400098527886E0F7030069857D2E4169EE7 {
			facilitator http://127.0.0.1:9
			rpc off
		}
	}
	respond "the application" 200
}
`
