package histories

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// script is what a history has in store.
type script struct {
	payers, purchases, facilitators int
	// verify and settle are the replies of each facilitator; the last one, which stays, is a yes.
	verify, settle []payoffertest.FacilitatorReply
	// cuts is how often a connection is cut, and strangers the longest time between two of them.
	cuts      float64
	strangers time.Duration
	// outages says that the chain cannot be read at times, crashes that the shop dies and reloads that it is configured
	// anew, and forks that blocks are replaced.
	outages, crashes, reloads, forks bool
	// gated says that the payments are made at a gate, and that its content is what they are made for.
	gated bool
	// drought is how long nothing at all is settled, or 0: authorizations run out.
	drought time.Duration
}

// mostReplies is how many replies of a facilitator are scripted.
const mostReplies = 12

func newScript(d *dice) script {
	s := script{
		payers: 1 + d.roll(mostPayers), purchases: 1 + d.roll(3), facilitators: 1 + d.roll(2),
		cuts: float64(d.roll(50)) / 100, strangers: []time.Duration{10 * time.Second, time.Minute, time.Hour}[d.roll(3)],
		outages: d.roll(3) == 0, crashes: d.roll(3) == 0, reloads: d.roll(3) == 0, forks: d.roll(3) == 0,
	}
	faults := []float64{0.3, 0.6, 1}[d.roll(3)]
	s.verify = replies(d, faults/2, s.verifyFaults())
	s.settle = replies(d, faults, s.settleFaults())
	if d.chance(0.2) {
		s.drought = d.between(time.Minute, 12*time.Minute)
		s.settle = []payoffertest.FacilitatorReply{{Reason: "invalid_exact_evm_transaction_failed"}}
	}
	return s
}

func replies(d *dice, faults float64, all []payoffertest.FacilitatorReply) (replies []payoffertest.FacilitatorReply) {
	for range d.roll(mostReplies) {
		r := payoffertest.FacilitatorReply{}
		if d.chance(faults) {
			r = all[d.roll(len(all))]
		}
		replies = append(replies, r)
	}
	return append(replies, payoffertest.FacilitatorReply{})
}

// verifyFaults are the ways in which a facilitator fails to verify.
func (script) verifyFaults() []payoffertest.FacilitatorReply {
	return append(silence(),
		payoffertest.FacilitatorReply{Reason: "invalid_exact_evm_payload_undeployed_smart_wallet"},
		payoffertest.FacilitatorReply{Reason: "insufficient_funds"},
		payoffertest.FacilitatorReply{Reason: "settlement_pending"},
	)
}

// settleFaults are the ways in which a facilitator fails to settle, or says what is not so.
func (s script) settleFaults() []payoffertest.FacilitatorReply {
	all := append(silence(),
		payoffertest.FacilitatorReply{Reason: "invalid_exact_evm_transaction_failed"},
		payoffertest.FacilitatorReply{Reason: "settlement_pending"},
		payoffertest.FacilitatorReply{Reason: "settlement_pending", Transaction: nowhere},
		payoffertest.FacilitatorReply{NoTransaction: true},
		payoffertest.FacilitatorReply{Network: "eip155:1"},
	)
	for _, status := range statuses {
		all = append(all, payoffertest.FacilitatorReply{Status: status, Body: `{"error":"it acted all the same"}`})
	}
	if s.outages {
		// Without a chain a facilitator's success is believed: what is wrong in it could not be noticed.
		return all
	}
	return append(all,
		payoffertest.FacilitatorReply{Transaction: nowhere},
		payoffertest.FacilitatorReply{Idle: true, Transaction: nowhere},
	)
}

// nowhere is the hash of no transaction.
const nowhere = "0xdead00000000000000000000000000000000000000000000000000000000dead"

// statuses are what a facilitator answers that is no 200.
var statuses = []int{400, 401, 403, 404, 409, 429, 500, 502, 503}

// silence is what neither says yes nor no, at any call.
func silence() (all []payoffertest.FacilitatorReply) {
	for fault := payoffertest.FaultCloseUnread; fault <= payoffertest.FaultLate; fault++ {
		all = append(all, payoffertest.FacilitatorReply{Fault: fault})
	}
	for _, status := range statuses {
		all = append(all, payoffertest.FacilitatorReply{Status: status, Body: "{}", Idle: true})
	}
	return append(all, payoffertest.FacilitatorReply{Body: `{"success":tru`, Idle: true}, payoffertest.FacilitatorReply{Body: `{"success":tru`})
}

// dice decide what somebody does. Each has their own, so that what one does changes nothing of what the others do.
type dice struct {
	mu sync.Mutex
	r  *rand.Rand
}

// dice are those of one, by number, in this history.
func (w *world) dice(of uint64) *dice { return &dice{r: rand.New(rand.NewPCG(w.seed, of))} }

// chance is true so often in one.
func (d *dice) chance(p float64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.r.Float64() < p
}

// roll is a number from 0 to n-1.
func (d *dice) roll(n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.r.IntN(n)
}

// between is a time between two others.
func (d *dice) between(least, most time.Duration) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return least + time.Duration(d.r.Int64N(int64(most-least)))
}
