package web

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/clock"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/book"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/manual"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// Receipts reads what was paid; *ledger.Ledger is one.
type Receipts interface {
	singleReceipts
	// Changes grows whenever this process may have changed what the others return.
	Changes() uint64
	// Last is the place after the newest change of a receipt.
	Last(ctx context.Context, offerID string) (ledger.Bookmark, error)
	// SessionReceipt is the payment that was made in a checkout of the card
	// processor; false where none is known.
	SessionReceipt(ctx context.Context, offerID, session string) (ledger.Receipt, bool, error)
	// Totals are the sums of an offer.
	Totals(ctx context.Context, offerID string) ([]ledger.Total, error)
	// Receipts are up to limit receipts with an ID below before, newest
	// first; 0 begins with the newest.
	Receipts(ctx context.Context, offerID string, before int64, limit int) ([]ledger.Receipt, error)
	// Feed is up to limit changes of receipts after a place in the history, in
	// the order of commits; ledger.ErrBookmark where there is no such place.
	Feed(ctx context.Context, offerID string, after ledger.Bookmark, limit int) ([]ledger.Transition, error)
}

const (
	// ledgerTimeout bounds how long the answer waits for the database.
	ledgerTimeout = 5 * time.Second
	// ledgerRetry is when to ask again while it cannot be read.
	ledgerRetry = 5 * time.Second
	// defaultReceipts and maxReceipts are how many receipts a page lists.
	defaultReceipts, maxReceipts = 20, 100
)

// report is the body of GET /v1/received.
type report struct {
	summary
	Receipts []receipt `json:"receipts" jsonschema:"The newest first, in the order in which they were recorded."`
	Next     *string   `json:"next" jsonschema:"The page with older receipts; null on the last."`
}

// receipt is one money movement, without anything about the payer.
type receipt struct {
	ID             string `json:"id" jsonschema:"Names the movement of money by its evidence."`
	Number         int64  `json:"number" jsonschema:"Counts the receipts in the order in which they were recorded, for the parameter before."`
	Rail           string `json:"rail"`
	Via            string `json:"via,omitempty" jsonschema:"How the money was sent, where it is known."`
	Status         string `json:"status" jsonschema:"What the movement amounts to. moved: within the account, and nobody paid it."`
	Evidence       string `json:"evidence" jsonschema:"What proves the movement."`
	Counted        bool   `json:"counted" jsonschema:"Whether it is received, less what was refunded of it."`
	Final          bool   `json:"final" jsonschema:"Whether nothing can change the receipt any more."`
	Own            bool   `json:"own" jsonschema:"Whether the operator paid."`
	Testnet        bool   `json:"testnet"`
	Asset          string `json:"asset"`
	AmountAtomic   string `json:"amountAtomic"`
	RefundedAtomic string `json:"refundedAtomic"`
	dollars
	RefundedUSD        *offer.USD `json:"refundedUsd" jsonschema:"US dollars. The part of amountUsd that went back."`
	RefundedUSDDecimal *string    `json:"refundedUsdDecimal"`
	ValueBasis         string     `json:"valueBasis,omitempty" jsonschema:"How the value in US dollars was fixed. face: it is dollars. quote: the amount was asked for these dollars. rate: the market's price of that time. stated: the operator says so."`
	Transaction        string     `json:"transaction,omitempty" jsonschema:"Where the movement is recorded."`
	OccurredAt         string     `json:"occurredAt" jsonschema:"When the money moved."`
	Day                string     `json:"day,omitempty" jsonschema:"The day on which it moved, where the operator entered a day: occurredAt is the moment at which that began there."`
	RecordedAt         string     `json:"recordedAt" jsonschema:"When it was recorded here first."`
}

