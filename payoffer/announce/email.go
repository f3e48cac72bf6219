package announce

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wneessen/go-mail"
	"github.com/wneessen/go-mail/smtp"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// Email is a mailbox, and the server that takes mail for it.
type Email struct {
	To     string // the mailbox, bare
	Server string // host:port
	From   string // the sender's mailbox, bare; that of To if empty
	// User and Password log in; nobody does without a user.
	User, Password string
	// TLS is how the way to the server is encrypted: "starttls", "implicit", "off",
	// which is for loopback alone, or empty for what ChooseTLS finds.
	TLS string
}

// ChooseTLS says how the way to a mail server is encrypted. Without a word for it
// that is implicit at port 465 (RFC 8314), off on this machine, and starttls
// everywhere else.
func ChooseTLS(server, word string) (string, error) {
	host, port, err := net.SplitHostPort(server)
	if _, wrong := strconv.ParseUint(port, 10, 16); err != nil || wrong != nil || host == "" || strings.ContainsFunc(host, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '/' || r == '@' }) {
		return "", errors.New("this is not a mail server; write host and port, as in mail.example.org:587")
	}
	local := offer.IsLoopback(host)
	switch word {
	case "starttls", "implicit":
	case "off":
		if !local {
			return "", fmt.Errorf("the way to host %q would not be encrypted; leave out 'tls off', which is for a mail server on this machine", host)
		}
	case "":
		switch {
		case port == "465":
			word = "implicit"
		case local:
			word = "off"
		default:
			word = "starttls"
		}
	default:
		return "", fmt.Errorf("%q is none of: starttls, implicit, off", word)
	}
	return word, nil
}

// mailer sends events to one mailbox.
type mailer struct {
	Email
	host, helo string // the names of the server and of this one
	c          *Config
}

func (s Email) receiver(c *Config) (receiver, error) {
	m := &mailer{Email: s, helo: heloName(c.BaseURL), c: c}
	m.From = cmp.Or(s.From, s.To)
	for _, mailbox := range []string{m.To, m.From} {
		if _, err := offer.ParseMailbox(mailbox); err != nil {
			return receiver{}, err
		}
	}
	var err error
	if m.TLS, err = ChooseTLS(s.Server, s.TLS); err != nil {
		return receiver{}, err
	}
	m.host, _, _ = net.SplitHostPort(s.Server)
	return receiver{"email", s.To, s.Server, m.deliver}, nil
}

// heloName is how this server greets: by the name of the offer's host, if it has one
// (RFC 5321 section 4.1.3 has another form for addresses).
func heloName(baseURL string) string {
	name := offer.Hostname(baseURL)
	if _, err := netip.ParseAddr(strings.Trim(name, "[]")); err == nil || name == "" {
		return "localhost"
	}
	return name
}

// write makes the message. What is sent twice has the same Message-ID, by which a
// mailbox knows it; and nobody's out-of-office answers it (RFC 3834).
func (m *mailer) write(e event) ([]byte, error) {
	letter := mail.NewMsg(mail.WithNoDefaultUserAgent())
	if err := errors.Join(letter.From(m.From), letter.To(m.To)); err != nil {
		return nil, err
	}
	letter.Subject(e.subject())
	letter.SetMessageIDWithValue(e.sum() + "@" + m.helo)
	letter.SetDateWithValue(m.c.Now().UTC())
	letter.SetGenHeader("Auto-Submitted", "auto-generated")
	letter.SetBodyString(mail.TypeTextPlain, e.headline()+".\n"+e.text())
	var written bytes.Buffer
	_, err := letter.WriteTo(&written)
	return written.Bytes(), err
}

// deliver tries once.
func (m *mailer) deliver(ctx context.Context, e event) failure {
	letter, err := m.write(e)
	if err != nil {
		return failure{code: codeRefused}
	}
	ctx, cancel := lastly(ctx)
	defer cancel()
	ctx, cancel = context.WithTimeout(ctx, deliveryTimeout)
	defer cancel()
	begin := time.Now()
	status, f := m.send(ctx, letter)
	if f.code == codeUnreachable && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		f.code = codeTimeout
	}
	if m.c.Sent != nil {
		m.c.Sent(m.host, status, time.Since(begin))
	}
	return f
}

// send talks to the server. The status is that of its last answer, as far as it
// matters.
func (m *mailer) send(ctx context.Context, letter []byte) (status int, f failure) {
	conn, err := m.c.Dial(ctx, "tcp", m.Server)
	if err != nil {
		return 0, failure{code: codeUnreachable}
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	settings := &tls.Config{ServerName: m.host, MinVersion: tls.VersionTLS12}
	if m.TLS == "implicit" {
		conn = tls.Client(conn, settings)
	}
	client, err := smtp.NewClient(conn, m.host)
	if err == nil {
		err = client.Hello(m.helo)
	}
	if err != nil {
		return replied(err, codeServerError)
	}
	if m.TLS == "starttls" {
		if offered, _ := client.Extension("STARTTLS"); !offered {
			return 0, failure{code: codeUnencrypted} // nothing was said yet
		}
		if err := client.StartTLS(settings); err != nil {
			return replied(err, codeServerError)
		}
	}
	if m.User != "" {
		login := m.login(client)
		if login == nil {
			return 0, failure{code: codeUnauthorized}
		}
		if err := client.Auth(login); err != nil {
			return replied(err, codeUnauthorized)
		}
	}
	if err := hand(client, m.From, m.To, letter); err != nil {
		return replied(err, codeRefused)
	}
	_ = client.Quit() // it has taken the message
	return 250, failure{}
}

// hand gives the server a message, until it has said that it took it.
func hand(client *smtp.Client, from, to string, letter []byte) error {
	if err := client.Mail("<" + from + ">"); err != nil {
		return err
	}
	if err := client.Rcpt("<" + to + ">"); err != nil {
		return err
	}
	w, err := client.Data()
	if err != nil {
		return err
	}
	if _, err := w.Write(letter); err != nil {
		return err
	}
	return w.Close()
}

// login is by the first mechanism of these that the server has; nil for none. The
// way there is encrypted, or within this machine.
func (m *mailer) login(client *smtp.Client) smtp.Auth {
	_, list := client.Extension("AUTH")
	offered, within := strings.Fields(list), m.TLS == "off"
	switch {
	case slices.Contains(offered, "PLAIN"):
		return smtp.PlainAuth("", m.User, m.Password, m.host, within)
	case slices.Contains(offered, "LOGIN"):
		return smtp.LoginAuth(m.User, m.Password, m.host, within)
	case slices.Contains(offered, "SCRAM-SHA-256"):
		return smtp.ScramSHA256Auth(m.User, m.Password)
	case slices.Contains(offered, "CRAM-MD5"):
		return smtp.CRAMMD5Auth(m.User, m.Password)
	}
	return nil
}

// replied is why a server did not take a message, with the status of its answer; one
// that is permanent has a code of its own at each step. An answer that asks for a
// login is never the message's fault, at whatever step (RFC 4954 section 6).
func replied(err error, permanent string) (status int, f failure) {
	var reply *textproto.Error
	if !errors.As(err, &reply) {
		return 0, failure{code: codeUnreachable}
	}
	switch {
	case reply.Code >= 400 && reply.Code <= 499:
		return reply.Code, failure{code: codeDeferred, status: reply.Code}
	case slices.Contains([]int{530, 534, 535, 538}, reply.Code):
		return reply.Code, failure{code: codeUnauthorized, status: reply.Code}
	default:
		return reply.Code, failure{code: permanent, status: reply.Code}
	}
}
