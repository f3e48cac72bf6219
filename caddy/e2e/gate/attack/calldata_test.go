package attack

import (
	"crypto/rand"
	"net/http"
	"sync"
	"testing"

	"github.com/ethereum/go-ethereum/ethclient"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/mpp"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
)

// fromCalldata are all requests that a stranger makes of a charge that is on the chain.
func (s *shop) fromCalldata() (all []request) {
	s.Helper()
	client, err := ethclient.Dial(s.chain.URL)
	require.NoError(s, err)
	defer client.Close()
	charges := s.chain.TransfersTo(s, s.payee)
	require.NotEmpty(s, charges)
	transaction, _, err := client.TransactionByHash(s.Context(), charges[len(charges)-1].Tx)
	require.NoError(s, err)
	public := parseCalldata(transaction.Data())
	p := &payment{Authorization: public.Authorization, signature: public.signature}

	_, gate := s.address(atGate)
	_, sponsor := s.address(atSponsor)
	headers := map[string]http.Header{"version 1": s.inHeader("X-Payment", p.v1())}
	payloads := map[string]object{"without a token": p.v2(""), "with a short token": p.v2("x")}
	for _, name := range []string{"first", "second"} {
		payloads["with a random token, the "+name] = p.v2(rand.Text())
	}
	payloads["with the token of a quote"] = p.v2(s.token(s.ask("GET", gate, nil)))
	named := p.v2(rand.Text())
	named["extensions"].(object)["payment-identifier"] = object{"info": object{"required": false, "id": rand.Text()}}
	payloads["with a payment identifier"] = named
	credentials := map[string]object{}
	for name, quoted := range map[string]server.Answer{"gate": s.ask("GET", gate, nil), "sponsor": s.ask("POST", sponsor, nil)} {
		challenge := mpp.Challenged(s, quoted.Header, chain.BaseSepolia)
		credentials["of another challenge of the "+name] = challenge.Credential(p.Authorization, p.signature)
		challenge["opaque"] = rand.Text()
		credentials["with another opaque at the "+name] = challenge.Credential(p.Authorization, p.signature)
		challenge["id"] = rand.Text()
		credentials["with another id at the "+name] = challenge.Credential(p.Authorization, p.signature)
	}
	for name, payload := range payloads {
		headers["x402 "+name] = s.inHeader("Payment-Signature", payload)
		all = append(all, s.callTool("x402 over MCP "+name, object{"x402/payment": payload}))
	}
	for name, credential := range credentials {
		headers["MPP "+name] = s.authorization(credential)
		all = append(all, s.callTool("MPP over MCP "+name, object{"org.paymentauth/credential": mpp.Native(s, credential)}))
	}
	for name, header := range headers {
		all = append(all, request{name + ", GET", "GET", gate, "", header}, request{name + ", POST", "POST", gate, "", header},
			request{name + ", HEAD", "HEAD", gate, "", header}, request{name + ", a file", "GET", s.url("shop", "/paid/secret.txt"), "", header},
			request{name + ", sponsor", "POST", sponsor, "", header})
	}
	return all
}

// A charged authorization is calldata that everyone can read. It opens nothing, neither while its payer waits for the answer
// nor when it has it. The payer gets in, each time.
func TestAPaymentFromCalldataOpensNothing(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	count := 0
	for name, way := range ways {
		p := s.sign(way.at)
		own := way.request(s, p)
		mined, answer := make(chan struct{}), make(chan struct{})
		s.mu.Lock()
		s.mined, s.answer = mined, answer
		s.mu.Unlock()

		var waiting, written sync.WaitGroup
		var first server.Answer
		waiting.Go(func() { first = s.send(own, nil) })
		<-mined
		stolen := s.fromCalldata()
		answers := make([]server.Answer, len(stolen))
		for n, r := range stolen {
			written.Add(1)
			once := sync.OnceFunc(written.Done)
			waiting.Go(func() {
				defer once()
				answers[n] = s.send(r, once)
			})
		}
		written.Wait()
		close(answer)
		waiting.Wait()
		require.True(t, s.delivers(first), "%s: %d %s", name, first.Status, first.Body)
		for n, r := range stolen {
			s.requireClosed(answers[n], name+", before the 200: "+r.name)
		}
		again := s.send(own, nil)
		assert.Equal(t, way.again, s.delivers(again), "%s: %d %s", name, again.Status, again.Body)
		for _, r := range stolen {
			s.requireClosed(s.send(r, nil), name+", after the 200: "+r.name)
		}
		count += 2 * len(stolen)
		if way.at == atGate {
			require.Equal(t, http.StatusOK, s.ask("GET", own.url, s.cookie(first)).Status)
		}
	}
	require.Equal(t, len(ways), s.charges(), "each payer was charged once")
	t.Logf("%d requests with calldata of %d payments", count, len(ways))
}
