package web

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/document"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/report"
)

// Receipts reads the payments of an offer; *ledger.Ledger is one, and documents each method.
type Receipts interface {
	singleReceipts
	// Changes grows whenever this process may have changed what the other methods return.
	Changes() uint64
	SessionReceipt(ctx context.Context, offerID, session string) (ledger.Receipt, bool, error)
	Totals(ctx context.Context, offerID string) ([]ledger.Total, error)
	TotalsAndReceipts(ctx context.Context, offerID string, before int64, limit int) ([]ledger.Total, []ledger.Receipt, error)
	Feed(ctx context.Context, offerID string, after ledger.Bookmark, limit int) ([]ledger.Transition, error)
}

const (
	// ledgerTimeout bounds how long a response waits for the database.
	ledgerTimeout = 5 * time.Second
	// ledgerRetry is the Retry-After while the ledger cannot be read.
	ledgerRetry = 5 * time.Second
	// defaultReceipts and maxReceipts are how many receipts a page lists.
	defaultReceipts, maxReceipts = 20, 100
)

// receivedReport is the body of GET /v1/received.
type receivedReport struct {
	report.Summary
	Receipts []report.Receipt `json:"receipts" jsonschema:"The newest first, in the order in which they were recorded."`
	Next     *string          `json:"next" jsonschema:"The page with older receipts; null on the last."`
}

// received is GET /v1/received: the report, its page, or the feed.
func (s *Server) received(r *http.Request) *response {
	at, ok := parsePosition(r.URL.RawQuery)
	if !ok {
		return s.refuse(problemPage, "detail", nil)
	}
	if at == newest {
		found, err := s.newestReport(r)
		return s.orUnavailable(s.responder, err, r, found)
	}
	ctx, cancel := context.WithTimeout(r.Context(), ledgerTimeout)
	defer cancel()
	select {
	case s.olderReads <- struct{}{}:
		defer func() { <-s.olderReads }()
	case <-ctx.Done():
		return s.refuse(problemLedger, "detail", nil, retryAfter(ledgerRetry))
	}
	if !at.feed {
		found, err := s.olderReport(ctx, at, r)
		return s.orUnavailable(s.responder, err, r, found)
	}
	found, err := s.readFeed(ctx, at)
	if errors.Is(err, ledger.ErrBookmark) {
		return s.programs.refuse(problemCursor, "detail", nil)
	}
	return s.orUnavailable(s.programs, err, r, found)
}

// orUnavailable is the response, or the problem that the ledger cannot be read.
func (s *Server) orUnavailable(re responder, err error, r *http.Request, found *response, headers ...header) *response {
	if err != nil {
		if r.Context().Err() == nil && !s.unreadable.Swap(true) { // else the client only disconnected
			s.Logger.Warn("receipts cannot be read", "error", err, "hint", "check the disk or the database of the ledger")
		}
		return re.refuse(problemLedger, "detail", nil, append(headers, retryAfter(ledgerRetry))...)
	}
	s.unreadable.Store(false)
	return found
}

// position is the part of the receipts that a request asks for.
type position struct {
	// feed requests the changes after a position in the history, or the receipts with a number below before; 0 is the
	// newest.
	feed   bool
	after  ledger.Bookmark
	before int64
	limit  int
}

// newest is the position of a request without parameters.
var newest = position{limit: defaultReceipts}

// parsePosition reads the query parameters before or after, and limit.
func parsePosition(rawQuery string) (at position, ok bool) {
	if rawQuery == "" {
		return newest, true
	}
	query, err := url.ParseQuery(rawQuery)
	if err != nil {
		return position{}, false
	}
	at = position{feed: query.Has("after"), limit: defaultReceipts}
	if at.feed {
		at.limit = maxReceipts
	}
	for name, values := range query {
		if name != "before" && name != "after" && name != "limit" {
			continue
		}
		if len(values) > 1 {
			return position{}, false
		}
		if name == "after" {
			if at.after, ok = ledger.ParseBookmark(values[0]); !ok {
				return position{}, false
			}
			continue
		}
		n, err := strconv.ParseInt(values[0], 10, 64)
		switch {
		case err != nil:
			return position{}, false
		case name == "before" && n >= 1 && !at.feed:
			at.before = n
		case name == "limit" && n >= 1 && n <= maxReceipts:
			at.limit = int(n)
		default:
			return position{}, false
		}
	}
	return at, true
}

// newestReport is the report with the newest receipts, rendered once for each snapshot and variant.
func (s *Server) newestReport(r *http.Request) (*response, error) {
	n, err := s.snapshot(r.Context())
	if err != nil {
		return nil, err
	}
	if !prefersPage(r) {
		return n.rendered.get("json", func() *response { return s.reportJSON(s.report(n.summary, n.rows, newest)) }), nil
	}
	f := s.frame(r, offer.PathReceived)
	return n.rendered.get(pageVariant(f), func() *response {
		return s.compressiblePage(cacheNever, s.receivedPage(f, s.report(n.summary, n.rows, newest), newest))
	}), nil
}

// olderReport is the report with other receipts.
func (s *Server) olderReport(ctx context.Context, at position, r *http.Request) (*response, error) {
	totals, rows, err := s.Receipts.TotalsAndReceipts(ctx, s.Offer.ID, at.before, at.limit+1) // one more shows whether there is a next page
	if err != nil {
		return nil, err
	}
	body := s.report(s.summarize(totals, s.Now()), rows, at)
	if prefersPage(r) {
		return s.page(http.StatusOK, cacheNever, s.receivedPage(s.frame(r, offer.PathReceived, "before", "limit"), body, at)), nil
	}
	return s.reportJSON(body), nil
}

func (s *Server) reportJSON(body receivedReport) *response {
	return s.render(http.StatusOK, typeJSON, cacheNever, append(document.Line(body), '\n'), varyAccept)
}

// prefersPage reports whether the client prefers HTML.
func prefersPage(r *http.Request) bool {
	return prefer(r.Header["Accept"], [][]string{asksJSON, asksHTML}) == 1
}

// report is the body of the report. rows may contain one receipt more than it lists.
func (s *Server) report(summary report.Summary, rows []ledger.Receipt, at position) receivedReport {
	body := receivedReport{Summary: summary, Receipts: []report.Receipt{}}
	if len(rows) > at.limit {
		rows = rows[:at.limit]
		body.Next = new(s.pageURL("before", strconv.FormatInt(rows[at.limit-1].ID, 10), at.limit))
	}
	for _, row := range rows {
		body.Receipts = append(body.Receipts, report.NewReceipt(row, summary.TestnetMoneyCounts))
	}
	return body
}

// pageURL is the URL of the receipts before a number, or of the changes after a cursor.
func (s *Server) pageURL(name, from string, limit int) string {
	query := url.Values{name: {from}, "limit": {strconv.Itoa(limit)}}
	return s.Offer.URL(offer.PathReceived) + "?" + query.Encode()
}