// received is GET /v1/received: the report, the page of it for people, or the
// feed.
func (s *Server) received(r *http.Request) *response {
	at, ok := parsePlace(r.URL.RawQuery)
	if !ok {
		return s.refuse(problemPage, "detail", nil)
	}
	ctx, cancel := context.WithTimeout(r.Context(), ledgerTimeout)
	defer cancel()
	var found *response
	var err error
	switch {
	case at.feed:
		found, err = s.readFeed(ctx, at, r)
	case at == place{limit: defaultReceipts}:
		found, err = s.readNewest(ctx, at, r)
	default:
		found, err = s.readReport(ctx, at, r)
	}
	if errors.Is(err, ledger.ErrBookmark) {
		return s.programs.refuse(problemCursor, "detail", offer.With{"url": s.pageURL("after", "0", at.limit)})
	}
	if at.feed {
		return s.unless(s.programs, err, r, found)
	}
	return s.unless(s.responder, err, r, found)
}

// unless is the answer, or that the ledger cannot be read.
func (s *Server) unless(re responder, err error, r *http.Request, found *response) *response {
	if err != nil {
		if r.Context().Err() == nil && !s.unread.Swap(true) { // else it is only that nobody waits any more
			s.Logger.Warn("cannot read the receipts", "error", err)
		}
		return re.refuse(problemLedger, "detail", nil, retryAfter(ledgerRetry))
	}
	s.unread.Store(false)
	return found
}

// place is the part of the receipts that a request asks for.
type place struct {
	// feed asks for changes after a place in the history, else for receipts with
	// a number below before, 0 for the newest.
	feed   bool
	after  ledger.Bookmark
	before int64
	limit  int
}

// parsePlace reads the query parameters before or after, and limit.
func parsePlace(rawQuery string) (at place, ok bool) {
	query, err := url.ParseQuery(rawQuery)
	if err != nil {
		return place{}, false
	}
	at = place{feed: query.Has("after"), limit: defaultReceipts}
	if at.feed {
		at.limit = maxReceipts
	}
	for name, values := range query {
		if name != "before" && name != "after" && name != "limit" {
			continue
		}
		if len(values) > 1 {
			return place{}, false
		}
		if name == "after" {
			if at.after, ok = ledger.ParseBookmark(values[0]); !ok {
				return place{}, false
			}
			continue
		}
		n, err := strconv.ParseInt(values[0], 10, 64)
		switch {
		case err != nil:
			return place{}, false
		case name == "before" && n >= 1 && !at.feed:
			at.before = n
		case name == "limit" && n >= 1 && n <= maxReceipts:
			at.limit = int(n)
		default:
			return place{}, false
		}
	}
	return at, true
}

// readNewest is the report with the newest receipts, which many ask for again and
// again: nothing of it is made for who has it already.
func (s *Server) readNewest(ctx context.Context, at place, r *http.Request) (*response, error) {
	newest, err := s.newest(ctx)
	if err != nil {
		return nil, err
	}
	health, offset := s.Health(), s.ClockOffset()
	variant, headers := "json", []header{varyAccept}
	f, people := s.frame(r, offer.PathReceived), prefersPage(r)
	if people {
		variant, headers = pageVariant(f), varyPage
	}
	tag := s.tag(newest, health, variant)
	if same := s.unchanged(r, tag, headers...); same != nil {
		return same, nil
	}
	return newest.show(variant, health, offset, func() *response {
		rep := s.report(newest.totals, newest.rows, at, health, newest.began, offset)
		if people {
			return s.receivedPage(f, rep, at, weak(tag))
		}
		return s.json(http.StatusOK, cacheNever, rep, varyAccept, weak(tag))
	}), nil
}

// readReport is the report with other receipts.
func (s *Server) readReport(ctx context.Context, at place, r *http.Request) (*response, error) {
	totals, err := s.Receipts.Totals(ctx, s.Offer.ID)
	if err != nil {
		return nil, err
	}
	rows, err := s.Receipts.Receipts(ctx, s.Offer.ID, at.before, at.limit+1) // one more tells whether there is a next page
	if err != nil {
		return nil, err
	}
	rep := s.report(totals, rows, at, s.Health(), s.Now(), s.ClockOffset())
	if prefersPage(r) {
		return s.receivedPage(s.frame(r, offer.PathReceived, "before", "limit"), rep, at), nil
	}
	return s.json(http.StatusOK, cacheNever, rep, varyAccept), nil
}

