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
func (s *MailServer) Host() string { return s.address }

// Script sets the answers to the next connections; those after them are taken.
func (s *MailServer) Script(replies ...MailReply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script = replies
}

// Down makes connections fail until Up.
func (s *MailServer) Down() {
	s.mu.Lock()
	_ = s.listener.Close()
	for conn := range s.open {
		_ = conn.Close()
	}
	s.mu.Unlock()
	s.serving.Wait()
}

// Up listens again, at the same address.
func (s *MailServer) Up() {
	s.tb.Helper()
	listener, err := net.Listen("tcp4", s.address)
	require.NoError(s.tb, err)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.address, s.listener, s.open = listener.Addr().String(), listener, make(map[net.Conn]struct{})
	s.serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.open[conn] = struct{}{}
			s.mu.Unlock()
			s.serving.Go(func() { s.Serve(conn) })
		}
	})
}

// Connections are all that talked to it and have ended, in the order of their ends.
func (s *MailServer) Connections() []Mailed {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Mailed(nil), s.got...)
}

// Await returns when that many messages were taken.
func (s *MailServer) Await(messages int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		taken := 0
		for _, m := range s.got {
			if m.Taken {
				taken++
			}
		}
		if taken >= messages {
			return
		}
		s.arrival.Wait()
	}
}

// Serve talks to one client and closes the connection.
func (s *MailServer) Serve(conn net.Conn) {
	defer conn.Close()
	s.mu.Lock()
	var reply MailReply
	if len(s.script) > 0 {
		reply, s.script = s.script[0], s.script[1:]
	}
	s.mu.Unlock()
	talk := mailTalk{server: s, reply: reply, Conn: textproto.NewConn(conn)}
	talk.run()
	if !talk.told {
		s.ended(talk.mailed)
	}
}

func (s *MailServer) ended(m Mailed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got = append(s.got, m)
	s.arrival.Broadcast()
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
func (t *mailTalk) run() {
	if !t.answer("connect", 220, "mail.example ready") {
		return
	}
	for {
		line, err := t.ReadLine()
		if err != nil {
			return
		}
		verb, rest, _ := strings.Cut(line, " ")
		if !t.command(strings.ToUpper(verb), rest) {
			return
		}
	}
}

func (t *mailTalk) command(verb, rest string) bool {
	switch verb {
	case "EHLO":
		lines := append([]string{"mail.example"}, t.server.Extensions...)
		if t.server.Login != "" {
			lines = append(lines, "AUTH PLAIN")
		}
		return t.answer(verb, 250, lines...)
	case "AUTH":
		_, initial, _ := strings.Cut(rest, " ")
		said, err := base64.StdEncoding.DecodeString(initial)
		require.NoError(t.server.tb, err)
		t.mailed.Login = strings.TrimPrefix(strings.ReplaceAll(string(said), "\x00", ":"), ":")
		if t.mailed.Login != t.server.Login {
			return t.answer(verb, 535, "not you")
		}
		return t.answer(verb, 235, "welcome")
	case "MAIL":
		t.mailed.From = mailbox(rest, "FROM:")
		return t.answer(verb, 250, "ok")
	case "RCPT":
		t.mailed.To = mailbox(rest, "TO:")
		return t.answer(verb, 250, "ok")
	case "DATA":
		if !t.answer(verb, 354, "go on") {
			return false
		}
		if t.reply.At == verb {
			return true // which it was not
		}
		letter, err := t.ReadDotBytes()
		if err != nil {
			return false
		}
		t.mailed.Letter = string(letter)
		t.mailed.Taken = t.reply.At != "."
		if t.reply.Hang && t.reply.Release != nil {
			<-t.reply.Release
			t.mailed.Taken, t.reply = true, MailReply{}
		}
		t.told = true
		t.server.ended(t.mailed) // before the client knows
		return t.answer(".", 250, "taken")
	case "QUIT":
		t.answer(verb, 221, "bye")
		return false
	default:
		return t.answer(verb, 502, "unknown")
	}
}

// answer says what the script does of a command, or that it went well. It returns
// false where the talk is over.
func (t *mailTalk) answer(verb string, code int, lines ...string) bool {
	if t.reply.At == verb {
		switch {
		case t.reply.Drop:
			return false
		case t.reply.Hang:
			_, _ = t.ReadLine() // until the client leaves
			return false
		}
		code, lines = t.reply.Code, []string{"as scripted"}
	}
	for n, line := range lines {
		separator := "-"
		if n == len(lines)-1 {
			separator = " "
		}
		if t.PrintfLine("%d%s%s", code, separator, line) != nil {
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
