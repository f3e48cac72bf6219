package payoffertest

import (
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Ports of tests lie below those that systems give to connections and to whoever
// listens on port 0: 32768 and above on Linux, 49152 elsewhere (RFC 6335).
const firstPort, ports = 20_000, 12_000

// claims holds the numbers of the ports that were given, in UDP.
var claims struct {
	sync.Mutex
	held []net.PacketConn
}

// FreePort returns a TCP port of 127.0.0.1 that nobody listens on, and that nobody
// else is given before this process ends: what an offer was paid stays with its port.
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
		claims.Lock()
		defer claims.Unlock()
		claims.held = append(claims.held, claim)
		return port
	}
}
