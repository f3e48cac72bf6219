package observe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

const (
	testOffer   = "shop"
	testAccount = "bank/1"
)

func openLedger(t *testing.T) *ledger.Ledger {
	t.Helper()
	book := ledger.NewSQLite(payoffertest.LedgerFile(t), time.Now)
	require.NoError(t, book.Open(t.Context()))
	t.Cleanup(func() { require.NoError(t, book.Close()) })
	require.NoError(t, book.Register(t.Context(), ledger.Account{Offer: testOffer, ID: testAccount, Rail: "card"}))
	return book
}

func observation(id string, amount int64) ledger.Observation {
	return ledger.Observation{
		Offer: testOffer, Account: testAccount, Rail: "card", ExternalID: id, Asset: "USD", Amount: amount, USDCents: &amount,
		State: ledger.StatusConfirmed, EvidenceLevel: ledger.LevelProvider, OccurredAt: 1_795_250_000, Cause: "provider",
	}
}

func TestRecordSkipsRefusedObservation(t *testing.T) {
	book := openLedger(t)
	cursor := ledger.Cursor{Offer: testOffer, Account: testAccount, Position: "7", OKAt: 1_795_250_000}
	refused, err := Record(t.Context(), book, &cursor, observation("one", 4200), observation("two", -1), observation("three", 4200))
	require.NoError(t, err)
	require.Len(t, refused, 1)
	require.Equal(t, "two", refused[0].ExternalID)
	rows, err := book.Receipts(t.Context(), testOffer, 0, 10)
	require.NoError(t, err)
	require.Len(t, rows, 2)
	stored, found, err := Cursor(t.Context(), book, testOffer, testAccount)
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, "7", stored.Position, "the cursor covers what was refused too: it will not be read again")

	refused, err = Record(t.Context(), book, nil, observation("four", -1))
	require.NoError(t, err)
	require.Len(t, refused, 1)
	refused, err = Record(t.Context(), book, nil)
	require.NoError(t, err)
	require.Empty(t, refused)
}

func TestOriginKeepsFirst(t *testing.T) {
	book := openLedger(t)
	for _, step := range []struct{ first, want int64 }{{7, 7}, {9, 7}} {
		origin, err := Origin(t.Context(), book, testOffer, testAccount, step.first)
		require.NoError(t, err)
		require.Equal(t, step.want, origin)
	}
}

// broken is a ledger that fails, after some observations of their own, with its address.
type broken struct {
	Ledger
	origin string
	left   int
}

var errDisk = errors.New("postgres://user:secret@db.example is full")

func (b *broken) Record(_ context.Context, _ *ledger.Cursor, s ...ledger.Observation) ([]ledger.Receipt, error) {
	if b.left--; b.left < 0 {
		return nil, errDisk
	}
	return nil, ledger.ErrObservation
}

func (*broken) Cursor(context.Context, string, string) (ledger.Cursor, bool, error) {
	return ledger.Cursor{}, true, errDisk
}

func (*broken) Account(context.Context, string, string) (ledger.Account, error) {
	return ledger.Account{}, errDisk
}

func (*broken) LowerOrigin(context.Context, string, string, string) (bool, error) {
	return false, errDisk
}

func (b *broken) SetOrigin(context.Context, string, string, string) (string, error) {
	if b.origin == "" {
		return "", errDisk
	}
	return b.origin, nil
}

func TestLedgerFailureIsErrNoLedger(t *testing.T) {
	for left := range 3 {
		refused, err := Record(t.Context(), &broken{left: left}, &ledger.Cursor{}, observation("one", 1), observation("two", 1))
		require.Equal(t, ErrNoLedger, err)
		require.Len(t, refused, max(0, left-1))
	}
	_, found, err := Cursor(t.Context(), new(broken), testOffer, testAccount)
	require.Equal(t, ErrNoLedger, err)
	require.False(t, found)
	for _, origin := range []string{"", "yesterday", "-5"} {
		_, err = Origin(t.Context(), &broken{origin: origin}, testOffer, testAccount, 7)
		require.Equal(t, ErrNoLedger, err)
	}
	require.EqualError(t, err, "ledger_unavailable (ledger)")
}

