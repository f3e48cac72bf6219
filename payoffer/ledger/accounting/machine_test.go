package accounting

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var now = time.Unix(1_000, 0)

// stored has a payment in each stage in which the ledger may have one. The owner of its lease is "me".
var stored = map[Stage]Progress{
	StageSending:   {State: IntentSettling, Facilitator: "one", Owner: "me", LeaseUntil: 1_060, CreatedAt: 990},
	StageResending: {State: IntentSettling, Facilitator: "one", Owner: "me", LeaseUntil: 1_060, PollAt: 980, Reason: "timeout", CreatedAt: 900},
	StageOpen:      {State: IntentSettling, Facilitator: "one", Owner: "me", LeaseUntil: 1_000, PollAt: 980, Transaction: "0x1", Reason: "timeout", CreatedAt: 900},
	StageSuspended: {State: IntentSettling, Owner: "me", LeaseUntil: 1_060, Reason: "chain_unreadable", CreatedAt: 900},
	StageClaimed:   {State: IntentSettled, Evidence: EvidenceFacilitator, Facilitator: "one", Transaction: "0x1", Answer: []byte("{}"), CreatedAt: 900},
	StageProven:    {State: IntentSettled, Evidence: EvidenceChain, Facilitator: "one", Transaction: "0x1", Answer: []byte("{}"), CreatedAt: 900},
	StageRefused:   {State: IntentRefused, Reason: ReasonOperator, Facilitator: "one", Transaction: "0x1", CreatedAt: 900},
}

var events = []Event{
	EventLeased, EventReassigned, EventNotSent, EventUnknown, EventClaimed, EventProven, EventAnswered, EventGone,
	EventDisproved, EventDead, EventOperatorPaid, EventOperatorUnpaid,
}

// news is a change with all that its event can bring.
func news(e Event) IntentChange {
	c := IntentChange{Event: e, Owner: "me", Transaction: "0x2", Reason: "new", Answer: []byte(`{"new":1}`)}
	switch e {
	case EventLeased:
		c.Lease = 1_110
	case EventReassigned:
		c = IntentChange{Event: e, Owner: "me", Facilitator: "two"}
	}
	return c
}

// Each row is a stage, each column an event, in the order of events: the stage after it, "." for the same stage, and "-"
// for an error that changes nothing.
func TestIntentTable(t *testing.T) {
	// leased, reassigned, not sent, unknown, claimed, proven, answered, gone, disproved, dead, operator paid, operator not paid
	want := map[Stage][]Stage{
		StageSending:   {"-", ".", "withdrawn", "open", "claimed", "proven", "-", "-", "-", "refused", "-", "-"},
		StageResending: {"-", "-", "open", "open", "claimed", "proven", "-", "-", "-", "refused", "-", "-"},
		StageOpen:      {"resending", "-", ".", ".", "claimed", "proven", "-", "-", "-", "refused", "claimed", "refused"},
		StageSuspended: {".", "-", "withdrawn", ".", "-", "proven", "-", "-", "-", "refused", "claimed", "refused"},
		StageClaimed:   {"-", "-", "-", "-", ".", "proven", ".", "open", "open", "-", "-", "refused"},
		StageProven:    {"-", "-", "-", "-", ".", ".", ".", "open", ".", "-", "-", "-"},
		StageRefused:   {"-", "-", "-", "-", "-", "proven", "-", "-", "-", ".", "claimed", "."},
	}
	answers := map[Stage]Answer{
		StageSending: AnswerOpen, StageResending: AnswerOpen, StageOpen: AnswerOpen, StageSuspended: AnswerOpen, StageClaimed: AnswerSettled,
		StageProven: AnswerSettled, StageRefused: AnswerRefused, StageWithdrawn: AnswerUnavailable,
	}
	require.Len(t, want, len(stored))
	for from, row := range want {
		require.Len(t, row, len(events), from)
		before := stored[from]
		require.Equal(t, from, before.Stage(now))
		for n, to := range row {
			t.Run(fmt.Sprintf("%s, %s", from, events[n]), func(t *testing.T) {
				after, err := before.Next(news(events[n]), now)
				switch to {
				case "-":
					require.ErrorIs(t, err, ErrIntentState)
					require.Equal(t, before, after)
					return
				case ".":
					to = from
				}
				require.NoError(t, err)
				require.Equal(t, to, after.Stage(now))
				require.Equal(t, to, Steps[from][events[n]])
				require.Equal(t, answers[to], after.Stage(now).Answer())
				requireWhole(t, before, after, events[n])
			})
		}
	}
}

