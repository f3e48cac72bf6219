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
func (p *pipeListener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case p.conns <- server:
		return client, nil
	case <-p.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *pipeListener) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipeListener) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipeListener) Addr() net.Addr { return pipeAddr(p.host) }

// pipeAddr is the host name of a pipeListener.
type pipeAddr string

func (pipeAddr) Network() string  { return "pipe" }
func (p pipeAddr) String() string { return string(p) }

var _ net.Listener = (*pipeListener)(nil)
