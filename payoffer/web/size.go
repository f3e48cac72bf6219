package web

import (
	"bytes"
	"net/http"
	"strings"
)

// MaxHead is the largest header block in bytes that every proxy passes on. nginx reads it
// into a buffer of 4 KB by default (proxy_buffer_size) and answers 502 if it is larger.
const MaxHead = 3900

// Parts of a header block that are added later: Caddy's own headers, and the
// PAYMENT-RESPONSE of a refused settlement at its longest.
const (
	serverHeaders = "HTTP/1.1 402 Payment Required\r\nServer: Caddy\r\nDate: " + http.TimeFormat + "\r\n" +
		"Alt-Svc: h3=\":65535\"; ma=2592000\r\n\r\n"
	settlementSize = 330
)

// LargestHead is the size in bytes of the largest header block of a 402: that of the quote,
// or of the refusal of a payment.
func (s *Server) LargestHead() int {
	refusal := s.till().paymentRequired(s.Payments.Refusal(strings.Repeat("r", 100)))
	refusal.header["Payment-Response"] = []string{strings.Repeat("r", settlementSize)}
	size := 0
	for _, res := range []*response{s.currentQuote().challenging, refusal} {
		var head bytes.Buffer
		_ = res.header.Write(&head) // a buffer accepts all
		if res.required != nil {
			head.WriteString(headerRequired + ": " + res.required() + "\r\n")
		}
		size = max(size, head.Len())
	}
	for _, challenge := range s.Challenges.Sample() {
		size += len(headerChallenge + ": " + challenge + "\r\n")
	}
	return len(serverHeaders) + size
}
