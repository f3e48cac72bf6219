package ledger

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/accounting"
)

// MaxBrowsers is the number of browsers in which a payment or a pass can be signed in.
const MaxBrowsers = 5

// codeReuse is how long the ledger keeps a browser that was signed out, so that its code is not
// used again. Codes are valid for less.
const codeReuse = 2 * time.Minute

// ErrEntered is returned by Enter for the code of an entry link that was used.
var ErrEntered = errors.New("the link was used already; open the receipt again for a new one")

// Enter signs a browser in. payment is the account of a payment, a space and its Receipt.Name,
// or "pass:" and the ID of a pass. browser is the code of the entry link, which is used once.
// Only the MaxBrowsers newest browsers of a payment stay signed in. Error: ErrEntered.
func (l *Ledger) Enter(ctx context.Context, offer, payment, browser string) error {
	return l.write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		now := l.now().Unix()
		if err := l.dialect.lock(ctx, tx, lock{entryLock, offer + " " + payment}); err != nil {
			return err
		}
		entered, err := execute(ctx, tx, "storing the browser", `
			INSERT INTO entries (browser, offer, payment, entered_at)
			SELECT $1, $2, $3, CASE WHEN last.entered_at < $4 THEN $4 ELSE last.entered_at + 1 END
			FROM (SELECT coalesce(max(entered_at), 0) AS entered_at FROM entries WHERE offer = $2 AND payment = $3) AS last
			WHERE true ON CONFLICT (browser) DO NOTHING`, browser, offer, payment, now)
		if err != nil || entered == 0 {
			return cmp.Or(err, ErrEntered)
		}
		_, err = execute(ctx, tx, "deleting browsers that were signed out", `
			DELETE FROM entries WHERE offer = $1 AND payment = $2 AND entered_at < $3 AND browser NOT IN (
				SELECT browser FROM entries WHERE offer = $1 AND payment = $2 ORDER BY ended, entered_at DESC LIMIT $4)`,
			offer, payment, now-int64(codeReuse/time.Second), MaxBrowsers)
		return err
	})
}

// Browsers returns the browsers in which a payment or a pass is signed in, newest first.
func (l *Ledger) Browsers(ctx context.Context, offer, payment string) ([]string, error) {
	return collect(ctx, l, scanValue[string], `
		SELECT browser FROM entries WHERE offer = $1 AND payment = $2 AND NOT ended
		ORDER BY entered_at DESC LIMIT $3`, offer, payment, MaxBrowsers)
}

// EndBrowsers signs out all browsers of a payment or a pass. It erases Intent.Secret, so that
// the header of the payment is not a pass any more.
func (l *Ledger) EndBrowsers(ctx context.Context, offer, payment string) error {
	account, name, _ := strings.Cut(payment, " ")
	_, payer, nonce := accounting.ParseName(name)
	return l.write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := execute(ctx, tx, "signing out browsers", `
			UPDATE entries SET ended = TRUE WHERE offer = $1 AND payment = $2 AND NOT ended`, offer, payment)
		if err == nil {
			_, err = execute(ctx, tx, "erasing the secret of the payment", `
				UPDATE intents SET secret = '' WHERE offer = $1 AND account = $2 AND payer = $3 AND nonce = $4`, offer, account, payer, nonce)
		}
		return err
	})
}
