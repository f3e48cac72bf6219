package payoffertest

import (
	"encoding/base64"
	"net"
	"net/textproto"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// MailReply scripts how a MailServer answers one connection. The zero value takes
// the message.
type MailReply struct {
	// At is the command that is answered with Code instead: "connect", "EHLO",
	// "AUTH", "MAIL", "RCPT", "DATA", or "." for the end of the message.
	At   string
	Code int
	// Drop closes the connection there instead of an answer.
	Drop bool
	// Hang leaves the client without an answer there until it leaves, or until
	// Release is closed: then it is answered.
	Hang    bool
	Release <-chan struct{}
}

// Mailed is a connection to a MailServer: what it handed over, and whether the
// answer was a success.
type Mailed struct {
	From, To, Login string
	Letter          string // headers and body, in lines that end with a line feed
	Taken           bool
}

// MailServer stands in for a mail server within this machine (RFC 5321). It encrypts
// nothing; a login is taken by PLAIN.
type MailServer struct {
	tb testing.TB
	// Extensions are what it offers beside PLAIN, which it does where Login is set.
	Extensions []string
	// Login is "user:password", or empty.
	Login string

	mu       sync.Mutex
	arrival  *sync.Cond
	address  string
	listener net.Listener
	open     map[net.Conn]struct{}
	serving  sync.WaitGroup
	script   []MailReply
	got      []Mailed
}

// NewMailServer starts a server that takes everything. It closes when the test ends.
func NewMailServer(tb testing.TB) *MailServer {
	tb.Helper()
	s := &MailServer{tb: tb, address: "127.0.0.1:0"}
	s.arrival = sync.NewCond(&s.mu)
	s.Up()
	tb.Cleanup(s.Down)
	return s
}

// Host is where it listens.
func (ms *MailServer) Host() string { return ms.address }

// Script sets the answers to the next connections; those after them are taken.
func (ms *MailServer) Script(replies ...MailReply) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	ms.script = replies
}

// Down makes connections fail until Up.
func (ms *MailServer) Down() {
	ms.mu.Lock()
	_ = ms.listener.Close()
	for conn := range ms.open {
		_ = conn.Close()
	}
	ms.mu.Unlock()
	ms.serving.Wait()
}

// Up listens again, at the same address.
func (ms *MailServer) Up() {
	ms.tb.Helper()
	listener, err := net.Listen("tcp4", ms.address)
	require.NoError(ms.tb, err)
	ms.mu.Lock()
	defer ms.mu.Unlock()
	ms.address, ms.listener, ms.open = listener.Addr().String(), listener, make(map[net.Conn]struct{})
	ms.serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			ms.mu.Lock()
			ms.open[conn] = struct{}{}
			ms.mu.Unlock()
			ms.serving.Go(func() { ms.Serve(conn) })
		}
	})
}

// Connections are all that talked to it and have ended, in the order of their ends.
func (ms *MailServer) Connections() []Mailed {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	return append([]Mailed(nil), ms.got...)
}

// Await returns when that many messages were taken.
func (ms *MailServer) Await(messages int) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	for {
		taken := 0
		for _, m := range ms.got {
			if m.Taken {
				taken++
			}
		}
		if taken >= messages {
			return
		}
		ms.arrival.Wait()
	}
}

// Serve talks to one client and closes the connection.
func (ms *MailServer) Serve(conn net.Conn) {
	defer conn.Close()
	ms.mu.Lock()
	var reply MailReply
	if len(ms.script) > 0 {
		reply, ms.script = ms.script[0], ms.script[1:]
	}
	ms.mu.Unlock()
	talk := mailTalk{server: ms, reply: reply, Conn: textproto.NewConn(conn)}
	talk.run()
	if !talk.told {
		ms.ended(talk.mailed)
	}
}

func (ms *MailServer) ended(m Mailed) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	ms.got = append(ms.got, m)
	ms.arrival.Broadcast()
}

// mailTalk is one connection.
type mailTalk struct {
	*textproto.Conn
	server *MailServer
	reply  MailReply
	mailed Mailed
	told   bool
}

// run answers command by command until the client leaves.
func (m *mailTalk) run() {
	if !m.answer("connect", 220, "mail.example ready") {
		return
	}
	for {
		line, err := m.ReadLine()
		if err != nil {
			return
		}
		verb, rest, _ := strings.Cut(line, " ")
		if !m.command(strings.ToUpper(verb), rest) {
			return
		}
	}
}

func (m *mailTalk) command(verb, rest string) bool {
	switch verb {
	case "EHLO":
		lines := append([]string{"mail.example"}, m.server.Extensions...)
		if m.server.Login != "" {
			lines = append(lines, "AUTH PLAIN")
		}
		return m.answer(verb, 250, lines...)
	case "AUTH":
		_, initial, _ := strings.Cut(rest, " ")
		said, err := base64.StdEncoding.DecodeString(initial)
		require.NoError(m.server.tb, err)
		m.mailed.Login = strings.TrimPrefix(strings.ReplaceAll(string(said), "\x00", ":"), ":")
		if m.mailed.Login != m.server.Login {
			return m.answer(verb, 535, "not you")
		}
		return m.answer(verb, 235, "welcome")
	case "MAIL":
		m.mailed.From = mailbox(rest, "FROM:")
		return m.answer(verb, 250, "ok")
	case "RCPT":
		m.mailed.To = mailbox(rest, "TO:")
		return m.answer(verb, 250, "ok")
	case "DATA":
		if !m.answer(verb, 354, "go on") {
			return false
		}
		if m.reply.At == verb {
			return true // which it was not
		}
		letter, err := m.ReadDotBytes()
		if err != nil {
			return false
		}
		m.mailed.Letter = string(letter)
		m.mailed.Taken = m.reply.At != "."
		if m.reply.Hang && m.reply.Release != nil {
			<-m.reply.Release
			m.mailed.Taken, m.reply = true, MailReply{}
		}
		m.told = true
		m.server.ended(m.mailed) // before the client knows
		return m.answer(".", 250, "taken")
	case "QUIT":
		m.answer(verb, 221, "bye")
		return false
	default:
		return m.answer(verb, 502, "unknown")
	}
}

// answer says what the script does of a command, or that it went well. It returns
// false where the talk is over.
func (m *mailTalk) answer(verb string, code int, lines ...string) bool {
	if m.reply.At == verb {
		switch {
		case m.reply.Drop:
			return false
		case m.reply.Hang:
			_, _ = m.ReadLine() // until the client leaves
			return false
		}
		code, lines = m.reply.Code, []string{"as scripted"}
	}
	for n, line := range lines {
		separator := "-"
		if n == len(lines)-1 {
			separator = " "
		}
		if m.PrintfLine("%d%s%s", code, separator, line) != nil {
			return false
		}
	}
	return true
}

// mailbox takes it out of the argument of MAIL or RCPT, which may have parameters.
func mailbox(argument, word string) string {
	found, _, _ := strings.Cut(strings.TrimPrefix(argument, word+"<"), ">")
	return found
}
