package command

import (
	"cmp"
	"errors"
	"strings"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// question is one thing that init has to know. An answer is the same words at the
// terminal and in the flag.
type question struct {
	flag, help string
	// ask is how it is asked, and form an example; what is not asked is told by its
	// flag alone.
	ask, form string
	needed    bool
	// set reads words, which are some, into answers. It does not judge them: the
	// Caddyfile that they make is.
	set func(a *answers, words string) error
}

var questions = []question{
	{
		flag: "domain", help: "The domain of the service, as in pay.example.org",
		ask: "The domain of the service", form: "pay.example.org", needed: true,
		set: func(a *answers, words string) error { a.Service = origin(words); return nil },
	},
	{
		flag: "site", help: "The domain of the page /offer/, if it has one of its own",
		ask: "The domain of the site with the page /offer/ [the same]", form: "example.org",
		set: func(a *answers, words string) error { a.OtherSite = origin(words); return nil },
	},
	{
		flag: "name", help: "What is paid for, in a few words",
		ask: "What is paid for, in a few words [Payment offer]", form: "Sponsorship of Example",
		set: func(a *answers, words string) error { a.Name = words; return nil },
	},
	{
		flag: "seller", help: "Who is paid, and an e-mail address for questions",
		ask: "Who is paid, and an e-mail address for questions", form: "Example Org <pay@example.org>",
		set: setSeller,
	},
	{
		flag: "card", help: "The card checkout and the id of its payment link, as in 'https://… plink_…'",
		ask: "Card checkout: a payment link of 42 USD and, to have payments confirmed, its id", form: "https://buy.stripe.com/… plink_…",
		needed: true, set: setCard,
	},
	{
		flag: "usdc", help: "An address for USDC and its network, as in '0x… base'",
		ask: "USDC: your address and its network [base]", form: "0x… polygon",
		set: setUSDC,
	},
	{
		flag: "bitcoin", help: "A Bitcoin address, or a key and its first address, as in 'xpub… bc1q…'",
		ask:  "Bitcoin: an address, or an account's extended public key and its first address",
		form: "bc1q…, or xpub… bc1q… as the wallet shows them",
		set:  setBitcoin,
	},
	{
		flag: "bank", help: "The e-mail address that sends invoices, and an IBAN with its BIC",
		ask:  "Bank transfer: an e-mail address that sends invoices and, to publish it, your account",
		form: "pay@example.org, or Jane Doe <pay@example.org> GB29 NWBK 6016 1331 9268 19 NWBKGB2L",
		set:  setBank,
	},
	{
		flag: "storefront", help: "Shops: the name, checkout and product id of each, with commas between",
		ask: "Storefronts: name, checkout and, to have sales confirmed, product id of each", form: "tip-jar https://… ab12C, pack https://… de34F",
		set: setStorefronts,
	},
	{
		flag: "announce", help: "Who is told of each payment: a webhook, 'ntfy https://…' or 'email …'",
		ask:  "Who is told of each payment: a signed webhook, a topic of ntfy, or a mailbox",
		form: "https://…, or ntfy https://…, or email me@example.org mail.example.org:587 user",
		set:  setAnnounce,
	},
	{
		flag: "facilitator", help: "Who settles x402 payments, if not CDP or that of test networks",
		set: func(a *answers, words string) error { a.OtherFacilitator = words; return nil },
	},
	{
		flag: "email", help: "The e-mail address for certificates, if not that for questions",
		set: setEmail,
	},
	{
		flag: "behind-proxy", help: "Where the proxy that ends TLS reaches this server, as in 127.0.0.1:8402",
		set: setBehindProxy,
	},
}

// with takes the answer to a question, unless the Caddyfile would be refused with it.
func (a answers) with(q question, words string) (answers, error) {
	words = strings.TrimSpace(words)
	if words == "" {
		if q.needed {
			return a, errors.New("without it there is no offer")
		}
		return a, nil
	}
	// Before it is split into parts.
	if err := offer.CheckNoWalletSecret(words); err != nil {
		return a, err
	}
	if err := q.set(&a, words); err != nil {
		return a, err
	}
	draft := a
	// Before they are asked for there are those of nobody.
	draft.Service, draft.Card = cmp.Or(a.Service, "http://localhost"), cmp.Or(a.Card, "https://checkout.example/pay")
	text, err := draft.caddyfile()
	if err != nil {
		return a, err
	}
	return a, tryCaddyfile(text)
}

// origin completes the host that somebody typed, as far as it is one.
func origin(words string) string {
	completed := words
	if !strings.Contains(words, "://") {
		completed = "https://" + words
		if offer.IsLoopback(offer.Hostname(completed)) {
			completed = "http://" + words
		}
	}
	if parsed, err := offer.ParseOrigin(completed); err == nil {
		return parsed
	}
	return completed
}

// cutMailbox finds the mailbox in words, in angle brackets or bare. Before it stands a
// name. Without a mailbox all are before it.
func cutMailbox(words string) (before, mailbox string, after []string) {
	parts := strings.Fields(strings.ReplaceAll(words, "<", " <"))
	for i, part := range parts {
		if strings.Contains(part, "@") || strings.HasPrefix(part, "<") && strings.HasSuffix(part, ">") {
			return strings.Join(parts[:i], " "), strings.TrimSuffix(strings.TrimPrefix(part, "<"), ">"), parts[i+1:]
		}
	}
	return words, "", nil
}

// setSeller reads a name, a mailbox, or both.
func setSeller(a *answers, words string) error {
	name, mailbox, after := cutMailbox(words)
	if len(after) > 0 {
		return errors.New("write a name and, after it, an e-mail address: Example Org <pay@example.org>")
	}
	a.Operator, a.Contact = name, mailbox
	return nil
}

// setEmail checks the address, for Caddy passes any on.
func setEmail(a *answers, words string) error {
	if _, err := offer.ParseMailbox(words); err != nil {
		return errors.New("this is no e-mail address; write it bare, as in pay@example.org")
	}
	a.OtherEmail = words
	return nil
}

func setCard(a *answers, words string) error {
	parts := strings.Fields(words)
	if len(parts) > 2 {
		return errors.New("write one address and, after a space, the id of the payment link: https://… plink_…")
	}
	a.Card, a.PaymentLink = parts[0], second(parts)
	return nil
}

func setUSDC(a *answers, words string) error {
	parts := strings.Fields(words)
	if len(parts) > 2 {
		return errors.New("write one address and, after a space, the network: 0x… base")
	}
	a.USDC, a.Network = parts[0], cmp.Or(second(parts), "base")
	if strings.HasPrefix(a.Network, "0x") { // as the Caddyfile has it
		a.USDC, a.Network = a.Network, a.USDC
	}
	return nil
}

func setBitcoin(a *answers, words string) error {
	parts := strings.Fields(words)
	if len(parts) > 2 {
		parts = []string{words} // the check of accounts knows seed phrases of other words
	}
	a.Bitcoin, a.FirstAddress = parts[0], second(parts)
	if a.FirstAddress == "" && a.Extended() && offer.ConfirmBitcoinAccount(a.Bitcoin, "", "") != nil {
		return errors.New("this key does not tell at which kind of addresses its wallet receives; write after it the first receiving address that the wallet shows: xpub… bc1q…")
	}
	return nil
}

// setBank reads a mailbox, before it the account's holder, who is the seller if nobody is
// named, and after it an IBAN in groups or as one word with a BIC behind, or the routing
// number of a bank in the United States and the account's.
func setBank(a *answers, words string) error {
	holder, inbox, number := cutMailbox(words)
	if inbox == "" {
		parts := strings.Fields(words)
		holder, inbox, number = "", parts[0], parts[1:] // which is refused as a mailbox
	}
	a.AccountHolder, a.Inbox, a.IBAN, a.BIC, a.Routing, a.Account = holder, inbox, "", "", "", ""
	switch last := len(number) - 1; {
	case last < 0 && holder != "":
		return errors.New("write the account behind the e-mail address; what stands before that is the name of its holder")
	case last < 0:
		return nil
	case last == 1 && number[0][0] >= '0' && number[0][0] <= '9':
		a.Routing, a.Account = number[0], number[1]
	case last > 0 && isBIC(number[last]):
		a.IBAN, a.BIC = strings.Join(number[:last], ""), number[last]
	default:
		a.IBAN = strings.Join(number, "")
	}
	iban, err := offer.ParseIBAN(a.IBAN)
	switch {
	case a.IBAN != "" && err != nil:
		return nil // which the Caddyfile is refused for
	case a.Holder() == "":
		return errors.New("the holder of the account is not known; write the name that the bank knows before the e-mail address: Example Org <pay@example.org> …")
	case iban == "" || a.BIC != "":
		return nil
	}
	if (&offer.Bank{AccountHolderName: a.Holder(), IBAN: iban}).Check() != nil {
		return errors.New("banks need the BIC beside an IBAN from outside the European Economic Area; write it behind the number: … NWBKGB2L")
	}
	return nil
}

func isBIC(word string) bool {
	_, err := offer.ParseBIC(word)
	return err == nil
}

func setAnnounce(a *answers, words string) error {
	parts := strings.Fields(words)
	a.Announce, a.Ntfy, a.Mailbox, a.SMTP, a.SMTPUser = "", "", "", "", ""
	switch {
	case len(parts) == 2 && parts[0] == "ntfy":
		a.Ntfy = parts[1]
	case len(parts) == 3 && parts[0] == "email":
		a.Mailbox, a.SMTP = parts[1], parts[2]
	case len(parts) == 4 && parts[0] == "email" && strings.Contains(parts[3], ":"):
		return errors.New("write the user alone; the password belongs into the environment, which the last steps name")
	case len(parts) == 4 && parts[0] == "email":
		a.Mailbox, a.SMTP, a.SMTPUser = parts[1], parts[2], parts[3]
	case strings.Contains(parts[0], "@") && !strings.Contains(parts[0], "://"):
		return errors.New("write the word email before the mailbox, and behind it the mail server with its port: email me@example.org mail.example.org:587 user")
	case len(parts) == 1:
		a.Announce = words
	default:
		return errors.New("write https://…, or ntfy https://…, or email, the mailbox, the mail server with its port and, if it asks for one, the user")
	}
	return nil
}

// second is the second of one or two parts.
func second(parts []string) string {
	if len(parts) < 2 {
		return ""
	}
	return parts[1]
}

func setStorefronts(a *answers, words string) error {
	a.Storefronts = nil
	for _, one := range strings.Split(words, ", ") {
		parts := strings.Fields(strings.TrimSuffix(one, ","))
		if len(parts) < 2 || len(parts) > 3 {
			return errors.New("write a name, the address of the checkout and, to have sales confirmed, the product's id: tip-jar https://… ab12C")
		}
		s := storefront{Name: parts[0], URL: parts[1]}
		if len(parts) == 3 {
			s.Product = parts[2]
		}
		a.Storefronts = append(a.Storefronts, s)
	}
	return nil
}
