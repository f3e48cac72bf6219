package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	_ "github.com/caddyserver/caddy/v2/modules/standard"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer"
	"github.com/payoffer/caddy-pay-offer/payoffer/filelock"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/excerpt"
)

// lookups counts the names that were asked for; there is no network.
var lookups atomic.Int64

func TestMain(m *testing.M) {
	exit := excerpt.CaddyLog()
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		lookups.Add(1)
		return nil, errors.New("there is no network")
	}}
	folder, err := os.MkdirTemp("", "demo_test_")
	if err == nil {
		err = os.Setenv("TMPDIR", folder)
	}
	if err != nil {
		panic(err)
	}
	Prepare([]string{"pay-offer", "check"})
	if _, err := caddy.GetModule("pay_offer.demo"); err == nil {
		panic("a command that is no server plays a demo")
	}
	Prepare([]string{"run", "--config", "Caddyfile"})
	status := m.Run()
	_ = os.RemoveAll(folder)
	exit(status)
}

// house is Caddy in this process with the shipped Caddyfile and ports of its own.
type house struct {
	*testing.T
	service, site string
	storage       string
	client        *http.Client
	ledger        string
	lines         []string // of the shipped Caddyfile, as an operator edits them
	loads         int
}

// open is a house with other lines in its Caddyfile, and nothing runs in it yet.
func open(t *testing.T, lines ...string) *house {
	t.Helper()
	// Not a folder of the test's: what Caddy stops closes its files in the background, and TestMain removes them.
	storage := must(os.MkdirTemp("", "house_"))(t)
	h := &house{
		T: t, service: "http://localhost:" + payoffertest.FreePort(t), site: "http://localhost:" + payoffertest.FreePort(t), storage: storage,
		client: &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}
	h.ledger = filepath.Join(h.storage, "real.db")
	h.set(lines...)
	t.Cleanup(func() {
		h.client.CloseIdleConnections()
		require.NoError(t, caddy.Stop())
	})
	return h
}

func (h *house) set(lines ...string) { h.lines = append(h.lines, lines...) }

// config is the shipped configuration with these lines. Caddy does not clean its
// storage, which goes when the test ends.
func (h *house) config(more string) []byte {
	h.Helper()
	text := must(os.ReadFile("../../Caddyfile"))(h)
	global := "{\n\tadmin off\n\tpersist_config off\n\tstorage_clean_interval off\n\tstorage file_system " + h.storage + "\n\tpay_offer {\n\t\tledger sqlite " + h.ledger + "\n\t}\n}\n\n"
	sites := payoffertest.EditCaddyfile(string(text), h.lines...)
	sites = strings.NewReplacer("http://localhost:8402", h.service, "http://localhost:8403", h.site).Replace(sites)
	config, warnings, err := caddyconfig.GetAdapter("caddyfile").Adapt(caddyfile.Format([]byte(global+sites+more)), map[string]any{"filename": "Caddyfile"})
	require.NoError(h, err)
	require.Empty(h, warnings)
	return config
}

// load has the house run with its lines, and returns when no configuration
// before answers any more: Caddy closes its listeners after Load has returned.
func (h *house) load() error {
	h.Helper()
	h.loads++
	description := fmt.Sprintf("Configuration %d.", h.loads)
	h.set(`description "` + description + `"`)
	if err := caddy.Load(h.config(""), true); err != nil {
		return err
	}
	for _, page := range []string{h.service + offer.PathMethods, h.site + offer.PathSite} {
		for !h.says(page, description) {
			h.client.CloseIdleConnections() // the next requests stay on the connection that answers
			runtime.Gosched()
		}
	}
	return nil
}

