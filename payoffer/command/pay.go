package command

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/payoffer/caddy-pay-offer/payoffer/buyer"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// keyVariable is the environment variable with the private key of the payer.
const keyVariable = "PAY_OFFER_KEY"

// busyPoll is the pause before a purchase that another run has opened is tried again.
const busyPoll = 200 * time.Millisecond

// exitOpen is EX_TEMPFAIL of sysexits(3): run the same command again.
const exitOpen = 75

func payCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pay <url>",
		Short: "Pays an offer or any other URL by x402",
		Long: `
Pays a URL with USDC (x402 version 2): an offer of this plugin, or of any other
seller. It shows the price and asks before it signs. Without --method it pays by
GET if GET gets a quote, and by POST if the quote says so or only POST gets one.
--output writes the content to a file, and replaces the file.
If an earlier payment to the seller opens the URL, as for files behind one gate,
nothing is paid again.

The payer's private key (64 hexadecimal digits) is in the variable
PAY_OFFER_KEY, or in a file that only its owner can read (--key-file). The payer
needs USDC and no coin for gas. --demo pays a demo here without a key and stores
nothing, so each run pays.

A signed payment is stored before it is sent. After a crash or exit status 75,
run the same command again: it sends the same payment and cannot charge you
twice. If the purchase is paid, the command shows its receipt; --new buys again.

A seller that refuses a payment can still charge it until it expires, in at most
ten minutes. After that, --new signs another one.
Exit status: 0 paid or opened; 1 not paid, or --output failed; 75 not known yet.`,
		Example: "  caddy pay-offer pay http://localhost:8402/v1/sponsor --demo\n" +
			"  caddy pay-offer pay https://pay.example.org/v1/sponsor --dry-run\n" +
			"  caddy pay-offer pay https://pay.example.org/v1/sponsor --key-file payer.key\n" +
			"  PAY_OFFER_KEY=$(pass payer) caddy pay-offer pay https://api.example.com/report --output report.pdf --max 0.10 --yes --json",
	}
	flags := cmd.Flags()
	flags.Bool("dry-run", false, "Show the price, and pay nothing")
	flags.BoolP("yes", "y", false, "Do not ask")
	flags.String("max", "50", "The most to pay, in US dollars; an earlier payment is sent again at any price")
	flags.String("method", "", "GET or POST (default: the one of the quote)")
	flags.StringP("output", "o", "", "The file for the content")
	flags.String("network", "", "The network to pay on (default: the first one of the quote)")
	flags.String("key-file", "", "The file of the private key, instead of "+keyVariable)
	flags.Bool("demo", false, "Pay a demo on this machine, with a new key")
	flags.Duration("wait", 2*time.Minute, "How long to send a payment without a final answer again")
	flags.Bool("new", false, "Buy again what was paid before")
	flags.String("state", "", "The folder of the payments (default: below Caddy's data folder)")
	flags.Bool("json", false, "Print one JSON object to stdout, and the rest to stderr")
	return setRunWithStatus(cmd, func(fl caddycmd.Flags) (int, error) {
		p := payer{fl: fl, in: cmd.InOrStdin(), out: cmd.OutOrStdout()}
		if fl.Bool("json") {
			p.out = cmd.ErrOrStderr()
		}
		err := p.run(cmd.Context())
		if fl.Bool("json") {
			p.printJSON(cmd.OutOrStdout(), err)
		}
		return exitStatus(err), err
	})
}

func exitStatus(err error) int {
	switch {
	case err == nil:
		return caddy.ExitCodeSuccess
	case errors.Is(err, buyer.ErrOpen), errors.Is(err, buyer.ErrBusy):
		return exitOpen
	default:
		return caddy.ExitCodeFailedStartup
	}
}

// payer is one run of the command.
type payer struct {
	fl  caddycmd.Flags
	in  io.Reader
	out io.Writer

	target   buyer.Target
	quote    *buyer.Quote
	purchase *buyer.Purchase
}

