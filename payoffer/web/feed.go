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
	// Last is the seq to ask after next time, and Next the address of that.
	Last int64  `json:"last"`
	Next string `json:"next"`
}

// transition is one change of a receipt, without anything about the payer and
// without what an operator noted.
type transition struct {
	Seq int64 `json:"seq"`
	// ID names the change for good, as its announcements do.
	ID string `json:"id"`
	// Receipt is the receipt's ID, and Version the one that it reached.
	Rail    string `json:"rail"`
	Receipt string `json:"receipt"`
	Version int64  `json:"version"`
	// From is null for the first change of a receipt.
	From *string `json:"from"`
	To   string  `json:"to"`
	// The amounts, and what they were worth, are those after the change; all
	// below is what is known of the receipt now.
	AmountAtomic     string     `json:"amountAtomic"`
	RefundedAtomic   string     `json:"refundedAtomic"`
	AmountUSD        *offer.USD `json:"amountUsd"`
	AmountUSDDecimal *string    `json:"amountUsdDecimal"`
	Asset            string     `json:"asset"`
	Via              string     `json:"via,omitempty"`
	Evidence         string     `json:"evidence"`
	Own              bool       `json:"own"`
	Testnet          bool       `json:"testnet"`
	OccurredAt       string     `json:"occurredAt"`
	// Cause is what the change was noticed by, and At when it was recorded.
	Cause string `json:"cause"`
	At    string `json:"at"`
}

// readFeed is the feed, which is for programs alone.
func (s *Server) readFeed(ctx context.Context, at place, _ []string) (*answer, error) {
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
