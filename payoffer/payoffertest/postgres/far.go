package postgres

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"net/url"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Far is a way to a server on which every trip there and back takes a while, and
// that can be closed.
type Far struct {
	address string // on loopback
	socket  string
	delay   time.Duration
	trips   atomic.Int64
	closed  atomic.Bool
	clients sync.Map // the connections that are open
}

// Far returns a way to the server that adds a delay to every trip.
func (s *Server) Far(t testing.TB, delay time.Duration) *Far {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	far := &Far{address: listener.Addr().String(), socket: filepath.Join(s.folder, ".s.PGSQL.5432"), delay: delay}
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go far.lead(client)
		}
	}()
	return far
}

// DSN is one that goes this way.
func (f *Far) DSN(t testing.TB, dsn string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	require.NoError(t, err)
	query := u.Query()
	query.Del("host")
	query.Set("sslmode", "disable")
	u.Host, u.RawQuery = f.address, query.Encode()
	return u.String()
}

// Trips counts the trips so far, those to connect included.
func (f *Far) Trips() int64 { return f.trips.Load() }

// Close has connections that are made from now on ended at once, and Open leads them
// to the server again.
func (f *Far) Close() { f.closed.Store(true) }
func (f *Far) Open()  { f.closed.Store(false) }

// Cut is Close, and ends the connections that are open.
func (f *Far) Cut() {
	f.Close()
	f.clients.Range(func(client, _ any) bool {
		_ = client.(net.Conn).Close()
		return true
	})
}

// lead connects a client with the server.
func (f *Far) lead(client net.Conn) {
	f.clients.Store(client, nil)
	defer f.clients.Delete(client)
	defer client.Close()
	if f.closed.Load() {
		return
	}
	server, err := net.Dial("unix", f.socket)
	if err != nil {
		return
	}
	defer server.Close()
	go func() {
		_, _ = io.Copy(client, server)
		_ = client.Close()
	}()
	f.forward(server, bufio.NewReader(client))
}

// forward passes messages of a client on
// (https://www.postgresql.org/docs/current/protocol-message-formats.html), those of a
// trip together: all but the first begin with their type, and the server answers Query,
// Sync and whatever belongs to a login.
func (f *Far) forward(server net.Conn, client *bufio.Reader) {
	var trip []byte
	for login := true; ; login = false {
		kind := byte('S')
		if !login {
			var err error
			if kind, err = client.ReadByte(); err != nil {
				return
			}
			trip = append(trip, kind)
		}
		head := make([]byte, 4)
		if _, err := io.ReadFull(client, head); err != nil {
			return
		}
		body := make([]byte, binary.BigEndian.Uint32(head)-4)
		if _, err := io.ReadFull(client, body); err != nil {
			return
		}
		trip = append(append(trip, head...), body...)
		switch kind {
		case 'X': // a farewell, which nobody answers
			_, _ = server.Write(trip)
			return
		case 'Q', 'S', 'p':
			if !bytes.HasPrefix(body, []byte("-- ping")) { // of the driver, on a connection of which a second long nobody wanted anything
				f.trips.Add(1)
			}
			time.Sleep(f.delay)
			if _, err := server.Write(trip); err != nil {
				return
			}
			trip = nil
		}
	}
}