func (p *payer) run(ctx context.Context) (err error) {
	b := &buyer.Buyer{Network: p.fl.String("network"), Wait: p.fl.Duration("wait"), Progress: func(sentence string) { p.printf("%s", sentence) }}
	var ok bool
	if b.Max, _, ok = offer.ParseDecimal(p.fl.String("max"), 6); !ok || b.Max == 0 {
		return fmt.Errorf("--max %.20q is not an amount of US dollars; write for example --max 42 or --max 0.10", p.fl.String("max"))
	}
	if b.Network != "" {
		if _, err := offer.LookupNetwork(b.Network); err != nil {
			return err
		}
	}
	if p.target, err = buyer.NewTarget(strings.ToUpper(p.fl.String("method")), p.fl.Arg(0)); err != nil {
		return err
	}
	if err := checkWritable(p.fl.String("output")); err != nil {
		return fmt.Errorf("nothing was sent, because --output cannot be written: %w; name a file that you can write", err)
	}
	if p.fl.Bool("dry-run") {
		if p.quote, err = b.Quote(ctx, p.target); err == nil {
			p.showQuote("")
		}
		return err
	}
	state := p.fl.String("state")
	if p.fl.Bool("demo") {
		if state, err = p.makeDemoFolder(); err != nil {
			return err
		}
		defer os.RemoveAll(state)
	}
	key, err := p.key()
	if errors.Is(err, errNoKey) { // first whether the seller can be paid at all
		if _, problem := b.Quote(ctx, p.target); problem != nil {
			return problem
		}
	}
	if err != nil {
		return err
	}
	if state == "" {
		state = filepath.Join(caddy.AppDataDir(), "pay_offer", "payments")
	}
	if !filepath.IsAbs(state) {
		// Another run would not find what this one signed.
		return errors.New("not paid: the folder of the payments is not an absolute path; set HOME, or write for example --state /var/lib/payments")
	}
	p.purchase, err = buyer.OpenPurchase(state, p.target, key.Address())
	if deadline := time.Now().Add(b.Wait); errors.Is(err, buyer.ErrBusy) && b.Wait > 0 {
		p.printf("Another run of this command is paying this site. This one waits for it, at most %v.", b.Wait)
		for errors.Is(err, buyer.ErrBusy) && time.Now().Before(deadline) && ctx.Err() == nil {
			time.Sleep(busyPoll)
			p.purchase, err = buyer.OpenPurchase(state, p.target, key.Address())
		}
	}
	if err != nil {
		return err
	}
	defer p.purchase.Close()
	return p.pay(ctx, b, key)
}

// makeDemoFolder makes a temporary folder for the payment of a demo. It checks the flags of --demo first.
func (p *payer) makeDemoFolder() (string, error) {
	if !offer.IsLoopback(offer.Hostname(p.target.Origin())) {
		return "", errors.New("not paid: --demo pays only servers on this machine, such as http://localhost:8402/v1/sponsor; leave it out to pay others")
	}
	for _, flag := range []string{"key-file", "state"} {
		if p.fl.String(flag) != "" {
			return "", errors.New("not paid: --demo makes its own key and stores nothing; leave out --" + flag)
		}
	}
	return os.MkdirTemp("", "pay_offer_payment_")
}

// key reads the private key, or makes one for the demo.
func (p *payer) key() (buyer.Key, error) {
	if p.fl.Bool("demo") {
		return buyer.NewKey(), nil
	}
	if file := p.fl.String("key-file"); file != "" {
		return buyer.ReadKey(file)
	}
	text, found := os.LookupEnv(keyVariable)
	if !found {
		return buyer.Key{}, errNoKey
	}
	return buyer.ParseKey(text)
}

var errNoKey = errors.New("there is no key to pay with: set " + keyVariable + ", or write for example --key-file payer.key; --dry-run needs none")

