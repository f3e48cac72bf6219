package payoffertest

import (
	"math/rand/v2"
	"net"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// Ports of tests lie below those that systems give to connections and to whoever
// listens on port 0: 32768 and above on Linux, 49152 elsewhere (RFC 6335).
const firstPort, ports = 20_000, 12_000

// FreePort returns a TCP port of 127.0.0.1 that nobody listens on, and that nobody
// else is given before the test ends: whoever is given one holds its number in UDP.
func FreePort(t testing.TB) string {
	t.Helper()
	for {
		port := strconv.Itoa(firstPort + rand.IntN(ports))
		claim, err := net.ListenPacket("udp4", "127.0.0.1:"+port)
		if err != nil {
			continue
		}
		listener, err := net.Listen("tcp4", "127.0.0.1:"+port)
		if err != nil {
			require.NoError(t, claim.Close())
			continue
		}
		require.NoError(t, listener.Close())
		t.Cleanup(func() { require.NoError(t, claim.Close()) })
		return port
	}
}
