package announce

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// journal is a log of lines in JSON.
type journal struct{ bytes.Buffer }

func (j *journal) logger() *slog.Logger { return slog.New(slog.NewJSONHandler(j, nil)) }

// lines are what was written: message, reference, version, status before and after.
func (j *journal) lines(t *testing.T) (all []string) {
	for line := range strings.Lines(j.String()) {
		var l struct {
			Level, Msg, Reference, Before, Status string
			Version                               int64
		}
		require.NoError(t, json.Unmarshal([]byte(line), &l))
		all = append(all, fmt.Sprintf("%s %s: %s %d %s>%s", l.Level, l.Msg, l.Reference, l.Version, l.Before, l.Status))
	}
	return all
}

func TestEveryChangeOfAReceiptIsALineOfTheLog(t *testing.T) {
	d, j := newDesk(t), new(journal)
	d.pay() // before anybody listened
	a := d.configured(Config{Journal: j.logger()})
	d.record(usdcSighting("0xaa", ledger.StatusSeen), usdcSighting("0xbb", ledger.StatusMoved))
	d.record(usdcSighting("0xaa", ledger.StatusConfirmed))
	a.rounds(t.Context())
	back := cardSighting("pi_1", ledger.StatusConfirmed)
	back.Returns = []ledger.Return{{ID: "re_1", Kind: ledger.ReturnRefund, Amount: 1050, Gone: true, At: 10}}
	d.record(back)
	a.rounds(t.Context())
	require.Equal(t, []string{
		"INFO a receipt is new: eip155:84532:0xaa:0 1 >seen",
		"INFO a receipt is new: eip155:84532:0xbb:0 1 >moved",
		"INFO a receipt has changed: eip155:84532:0xaa:0 2 seen>confirmed",
		"INFO a receipt has changed: pi_1 2 confirmed>confirmed",
	}, j.lines(t))
	require.Equal(t, SinkHealth{Host: "log"}, a.Sinks()[0])
}

// The line holds what a payment is looked up by, and not what its payer alone knows.
func TestALineOfTheLogSaysAllButTheAddressOfThePage(t *testing.T) {
	j := new(journal)
	c := Config{Journal: j.logger(), BaseURL: "https://pay.example"}
	require.Equal(t, failure{}, c.write(t.Context(), newEvent(&c, transition(), false)))
	var line map[string]any
	require.NoError(t, json.Unmarshal(j.Bytes(), &line))
	delete(line, "time")
	require.Equal(t, map[string]any{
		"level": "INFO", "msg": "a receipt has changed", "change": "status from seen to confirmed; it was read from the chain", "rail": "usdc", "amount": "42.5 USDC", "usd": "42.50", "refunded": "0 USDC",
		"before": "seen", "status": "confirmed", "evidence": "chain", "counted": true, "own": false, "testnet": false,
		"reference": "eip155:8453:0xab:0", "number": 7.0, "version": 3.0, "cause": "poll", "cursor": "12.00000000000000ff", "id": "usdc:eip155:8453:0xab:0:3:00000000000000ff",
		"page": "caddy pay-offer received --receipts --before 8 --offer pay.example",
	}, line)
	require.NotContains(t, j.String(), "/receipt/")
}

// It is a receiver like any other: what was recorded while nothing ran is written
// after the start, and one of two instances writes it.
func TestTheLogGoesOnWhereItWas(t *testing.T) {
	d, first, second := newDesk(t), new(journal), new(journal)
	a := d.configured(Config{Journal: first.logger()})
	b := d.configured(Config{Journal: second.logger()})
	d.pay()
	a.rounds(t.Context())
	b.rounds(t.Context())
	d.pay()
	b.rounds(t.Context())
	a.rounds(t.Context())
	a.leave(t.Context())
	b.leave(t.Context())
	d.pay() // while nothing runs
	third := new(journal)
	d.configured(Config{Journal: third.logger()})
	require.Equal(t, []string{"INFO a receipt is new: pi_1 1 >confirmed"}, first.lines(t))
	require.Equal(t, []string{"INFO a receipt is new: pi_2 1 >confirmed"}, second.lines(t))
	require.Equal(t, []string{"INFO a receipt is new: pi_3 1 >confirmed"}, third.lines(t))
}

func TestTheLogWaitsForNoReceiverAndForNoHandler(t *testing.T) {
	d, j := newDesk(t), new(journal)
	a := d.configured(Config{
		Journal: j.logger(), Emit: func(string, map[string]any) error { return errOutbox },
		Sinks: []Sink{Webhook{URL: "http://127.0.0.1:1/hook"}},
	})
	for range 3 {
		d.pay()
		a.rounds(t.Context())
		d.clock.pass(time.Second)
	}
	require.Len(t, j.lines(t), 3)
	require.Equal(t, []string{"events", "log", "127.0.0.1:1"}, []string{a.Sinks()[0].Host, a.Sinks()[1].Host, a.Sinks()[2].Host})
}

// What was redacted is told of by its new name alone.
func TestALineOfARedactionHoldsNoNameOfBefore(t *testing.T) {
	d, j := newDesk(t), new(journal)
	entered := cardSighting("Jane Doe", ledger.StatusConfirmed)
	entered.EvidenceLevel, entered.Note = ledger.LevelManual, "of Jane Doe"
	d.record(entered)
	a := d.configured(Config{Journal: j.logger(), Sinks: []Sink{Webhook{URL: payoffertest.NewReceiver(t).URL()}}})
	_, err := d.book.Redact(t.Context(), testOffer, cardAccount, "Jane Doe", "redacted-1", "a name")
	require.NoError(t, err)
	a.rounds(t.Context())
	require.Len(t, j.lines(t), 1)
	require.Contains(t, j.String(), `"change":"another reference; you replaced its reference"`)
	require.NotContains(t, j.String(), "Jane")
}
