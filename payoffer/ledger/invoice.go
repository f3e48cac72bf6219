package ledger

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/accounting"
)

// Invoice is a payment request that was made for one payer. It is no receipt: only the word of its source makes one, with
// the payment hash as its external ID.
type Invoice struct {
	Hash                 string // of the payment, in lower-case hex; it names one purchase for good
	Offer, Account, Rail string
	Request              string // what the payer's wallet pays; empty in a closed invoice
	// Verify is where the source says whether it was paid; empty if only the seller knows, and in a closed invoice.
	Verify              string
	Satoshis, USDCents  int64 // what is asked for, and what that is worth
	CreatedAt, ExpireAt int64 // Unix seconds
	ClosedAt            int64 // when its source was asked for the last time, in Unix seconds; 0 while it may be paid
}

// InvoicePrice is how long an invoice is worth what it was made for. Its wallet may take a payment for weeks, and the payer
// could wait for another rate.
const InvoicePrice = time.Hour

// PriceUntil is the end of InvoicePrice, in Unix seconds.
func (i Invoice) PriceUntil() int64 { return i.CreatedAt + int64(InvoicePrice/time.Second) }

var invoiceTable = table[Invoice]{"invoices", func(i *Invoice) []column {
	return []column{
		{"hash", &i.Hash}, {"offer", &i.Offer}, {"account", &i.Account}, {"rail", &i.Rail}, {"request", &i.Request}, {"verify", &i.Verify},
		{"satoshis", &i.Satoshis}, {"usd_cents", &i.USDCents}, {"created_at", &i.CreatedAt}, {"expire_at", &i.ExpireAt}, {"closed_at", &i.ClosedAt},
	}
}}

// InsertInvoice stores an invoice before its payer sees it. It reports false, and stores nothing, if its hash was ever
// stored: two purchases never share a payment.
func (l *Ledger) InsertInvoice(ctx context.Context, i Invoice) (inserted bool, err error) {
	if i.Hash == "" || i.Offer == "" || i.Account == "" || i.Request == "" || !accounting.Storable(i.Request, i.Verify) {
		return false, errors.New("the invoice lacks a hash, an offer, an account or a request, or one is not UTF-8; report this as a bug")
	}
	err = l.write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		rows, err := invoiceTable.insert(ctx, tx, ` ON CONFLICT (hash) DO NOTHING`, i)
		inserted = rows == 1
		return err
	})
	return inserted, err
}

// Invoice reads an invoice of an offer.
func (l *Ledger) Invoice(ctx context.Context, offer, account, hash string) (Invoice, bool, error) {
	return atMostOne(invoiceTable.read(ctx, l, `hash = $1 AND offer = $2 AND account = $3`, hash, offer, account))
}

// OpenInvoices returns the invoices of an account whose source is still asked, oldest first.
func (l *Ledger) OpenInvoices(ctx context.Context, offer, account string) ([]Invoice, error) {
	return invoiceTable.read(ctx, l, `offer = $1 AND account = $2 AND verify <> '' ORDER BY created_at`, offer, account)
}

// CloseInvoice says that the source of an invoice is not asked again. Its hash stays. It is idempotent.
func (l *Ledger) CloseInvoice(ctx context.Context, hash string) error {
	_, err := l.writeStatement(ctx, "closing the invoice", `
		UPDATE invoices SET request = '', verify = '', closed_at = $1 WHERE hash = $2 AND closed_at = 0`, l.now().Unix(), hash)
	return err
}
