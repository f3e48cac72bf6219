package web

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/clock"
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
	ID             string `json:"id" jsonschema:"Names the movement of money by its evidence."`
	Number         int64  `json:"number" jsonschema:"Counts the receipts, for the parameter before."`
	Rail           string `json:"rail"`
	Via            string `json:"via,omitempty" jsonschema:"How the money was sent, where it is known."`
	Status         string `json:"status" jsonschema:"What the movement amounts to."`
	Evidence       string `json:"evidence" jsonschema:"What proves the movement."`
	Final          bool   `json:"final" jsonschema:"Whether nothing can change the receipt any more."`
	Own            bool   `json:"own" jsonschema:"Whether the operator paid."`
	Testnet        bool   `json:"testnet"`
	Asset          string `json:"asset"`
	AmountAtomic   string `json:"amountAtomic"`
	RefundedAtomic string `json:"refundedAtomic"`
	dollars
	Transaction string `json:"transaction,omitempty" jsonschema:"Where the movement is recorded."`
	OccurredAt  string `json:"occurredAt"`
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
	totals, err := s.Receipts.Totals(ctx, s.Offer.ID)
	if err != nil {
		return nil, err
	}
	rows, err := s.Receipts.Receipts(ctx, s.Offer.ID, at.before, at.limit+1) // one more tells whether there is a next page
	if err != nil {
		return nil, err
	}
	rep := report{summary: s.summarize(totals), Receipts: []receipt{}}
	if len(rows) > at.limit {
		rows = rows[:at.limit]
		next := s.pageURL("before", rows[at.limit-1].ID, at.limit)
		rep.Next = &next
	}
	for _, row := range rows {
		rep.Receipts = append(rep.Receipts, newReceipt(row))
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
	return encode(s.summarize(totals)), nil
}

// summarize is the report now.
func (s *Server) summarize(totals []ledger.Total) summary {
	now := summarize(s.Offer, totals, s.Health(), s.Now())
	now.ClockOffsetSeconds = clock.Seconds(s.ClockOffset())
	return now
}

// pageURL is the address of the receipts before or the changes after a number.
func (s *Server) pageURL(name string, number int64, limit int) string {
	query := url.Values{name: {strconv.FormatInt(number, 10)}, "limit": {strconv.Itoa(limit)}}
	return s.Offer.URL(offer.PathReceived) + "?" + query.Encode()
}

func newReceipt(r ledger.Receipt) receipt {
	return receipt{
		ID: r.ExternalID, Number: r.ID, Rail: r.Rail, Via: r.Via, Status: string(r.Status), Evidence: string(r.EvidenceLevel),
		Final: r.Final, Own: r.Own, Testnet: r.Testnet, Asset: r.Asset, Transaction: r.Transaction,
		AmountAtomic: strconv.FormatInt(r.Amount, 10), RefundedAtomic: strconv.FormatInt(r.Refunded, 10),
		dollars: newDollars(r.USDCents), OccurredAt: timestamp(r.OccurredAt),
	}
}

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
	AmountAtomic   string `json:"amountAtomic"`
	RefundedAtomic string `json:"refundedAtomic"`
	dollars
	Asset      string `json:"asset"`
	Via        string `json:"via,omitempty" jsonschema:"How the money was sent, where it is known."`
	Evidence   string `json:"evidence" jsonschema:"What proves the movement now."`
	Own        bool   `json:"own" jsonschema:"Whether the operator paid."`
	Testnet    bool   `json:"testnet"`
	OccurredAt string `json:"occurredAt"`
	Cause      string `json:"cause" jsonschema:"A short word for what the change was noticed by."`
	At         string `json:"at"`
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
	return transition{
		Seq: t.Seq, ID: t.EventID(), Rail: t.Rail, Receipt: t.ExternalID, Version: t.Version, From: known(string(t.From)), To: string(t.To),
		AmountAtomic: strconv.FormatInt(t.Amount, 10), RefundedAtomic: strconv.FormatInt(t.Refunded, 10),
		dollars: newDollars(t.USDCents), Asset: t.Asset, Via: t.Via, Evidence: string(t.EvidenceLevel), Own: t.Own, Testnet: t.Testnet,
		OccurredAt: timestamp(t.OccurredAt), Cause: t.Cause, At: timestamp(t.At),
	}
}

// dollars are an amount in US dollars as a number and with two decimals, both
// null while it is not known.
type dollars struct {
	AmountUSD        *offer.USD `json:"amountUsd"`
	AmountUSDDecimal *string    `json:"amountUsdDecimal"`
}

func newDollars(cents *int64) dollars {
	if cents == nil {
		return dollars{}
	}
	usd := offer.USD(*cents)
	decimal := usd.Decimal()
	return dollars{&usd, &decimal}
}

// timestamp writes Unix seconds as RFC 3339 does, in UTC.
func timestamp(unix int64) string { return time.Unix(unix, 0).UTC().Format(time.RFC3339) }
