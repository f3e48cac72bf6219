package web

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/clock"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/accounting"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/manual"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/page"
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
	// Books are the sums, and up to limit receipts with an ID below before, newest
	// first (0 begins with the newest), at one moment.
	Books(ctx context.Context, offerID string, before int64, limit int) ([]ledger.Total, []ledger.Receipt, error)
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
	if at == newestPlace {
		found, err := s.readNewest(r)
		return s.unless(s.responder, err, r, found)
	}
	ctx, cancel := context.WithTimeout(r.Context(), ledgerTimeout)
	defer cancel()
	read := s.readReport
	if at.feed {
		read = s.readFeed
	}
	found, err := read(ctx, at, r)
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

// newestPlace is what a request without parameters asks for.
var newestPlace = place{limit: defaultReceipts}

// parsePlace reads the query parameters before or after, and limit.
func parsePlace(rawQuery string) (at place, ok bool) {
	if rawQuery == "" {
		return newestPlace, true
	}
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
// again: nothing of it is made for who has it already, and all who have not are given
// the same.
func (s *Server) readNewest(r *http.Request) (*response, error) {
	newest, err := s.newest(r.Context())
	if err != nil {
		return nil, err
	}
	people, of := prefersPage(r), shownKey{"json", clock.Seconds(s.ClockOffset())}
	var f page.Frame
	if people {
		f = s.frame(r, offer.PathReceived)
		of.variant = pageVariant(f)
	}
	answer := newest.shown.get(of, func() shown {
		tag, headers := s.tag(newest, of.variant), []header{varyAccept}
		if people {
			headers = varyPage
		}
		return shown{tag, s.notModified(tag, append(slices.Clip(headers), varyEncoding)...), sync.OnceValue(func() *response {
			rep := s.report(newest.totals, newest.rows, newestPlace, newest.health, newest.began, of.offset)
			if people {
				return s.compressiblePage(cacheNever, s.receivedPage(f, rep, newestPlace), weakTag(tag))
			}
			return s.compressible(typeJSON, cacheNever, compact(rep), varyAccept, weakTag(tag))
		})}
	})
	if matches(r.Header["If-None-Match"], answer.tag) {
		return answer.unchanged, nil
	}
	return answer.whole(), nil
}

// readReport is the report with other receipts.
func (s *Server) readReport(ctx context.Context, at place, r *http.Request) (*response, error) {
	totals, rows, err := s.Receipts.Books(ctx, s.Offer.ID, at.before, at.limit+1) // one more tells whether there is a next page
	if err != nil {
		return nil, err
	}
	rep := s.report(totals, rows, at, s.Health(), s.Now(), clock.Seconds(s.ClockOffset()))
	if prefersPage(r) {
		return s.page(http.StatusOK, cacheNever, s.receivedPage(s.frame(r, offer.PathReceived, "before", "limit"), rep, at)), nil
	}
	return s.render(http.StatusOK, typeJSON, cacheNever, compact(rep), varyAccept), nil
}

// prefersPage reports whether a request asks for what is for people.
func prefersPage(r *http.Request) bool {
	return prefer(r.Header["Accept"], [][]string{asksJSON, asksHTML}) == 1
}

// report is the body of the report, of up to one receipt more than it lists.
func (s *Server) report(totals []ledger.Total, rows []ledger.Receipt, at place, health []observe.Health, now time.Time, offset int64) report {
	rep := report{summary: summarize(s.Offer, totals, health, now), Receipts: []receipt{}}
	rep.ClockOffsetSeconds = offset
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
	of := shownKey{"summary", clock.Seconds(s.ClockOffset())}
	return newest.shown.get(of, func() shown {
		rep := s.report(newest.totals, nil, place{}, newest.health, newest.began, of.offset)
		made := &response{body: compact(rep.summary)}
		return shown{whole: func() *response { return made }}
	}).whole().body, nil
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
		Counted: accounting.Standing{Status: r.Status, EvidenceLevel: r.EvidenceLevel, Own: r.Own, Testnet: r.Testnet}.Counts(testCounts), Final: r.Final, Own: r.Own, Testnet: r.Testnet, Asset: r.Asset, Transaction: r.Transaction,
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
func timestamp(unix int64) string { return accounting.Timestamp(unix) }
