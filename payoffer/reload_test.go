package payoffer

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/certmagic"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/operator"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/postgres"
)

func init() { caddy.RegisterModule(new(lostStorage)) }

// storageLost says that no lostStorage can be read or written.
var storageLost atomic.Bool

var errStorageLost = errors.New("no route to the storage")

// lostStorage is a folder that can get lost.
type lostStorage struct {
	Path string `json:"path"`
}

func (*lostStorage) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "caddy.storage.lost", New: func() caddy.Module { return new(lostStorage) }}
}

func (l *lostStorage) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	return arguments(d, "lost <path>", &l.Path)
}

func (l *lostStorage) CertMagicStorage() (certmagic.Storage, error) {
	return &lostFiles{FileStorage: &certmagic.FileStorage{Path: l.Path}}, nil
}

type lostFiles struct{ *certmagic.FileStorage }

func (l *lostFiles) Load(ctx context.Context, key string) ([]byte, error) {
	if storageLost.Load() {
		return nil, errStorageLost
	}
	return l.FileStorage.Load(ctx, key)
}

func (l *lostFiles) Store(ctx context.Context, key string, value []byte) error {
	if storageLost.Load() {
		return errStorageLost
	}
	return l.FileStorage.Store(ctx, key, value)
}

// Who has access keeps it over reloads while the ledger or the storage cannot be read: cookies, and the images of addresses.
func TestReloadDuringOutageKeepsAccess(t *testing.T) {
	server := postgres.Shared(t)
	for name, breaks := range map[string]func(far *postgres.Far) (mend func()){
		"the ledger": func(far *postgres.Far) func() {
			far.Cut()
			return far.Open
		},
		"the storage": func(*postgres.Far) func() {
			storageLost.Store(true)
			return func() { storageLost.Store(false) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			i, far := newInstance(t), server.Far(t, 0)
			dsn := far.DSN(t, server.DSN(t))
			load := func(description string) {
				sites := strings.Replace(gated("start /members/"), "base_url", "description \""+description+"\"\n\t\tbase_url", 1)
				require.NoError(t, loadCaddyfile(t, strings.NewReplacer("sqlite "+i.ledgerPath(), "postgres "+dsn, "storage file_system", "storage lost").
					Replace(i.caddyfile(sites))))
			}
			load("First words.")
			i.untilReceived()
			pass := must(activeApp().running()[0].Operator.ChangePass(t.Context(), operator.PassChange{Seconds: 3600}))(t)
			entry := i.get(pass.URL)
			require.Equal(t, http.StatusSeeOther, entry.status, entry.body)
			cookie, _, _ := strings.Cut(entry.header.Get("Set-Cookie"), ";")
			enters := func() answer {
				return i.doWith(http.MethodGet, i.service+"/members/a", http.Header{"Cookie": {cookie}})
			}
			require.Equal(t, "the application", enters().body)
			image := i.service + i.get(i.service+"/v1/pay/usdc.png").header.Get("Location")
			require.Equal(t, http.StatusOK, i.get(image).status)
			did := i.get(i.service + "/.well-known/did.json").body
			require.Contains(t, did, "publicKeyJwk")

			mend := breaks(far)
			defer mend()
			for _, description := range []string{"First words.", "Other words."} {
				load(description)
				for !strings.Contains(i.get(i.service+"/openapi.json").body, description) {
					runtime.Gosched() // until the old listener is closed
				}
				require.Equal(t, "the application", enters().body)
				require.Equal(t, http.StatusPaymentRequired, i.get(i.service+"/members/a").status)
				require.Equal(t, http.StatusOK, i.get(image).status)
				require.Equal(t, did, i.get(i.service+"/.well-known/did.json").body)
			}
			mend()
			i.untilReceived()
			require.Equal(t, "the application", enters().body)
		})
	}
}
