package payoffertest

import (
	"context"
	"net"
	"sync"
)

// pipeListener accepts connections of its own process, in memory.
type pipeListener struct {
	host   string
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipeListener(host string) *pipeListener {
	return &pipeListener{host: host, conns: make(chan net.Conn), closed: make(chan struct{})}
}

// dial is the DialContext of an http.Transport.
func (l *pipeListener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.conns <- server:
		return client, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return pipeAddr(l.host) }

// pipeAddr is the host name of a pipeListener.
type pipeAddr string

func (pipeAddr) Network() string  { return "pipe" }
func (a pipeAddr) String() string { return string(a) }

var _ net.Listener = (*pipeListener)(nil)
