package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/signature"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

const (
	// maxStatement bounds what is read of a file, in bytes.
	maxStatement = 1 << 20
	// clockSkew is how far the date of a receipt may be in the future.
	clockSkew = 5 * time.Minute
)

func verifyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify <receipt>",
		Short: "Verifies signed x402 receipts and offers",
		Long: `
Verifies signed x402 receipts and offers of any server. The argument is a JWS,
a PAYMENT-RESPONSE or PAYMENT-REQUIRED header, JSON that contains one, or a file
with any of these; - reads the standard input. The key comes from the DID
document of the signing domain. The exit status is 0 only if all are valid.`,
		Example: "  caddy pay-offer verify receipt.json\n  curl -si https://pay.example.org/v1/quote | caddy pay-offer verify -",
	}
	return setRun(cmd, func(fl caddycmd.Flags, out io.Writer) error {
		text, err := readStatement(fl.Arg(0), cmd.InOrStdin())
		if err != nil {
			return err
		}
		v := verifier{keys: signature.NewResolver(nil), now: time.Now(), out: out}
		return v.verifyAll(cmd.Context(), x402.FindSigned(text))
	})
}

// readStatement is the content of the file of that name, or the argument itself.
func readStatement(argument string, stdin io.Reader) ([]byte, error) {
	source := stdin
	if argument != "-" {
		file, err := os.Open(argument)
		if u, _ := offer.ParseURL(argument); err != nil && u != nil {
			return nil, errors.New("an address is not read; for a receipt page of pay_offer: curl -s <page>/receipt.jws | caddy pay-offer verify -")
		}
		if err != nil && len(x402.FindSigned([]byte(argument))) == 0 {
			return nil, cmp.Or(offer.CheckNoSecret(argument), fmt.Errorf("%.80q is neither a signed receipt or offer nor a file that this user can read; "+
				"name the file, such as receipt.json", argument))
		} else if err != nil {
			return []byte(argument), nil
		}
		defer file.Close()
		source = file
	}
	text, err := io.ReadAll(io.LimitReader(source, maxStatement+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxStatement {
		return nil, fmt.Errorf("the input is longer than %d bytes; give only the signed receipt or offer", maxStatement)
	}
	return text, nil
}

// verifier verifies signed statements and prints what they prove.
type verifier struct {
	keys *signature.Resolver
	now  time.Time
	out  io.Writer
}

func (v *verifier) verifyAll(ctx context.Context, signed []string) error {
	if len(signed) == 0 {
		return errors.New("the input has no signed receipt or offer: give a JWS, a PAYMENT-RESPONSE header, JSON that contains one, or the name of a file; " +
			"for a receipt page of pay_offer: curl -s <page>/receipt.jws | caddy pay-offer verify -")
	}
	if len(signed) > x402.MaxArtifacts {
		return fmt.Errorf("the input has more than %d signed receipts and offers, so nothing was verified; give fewer", x402.MaxArtifacts)
	}
	var errs []error
	for n, jws := range signed {
		if err := v.verify(ctx, jws); err != nil {
			if len(signed) > 1 {
				err = fmt.Errorf("number %d of %d: %w", n+1, len(signed), err)
			}
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// verify checks one statement.
func (v *verifier) verify(ctx context.Context, compact string) error {
	signed, err := x402.ParseSigned(compact)
	if err == nil {
		err = signed.Verify(ctx, v.keys)
	}
	if err != nil {
		return errors.New(printable(err.Error()))
	}
	if signed.Offer != nil {
		return v.offer(offer.Host(signed.Origin), signed.KeyID, signed.Offer)
	}
	return v.receipt(offer.Host(signed.Origin), signed.KeyID, signed.Receipt)
}

// receipt prints what a receipt proves.
func (v *verifier) receipt(host, keyID string, r *x402.ReceiptPayload) error {
	issued := time.Unix(r.IssuedAt, 0)
	if issued.After(v.now.Add(clockSkew)) {
		return fmt.Errorf("NOT VALID: the receipt is dated %s, which is in the future; check the clock of this machine", date(issued))
	}
	v.print(fmt.Sprintf("VALID receipt: %s says that %s paid for %s on %s; issued %s", host, r.Payer, r.ResourceURL, network(r.Network), date(issued)))
	v.print("  key: " + keyID + ", which " + host + " publishes")
	if r.Transaction != "" {
		v.print("  transaction, as " + host + " reports: " + r.Transaction)
	} else {
		v.print("  It proves only that " + host + " says so. It has no amount and no transaction; look them up on the chain.")
	}
	return nil
}

// offer prints what an offer proves.
func (v *verifier) offer(host, keyID string, o *x402.OfferPayload) error {
	end := "without an end"
	if o.ValidUntil != 0 {
		until := time.Unix(o.ValidUntil, 0)
		if until.Before(v.now) {
			return fmt.Errorf("EXPIRED: %s signed this offer, and it ended %s; ask for a new quote", printable(host), date(until))
		}
		end = "until " + date(until)
	}
	v.print(fmt.Sprintf("VALID offer: %s asks %s on %s for %s, to %s (%s); it is valid %s", host, price(o), network(o.Network),
		o.ResourceURL, o.PayTo, o.Scheme, end))
	v.print("  key: " + keyID + ", which " + host + " publishes")
	return nil
}

// print prints a line, which may contain text of others.
func (v *verifier) print(line string) { fmt.Fprintln(v.out, printable(line)) }

func date(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// price is an offer's amount in USDC, or in atomic units of an unknown asset.
func price(o *x402.OfferPayload) string {
	known, err := offer.LookupNetwork(o.Network)
	units, notNumber := strconv.ParseUint(o.Amount, 10, 63)
	if err != nil || notNumber != nil || !strings.EqualFold(known.USDC, o.Asset) {
		return o.Amount + " atomic units of " + o.Asset
	}
	return offer.FormatDecimal(int64(units), 6) + " USDC"
}

// network is the name and the CAIP-2 id of a network, or the id of an unknown one.
func network(caip2 string) string {
	known, err := offer.LookupNetwork(caip2)
	if err != nil || !strings.Contains(caip2, ":") {
		return caip2
	}
	return known.Name + " (" + caip2 + ")"
}
