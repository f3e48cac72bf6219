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

// StartShipped is Start for the shipped Caddyfile, which is taken as it is but for the ports, since others may hold
// those; env are variables that it reads.
func StartShipped(t testing.TB, env ...string) Shipped {
	t.Helper()
	text, err := os.ReadFile(lab.Path(t, "Caddyfile"))
	require.NoError(t, err)
	caddyfile := string(text)
	free := map[string]string{}
	for _, port := range []string{"8401", "8402", "8403"} {
		require.Contains(t, caddyfile, ":"+port)
		free[port] = payoffertest.FreePort(t)
		caddyfile = strings.ReplaceAll(caddyfile, ":"+port, ":"+free[port])
	}
	service := "http://localhost:" + free["8402"]
	return Shipped{Start(t, service, caddyfile, env...), service, "http://localhost:" + free["8403"]}
}
