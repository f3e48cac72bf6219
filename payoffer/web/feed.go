package web

import (
	"context"
	"net/http"
	"strconv"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// feed is the body of GET /v1/received?after=<seq>: what changed since then, in
// the order of commits. A reader that keeps Last together with what it did
// misses no change and sees none twice.
type feed struct {
	Offer       string       `json:"offer"`
	Transitions []transition `json:"transitions"`
	Last        int64        `json:"last" jsonschema:"The seq of the last change; the one asked after where there is none."`
	Next        string       `json:"next" jsonschema:"What to ask for next time, whether or not there is more now."`
}

// transition is one change of a receipt, without anything about the payer and
// without what an operator noted.
type transition struct {
	Seq     int64   `json:"seq" jsonschema:"Grows in the order in which changes are recorded; not every number is used."`
	ID      string  `json:"id" jsonschema:"Names the change for good, as its announcements do: rail, receipt (percent-encoded) and version."`
	Rail    string  `json:"rail"`
	Receipt string  `json:"receipt" jsonschema:"The receipt's id."`
	Version int64   `json:"version" jsonschema:"Counts the changes of the receipt."`
	From    *string `json:"from" jsonschema:"The status before; null for the first change of a receipt."`
	To      string  `json:"to" jsonschema:"The status after."`
	// The amounts, and what they were worth, are those after the change; all
	// below is what is known of the receipt now.
	AmountAtomic     string     `json:"amountAtomic"`
	RefundedAtomic   string     `json:"refundedAtomic"`
	AmountUSD        *offer.USD `json:"amountUsd"`
	AmountUSDDecimal *string    `json:"amountUsdDecimal"`
	Asset            string     `json:"asset"`
	Via              string     `json:"via,omitempty" jsonschema:"How the money was sent, where it is known."`
	Evidence         string     `json:"evidence" jsonschema:"What proves the movement now."`
	Own              bool       `json:"own" jsonschema:"Whether the operator paid."`
	Testnet          bool       `json:"testnet"`
	OccurredAt       string     `json:"occurredAt"`
	Cause            string     `json:"cause" jsonschema:"A short word for what the change was noticed by."`
	At               string     `json:"at"`
}

// readFeed is the feed, which is for programs alone.
func (s *Server) readFeed(ctx context.Context, at place, _ []string) (*response, error) {
	rows, err := s.Receipts.Transitions(ctx, s.Offer.ID, at.after, at.limit)
	if err != nil {
		return nil, err
	}
	out := feed{Offer: s.Offer.ID, Transitions: make([]transition, 0, len(rows)), Last: at.after}
	for _, row := range rows {
		out.Transitions, out.Last = append(out.Transitions, newTransition(row)), row.Seq
	}
	out.Next = s.pageURL("after", out.Last, at.limit)
	return s.json(http.StatusOK, cacheNever, out, varyAccept), nil
}

func newTransition(t ledger.Transition) transition {
	out := transition{
		Seq: t.Seq, ID: t.EventID(), Rail: t.Rail, Receipt: t.ExternalID, Version: t.Version, From: known(string(t.From)), To: string(t.To),
		AmountAtomic: strconv.FormatInt(t.Amount, 10), RefundedAtomic: strconv.FormatInt(t.Refunded, 10),
		Asset: t.Asset, Via: t.Via, Evidence: string(t.EvidenceLevel), Own: t.Own, Testnet: t.Testnet,
		OccurredAt: timestamp(t.OccurredAt), Cause: t.Cause, At: timestamp(t.At),
	}
	out.AmountUSD, out.AmountUSDDecimal = dollars(t.USDCents)
	return out
}
