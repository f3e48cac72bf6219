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

// Exit statuses of pay beside success and failure, in the words of sysexits(3).
const (
	// exitOpen is EX_TEMPFAIL: the same command is to be run again.
	exitOpen = 75
	// exitReceipt is EX_PROTOCOL: it is paid, and the receipt does not hold.
	exitReceipt = 76
)

func payCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pay <url> [--dry-run] [--yes] [--max <usd>] [--method GET|POST] [--network <name>] [--key-file <file>] [--demo] [--wait <duration>] [--new] [--state <folder>] [--json]",
		Short: "Pays what a URL asks for by x402",
		Long: `
Pays what a URL asks for by x402 version 2, with USDC: an offer of this plugin,
or what anyone else sells. It shows the price and asks before it signs.

The private key of the payer stands in the environment variable PAY_OFFER_KEY,
or in a file of --key-file that nobody else may read: 64 hexadecimal digits. It
needs USDC on the network and no coin for gas. --dry-run needs no key.

--demo pays the demo that a server from a clone of this repository plays on this
machine: with a key that is made for it and thrown away, with worthless test
money alone, and without asking.

A signed payment is kept on disk before it is sent, until its answer is final.
Run the same command again after a crash or a status of 75: it sends the same
payment again and signs no other. What was paid is not paid twice: run again, it
shows the receipt. --new buys once more.

A refusal is the word of the seller, who can still charge what was signed until
it ends, in at most ten minutes. Until then the same payment is sent again. Then
another one is signed with --new alone, for only the chain tells whether the
first was charged.

Exit status: 0 paid; 1 not paid; 75 not known yet; 76 paid, but the receipt that
came does not hold.`,
		Example: "  caddy pay-offer pay http://localhost:8402/v1/sponsor --demo\n" +
			"  caddy pay-offer pay https://pay.example.org/v1/sponsor --dry-run\n" +
			"  caddy pay-offer pay https://pay.example.org/v1/sponsor --key-file payer.key\n" +
			"  PAY_OFFER_KEY=$(pass payer) caddy pay-offer pay https://api.example.com/report --method GET --max 0.10 --yes --json",
		Args: cobra.ExactArgs(1),
	}
	flags := cmd.Flags()
	flags.Bool("dry-run", false, "Show what would be paid, and pay nothing")
	flags.BoolP("yes", "y", false, "Do not ask")
	flags.String("max", "50", "The most to pay, in US dollars")
	flags.String("method", "POST", "The method of the payable URL: GET or POST")
	flags.String("network", "", "The network to pay on, if not the first that is asked for")
	flags.String("key-file", "", "The file of the private key, in place of "+keyVariable)
	flags.Bool("demo", false, "Pay a demo on this machine, with a key that is made for it")
	flags.Duration("wait", 2*time.Minute, "How long to send a payment again that has no final answer")
	flags.Bool("new", false, "Buy once more what was paid before")
	flags.String("state", "", "The folder of the payments, if not below Caddy's data folder")
	flags.Bool("json", false, "Print one JSON object, and everything else to the standard error")
	return exits(cmd, func(fl caddycmd.Flags) (int, error) {
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

// errReceipt is of a payment whose receipt does not hold.
var errReceipt = errors.New("you have paid, but the receipt does not hold")

func exitStatus(err error) int {
	switch {
	case err == nil:
		return caddy.ExitCodeSuccess
	case errors.Is(err, buyer.ErrOpen), errors.Is(err, buyer.ErrBusy):
		return exitOpen
	case errors.Is(err, errReceipt):
		return exitReceipt
	default:
		return caddy.ExitCodeFailedStartup
	}
}

// payer is one run of the command, and what came of it.
type payer struct {
	fl  caddycmd.Flags
	in  io.Reader
	out io.Writer

	target   buyer.Target
	quote    *buyer.Quote
	purchase *buyer.Purchase
	receipt  *buyer.Receipt
}

func (p *payer) run(ctx context.Context) (err error) {
	b := &buyer.Buyer{Network: p.fl.String("network"), Wait: p.fl.Duration("wait"), Told: p.print}
	var ok bool
	if b.Max, _, ok = offer.ParseDecimal(p.fl.String("max"), 6); !ok || b.Max == 0 {
		return errors.New("--max is not an amount of US dollars; write for example 42 or 0.10")
	}
	if b.Network != "" {
		if _, err := offer.LookupNetwork(b.Network); err != nil {
			return err
		}
	}
	if p.target, err = buyer.NewTarget(strings.ToUpper(p.fl.String("method")), p.fl.Arg(0)); err != nil {
		return err
	}
	if p.fl.Bool("dry-run") {
		if p.quote, err = b.Quote(ctx, p.target); err == nil {
			p.showQuote("")
		}
		return err
	}
	state := p.fl.String("state")
	if p.fl.Bool("demo") {
		if state, err = p.demoState(); err != nil {
			return err
		}
		defer os.RemoveAll(state)
	}
	key, err := p.key()
	if err != nil {
		return err
	}
	if state == "" {
		state = filepath.Join(caddy.AppDataDir(), "pay_offer", "payments")
	}
	if !filepath.IsAbs(state) {
		// Without a home Caddy's data folder is below the working directory, and what one
		// run has signed another would not find.
		return errors.New("not paid: the folder of the payments depends on where the command is run, and what was signed would not be found " +
			"from elsewhere; set HOME, or give --state an absolute path")
	}
	if p.purchase, err = buyer.OpenPurchase(state, p.target, key.Address()); err != nil {
		return err
	}
	defer p.purchase.Close()
	return p.pay(ctx, b, key)
}

// demoState checks that a demo may be paid as it was asked for, and is a folder for
// a payment that nobody needs afterwards.
func (p *payer) demoState() (string, error) {
	if !offer.IsLoopback(offer.Hostname(p.target.Origin())) {
		return "", errors.New("not paid: --demo pays on this machine alone, as in http://localhost:8402/v1/sponsor; leave it out to pay others")
	}
	for _, flag := range []string{"key-file", "state"} {
		if p.fl.String(flag) != "" {
			return "", errors.New("not paid: --demo makes a key of its own and keeps nothing; leave out --" + flag)
		}
	}
	return os.MkdirTemp("", "pay_offer_payment_")
}

// key reads the private key, or makes one that pays a demo.
func (p *payer) key() (buyer.Key, error) {
	if p.fl.Bool("demo") {
		return buyer.NewKey(), nil
	}
	if file := p.fl.String("key-file"); file != "" {
		return buyer.ReadKey(file)
	}
	text, found := os.LookupEnv(keyVariable)
	if !found {
		return buyer.Key{}, errors.New("there is no key to pay with: set " + keyVariable + " or name a --key-file; --dry-run needs none")
	}
	return buyer.ParseKey(text)
}

// pay goes on with what was begun, and begins what was not.
func (p *payer) pay(ctx context.Context, b *buyer.Buyer, key buyer.Key) error {
	again := p.fl.Bool("new")
	if last := p.purchase.Payment; last != nil && !last.State.Decided() {
		p.print("A payment of " + offer.FormatDecimal(last.Atomic, 6) + " USDC to " + last.PayTo + " was signed for this purchase " + date(last.SignedAt) +
			" and has no final answer. It is sent again as it is, whatever --max and --network say; no other is signed.")
		err := p.settle(ctx, b)
		if last.State == buyer.Paid || last.Spendable() || !again {
			return err
		}
		p.print(err.Error())
	}
	switch last := p.purchase.Payment; {
	case last == nil || again:
	case last.State == buyer.Paid:
		p.print("This was paid before; nothing is sent now. To buy it once more: --new")
		return p.showReceipt(ctx, b)
	default:
		return p.unproven(errors.New("not paid: the last payment of this purchase was refused: " + last.Reason))
	}
	var err error
	if p.quote, err = b.Quote(ctx, p.target); err != nil {
		return err
	}
	p.showQuote(key.Address())
	if p.fl.Bool("demo") {
		switch {
		case !p.quote.Network.Test:
			return errors.New("not paid: this is no demo, for it asks for real money; leave out --demo to pay it")
		case !p.quote.Demo:
			return errors.New("not paid: this server is no demo; a server from a clone plays one as long as no address of yours is set " +
				"(demo.md says what ends it), and to pay this one leave out --demo")
		}
	} else if err := p.agree(); err != nil {
		return err
	}
	if err := p.purchase.Sign(p.target, p.quote, key); err != nil {
		return err
	}
	return p.settle(ctx, b)
}

// agree asks whether to pay what was shown.
func (p *payer) agree() error {
	if p.fl.Bool("yes") {
		if p.quote.Wrong {
			return errors.New("not paid: the offer is signed wrongly, and --yes pays none such; run it without --yes to decide yourself")
		}
		return nil
	}
	if !onTerminal(p.in) {
		return errNobody
	}
	fmt.Fprint(p.out, "Pay? [y/N] ")
	answer, err := bufio.NewReader(p.in).ReadString('\n')
	if answer == "" && err != nil {
		return errNobody // who was there has left
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	default:
		return errors.New("not paid: you did not say yes")
	}
}

var errNobody = errors.New("not paid: there is no terminal to ask on; --yes pays without asking")

// settle sends what is signed, and says how it ended.
func (p *payer) settle(ctx context.Context, b *buyer.Buyer) error {
	err := b.Settle(ctx, p.target, p.purchase)
	switch {
	case p.purchase.State == buyer.Paid:
		return errors.Join(err, p.showReceipt(ctx, b))
	case p.fl.Bool("demo"):
		return fmt.Errorf("not paid: the demo did not take the payment, which was worth nothing: %v", err)
	case errors.Is(err, buyer.ErrOpen):
		return fmt.Errorf("%w. You may have been charged. Run the same command again, without --new: it sends the same payment again and signs no other", err)
	default:
		return p.unproven(err)
	}
}

// unproven says what is known after a no, and how to go on.
func (p *payer) unproven(err error) error {
	last, where := p.purchase.Payment, ""
	if network, unknown := offer.LookupNetwork(last.Network); unknown == nil {
		where = ": see " + strings.TrimSuffix(network.Explorer, "tx/") + "address/" + last.Payer
	}
	next := "The signed payment ends " + date(last.ValidBefore) + ". Run the same command again to send it again; no other is signed before " +
		date(last.VoidAt()) + ", for clocks differ."
	if last.State == buyer.Void {
		next = "The signed payment ended " + date(last.ValidBefore) + ". To sign another one: --new."
	}
	return fmt.Errorf("%w. Whether it was charged all the same, as by a seller who does not know a payment again, the chain alone tells%s. %s", err, where, next)
}

// print writes a line, which may hold a stranger's words.
func (p *payer) print(line string) { fmt.Fprintln(p.out, printable(line)) }
