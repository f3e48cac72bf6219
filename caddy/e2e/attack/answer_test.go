package attack

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/mpp"
)

// answer is what a buyer reads of an answer, whatever protocol it came by.
type answer struct {
	// status is the HTTP status, or that which HTTP would have.
	status int
	// again says that the same payment is to be sent again later.
	again bool
	// intent names the payment that stands in the way.
	intent string
	// transaction is that of the charge that the answer names.
	transaction common.Hash
	// text is everything: the body, and the headers that speak of the payment, decoded.
	text string
	err  error
}

// denial is the sentence that makes buyers sign again without fear.
var denial = regexp.MustCompile(`(?i)nothing (was|has been|is) charged|not (been )?charged|no charge`)

// deniesCharge reports whether the answer says, in any of its parts, that the buyer keeps the money.
func (a answer) deniesCharge() bool { return denial.MatchString(a.text) }

// names reports whether the answer says which payment it speaks of.
func (a answer) names(p payment) bool { return strings.Contains(strings.ToLower(a.text), p.nonce()) }

// transport is a way to send a payment. It may run beside the test's goroutine.
type transport func(ctx context.Context, s *shop, p payment) answer

// transports are all ways, by name.
var transports = map[string]transport{
	"HTTP version 2": byHTTP,
	"HTTP version 1": func(ctx context.Context, s *shop, p payment) answer {
		return s.sponsor(ctx, "X-PAYMENT", p.payload(1))
	},
	"MPP": func(ctx context.Context, s *shop, p payment) answer {
		return s.authorized(ctx, mpp.Authorization(s, p.credential()))
	},
	"MPP over MCP": func(ctx context.Context, s *shop, p payment) answer {
		return s.callTool(ctx, object{"org.paymentauth/credential": mpp.Native(s, p.credential())})
	},
	"MCP": func(ctx context.Context, s *shop, p payment) answer {
		return s.callTool(ctx, object{"x402/payment": p.payload(2)})
	},
	"A2A": func(ctx context.Context, s *shop, p payment) answer {
		return s.byAgent(ctx, "message/send", object{"message": object{
			"kind": "message", "messageId": rand.Text(), "role": "user", "parts": []object{{"kind": "text", "text": "Here is the payment."}},
			"metadata": object{"x402.payment.status": "payment-submitted", "x402.payment.payload": p.payload(2)},
		}})
	},
}

// byHTTP sends a payment as a version 2 client does.
func byHTTP(ctx context.Context, s *shop, p payment) answer {
	return s.sponsor(ctx, "PAYMENT-SIGNATURE", p.payload(2))
}

// pay is byHTTP for as long as the test lasts.
func (s *shop) pay(p payment) answer { return byHTTP(s.Context(), s, p) }

// sponsor posts an x402 payment in a header.
func (s *shop) sponsor(ctx context.Context, name string, payload object) answer {
	return s.send(ctx, http.Header{http.CanonicalHeaderKey(name): {base64.StdEncoding.EncodeToString(s.encode(payload))}})
}

// authorized posts a credential of the Payment scheme.
func (s *shop) authorized(ctx context.Context, credential string) answer {
	return s.send(ctx, http.Header{"Authorization": {credential}})
}

// callTool calls the tool with a payment.
func (s *shop) callTool(ctx context.Context, meta object) answer {
	return s.byAgent(ctx, "tools/call", object{"name": "first_42_sponsor", "arguments": object{}, "_meta": meta})
}

// send posts headers with a payment, and reads what became of it.
func (s *shop) send(ctx context.Context, header http.Header) answer {
	response, body, err := s.post(ctx, "/v1/sponsor", nil, header)
	if err != nil {
		return answer{err: err}
	}
	a := answer{status: response.StatusCode, again: response.Header.Get("Retry-After") != "", text: body}
	var problem struct{ Intent string }
	if json.Unmarshal([]byte(body), &problem) == nil {
		a.intent = problem.Intent
	}
	for _, header := range []string{"PAYMENT-REQUIRED", "PAYMENT-RESPONSE", "X-PAYMENT-RESPONSE"} {
		plain, err := base64.StdEncoding.DecodeString(response.Header.Get(header))
		if err != nil {
			return answer{err: err}
		}
		a.text += "\n" + string(plain)
		var settlement struct{ Transaction common.Hash }
		if strings.HasSuffix(header, "RESPONSE") && json.Unmarshal(plain, &settlement) == nil {
			a.transaction = settlement.Transaction
		}
	}
	if value := response.Header.Get("Payment-Receipt"); value != "" {
		receipt, err := base64.RawURLEncoding.DecodeString(value)
		if err != nil {
			return answer{err: err}
		}
		var paid struct{ Reference common.Hash }
		if err := json.Unmarshal(receipt, &paid); err != nil {
			return answer{err: err}
		}
		a.text, a.transaction = a.text+"\n"+string(receipt), paid.Reference
	}
	return a
}