// prefersPage reports whether a request asks for what is for people.
func prefersPage(r *http.Request) bool {
	return prefer(r.Header["Accept"], [][]string{asksJSON, asksHTML}) == 1
}

// report is the body of the report, of up to one receipt more than it lists.
func (s *Server) report(totals []ledger.Total, rows []ledger.Receipt, at place, health []observe.Health, now time.Time, offset time.Duration) report {
	rep := report{summary: summarize(s.Offer, totals, health, now), Receipts: []receipt{}}
	rep.ClockOffsetSeconds = clock.Seconds(offset)
	if len(rows) > at.limit {
		rows = rows[:at.limit]
		next := s.pageURL("before", strconv.FormatInt(rows[at.limit-1].ID, 10), at.limit)
		rep.Next = &next
	}
	for _, row := range rows {
		rep.Receipts = append(rep.Receipts, newReceipt(row, rep.TestnetMoneyCounts))
	}
	return rep
}

// Summary is the report of GET /v1/received without its receipts, as JSON.
func (s *Server) Summary(ctx context.Context) (json.RawMessage, error) {
	newest, err := s.newest(ctx)
	if err != nil {
		return nil, err
	}
	return encode(s.report(newest.totals, nil, place{}, s.Health(), newest.began, s.ClockOffset()).summary), nil
}

// pageURL is the address of the receipts before a number or the changes after a
// cursor.
func (s *Server) pageURL(name, from string, limit int) string {
	query := url.Values{name: {from}, "limit": {strconv.Itoa(limit)}}
	return s.Offer.URL(offer.PathReceived) + "?" + query.Encode()
}

func newReceipt(r ledger.Receipt, testCounts bool) receipt {
	out := receipt{
		ID: r.ExternalID, Number: r.ID, Rail: r.Rail, Via: r.Via, Status: string(r.Status), Evidence: string(r.EvidenceLevel),
		Counted: book.Standing{Status: r.Status, EvidenceLevel: r.EvidenceLevel, Own: r.Own, Testnet: r.Testnet}.Counts(testCounts), Final: r.Final, Own: r.Own, Testnet: r.Testnet, Asset: r.Asset, Transaction: r.Transaction,
		AmountAtomic: strconv.FormatInt(r.Amount, 10), RefundedAtomic: strconv.FormatInt(r.Refunded, 10),
		dollars: newDollars(r.USDCents), ValueBasis: string(r.ValueBasis),
		OccurredAt: timestamp(r.OccurredAt), Day: manual.Day(r), RecordedAt: timestamp(r.ObservedAt),
	}
	if r.USDCents != nil {
		out.RefundedUSD, out.RefundedUSDDecimal = inDollars(&r.RefundedCents)
	}
	return out
}

// dollars are an amount in US dollars as a number and with two decimals, both
// null while it is not known.
type dollars struct {
	AmountUSD        *offer.USD `json:"amountUsd"`
	AmountUSDDecimal *string    `json:"amountUsdDecimal"`
}

func newDollars(cents *int64) dollars {
	usd, decimal := inDollars(cents)
	return dollars{usd, decimal}
}

// inDollars are cents as a number of dollars and with two decimals; nil for nil.
func inDollars(cents *int64) (*offer.USD, *string) {
	if cents == nil {
		return nil, nil
	}
	usd := offer.USD(*cents)
	decimal := usd.Decimal()
	return &usd, &decimal
}

// timestamp is a time in Unix seconds for people and programs.
func timestamp(unix int64) string { return book.Timestamp(unix) }
