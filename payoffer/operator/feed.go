package operator

import (
	"context"
	"errors"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/report"
)

const (
	// feedTimeout is how long a request of the feed waits for a change.
	feedTimeout = 25 * time.Second
	// feedPoll is how often it reads the ledger meanwhile, because other instances write to it, too.
	feedPoll = time.Second
)

// Feed is the changes after a cursor, in the order of commits.
type Feed struct {
	Offer   string   `json:"offer"`
	Cursor  string   `json:"cursor"` // the position after the last change
	Changes []Change `json:"changes"`
}

// Change is a change of a receipt for its operator.
type Change struct {
	report.Transition
	Reason string `json:"reason,omitempty"` // the operator's
}

func newChange(t ledger.Transition, testCounts bool) Change {
	c := Change{report.NewTransition(t, testCounts), t.Note}
	c.Words = t.Change().Summary() // also why
	return c
}

// Feed lists the changes after a cursor; without a cursor it only returns the newest one. If there is no change, it
// waits for one until feedTimeout or the end of ctx.
func (s *Service) Feed(ctx context.Context, cursor string) (Feed, error) {
	feed := Feed{Offer: s.Offer.ID, Cursor: cursor, Changes: []Change{}}
	if cursor == "" {
		last, err := s.Ledger.Last(ctx, s.Offer.ID)
		if err != nil {
			return Feed{}, unreadable(err)
		}
		feed.Cursor = last.String()
		return feed, nil
	}
	after, ok := ledger.ParseBookmark(cursor)
	if !ok {
		return Feed{}, refuse(Invalid, "%.40q is not a cursor; write that of a change, such as 12.00c0ffee00c0ffee, or leave it out to begin now", cursor)
	}
	ctx, cancel := context.WithTimeout(ctx, feedTimeout)
	defer cancel()
	poll := time.NewTicker(feedPoll)
	defer poll.Stop()
	for {
		rows, err := s.Ledger.Feed(ctx, s.Offer.ID, after, MaxPage)
		switch {
		case errors.Is(err, ledger.ErrBookmark):
			return Feed{}, refuse(Conflict, "this cursor is not valid here: an older backup was restored, "+
				"or the cursor belongs to another offer; begin again without a cursor, and list all receipts")
		case err != nil && ctx.Err() == nil:
			return Feed{}, unreadable(err)
		case len(rows) > 0:
			testCounts, err := report.TestCounts(ctx, s.Ledger, s.Offer)
			if err != nil {
				return Feed{}, unreadable(err)
			}
			for _, t := range rows {
				feed.Changes = append(feed.Changes, newChange(t, testCounts))
			}
			feed.Cursor = rows[len(rows)-1].Bookmark().String()
			return feed, nil
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return feed, nil
		}
	}
}