// pay finishes an undecided payment, or requests the price, asks and signs.
func (p *payer) pay(ctx context.Context, b *buyer.Buyer, key buyer.Key) error {
	again := p.fl.Bool("new")
	if last := p.purchase.Payment; last != nil && !last.State.Decided() {
		p.printf("A payment of %s to %s, signed %s, has no final answer. The same payment is sent again; no other is signed.",
			amount(last), last.PayTo, date(last.SignedAt))
		err := p.settle(ctx, b)
		if last.State == buyer.Paid || last.Spendable() || !again {
			return err
		}
		p.printf("%v", err)
	}
	switch last := p.purchase.Payment; {
	case last == nil || again:
	case last.State == buyer.Paid && p.target.Method != "" && p.target.Method != last.Method:
		p.purchase = nil // the payment of another method
		return fmt.Errorf("not paid: this URL was paid before by %s; leave out --method to see that payment, or add --new to pay again", last.Method)
	case last.State == buyer.Paid:
		p.printf("This was paid before. Nothing is sent now; --new buys again.")
		return p.showReceipt()
	default:
		return p.notPaid(errors.New("not paid: the seller refused the last payment: " + last.Reason))
	}
	var err error
	if p.quote, err = b.Quote(ctx, p.target); err != nil {
		return err
	}
	if !again {
		target := p.target
		target.Method = p.quote.Method
		switch opened, err := b.Open(ctx, target, p.quote, p.purchase); {
		case err != nil:
			return err
		case opened:
			p.printf("An earlier payment to %s opens this URL. Nothing is paid now; --new pays again.", offer.Host(p.target.Origin()))
			return p.deliver()
		}
	}
	p.showQuote(key.Address())
	if err := p.confirm(); err != nil {
		return err
	}
	if err := p.purchase.Sign(p.target, p.quote, key); err != nil {
		return err
	}
	return p.settle(ctx, b)
}

// confirm asks whether to pay the price.
func (p *payer) confirm() error {
	demo := p.fl.Bool("demo")
	switch {
	case demo && !p.quote.Network.Test:
		return errors.New("not paid: the seller asks for real money, and --demo pays only test money; leave out --demo to pay")
	case demo && !p.quote.Demo:
		return errors.New("not paid: this server is not a demo; start one with 'go run ./caddy run' in a clone of the repository, or leave out --demo to pay")
	case demo || p.fl.Bool("yes"):
		return nil
	case !onTerminal(p.in):
		return errNoTerminal
	}
	fmt.Fprint(p.out, "Pay? [y/N] ")
	answer, err := bufio.NewReader(p.in).ReadString('\n')
	if answer == "" && err != nil {
		return errNoTerminal
	}
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
		return errors.New("not paid: you did not answer yes; run the command again to pay")
	}
	return nil
}

var errNoTerminal = errors.New("not paid: there is no terminal to ask on; add --yes to pay without asking")

// settle sends the signed payment and reports the outcome.
func (p *payer) settle(ctx context.Context, b *buyer.Buyer) error {
	err := b.Settle(ctx, p.target, p.purchase)
	switch {
	case p.purchase.State == buyer.Paid:
		return errors.Join(err, p.showReceipt())
	case p.fl.Bool("demo"):
		return fmt.Errorf("not paid: the demo refused the payment of test money: %v", err)
	case errors.Is(err, buyer.ErrOpen):
		return fmt.Errorf("%w. The signed payment may still be charged. Run the same command again, without --new: it sends the same payment and signs no other", err)
	default:
		return p.notPaid(err)
	}
}

// notPaid adds to a refusal what to do next.
func (p *payer) notPaid(err error) error {
	last, explorer := p.purchase.Payment, "the chain"
	if network, unknown := offer.LookupNetwork(last.Network); unknown == nil {
		explorer = strings.TrimSuffix(network.Explorer, "tx/") + "address/" + last.Payer
	}
	if last.State == buyer.Void {
		return fmt.Errorf("%w. The signed payment expired %s. Check %s before you pay again with --new", err, date(last.ValidBefore), explorer)
	}
	return fmt.Errorf("%w. The seller can still charge the signed payment until it expires at %s. Check %s before paying again. "+
		"Running the same command again sends the same payment and cannot charge you twice", err, date(last.ValidBefore), explorer)
}
