package web

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGateChallengesOnlyOfferedNetworks(t *testing.T) {
	g := newGated(t)
	challenges := func() int { return len(g.ask(http.MethodGet, "/members/").Header.Values("WWW-Authenticate")) }
	require.Equal(t, 1, challenges())
	g.world.live.Networks = "eip155:1 "
	require.Zero(t, challenges())
}