// says reports whether a page is there and holds a text.
func (h *house) says(url, text string) bool {
	request := must(http.NewRequest(http.MethodGet, url, nil))(h)
	request.Header.Set("Accept", "text/html")
	answer, err := h.client.Do(request)
	if err != nil {
		return false
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	return err == nil && strings.Contains(string(body), text)
}

// offers are those of the configuration, which is not started.
func (h *house) offers() []*offer.Offer {
	h.Helper()
	var config caddy.Config
	require.NoError(h, json.Unmarshal(h.config(""), &config))
	ctx := must(caddy.ProvisionContext(&config))(h)
	value := must(ctx.App("pay_offer"))(h)
	app := value.(*payoffer.App)
	h.Cleanup(func() { require.NoError(h, app.Cleanup()) })
	return app.Offers()
}

// ask sends a request and returns the answer and its body.
func (h *house) ask(method, url string, header http.Header) (*http.Response, string) {
	h.Helper()
	request := must(http.NewRequest(method, url, nil))(h)
	if header != nil {
		request.Header = header
	}
	answer := must(h.client.Do(request))(h)
	defer answer.Body.Close()
	body := must(io.ReadAll(answer.Body))(h)
	return answer, string(body)
}

// page is what a browser gets in a language.
func (h *house) page(url, language string) string {
	h.Helper()
	_, body := h.ask(http.MethodGet, url, http.Header{"Accept": {"text/html"}, "Accept-Language": {language}})
	return body
}

// checkout is the address of the card checkout.
func (h *house) checkout() string {
	h.Helper()
	_, uri := h.ask(http.MethodGet, h.service+"/v1/pay/card.uri", nil)
	return strings.TrimSpace(uri)
}

// press presses a button of the checkout, and returns the answer and its body.
func (h *house) press(checkout, button string) (*http.Response, string) {
	h.Helper()
	answer := must(h.client.PostForm(checkout, url.Values{"do": {button}}))(h)
	defer answer.Body.Close()
	body := must(io.ReadAll(answer.Body))(h)
	return answer, string(body)
}

// back presses a button, and returns the address that the payer is sent back to.
func (h *house) back(button string) string {
	h.Helper()
	answer, body := h.press(h.checkout(), button)
	require.Equal(h, http.StatusSeeOther, answer.StatusCode, body)
	return answer.Header.Get("Location")
}

// sell makes a payment at the checkout.
func (h *house) sell() (back string) {
	h.Helper()
	return h.back("pay")
}

// arrival is what the service says of a checkout.
type arrival struct {
	State   string
	Testnet bool
	Payment *struct {
		AmountUsd  float64
		ReceiptURL string
	}
}

func (h *house) arrival(url string) (a arrival) {
	h.Helper()
	_, body := h.ask(http.MethodGet, url, nil)
	require.NoError(h, json.Unmarshal([]byte(body), &a), body)
	return a
}

// received are the payments of the report that are confirmed: for each rail that has
// some their number, their worth and how much of that counts.
func (h *house) received() (rails []string) {
	h.Helper()
	var report struct {
		Rails []struct {
			ReceivedUsd float64
			Confirmed   struct{ Count, AmountUsd float64 }
		}
	}
	_, body := h.ask(http.MethodGet, h.service+"/v1/received", nil)
	require.NoError(h, json.Unmarshal([]byte(body), &report), body)
	for _, rail := range report.Rails {
		if rail.Confirmed.Count > 0 {
			rails = append(rails, fmt.Sprint(rail.Confirmed.Count, rail.Confirmed.AmountUsd, rail.ReceivedUsd))
		}
	}
	return rails
}

func TestDemoRemovesFilesOfKilledDemos(t *testing.T) {
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	elsewhere := filepath.Join(t.TempDir(), "pay_offer_demo_elsewhere")
	put := func(folder string, files ...string) string {
		require.NoError(t, os.MkdirAll(folder, 0o700))
		for _, name := range files {
			require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte("x"), 0o600))
		}
		return folder
	}
	in := func(name string) string { return filepath.Join(temporary, name) }
	living := must(newFolder())(t)
	dead := []string{put(in("pay_offer_demo_1"), lockName, "ledger.db"), put(in("pay_offer_demo_2"), lockName)}
	kept := []string{
		put(in("pay_offer_demo_beginning")), put(in("pay_offer_other"), lockName), put(elsewhere, lockName), living.folder,
		put(in("pay_offer_demo_linked"), "ledger.db"),
	}
	require.NoError(t, os.Symlink(elsewhere, in("pay_offer_demo_link")))
	require.NoError(t, os.Symlink(filepath.Join(elsewhere, lockName), filepath.Join(in("pay_offer_demo_linked"), lockName)))
	require.NoError(t, os.WriteFile(in("pay_offer_demo_file"), nil, 0o600))
	if os.Geteuid() == 0 {
		others := put(in("pay_offer_demo_others"), lockName)
		require.NoError(t, os.Chown(others, 65534, 65534))
		kept = append(kept, others)
	}

	k, err := newFolder()
	require.NoError(t, err)

	for _, folder := range dead {
		require.NoDirExists(t, folder)
	}
	for _, folder := range append(kept, k.folder) {
		require.DirExists(t, folder)
	}
	require.FileExists(t, filepath.Join(elsewhere, lockName))
	require.FileExists(t, in("pay_offer_demo_file"))
	_, err = os.Lstat(in("pay_offer_demo_link"))
	require.NoError(t, err)
	info := must(os.Stat(k.folder))(t)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
	k.remove()
	require.NoDirExists(t, k.folder)
	require.ErrorIs(t, filelockOf(t, living.lock.Name()), filelock.ErrLocked, "who looks at a lock does not end it")
	living.remove()
}

// filelockOf is what trying a lock says.
func filelockOf(t *testing.T, name string) error {
	t.Helper()
	file := must(os.OpenFile(name, os.O_RDWR, 0))(t)
	defer file.Close()
	return filelock.TryLock(file)
}