// requireWhole requires what is true of every stage, whatever led to it.
func requireWhole(t *testing.T, before, after Progress, e Event) {
	t.Helper()
	stage := after.Stage(now)
	if before.Transaction != "" {
		require.NotEmpty(t, after.Transaction, "a hash is never forgotten")
	}
	if before.Answer != nil && after.State == IntentSettled {
		require.Equal(t, before.Answer, after.Answer, "the payer may have it")
	}
	switch stage {
	case StageClaimed, StageProven:
		require.Empty(t, after.Reason)
		require.NotNil(t, after.Answer)
	case StageRefused:
		require.NotEmpty(t, after.Reason)
		require.Nil(t, after.Answer, "no repeat is answered with it")
	case StageOpen:
		require.LessOrEqual(t, after.LeaseUntil, now.Unix())
		require.Empty(t, after.Evidence)
		if before.State == IntentSettled {
			require.True(t, after.Reopened)
			require.Nil(t, after.Answer)
			require.Zero(t, after.PollAt, "it is due at once")
		} else {
			require.Greater(t, after.PollAt, now.Unix(), "e %s", e)
		}
	case StageResending:
		require.EqualValues(t, 1_110, after.LeaseUntil)
	}
}

// Each event of a payment that the ledger does not have: the stage and the answer.
func TestEntryTable(t *testing.T) {
	want := map[Event]Cell{
		EventDeclined: {StageNone, AnswerRefused}, EventElsewhere: {StageNone, AnswerRefused},
		EventSaidUsed: {StageSuspended, AnswerOpen}, EventUnobserved: {StageSuspended, AnswerOpen}, EventUnreadable: {StageSuspended, AnswerOpen},
		EventPaid: {StageProven, AnswerSettled}, EventEarlier: {StageNone, AnswerSettled}, EventUnproven: {StageNone, AnswerOpen},
		EventBefore: {StageNone, AnswerConflict}, EventNoChain: {StageNone, AnswerConflict}, EventPayerOpen: {StageNone, AnswerConflict},
		EventIDInUse: {StageNone, AnswerConflict}, EventForged: {StageRefused, AnswerConflict},
		EventClocksDisagree: {StageNone, AnswerUnavailable}, EventVerified: {StageSending, AnswerOpen},
	}
	require.Equal(t, want, Entries)
	for e, cell := range Entries {
		if cell.To != StageNone && cell.To != StageRefused {
			require.Equal(t, cell.To.Answer(), cell.Answer, e)
		}
	}
}

// What the cells do beside the stage.
func TestIntentChangeEffects(t *testing.T) {
	next := func(from Stage, c IntentChange) Progress {
		t.Helper()
		after, err := stored[from].Next(c, now)
		require.NoError(t, err)
		return after
	}
	require.Equal(t, "two", next(StageSending, news(EventReassigned)).Facilitator)
	require.Equal(t, "0x2", next(StageOpen, news(EventProven)).Transaction, "it is mined under another hash")
	require.Equal(t, "0x2", next(StageProven, news(EventProven)).Transaction, "it has moved")
	require.Equal(t, "0x1", next(StageOpen, IntentChange{Event: EventClaimed}).Transaction, "an empty hash changes nothing")
	require.Equal(t, "0x1", next(StageProven, news(EventClaimed)).Transaction, "a claim changes no proof")
	require.Equal(t, "0x1", next(StageClaimed, news(EventClaimed)).Transaction, "nor an earlier claim")
	require.Equal(t, ReasonOperator, next(StageRefused, news(EventDead)).Reason, "the first reason stays")
	open := next(StageOpen, IntentChange{Event: EventUnknown, Owner: "other"})
	require.Equal(t, []string{"0x1", "timeout", "other"}, []string{open.Transaction, open.Reason, open.Owner}, "an empty value changes nothing")
	require.EqualValues(t, 1_012, open.PollAt, "after an eighth of its age")
	old := stored[StageOpen]
	old.CreatedAt = -100_000
	old, err := old.Next(news(EventUnknown), now)
	require.NoError(t, err)
	require.EqualValues(t, 1_120, old.PollAt, "at most two minutes")
}

