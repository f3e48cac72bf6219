package web

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// Receipts reads what was paid; *ledger.Ledger is one.
type Receipts interface {
	// Totals are the sums of an offer.
	Totals(ctx context.Context, offerID string) ([]ledger.Total, error)
	// Receipts are up to limit receipts with an ID below before, newest
	// first; 0 begins with the newest.
	Receipts(ctx context.Context, offerID string, before int64, limit int) ([]ledger.Receipt, error)
	// Transitions are up to limit changes of receipts with a Seq above after,
	// in the order of commits.
	Transitions(ctx context.Context, offerID string, after int64, limit int) ([]ledger.Transition, error)
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
	Receipts []receipt `json:"receipts"`
	Next     *string   `json:"next" jsonschema:"The page with older receipts; null on the last."`
}

// receipt is one money movement, without anything about the payer.
type receipt struct {
	ID               string     `json:"id" jsonschema:"Names the movement of money by its evidence."`
	Number           int64      `json:"number" jsonschema:"Counts the receipts, for the parameter before."`
	Rail             string     `json:"rail"`
	Via              string     `json:"via,omitempty" jsonschema:"How the money was sent, where it is known."`
	Status           string     `json:"status" jsonschema:"What the movement amounts to."`
	Evidence         string     `json:"evidence" jsonschema:"What proves the movement."`
	Final            bool       `json:"final" jsonschema:"Whether nothing can change the receipt any more."`
	Own              bool       `json:"own" jsonschema:"Whether the operator paid."`
	Testnet          bool       `json:"testnet"`
	Asset            string     `json:"asset"`
	AmountAtomic     string     `json:"amountAtomic"`
	RefundedAtomic   string     `json:"refundedAtomic"`
	AmountUSD        *offer.USD `json:"amountUsd"`
	AmountUSDDecimal *string    `json:"amountUsdDecimal"`
	Transaction      string     `json:"transaction,omitempty" jsonschema:"Where the movement is recorded."`
	OccurredAt       string     `json:"occurredAt"`
}

// received is GET /v1/received: the report, the page of it for people, or the
// feed.
func (s *Server) received(r *http.Request) *response {
	at, ok := parsePlace(r.URL.RawQuery)
	if !ok {
		return s.problem(problemPage,
			"before must be the number of a receipt, or after a seq or 0, and limit 1 to 100; leave all out for the newest receipts.", varyAccept)
	}
	ctx, cancel := context.WithTimeout(r.Context(), ledgerTimeout)
	defer cancel()
	read := s.readReport
	if at.feed {
		read = s.readFeed
	}
	found, err := read(ctx, at, r.Header["Accept"])
	if err != nil {
		s.Logger.Warn("cannot read the receipts", "error", err)
		return s.problem(problemLedger,
			"Nothing is lost. Ask again after the time in Retry-After.", retryAfter(ledgerRetry), varyAccept)
	}
	return found
}

// place is the part of the receipts that a request asks for.
type place struct {
	// feed asks for changes with a Seq above after, else for receipts with a
	// number below before, 0 for the newest.
	feed          bool
	before, after int64
	limit         int
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
		var n int64
		n, err = strconv.ParseInt(values[0], 10, 64)
		switch {
		case name != "before" && name != "after" && name != "limit":
		case err != nil || len(values) > 1:
			return place{}, false
		case name == "after" && n >= 0:
			at.after = n
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

// readReport is the report as the request's Accept header prefers it.
func (s *Server) readReport(ctx context.Context, at place, accept []string) (*response, error) {
	rep, err := s.report(ctx, at.before, at.limit)
	if err != nil {
		return nil, err
	}
	if prefer(accept, [][]string{asksJSON, asksHTML}) == 1 {
		return s.page(cacheNever, s.receivedPage(rep, at), varyAccept), nil
	}
	return s.json(http.StatusOK, cacheNever, rep, varyAccept), nil
}

// Summary is the report of GET /v1/received without its receipts, as JSON.
func (s *Server) Summary(ctx context.Context) (json.RawMessage, error) {
	totals, err := s.Receipts.Totals(ctx, s.Offer.ID)
	if err != nil {
		return nil, err
	}
	return encode(summarize(s.Offer, totals, s.Health(), s.Now())), nil
}

func (s *Server) report(ctx context.Context, before int64, limit int) (report, error) {
	totals, err := s.Receipts.Totals(ctx, s.Offer.ID)
	if err != nil {
		return report{}, err
	}
	rows, err := s.Receipts.Receipts(ctx, s.Offer.ID, before, limit+1) // one more tells whether there is a next page
	if err != nil {
		return report{}, err
	}
	rep := report{summary: summarize(s.Offer, totals, s.Health(), s.Now()), Receipts: []receipt{}}
	if len(rows) > limit {
		rows = rows[:limit]
		next := s.pageURL("before", rows[limit-1].ID, limit)
		rep.Next = &next
	}
	for _, row := range rows {
		rep.Receipts = append(rep.Receipts, newReceipt(row))
	}
	return rep, nil
}

// pageURL is the address of the receipts before or the changes after a number.
func (s *Server) pageURL(name string, number int64, limit int) string {
	query := url.Values{name: {strconv.FormatInt(number, 10)}, "limit": {strconv.Itoa(limit)}}
	return s.Offer.URL(offer.PathReceived) + "?" + query.Encode()
}

func newReceipt(r ledger.Receipt) receipt {
	out := receipt{
		ID: r.ExternalID, Number: r.ID, Rail: r.Rail, Via: r.Via, Status: string(r.Status), Evidence: string(r.EvidenceLevel),
		Final: r.Final, Own: r.Own, Testnet: r.Testnet, Asset: r.Asset, Transaction: r.Transaction,
		AmountAtomic: strconv.FormatInt(r.Amount, 10), RefundedAtomic: strconv.FormatInt(r.Refunded, 10),
		OccurredAt: timestamp(r.OccurredAt),
	}
	out.AmountUSD, out.AmountUSDDecimal = dollars(r.USDCents)
	return out
}

// dollars are an amount in US cents as a number and as a decimal string, both
// nil while it is not known.
func dollars(cents *int64) (*offer.USD, *string) {
	if cents == nil {
		return nil, nil
	}
	usd := offer.USD(*cents)
	decimal := usd.Decimal()
	return &usd, &decimal
}

// timestamp writes Unix seconds as RFC 3339 does, in UTC.
func timestamp(unix int64) string { return time.Unix(unix, 0).UTC().Format(time.RFC3339) }