func TestRestatedChangesOnlyState(t *testing.T) {
	book := openLedger(t)
	before := observation("one", 4200)
	before.Evidence, before.Payer, before.Own, before.Transaction = offer.JSON(map[string]int{"block": 7}), "0xpayer", true, "0x1"
	_, err := Record(t.Context(), book, nil, before)
	require.NoError(t, err)
	row, found, err := book.Receipt(t.Context(), testOffer, testAccount, "one")
	require.NoError(t, err)
	require.True(t, found)
	before.State, before.Cause, before.EvidenceLevel = ledger.StatusSeen, "reorg", ledger.LevelChain
	require.Equal(t, before, *Restated(row, ledger.StatusSeen, "reorg"))
}

// What the operator states of a value is not the chain's word, in no state.
func TestRestatedDropsStatedValue(t *testing.T) {
	cents := int64(4200)
	row := ledger.Receipt{USDCents: &cents, ValueBasis: ledger.BasisQuote}
	require.Equal(t, &cents, Restated(row, ledger.StatusSeen, "reorg").USDCents)
	require.Equal(t, ledger.BasisQuote, Restated(row, ledger.StatusSeen, "reorg").ValueBasis)
	row.ValueBasis = ledger.BasisStated
	require.Nil(t, Restated(row, ledger.StatusSeen, "reorg").USDCents)
	require.Empty(t, Restated(row, ledger.StatusSeen, "reorg").ValueBasis)
}

func TestDeliveryProblemIsReportedOnce(t *testing.T) {
	for name, test := range map[string]struct {
		noted   []Verdict
		trouble string
		lines   int
	}{
		"nothing":                               {nil, "", 0},
		"good ones":                             {[]Verdict{Recorded, Ignored}, "", 0},
		"nine with another secret":              {[]Verdict{Unverified, Unverified, Unverified, Unverified, Unverified, Unverified, Unverified, Unverified, Unverified}, ErrUnverified, 1},
		"one that cannot be read":               {[]Verdict{Malformed, Malformed}, ErrMalformed, 1},
		"a full disk":                           {[]Verdict{Unavailable, Unavailable, Unavailable}, ErrLedger, 1},
		"recorded after another secret":         {[]Verdict{Unverified, Recorded}, "", 2},
		"ignored after another secret":          {[]Verdict{Unverified, Ignored}, "", 2},
		"ignored after a full disk":             {[]Verdict{Unavailable, Ignored}, ErrLedger, 1},
		"recorded after a full disk":            {[]Verdict{Unavailable, Recorded}, "", 2},
		"what is worse is told":                 {[]Verdict{Unverified, Malformed, Unavailable}, ErrLedger, 3},
		"what anybody may send does not hide":   {[]Verdict{Malformed, Unverified}, ErrMalformed, 1},
		"nor does it hide that nothing is kept": {[]Verdict{Unavailable, Malformed, Unverified}, ErrLedger, 1},
		"another one after the end":             {[]Verdict{Unverified, Recorded, Unverified}, ErrUnverified, 3},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			d := Deliveries{Option: "webhook_secret", Logger: slog.New(slog.NewTextHandler(&log, nil))}
			for _, v := range test.noted {
				d.Update(v, "why")
			}
			require.Equal(t, test.trouble, d.Trouble())
			require.Equal(t, test.lines, strings.Count(log.String(), "\n"), log.String())
			if test.trouble != "" {
				require.Contains(t, log.String(), "option=webhook_secret")
			}
			d.ClearLedgerError()
			require.Equal(t, test.trouble == ErrLedger, d.Trouble() != test.trouble)
		})
	}
}