func TestIntentLeaseOfAnother(t *testing.T) {
	for _, from := range []Stage{StageSending, StageResending, StageSuspended} {
		for _, e := range []Event{EventLeased, EventReassigned, EventNotSent, EventUnknown} {
			c := news(e)
			c.Owner = "other"
			after, err := stored[from].Next(c, now)
			require.ErrorIs(t, err, ErrLeaseHeld, "%s, %s", from, e)
			require.Equal(t, stored[from], after)
		}
	}
	after, err := stored[StageResending].Next(IntentChange{Event: EventProven, Transaction: "0x2"}, now)
	require.NoError(t, err, "an observer has no lease")
	require.Equal(t, StageProven, after.Stage(now))
}

// What was certainly sent is never forgotten: not after a success that a reorganization undid, with or without a facilitator.
func TestReopenedIntentIsNeverWithdrawn(t *testing.T) {
	for _, facilitator := range []string{"one", ""} {
		p := stored[StageProven]
		p.Facilitator = facilitator
		p, err := p.Next(IntentChange{Event: EventGone, Reason: "reorg"}, now)
		require.NoError(t, err)
		require.Equal(t, StageOpen, p.Stage(now))
		leased, err := p.Next(news(EventLeased), now)
		require.NoError(t, err)
		require.Equal(t, StageResending, leased.Stage(now))
		for _, p := range []Progress{p, leased} {
			p, err = p.Next(news(EventNotSent), now)
			require.NoError(t, err)
			require.Equal(t, StageOpen, p.Stage(now))
		}
	}
}

// A crash ends an attempt without a word: when its lease is over, the payment may have been sent.
func TestIntentLeaseEnds(t *testing.T) {
	for later, want := range map[time.Duration]Stage{
		59 * time.Second: StageSending, time.Minute: StageOpen,
		// A lease that is too long was given by a wrong clock.
		-LongestLease + time.Minute: StageSending, -LongestLease + time.Minute - time.Second: StageOpen,
	} {
		require.Equal(t, want, stored[StageSending].Stage(now.Add(later)), later)
	}
	p, err := stored[StageSending].Next(news(EventNotSent), now.Add(time.Minute))
	require.NoError(t, err)
	require.Equal(t, StageOpen, p.Stage(now.Add(time.Minute)), "another attempt may have sent it since")

	// Whoever takes it over sends it again.
	again := news(EventLeased)
	again.Lease = 1_200
	p, err = stored[StageSending].Next(again, now.Add(time.Minute))
	require.NoError(t, err)
	require.Equal(t, StageResending, p.Stage(now.Add(time.Minute)))
}

// Only a refusal by the operator can be taken back by the operator.
func TestOperatorPaidNeedsOperatorRefusal(t *testing.T) {
	p := stored[StageRefused]
	p.Reason = "expired"
	_, err := p.Next(news(EventOperatorPaid), now)
	require.ErrorIs(t, err, ErrIntentState)
}

func TestIntentRejections(t *testing.T) {
	open, charged := stored[StageOpen], stored[StageClaimed]
	open.Reject(1_300)
	open.Reject(1_200)
	require.EqualValues(t, 1_300, open.RejectedUntil, "the latest end")
	require.True(t, open.Unacknowledged)
	charged.Reject(1_300)
	require.False(t, charged.Unacknowledged, "the payer gets its outcome")
	charged.AcknowledgedAt = 990
	charged.Unacknowledge()
	require.True(t, charged.Unacknowledged)
	require.Zero(t, charged.AcknowledgedAt)
}
