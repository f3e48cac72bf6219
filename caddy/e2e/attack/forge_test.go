package attack

import (
	"context"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ethereum/go-ethereum/common/hexutil"
)

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
