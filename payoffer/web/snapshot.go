package web

import (
	"context"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/report"
)

// snapshotAge is how long a snapshot is served. Other instances write to the ledger, too.
const snapshotAge = time.Second

// snapshot is what the ledger contained at one moment.
type snapshot struct {
	taken    time.Time
	changes  uint64 // Receipts.Changes before the ledger was read
	err      error
	summary  report.Summary
	rows     []ledger.Receipt         // the newest page, and one more if there is another page
	rendered cache[string, *response] // by variant
}

// snapshots reads the ledger at most once in snapshotAge, and again after this process has changed it, so that a
// payer who asks after paying sees the payment.
type snapshots struct {
	reads  singleflight.Group
	latest atomic.Pointer[snapshot]
}

// snapshot returns the current snapshot. It waits for the ledger until ctx ends, at most ledgerTimeout.
func (s *Server) snapshot(ctx context.Context) (*snapshot, error) {
	changes := s.Receipts.Changes()
	if latest := s.snapshots.latest.Load(); latest.isCurrent(changes, s.Now()) {
		return latest, latest.err
	}
	ctx, cancel := context.WithTimeout(ctx, ledgerTimeout)
	defer cancel()
	for {
		read := s.snapshots.reads.DoChan("", func() (any, error) {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ledgerTimeout)
			defer cancel()
			next := s.takeSnapshot(ctx)
			s.snapshots.latest.Store(next)
			return next, nil
		})
		select {
		case result := <-read:
			if next := result.Val.(*snapshot); next.changes >= changes { // else it began before the change
				return next, next.err
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (s *snapshot) isCurrent(changes uint64, now time.Time) bool {
	if s == nil || s.changes < changes {
		return false
	}
	age := now.Sub(s.taken)
	return 0 <= age && age < snapshotAge
}

func (s *Server) takeSnapshot(ctx context.Context) *snapshot {
	n := &snapshot{taken: s.Now(), changes: s.Receipts.Changes()}
	var totals []ledger.Total
	if totals, n.rows, n.err = s.Receipts.TotalsAndReceipts(ctx, s.Offer.ID, 0, defaultReceipts+1); n.err == nil {
		n.summary = s.summarize(totals, n.taken)
	}
	return n
}

func (s *Server) summarize(totals []ledger.Total, now time.Time) report.Summary {
	summary := report.Summarize(s.Offer, totals, s.Health(), now)
	summary.ClockOffsetSeconds = int64(s.ClockOffset().Round(time.Second) / time.Second)
	return summary
}

// Summary is the report of GET /v1/received without its receipts.
func (s *Server) Summary(ctx context.Context) (report.Summary, error) {
	n, err := s.snapshot(ctx)
	if err != nil {
		return report.Summary{}, err
	}
	return n.summary, nil
}
