package announce

import (
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

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// Email is a mailbox and the mail server that messages to it are sent through.
type Email struct {
	To     string // the mailbox, without a name
	Server string // host:port
	From   string // the sender's mailbox; default To
	// User and Password log in, unless User is empty.
	User, Password string
	// TLS is "starttls", "implicit", "off" (for loopback only), or empty for the default of ChooseTLS.
	TLS string
}

// ChooseTLS returns how the connection to a mail server is encrypted. The default is
// implicit on port 465 (RFC 8314), off on loopback, and starttls elsewhere.
func ChooseTLS(server, option string) (string, error) {
	host, port, err := net.SplitHostPort(server)
	if _, invalid := strconv.ParseUint(port, 10, 16); err != nil || invalid != nil || host == "" || strings.ContainsFunc(host, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '/' || r == '@' }) {
		return "", fmt.Errorf("%.80q is not a mail server; write host and port, such as mail.example.org:587", server)
	}
	local := offer.IsLoopback(host)
	switch {
	case option == "off" && !local:
		return "", fmt.Errorf("the connection to %q would not be encrypted; remove 'tls off', which is only for a mail server on this machine", host)
	case option == "starttls", option == "implicit", option == "off":
		return option, nil
	case option != "":
		return "", fmt.Errorf("tls %q is not supported; use starttls, implicit or off", option)
	case port == "465":
		return "implicit", nil
	case local:
		return "off", nil
	}
	return "starttls", nil
}

// mailer sends events to one mailbox.
type mailer struct {
	Email
	host, helo string // the names of the server and of this machine
	config     *Config
}

func (e Email) receiver(c *Config) (_ receiver, err error) {
	m := &mailer{Email: e, helo: offer.Hostname(c.Offer.BaseURL), config: c}
	m.From = cmp.Or(e.From, e.To)
	for _, mailbox := range []string{m.To, m.From} {
		if _, err := offer.ParseMailbox(mailbox); err != nil {
			return receiver{}, err
		}
	}
	if m.TLS, err = ChooseTLS(e.Server, e.TLS); err != nil {
		return receiver{}, err
	}
	m.host, _, _ = net.SplitHostPort(e.Server)
	// An IP address has another form in HELO (RFC 5321 section 4.1.3).
	if _, notIP := netip.ParseAddr(strings.Trim(m.helo, "[]")); notIP == nil || m.helo == "" {
		m.helo = "localhost"
	}
	return receiver{"email", e.To, e.Server, m.deliver}, nil
}

// deliver attempts one delivery.
func (m *mailer) deliver(ctx context.Context, e event) (f failure) {
	ctx, cancel := context.WithTimeout(ctx, deliveryTimeout)
	defer cancel()
	begin, status := time.Now(), 250
	message, err := m.write(ctx, e)
	if err != nil {
		return failure{code: codeRefused}
	}
	client, err := m.client(ctx)
	if err == nil {
		err = client.DialAndSendWithContext(ctx, message)
	}
	if !message.IsDelivered() { // QUIT may fail after the delivery
		f = mailFailure(err)
		status = f.status
	}
	if f.code == codeUnreachable && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		f.code = codeTimeout
	}
	if m.config.Sent != nil {
		m.config.Sent(m.host, status, time.Since(begin))
	}
	return f
}

// write makes the message. A repeated message has the same Message-ID. Auto-Submitted
// prevents automatic replies (RFC 3834).
func (m *mailer) write(ctx context.Context, e event) (*mail.Msg, error) {
	message := mail.NewMsg(mail.WithNoDefaultUserAgent())
	if err := errors.Join(message.From(m.From), message.To(m.To)); err != nil {
		return nil, err
	}
	message.Subject(e.headline())
	message.SetMessageIDWithValue(e.sum() + "@" + m.helo)
	message.SetDateWithValue(m.config.Now().UTC())
	message.SetGenHeader("Auto-Submitted", "auto-generated")
	message.SetBodyString(mail.TypeTextPlain, e.headline()+"\n\n"+m.config.message(ctx, e, m.config.Page(e.transition)))
	return message, nil
}

// client returns a client for one message. Its connection closes when ctx ends.
func (m *mailer) client(ctx context.Context) (*mail.Client, error) {
	config, policy := &tls.Config{ServerName: m.host, MinVersion: tls.VersionTLS12}, mail.NoTLS
	if m.TLS == "starttls" {
		policy = mail.TLSMandatory
	}
	dial := func(dialing context.Context, network, _ string) (net.Conn, error) {
		conn, err := m.config.Dial(dialing, network, m.Server)
		if err != nil {
			return nil, err
		}
		context.AfterFunc(ctx, func() { conn.Close() })
		if m.TLS == "implicit" {
			conn = tls.Client(conn, config)
		}
		return conn, nil
	}
	options := []mail.Option{
		mail.WithHELO(m.helo), mail.WithTLSConfig(config), mail.WithTLSPolicy(policy), mail.WithDialContextFunc(dial),
		mail.WithTimeout(2 * deliveryTimeout), // ctx ends first
		mail.WithoutNoop(), mail.WithoutRset(),
	}
	if m.User != "" {
		plain, login := mail.SMTPAuthPlain, mail.SMTPAuthLogin
		if m.TLS == "off" { // on loopback
			plain, login = mail.SMTPAuthPlainNoEnc, mail.SMTPAuthLoginNoEnc
		}
		options = append(options, mail.WithUsername(m.User), mail.WithPassword(m.Password),
			mail.WithOpportunisticSMTPAuth(plain, login, mail.SMTPAuthSCRAMSHA256, mail.SMTPAuthCramMD5))
	}
	return mail.NewClient(m.host, options...)
}

// mailFailure classifies an error of go-mail. A reply that requires a login concerns the
// account, also to MAIL and RCPT (RFC 4954 section 6).
func mailFailure(err error) failure {
	reply, rejected := (*textproto.Error)(nil), (*mail.SendError)(nil)
	f := failure{code: codeUnreachable}
	if errors.As(err, &rejected) {
		f.status = rejected.ErrorCode()
	} else if errors.As(err, &reply) {
		f.status = reply.Code
	}
	switch {
	case f.status >= 400 && f.status <= 499:
		f.code = codeDeferred
	case slices.Contains([]int{530, 534, 535, 538}, f.status):
		f.code = codeUnauthorized
	case f.status != 0 && rejected != nil:
		f.code = codeRefused
	case f.status != 0:
		f.code = codeServerError
	// go-mail has no error values for the next two.
	case strings.HasSuffix(err.Error(), "does not support STARTTLS"):
		f.code = codeUnencrypted
	case strings.HasSuffix(err.Error(), "does not support SMTP AUTH"), errors.Is(err, mail.ErrNoSupportedAuthDiscovered):
		f.code = codeUnauthorized
	}
	return f
}
