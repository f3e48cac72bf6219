package announce

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"testing"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// shop is a server that announces to a receiver, and its ledger outlives it.
type shop struct {
	*testing.T
	url, admin, caddyfile string
}

func openShop(t *testing.T, receiver *payoffertest.Receiver) *shop {
	t.Helper()
	s := &shop{T: t, url: "http://localhost:" + payoffertest.FreePort(t), admin: "localhost:" + payoffertest.FreePort(t)}
	s.caddyfile = fmt.Sprintf(`{
	admin %s
	persist_config off
	default_bind 127.0.0.1
	storage file_system %[4]s/storage
	pay_offer {
		ledger sqlite %[4]s/ledger.db
	}
}
%[2]s {
	pay_offer {
		base_url %[2]s
		id       pay.example
		card     https://checkout.example/pay
		bank_transfer transfer pay@example.com
		announce %[3]s {
			secret {env.ANNOUNCE_SECRET}
		}
	}
}
`, s.admin, s.url, receiver.URL(), t.TempDir())
	return s
}

func (s *shop) start() *server.Process {
	s.Helper()
	return server.Start(s, s.url, s.caddyfile, "ANNOUNCE_SECRET="+secret)
}

// record runs the operator's command.
func (s *shop) record(arguments ...string) {
	s.Helper()
	arguments = append([]string{"pay-offer", "record", "--address", s.admin, "--rail", "transfer"}, arguments...)
	output, err := exec.Command(server.Released(s), arguments...).CombinedOutput()
	require.NoError(s, err, "%s", output)
}

func TestAReceiverMissesNothingWhileItAndTheServerAreAway(t *testing.T) {
	receiver := payoffertest.NewReceiver(t)
	s := openShop(t, receiver)
	process := s.start()
	s.record("--reference", "INV-1", "--amount", "42")
	receiver.Await(1)
	receiver.Down()
	s.record("--reference", "INV-1", "--reverse", "--reason", "recalled by the bank of Jane Roe")
	s.record("--reference", "INV-2", "--amount", "42.50")
	process.Terminate()
	process.Await(t)

	receiver.Up()
	s.start()
	s.record("--reference", "INV-1", "--restore", "--reason", "the recall was refused")
	// An announcement whose answer Down cut off comes again.
	for count := 4; ; count++ {
		receiver.Await(count)
		if payoffertest.Untagged(t, receiver.Requests()[count-1].Header.Get("webhook-id")) == "transfer:INV-1:3" {
			break
		}
	}

	verifier, err := standardwebhooks.NewWebhook(secret)
	require.NoError(t, err)
	var got []string
	for _, request := range receiver.Requests() {
		require.NoError(t, verifier.Verify(request.Body, request.Header))
		require.NotContains(t, string(request.Body), "Jane")
		var payload struct {
			Type string
			Data struct{ ID, AmountUSDDecimal string }
		}
		require.NoError(t, json.Unmarshal(request.Body, &payload))
		require.Equal(t, request.Header.Get("webhook-id"), payload.Data.ID)
		got = append(got, payload.Type+" "+payoffertest.Untagged(t, payload.Data.ID)+" "+payload.Data.AmountUSDDecimal)
	}
	require.Equal(t, []string{
		"payment_confirmed transfer:INV-1:1 42.00", "payment_reversed transfer:INV-1:2 42.00",
		"payment_confirmed transfer:INV-2:1 42.50", "payment_confirmed transfer:INV-1:3 42.00",
	}, slices.Compact(got))
}