func TestBeginAtFirstStartOrEarlier(t *testing.T) {
	const first, day = 1_795_250_000, 86_400
	for name, test := range map[string]struct {
		since, stored, now, from int64 // 0 of stored is none
		ahead                    time.Duration
		want                     Beginning
	}{
		"the first start":       {since: first, now: first + 5*day, want: Beginning{Origin: first, First: first}},
		"a clock that is ahead": {since: first, now: first + 1, ahead: time.Hour, want: Beginning{Origin: first - 3600, First: first - 3600}},
		// An endpoint that lies must not move the origin into the future: a payment in between would not count.
		"a clock that seems behind":             {since: first, now: first + 1, ahead: -time.Hour, want: Beginning{Origin: first, First: first}},
		"a clock that was never set":            {since: 60, now: 61, ahead: time.Hour, want: Beginning{}},
		"a clock that was set back":             {since: first + day, now: first, want: Beginning{Origin: first, First: first}},
		"a clock found ahead soon after":        {since: first, stored: first, now: first + 60, ahead: time.Hour, want: Beginning{first - 3600, first - 3600, first}},
		"a clock found ahead long after":        {since: first, stored: first, now: first + day, ahead: time.Hour, want: Beginning{Origin: first, First: first - 3600}},
		"a date before it":                      {since: first, now: first + 60, from: first - day, want: Beginning{first - day, first, first}},
		"a date later":                          {since: first, stored: first, now: first + day, from: first - day, want: Beginning{first - day, first, first}},
		"a date after the start":                {since: first, now: first + day, from: first + 60, want: Beginning{Origin: first, First: first}},
		"what is stored is earlier than a date": {since: first, stored: first - 2*day, now: first + day, from: first - day, want: Beginning{Origin: first - 2*day, First: first}},
	} {
		t.Run(name, func(t *testing.T) {
			book := openLedger(t)
			const account = "card/begin"
			require.NoError(t, book.Register(t.Context(), ledger.Account{Offer: testOffer, ID: account, Rail: "card", Since: test.since}))
			if test.stored != 0 {
				_, err := book.SetOrigin(t.Context(), testOffer, account, strconv.FormatInt(test.stored, 10))
				require.NoError(t, err)
			}
			begin := func() Beginning {
				b, err := Begin(t.Context(), book, testOffer, account, test.from, func() time.Duration { return test.ahead }, time.Unix(test.now, 0))
				require.NoError(t, err)
				return b
			}
			require.Equal(t, test.want, begin())
			kept, err := book.Account(t.Context(), testOffer, account)
			require.NoError(t, err)
			require.Equal(t, fmt.Sprint(test.want.Origin), kept.Origin)
			again := begin()
			require.Equal(t, test.want.Origin, again.Origin)
			require.Zero(t, again.Before, "lowered once")
		})
	}
	_, err := Begin(t.Context(), new(broken), testOffer, testAccount, 0, nil, time.Now())
	require.Equal(t, ErrNoLedger, err)
}

func TestWitnessIsLive(t *testing.T) {
	dead := &Error{Code: ErrUnreachable, Host: "two.example"}
	type outcome struct {
		minute int
		err    error
	}
	for name, c := range map[string]struct {
		outcomes []outcome
		answered bool // in part, before
		minute   int
		want     bool
	}{
		"not asked yet":                     {want: true},
		"has never answered":                {outcomes: []outcome{{0, dead}}},
		"has answered":                      {outcomes: []outcome{{0, nil}}, minute: 60, want: true},
		"silent for nine minutes":           {outcomes: []outcome{{0, nil}, {1, dead}, {9, dead}}, minute: 10, want: true},
		"silent for ten minutes":            {outcomes: []outcome{{0, nil}, {1, dead}, {9, dead}}, minute: 11},
		"was not asked for ten minutes":     {outcomes: []outcome{{0, nil}, {11, dead}}, minute: 12, want: true},
		"back after an hour":                {outcomes: []outcome{{0, nil}, {1, dead}, {60, nil}, {61, dead}}, minute: 62, want: true},
		"answers late for the first time":   {outcomes: []outcome{{0, dead}, {60, nil}}, minute: 60, want: true},
		"answers in part from the start":    {outcomes: []outcome{{0, dead}}, answered: true, minute: 9, want: true},
		"answers only in part":              {outcomes: []outcome{{0, dead}}, answered: true, minute: 10},
		"lags":                              {outcomes: []outcome{{0, &Error{Code: ErrLagging}}}, minute: 60, want: true},
		"shows another history":             {outcomes: []outcome{{0, &Error{Code: ErrHistory}}}, minute: 60, want: true},
		"answers for another chain":         {outcomes: []outcome{{0, &Error{Code: ErrWrongChain}}}},
		"refuses the key from the start":    {outcomes: []outcome{{0, &Error{Code: ErrUnauthorized}}}},
		"answers after it was not usable":   {outcomes: []outcome{{0, &Error{Code: ErrWrongChain}}, {1, nil}}, minute: 1, want: true},
		"asks for fewer calls, for a while": {outcomes: []outcome{{0, nil}, {1, &Error{Code: ErrLimited}}}, minute: 2, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			var w Witness
			start := time.Unix(1_800_000_000, 0)
			if c.answered {
				w.MarkResponded()
			}
			for _, o := range c.outcomes {
				w.Update(o.err, start.Add(time.Duration(o.minute)*time.Minute))
			}
			require.Equal(t, c.want, w.IsLive(start.Add(time.Duration(c.minute)*time.Minute)))
		})
	}
}
