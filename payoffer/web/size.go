package web

import (
	"net/http"
	"strings"

	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// MaxHead is how many bytes the header block of an answer may have for every
// proxy to pass it on. nginx reads it into one buffer, of 4 KB by default
// (proxy_buffer_size), and answers 502 for a larger one; the rest is for what a
// proxy in between adds.
const MaxHead = 3900

// addedByCaddy are the headers that stand on an answer beside our own.
const addedByCaddy = "Server: Caddy\r\nDate: " + http.TimeFormat + "\r\nAlt-Svc: h3=\":65535\"; ma=2592000\r\n"

// longestReason is as long as the reason code of a facilitator may be, and
// longer than what of a sentence fits beside it into the header.
var longestReason = strings.Repeat("r", 100)

// LargestHead is the size in bytes of the largest header block of a 402 as
// HTTP/1.1 writes it: that of the quote, or of the refusal of a payment.
func (s *Server) LargestHead() int {
	refused := x402.Outcome{Status: x402.Refused, Reason: longestReason, Detail: longestReason}
	bare, settlement := s.head(s.outcome(refused)), 0
	for _, rail := range s.Offer.USDC() {
		for version, network := range map[int]string{1: rail.Network.Name, 2: rail.Network.CAIP2()} {
			refused.Version = version
			refused.Response = &x402.SettleResponse{ErrorReason: longestReason, Network: network, Payer: rail.PayTo}
			for _, h := range paymentResponse(refused) { // all that the refusal has beside the quote
				settlement = max(settlement, lineSize(h.name, h.value))
			}
		}
	}
	return max(s.head(s.newStandingQuote(s.Payments.Quote()).challenging), bare+settlement)
}

// lineSize is how many bytes a header takes in HTTP/1.1.
func lineSize(name, value string) int { return len(name) + len(": ") + len(value) + len("\r\n") }

// head is the size of the header block of a 402 that challenges.
func (s *Server) head(res *response) int {
	size := len("HTTP/1.1 402 Payment Required\r\n") + len(addedByCaddy) + len("\r\n")
	header := make(http.Header)
	res.setHeaders(header)
	header[headerChallenge] = s.Challenges.Sample()
	for name, values := range header {
		for _, value := range values {
			size += lineSize(name, value)
		}
	}
	return size
}
