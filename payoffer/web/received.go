package web

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
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
	// Next is the address of the page with older receipts, null on the last.
	Next *string `json:"next"`
}

// receipt is one money movement, without anything about the payer.
type receipt struct {
	// ID names the movement by its evidence, Number counts receipts for the
	// query parameter before.
	ID               string     `json:"id"`
	Number           int64      `json:"number"`
	Rail             string     `json:"rail"`
	Via              string     `json:"via,omitempty"`
	Status           string     `json:"status"`
	Evidence         string     `json:"evidence"`
	Final            bool       `json:"final"`
	Own              bool       `json:"own"`
	Testnet          bool       `json:"testnet"`
	Asset            string     `json:"asset"`
	AmountAtomic     string     `json:"amountAtomic"`
	RefundedAtomic   string     `json:"refundedAtomic"`
	AmountUSD        *offer.USD `json:"amountUsd"`
	AmountUSDDecimal *string    `json:"amountUsdDecimal"`
	Transaction      string     `json:"transaction,omitempty"`
	OccurredAt       string     `json:"occurredAt"`
}

// received is GET /v1/received: the report, or the page of it for people.
func (s *Server) received(w http.ResponseWriter, r *http.Request) {
	s.receivedAnswer(r).ServeHTTP(w, r)
}

func (s *Server) receivedAnswer(r *http.Request) *answer {
	before, limit, ok := pageOf(r.URL.Query())
	if !ok {
		return s.problem(http.StatusBadRequest, problemPage,
			"before must be the number of a receipt and limit 1 to 100; leave both out for the newest receipts.", varyAccept)
	}
	ctx, cancel := context.WithTimeout(r.Context(), ledgerTimeout)
	defer cancel()
	rep, err := s.report(ctx, before, limit)
	if err != nil {
		s.Logger.Warn("cannot read the receipts", "error", err)
		return s.problem(http.StatusServiceUnavailable, problemLedger,
			"Nothing is lost. Ask again after the time in Retry-After.", retryAfter(ledgerRetry), varyAccept)
	}
	if prefer(r.Header["Accept"], [][]string{asksJSON, asksHTML}) == 1 {
		return s.page(cacheNever, s.receivedPage(rep), varyAccept)
	}
	return s.json(http.StatusOK, cacheNever, rep, varyAccept)
}

// pageOf reads the query parameters before and limit.
func pageOf(query url.Values) (before int64, limit int, ok bool) {
	limit = defaultReceipts
	var err error
	if query.Has("before") {
		if before, err = strconv.ParseInt(query.Get("before"), 10, 64); err != nil || before < 1 {
			return 0, 0, false
		}
	}
	if query.Has("limit") {
		if limit, err = strconv.Atoi(query.Get("limit")); err != nil || limit < 1 || limit > maxReceipts {
			return 0, 0, false
		}
	}
	return before, limit, true
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
		query := url.Values{"before": {strconv.FormatInt(rows[limit-1].ID, 10)}, "limit": {strconv.Itoa(limit)}}
		next := s.Offer.URL(offer.PathReceived) + "?" + query.Encode()
		rep.Next = &next
	}
	for _, row := range rows {
		rep.Receipts = append(rep.Receipts, newReceipt(row))
	}
	return rep, nil
}

func newReceipt(r ledger.Receipt) receipt {
	out := receipt{
		ID: r.ExternalID, Number: r.ID, Rail: r.Rail, Via: r.Via, Status: string(r.Status), Evidence: string(r.EvidenceLevel),
		Final: r.Final, Own: r.Own, Testnet: r.Testnet, Asset: r.Asset, Transaction: r.Transaction,
		AmountAtomic: strconv.FormatInt(r.Amount, 10), RefundedAtomic: strconv.FormatInt(r.Refunded, 10),
		OccurredAt: time.Unix(r.OccurredAt, 0).UTC().Format(time.RFC3339),
	}
	if r.USDCents != nil {
		usd := offer.USD(*r.USDCents)
		decimal := usd.Decimal()
		out.AmountUSD, out.AmountUSDDecimal = &usd, &decimal
	}
	return out
}

// Day is when the money moved, for people.
func (r receipt) Day() string {
	day, _, _ := strings.Cut(r.OccurredAt, "T")
	return day
}

// receivedPage is the report for people.
func (s *Server) receivedPage(rep report) []byte {
	return execute(receivedTemplate, struct {
		pageData
		Report  report
		Percent int
	}{s.pageData("Received payments: "+s.Offer.Name, offer.PathReceived), rep, rep.percent()})
}
