package web

import (
	"context"
	"net/http"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/accounting"
	"github.com/payoffer/caddy-pay-offer/payoffer/report"
)

// feed is the body of GET /v1/received?after=<cursor>: the changes since then in the order of commits. A reader that
// stores Cursor together with its own effect sees each change exactly once, and gets 410 if an older copy of the
// ledger was restored.
type feed struct {
	Offer       string              `json:"offer"`
	Transitions []report.Transition `json:"transitions"`
	Cursor      string              `json:"cursor" jsonschema:"The position after the last change, for the next request; without changes the one of this request."`
	Last        int64               `json:"last" jsonschema:"The seq of the cursor. It alone does not show that an older copy of the ledger was restored."`
	Next        string              `json:"next" jsonschema:"The URL of the next request, whether or not there is more now."`
}

// readFeed is the feed, which has no page.
func (s *Server) readFeed(ctx context.Context, at position) (*response, error) {
	rows, err := s.Receipts.Feed(ctx, s.Offer.ID, at.after, at.limit)
	if err != nil {
		return nil, err
	}
	last, err := s.lastBookmark(ctx, at.after, rows)
	if err != nil {
		return nil, err
	}
	testCounts := false
	if s.Offer.Test() {
		totals, err := s.Receipts.Totals(ctx, s.Offer.ID)
		if err != nil {
			return nil, err
		}
		testCounts = accounting.TestCounts(totals, true)
	}
	out := feed{Offer: s.Offer.ID, Transitions: make([]report.Transition, 0, len(rows)), Cursor: last.String(), Last: last.Seq}
	for _, row := range rows {
		out.Transitions = append(out.Transitions, report.NewTransition(row, testCounts))
	}
	out.Next = s.pageURL("after", out.Cursor, at.limit)
	return s.json(http.StatusOK, cacheNever, out, varyAccept), nil
}

// lastBookmark is the reader's position after rows. A reader that sent only a number gets its tag, by which it later
// learns that an older copy of the ledger was restored.
func (s *Server) lastBookmark(ctx context.Context, after ledger.Bookmark, rows []ledger.Transition) (ledger.Bookmark, error) {
	if len(rows) > 0 {
		return rows[len(rows)-1].Bookmark(), nil
	}
	if after.Tag != nil || after.Seq == 0 {
		return after, nil
	}
	at, err := s.Receipts.Feed(ctx, s.Offer.ID, ledger.Bookmark{Seq: after.Seq - 1}, 1)
	if err != nil || len(at) == 0 || at[0].Seq != after.Seq { // the number is another offer's, or was recorded since
		return after, err
	}
	return at[0].Bookmark(), nil
}