// byAgent calls a method of the agent endpoint. What became of the payment stands in the result as one object, by either
// protocol; a demand for another payment, which makes clients sign, is what HTTP answers by 402.
func (s *shop) byAgent(ctx context.Context, method string, params object) answer {
	_, body, err := s.post(ctx, "/mcp", object{"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, http.Header{
		"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
		"X-A2a-Extensions": {"https://github.com/google-a2a/a2a-x402/v0.1"},
	})
	if err != nil {
		return answer{err: err}
	}
	type attempted struct {
		Paid              bool
		Status, Intent    string
		Transaction       common.Hash
		RetryAfterSeconds int
	}
	var reply struct {
		Result struct {
			StructuredContent *attempted
			Status            struct {
				State   string
				Message struct{ Parts []struct{ Data *attempted } }
			}
		}
	}
	if err := json.Unmarshal([]byte(body), &reply); err != nil {
		return answer{err: err}
	}
	found := reply.Result.StructuredContent
	for _, part := range reply.Result.Status.Message.Parts {
		if part.Data != nil {
			found = part.Data
		}
	}
	a := answer{status: http.StatusInternalServerError, text: body}
	if found == nil {
		return a
	}
	a.again, a.intent, a.transaction = found.RetryAfterSeconds > 0, found.Intent, found.Transaction
	switch {
	case found.Paid:
		a.status = http.StatusOK
	case found.Status == "conflict":
		a.status = http.StatusConflict
	case found.Status == "limited":
		a.status = http.StatusTooManyRequests
	case found.Status != "":
		a.status = http.StatusServiceUnavailable
	default:
		a.status = http.StatusPaymentRequired
	}
	return a
}

// post sends a request.
func (s *shop) post(ctx context.Context, path string, body any, header http.Header) (*http.Response, string, error) {
	var data []byte
	if body != nil {
		data = s.encode(body)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+path, bytes.NewReader(data))
	if err != nil {
		return nil, "", err
	}
	request.Header = header
	response, err := s.client.Do(request)
	if err != nil {
		return nil, "", err
	}
	defer response.Body.Close()
	read, err := io.ReadAll(response.Body)
	return response, string(read), err
}

// suffix marks a signature as one of ERC-6492.
var suffix = strings.Repeat("6492", 16)

// A forgery is a payment of somebody without money on which a facilitator chokes.
type forgery struct {
	name    string
	version int
	spoil   func(p *payment)
}

// permit2 adds what the official facilitator takes for another way to pay.
func permit2(value any) func(*payment) {
	return func(p *payment) { p.extra = object{"permit2Authorization": value} }
}

func garbage(p *payment) { p.signature = "0x" + strings.Repeat("ff", 96) + suffix }

func marked(p *payment) { p.signature = p.signature.(hexutil.Bytes).String() + suffix }

// forgeries make the official facilitator throw, each in another way.
var forgeries = []forgery{
	{"an empty permit", 2, permit2(object{})},
	{"a null permit", 2, permit2(nil)},
	{"a permit that is text", 2, permit2("permit")},
	{"a contract wallet's signature of garbage", 2, garbage},
	{"a contract wallet's signature of garbage in version 1", 1, garbage},
	{"a signature that is marked as a contract wallet's", 2, marked},
	{"a signature that is marked as a contract wallet's in version 1", 1, marked},
}

// storm is an attack under way: forged payments, two a second from six addresses, whether or not those before were answered.
type storm struct {
	ctx      context.Context
	stop     context.CancelFunc
	work     sync.WaitGroup
	answered atomic.Int64
	paid     atomic.Int64
}

// The storm's numbers.
const (
	gust      = 500 * time.Millisecond
	attackers = 6
	// underWay is how many forged payments were answered when an attack has begun to show.
	underWay = 8
)

// storm begins to attack the shop, until stop. mine is told of each payer before its payment is sent.
func (s *shop) storm(forgeries []forgery, mine func(payment)) *storm {
	ctx, stop := context.WithCancel(s.Context())
	attack := &storm{ctx: ctx, stop: stop}
	s.Cleanup(func() {
		stop()
		attack.work.Wait()
	})
	attack.work.Go(func() {
		tick := time.NewTicker(gust)
		defer tick.Stop()
		for n := 0; ; n++ {
			f, p := forgeries[n%len(forgeries)], s.sign(s.stranger())
			f.spoil(&p)
			mine(p)
			attack.work.Go(func() { s.forge(attack, f.version, p, "203.0.113."+strconv.Itoa(1+n%attackers)) })
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	})
	s.eventually("the attack has begun", func() bool { return attack.answered.Load() >= underWay })
	return attack
}

// forge sends one forged payment.
func (s *shop) forge(attack *storm, version int, p payment, address string) {
	status, err := s.payFrom(attack.ctx, version, p, address)
	if err != nil {
		return // the attack is over
	}
	attack.answered.Add(1)
	if status == http.StatusOK {
		attack.paid.Add(1)
	}
}

// payFrom sends a payment from an address, as a proxy in front tells, and returns the status.
func (s *shop) payFrom(ctx context.Context, version int, p payment, address string) (status int, err error) {
	header := http.Header{"X-Forwarded-For": {address}}
	header.Set(map[int]string{1: "X-PAYMENT", 2: "PAYMENT-SIGNATURE"}[version], base64.StdEncoding.EncodeToString(s.encode(p.payload(version))))
	response, _, err := s.post(ctx, "/v1/sponsor", nil, header)
	if err != nil {
		return 0, err
	}
	return response.StatusCode, nil
}
