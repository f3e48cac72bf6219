package web

import (
	"context"
	"net/http"

	"github.com/payoffer/caddy-pay-offer/payoffer/report"
)

// feed is the body of GET /v1/received?after=<cursor>: the changes since then in the order of commits. A reader that
// stores Cursor together with its own effect sees each change exactly once, and gets 410 if an older copy of the
// ledger was restored.
type feed struct {
	Offer       string              `json:"offer"`
	Transitions []report.Transition `json:"transitions"`
	Cursor      string              `json:"cursor" jsonschema:"The position after the last change, for the next request; without changes the one of this request."`
	Next        string              `json:"next" jsonschema:"The URL of the next request, whether or not there is more now."`
}

// readFeed is the feed, which has no page.
func (s *Server) readFeed(ctx context.Context, at position) (*response, error) {
	rows, err := s.Receipts.Feed(ctx, s.Offer.ID, at.after, at.limit)
	if err != nil {
		return nil, err
	}
	testCounts, err := report.TestCounts(ctx, s.Receipts, s.Offer)
	if err != nil {
		return nil, err
	}
	out := feed{Offer: s.Offer.ID, Transitions: make([]report.Transition, 0, len(rows)), Cursor: at.after.String()}
	for _, row := range rows {
		out.Transitions, out.Cursor = append(out.Transitions, report.NewTransition(row, testCounts)), row.Bookmark().String()
	}
	out.Next = s.pageURL("after", out.Cursor, at.limit)
	return s.json(http.StatusOK, cacheNever, out, varyAccept), nil
}
