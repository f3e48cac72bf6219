package histories

import (
	"crypto/ecdsa"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/stretchr/testify/assert"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/node"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/cases"
)

const head = `{
	admin off
	persist_config off
	default_bind 127.0.0.1
	pay_offer {
		ledger sqlite ledger.db
	}
}
`

const site = `http://localhost:{PORT} {
	pay_offer {
		id stall-{PORT}
		base_url http://localhost:{PORT}
		site_url http://localhost:{PORT}
		amount 0.42
		rate_limit 10000 1m
		card https://checkout.example/pay
		usdc base-sepolia {PAYEE} {
			facilitator {FACILITATOR} {
				timeout 2s
			}
			rpc {RPC}
			confirm latest
		}
	}
	pay_offer_gate /members/* {
		offer stall-{PORT}
		start /members/
	}
	respond /members/* "the content"
	respond 404
}
`

// stall is an offer whose facilitator fails in one way before it works.
type stall struct {
	fault       string
	payee       common.Address
	facilitator *payoffertest.Facilitator
	buyer       *ecdsa.PrivateKey
	url         string
	gated       bool // whether it is paid at a gate
}

// repeated is how often in a row a facilitator fails.
const repeated = 2

// giveUp is how long a buyer tries.
const giveUp = 90 * time.Second

func TestOfficialClientRetriesBuyOnce(t *testing.T) {
	t.Parallel()
	lab.RequireNode(t)
	c := chain.Start(t)
	c.Pause() // while the buyers get their money
	var stalls []*stall
	one, nth := cases.EndToEnd(4, 1, 1), 0 // of so many faults one is tried
	for call, faults := range map[string][]payoffertest.FacilitatorReply{
		payoffertest.CallVerify: script{}.verifyFaults(), payoffertest.CallSettle: script{}.settleFaults(),
	} {
		for _, fault := range faults {
			if nth++; nth%one != 0 {
				continue
			}
			stalls = append(stalls, openStall(t, c, call, fault))
		}
	}
	c.Mine(t, 1)
	c.Resume()

	config, ports := head, map[string]bool{}
	var purchases []node.Purchase
	for n, s := range stalls {
		port := payoffertest.FreePort(t)
		for ports[port] {
			port = payoffertest.FreePort(t)
		}
		ports[port] = true
		s.url = "http://localhost:" + port
		config += strings.NewReplacer("{PORT}", port, "{PAYEE}", s.payee.Hex(), "{FACILITATOR}", s.facilitator.URL(), "{RPC}", c.URL).Replace(site)
		path := "/v1/sponsor"
		if s.gated = n%2 == 1; s.gated {
			path = "/members/post"
		}
		purchases = append(purchases, node.Purchase{URL: s.url + path, Key: s.buyer})
	}
	server.Start(t, stalls[0].url, config)

	bought := node.Retry(t, purchases, giveUp)
	for _, s := range stalls {
		s.facilitator.Release() // what hangs ends as it would have
	}
	for i, s := range stalls {
		assert.Equal(t, http.StatusOK, bought[i].Status, "%s: %v, %s", s.fault, bought[i].Answers, bought[i].Body)
		transfers := c.TransfersTo(t, s.payee)
		if assert.Len(t, transfers, 1, "%s: %v", s.fault, bought[i].Answers) && bought[i].Status == http.StatusOK {
			assert.Equal(t, transfers[0].Tx, bought[i].Payment.Transaction, s.fault)
			assert.Equal(t, s.gated, bought[i].Body == "the content", "%s: %s", s.fault, bought[i].Body)
		}
	}
	t.Logf("%d purchases, each over a fault of its own, half of them at a gate", len(stalls))
}

// sending guards the account from which all facilitators send.
var sending sync.Mutex

// openStall prepares an offer whose facilitator fails at a call, and a buyer, whose money comes with the next block.
func openStall(t *testing.T, c *chain.Chain, call string, fault payoffertest.FacilitatorReply) *stall {
	t.Helper()
	buyer := lab.Must(crypto.GenerateKey())(t)
	s := &stall{fault: fmt.Sprintf("%s %+v", call, fault), payee: newAddress(t), facilitator: payoffertest.NewFacilitator(t), buyer: buyer}
	replies := make([]payoffertest.FacilitatorReply, repeated, repeated+1)
	for i := range replies {
		replies[i] = fault
	}
	s.facilitator.Script(call, append(replies, payoffertest.FacilitatorReply{})...)
	s.facilitator.OnBroadcast(func(asked payoffertest.Settlement) (string, error) {
		data, err := transferCall(t, asked)
		if err != nil {
			return "", err
		}
		sending.Lock()
		defer sending.Unlock()
		c.Pending(t) // counts what was sent before
		if err := c.Try(c.USDC, data); err != nil {
			return "", err
		}
		hash, err := c.Send(c.USDC, data)
		return hash.Hex(), err
	})
	gift := chain.NewAuthorization(t, chain.Wallet, chain.Address(buyer), 10*price)
	c.Pending(t) // counts what was sent before
	lab.Must(c.Send(c.USDC, gift.Call(t, []byte("whatever the wallet takes"))))(t)
	return s
}
