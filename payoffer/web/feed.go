package web

import (
	"context"
	"net/http"
	"strconv"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/accounting"
)

// feed is the body of GET /v1/received?after=<cursor>: what changed since then,
// in the order of commits. A reader that keeps Cursor together with what it did
// misses no change and sees none twice, and is told when an older copy of the
// ledger was put back.
type feed struct {
	Offer       string       `json:"offer"`
	Transitions []transition `json:"transitions"`
	Cursor      string       `json:"cursor" jsonschema:"The place after the last change, to ask after next time; the one asked after where there is none."`
	Last        int64        `json:"last" jsonschema:"The seq of the cursor. It alone does not tell that an older copy of the ledger was put back."`
	Next        string       `json:"next" jsonschema:"What to ask for next time, whether or not there is more now."`
}

// transition is one change of a receipt, without anything about the payer and
// without what an operator noted.
type transition struct {
	Seq     int64   `json:"seq" jsonschema:"Grows in the order in which changes are recorded; not every number is used."`
	Cursor  string  `json:"cursor" jsonschema:"The place after the change: its seq and a random tag."`
	ID      string  `json:"id" jsonschema:"Names the change for good, as its announcements do: rail, receipt (percent-encoded), version and the tag of the cursor, if that is not 0."`
	Rail    string  `json:"rail"`
	Receipt string  `json:"receipt" jsonschema:"The receipt's id."`
	Number  int64   `json:"number" jsonschema:"The receipt's number. A payment is the same where rail and number are, also where its id was replaced; only after a 410 numbers are given anew."`
	Version int64   `json:"version" jsonschema:"Counts the changes of the receipt: of its status, its amount, its value, its evidence, and of whose money it is."`
	From    *string `json:"from" jsonschema:"The status before; null for the first change of a receipt."`
	To      string  `json:"to" jsonschema:"The status after. moved: within the account, and nobody paid it."`
	Change  string  `json:"change" jsonschema:"What changed, from what to what, in English; new for the first change of a receipt."`
	// The amounts, and what they were worth, are those after the change; all
	// below is what is known of the receipt now.
	AmountAtomic   string `json:"amountAtomic"`
	RefundedAtomic string `json:"refundedAtomic"`
	dollars
	Asset      string `json:"asset"`
	Via        string `json:"via,omitempty" jsonschema:"How the money was sent, where it is known."`
	Evidence   string `json:"evidence" jsonschema:"What proves the movement now."`
	Own        bool   `json:"own" jsonschema:"Whether the operator paid."`
	Testnet    bool   `json:"testnet"`
	Counted    bool   `json:"counted" jsonschema:"Whether the money is received after the change, less what was refunded of it."`
	OccurredAt string `json:"occurredAt" jsonschema:"When the money moved."`
	Cause      string `json:"cause" jsonschema:"A short word for what the change was noticed by."`
	At         string `json:"at" jsonschema:"When the change was recorded."`
}

// readFeed is the feed, which is for programs alone.
func (s *Server) readFeed(ctx context.Context, at place, _ *http.Request) (*response, error) {
	rows, err := s.Receipts.Feed(ctx, s.Offer.ID, at.after, at.limit)
	if err != nil {
		return nil, err
	}
	last, err := s.reached(ctx, at.after, rows)
	if err != nil {
		return nil, err
	}
	testCounts, err := s.testCounts(ctx)
	if err != nil {
		return nil, err
	}
	out := feed{Offer: s.Offer.ID, Transitions: make([]transition, 0, len(rows)), Cursor: last.String(), Last: last.Seq}
	for _, row := range rows {
		out.Transitions = append(out.Transitions, newTransition(row, testCounts))
	}
	out.Next = s.pageURL("after", out.Cursor, at.limit)
	return s.json(http.StatusOK, cacheNever, out, varyAccept), nil
}

// reached is the place that a reader has come to with the changes after another.
// One that kept a number alone gets its tag, so that it is told from then on.
func (s *Server) reached(ctx context.Context, after ledger.Bookmark, rows []ledger.Transition) (ledger.Bookmark, error) {
	if len(rows) > 0 {
		return rows[len(rows)-1].Bookmark(), nil
	}
	if after.Tag != nil || after.Seq == 0 {
		return after, nil
	}
	at, err := s.Receipts.Feed(ctx, s.Offer.ID, ledger.Bookmark{Seq: after.Seq - 1}, 1)
	if err != nil || len(at) == 0 || at[0].Seq != after.Seq { // another offer's, or recorded since
		return after, err
	}
	return at[0].Bookmark(), nil
}

// testCounts reports whether the money of test networks counts now.
func (s *Server) testCounts(ctx context.Context) (bool, error) {
	if !s.Offer.Test() {
		return false, nil
	}
	totals, err := s.Receipts.Totals(ctx, s.Offer.ID)
	return accounting.TestCounts(totals, true), err
}

func newTransition(t ledger.Transition, testCounts bool) transition {
	return transition{
		Seq: t.Seq, Cursor: t.Bookmark().String(), ID: t.EventID(), Rail: t.Rail, Receipt: t.ExternalID, Number: t.ReceiptID, Version: t.Version,
		From: known(string(t.From)), To: string(t.To), Change: t.Change().Words(),
		AmountAtomic: strconv.FormatInt(t.Amount, 10), RefundedAtomic: strconv.FormatInt(t.Refunded, 10),
		dollars: newDollars(t.USDCents), Asset: t.Asset, Via: t.Via, Evidence: string(t.EvidenceLevel), Own: t.Own, Testnet: t.Testnet,
		Counted: t.Standing().Counts(testCounts), OccurredAt: timestamp(t.OccurredAt), Cause: t.Cause, At: timestamp(t.At),
	}
}
