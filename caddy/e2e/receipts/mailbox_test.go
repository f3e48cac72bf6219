package receipts

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http/httptest"
	"net/mail"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
)

const (
	mailUser     = "offer@example.com"
	mailPassword = "correct-horse-battery"
)

// mailbox is a mail server that asks for encryption and a login, with one mailbox.
type mailbox struct {
	testing.TB
	address, authority string // where it listens, and the file of who vouches for it
	settings           *tls.Config

	mu      sync.Mutex
	arrival *sync.Cond
	server  *smtp.Server
	refuse  int // how many messages are refused for now
	letters []*mail.Message
}

func openMailbox(t *testing.T) *mailbox {
	t.Helper()
	certified := httptest.NewTLSServer(nil) // whose certificate is that of 127.0.0.1
	defer certified.Close()
	m := &mailbox{TB: t, address: "127.0.0.1:0", authority: filepath.Join(t.TempDir(), "authority.pem")}
	m.settings = &tls.Config{Certificates: certified.TLS.Certificates}
	m.arrival = sync.NewCond(&m.mu)
	vouched := lab.Must(x509.ParseCertificate(certified.Certificate().Raw))(t)
	require.NoError(t, os.WriteFile(m.authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: vouched.Raw}), 0o600))
	m.up()
	t.Cleanup(m.down)
	return m
}

// up listens, at the address of before.
func (m *mailbox) up() {
	m.Helper()
	listener := lab.Must(net.Listen("tcp4", m.address))(m)
	m.address = listener.Addr().String()
	m.server = smtp.NewServer(m)
	m.server.Domain, m.server.TLSConfig = "mail.example", m.settings
	go m.server.Serve(listener) //nolint:errcheck // it is closed
}

// down makes connections fail.
func (m *mailbox) down() { _ = m.server.Close() }

// refuseNext refuses that many messages, each as mail servers do that never saw the sender.
func (m *mailbox) refuseNext(messages int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refuse = messages
}

// await returns all messages once there are that many.
func (m *mailbox) await(messages int) []*mail.Message {
	m.mu.Lock()
	defer m.mu.Unlock()
	for len(m.letters) < messages {
		m.arrival.Wait()
	}
	return append([]*mail.Message(nil), m.letters...)
}

// NewSession implements smtp.Backend.
func (m *mailbox) NewSession(c *smtp.Conn) (smtp.Session, error) { return &delivery{m: m, c: c}, nil }

// delivery is one connection.
type delivery struct {
	m        *mailbox
	c        *smtp.Conn
	known    bool
	from, to string
}

func (d *delivery) AuthMechanisms() []string { return []string{sasl.Plain} }

func (d *delivery) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, password string) error {
		if _, encrypted := d.c.TLSConnectionState(); !encrypted || user != mailUser || password != mailPassword {
			return errors.New("not you")
		}
		d.known = true
		return nil
	}), nil
}

func (d *delivery) Mail(from string, _ *smtp.MailOptions) error {
	if !d.known {
		return smtp.ErrAuthRequired
	}
	d.from = from
	return nil
}

func (d *delivery) Rcpt(to string, _ *smtp.RcptOptions) error {
	d.to = to
	return nil
}

func (d *delivery) Data(r io.Reader) error {
	text, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	d.m.mu.Lock()
	defer d.m.mu.Unlock()
	if d.m.refuse > 0 {
		d.m.refuse--
		return &smtp.SMTPError{Code: 451, EnhancedCode: smtp.EnhancedCode{4, 7, 1}, Message: "greylisted"}
	}
	letter, err := mail.ReadMessage(strings.NewReader(string(text)))
	if err != nil || letter.Header.Get("From") != "<"+d.from+">" || letter.Header.Get("To") != "<"+d.to+">" {
		return &smtp.SMTPError{Code: 554, Message: "malformed"}
	}
	d.m.letters = append(d.m.letters, letter)
	d.m.arrival.Broadcast()
	return nil
}

func (d *delivery) Reset() {}

func (d *delivery) Logout() error { return nil }

var _ smtp.AuthSession = (*delivery)(nil)
