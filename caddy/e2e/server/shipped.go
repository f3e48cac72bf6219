package server

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// Shipped is a running server with the shipped Caddyfile, and the addresses of its two hosts.
type Shipped struct {
	*Process
	Service, Site string
}

// StartShipped is Start for the shipped Caddyfile. Only its ports are changed, because other servers may use those.
func StartShipped(t testing.TB, env ...string) Shipped {
	t.Helper()
	return StartEdited(t, nil, env...)
}

// StartEdited is StartShipped with other lines, as payoffertest.EditCaddyfile writes them.
func StartEdited(t testing.TB, lines []string, env ...string) Shipped {
	t.Helper()
	text, err := os.ReadFile(lab.Path(t, "Caddyfile"))
	require.NoError(t, err)
	caddyfile := payoffertest.EditCaddyfile(string(text), lines...)
	free := map[string]string{}
	for _, port := range []string{"8402", "8403"} {
		require.Contains(t, caddyfile, ":"+port)
		free[port] = payoffertest.FreePort(t)
		caddyfile = strings.ReplaceAll(caddyfile, ":"+port, ":"+free[port])
	}
	service := "http://localhost:" + free["8402"]
	env = append(env, "CADDY_ADMIN=localhost:"+payoffertest.FreePort(t))
	return Shipped{Start(t, service, caddyfile, env...), service, "http://localhost:" + free["8403"]}
}
