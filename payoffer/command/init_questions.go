package command

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/payoffer/caddy-pay-offer/payoffer/announce"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// answers are what init writes into a Caddyfile. It leaves out what is empty.
type answers struct {
	Service, Site string // origins
	Name          string
	Seller        seller
	Card          cardAnswer
	USDC          usdcAnswer
	Bitcoin       bitcoinAnswer
	Lightning     string // an address
	Inbox         string // for bank transfers
	Storefront    storefrontAnswer
	Announce      []announceAnswer
	Private       bool // the totals
}

type (
	seller     struct{ Name, Mailbox string }
	cardAnswer struct {
		URL, PaymentLink string
		Test             bool
	}
	usdcAnswer struct {
		Address, Network string
		Test             bool
	}
	bitcoinAnswer struct {
		Account, FirstAddress string
		Test, Extended        bool
	}
	storefrontAnswer struct{ Name, URL, Product string }
	announceAnswer   struct {
		Webhook, Ntfy, Mailbox, SMTP, User string
		Variable                           string // of its secret
	}
)

// answers asks the questions.
func (i *interview) answers() (a answers) {
	a.Service = askQuestion(i, "Service: the domain that takes the payments and answers programs", "pay.example.org", true, parseDomain)
	a.Site = askQuestion(i, "Site: the domain of the page for people, /offer/ [the same]", "example.org", false, parseDomain)
	a.Site = cmp.Or(a.Site, a.Service)
	a.Name = askQuestion(i, "What is paid for, in a few words [Payment offer]", "Sponsorship of Example", false,
		func(text string) (string, error) { return text, nil })
	a.Seller = askQuestion(i, "The seller, and an e-mail address for questions", "Example Org <pay@example.org>",
		false, parseSeller)
	a.Card = askQuestion(i, "Card checkout: a payment link of 42 USD and, to confirm payments, its id",
		"https://buy.stripe.com/… plink_…", true, parseCard)
	a.USDC = askQuestion(i, "USDC: your address and its network [base]", "0x… polygon", false, parseUSDC)
	a.Bitcoin = askQuestion(i, "Bitcoin: an address, or an account's extended public key and its first address",
		"xpub… bc1q… as the wallet shows them", false, parseBitcoin)
	a.Lightning = askQuestion(i, "Lightning: the Lightning address of a wallet", "alice@wallet.example", false, parseLightning)
	a.Inbox = askQuestion(i, "Bank transfer: an e-mail address that answers with an invoice", "pay@example.org", false, parseInbox)
	a.Storefront = askQuestion(i, "Storefront: its name, the checkout and, to confirm sales, the product id",
		"tip-jar https://… ab12C", false, parseStorefront)
	a.Announce = askQuestion(i, "Notify of each payment: webhooks, ntfy topics, mailboxes with their mail server, separated by commas",
		"https://…, ntfy https://…, email me@example.org mail.example.org:587 user", false, parseNotifications)
	a.Private = askQuestion(i, "Publish your totals, and the amount, time and transaction of each payment, at "+offer.PathReceived+"? [yes]", "no", false, parsePrivate)
	return a
}

// real returns the names of the rails that take real money although the card takes test money.
func (a answers) real() string {
	var names []string
	if a.USDC.Address != "" && !a.USDC.Test {
		names = append(names, "USDC")
	}
	if a.Bitcoin.Account != "" && !a.Bitcoin.Test {
		names = append(names, "Bitcoin")
	}
	if a.Lightning != "" {
		names = append(names, "Lightning")
	}
	if !a.Card.Test {
		return ""
	}
	return strings.Join(names, ", ")
}

// parseDomain returns the origin of a domain: http on this machine, otherwise https.
func parseDomain(text string) (string, error) {
	if _, domain, mailbox := strings.Cut(text, "@"); mailbox && !strings.Contains(text, "://") {
		return "", fmt.Errorf("this is an e-mail address; write only a domain, such as %s", domain)
	} else if !strings.Contains(text, "://") {
		scheme := "https://"
		if offer.IsLoopback(offer.Hostname(scheme + text)) {
			scheme = "http://"
		}
		text = scheme + text
	}
	return offer.ParseOrigin(text)
}

// parseSeller reads a name, an e-mail address, or a name and the address in angle brackets.
func parseSeller(text string) (s seller, err error) {
	if strings.Contains(text, "://") {
		return s, errors.New("this is a URL; write a name and an e-mail address, such as Example Org <pay@example.org>")
	} else if !strings.ContainsAny(text, "@<") {
		return seller{Name: text}, nil
	}
	name, mailbox, found := strings.Cut(text, "<")
	if !found && strings.Contains(text, " ") {
		return s, errors.New("write the e-mail address in angle brackets: Jane Doe <jane@example.org>")
	} else if !found {
		name, mailbox = "", text
	}
	s.Name = strings.TrimSpace(name)
	s.Mailbox, err = offer.ParseMailbox(strings.TrimSuffix(mailbox, ">"))
	return s, err
}

// parseInbox reads an e-mail address. Its error says where a bank account belongs.
func parseInbox(text string) (string, error) {
	inbox, err := offer.ParseMailbox(text)
	if err != nil && !strings.Contains(text, "@") {
		err = errors.New("this is not an e-mail address; write one such as pay@example.org. A bank account is added in the file later, see the guide bank-transfer")
	}
	return inbox, err
}

// split returns two words, the second one empty if there is only one.
func split(text, form string) (first, second string, err error) {
	words := append(strings.Fields(text), "")
	if len(words) > 3 {
		return "", "", errors.New("this has more than two words; write " + form)
	}
	return words[0], words[1], nil
}

func parseCard(text string) (c cardAnswer, err error) {
	if c.URL, c.PaymentLink, err = split(text, "the address and the id of the payment link: https://… plink_…"); err != nil {
		return c, err
	}
	if c.PaymentLink != "" && !strings.HasPrefix(c.PaymentLink, "plink_") {
		return c, errors.New("the second word is not the id of a payment link; write one such as plink_1Abc")
	}
	checkout, err := offer.NewCard(c.URL, nil, 0)
	if err == nil {
		c.Test = checkout.Test()
	}
	return c, err
}

func parseUSDC(text string) (u usdcAnswer, err error) {
	if u.Address, u.Network, err = split(text, "the address and the network: 0x… base"); err != nil {
		return u, err
	}
	if strings.HasPrefix(u.Network, "0x") { // the order of the Caddyfile
		u.Address, u.Network = u.Network, u.Address
	}
	u.Network = cmp.Or(u.Network, "base")
	network, err := offer.LookupNetwork(u.Network)
	if err != nil {
		return u, err
	}
	u.Test = network.Test
	rail, err := offer.NewUSDC("usdc", network, u.Address, 0)
	if err == nil {
		err = offer.CheckNoTestKey(rail.PayTo)
	}
	return u, err
}

func parseBitcoin(text string) (b bitcoinAnswer, err error) {
	if b.Account, b.FirstAddress, err = split(text, "the address, or the key and its first address: xpub… bc1q…"); err != nil {
		return b, err
	}
	account, err := offer.NewBitcoin(b.Account, "", 0)
	if err != nil {
		return b, err
	}
	b.Test, b.Extended = account.Test(), account.Extended()
	if b.Extended && b.FirstAddress == "" {
		return b, errors.New("write after the key the first receiving address that the wallet shows: xpub… bc1q…")
	}
	return b, errors.Join(offer.ConfirmBitcoinAccount(b.Account, "", b.FirstAddress), offer.CheckNoTestKey(cmp.Or(b.FirstAddress, b.Account)))
}

func parseLightning(text string) (string, error) {
	_, err := offer.NewLightning(text, 0)
	return text, err
}

func parseStorefront(text string) (s storefrontAnswer, err error) {
	words := append(strings.Fields(text), "")
	if len(words) < 3 || len(words) > 4 || !strings.Contains(words[1], "://") {
		return s, errors.New("write the name, the checkout and, to confirm sales, the product id: tip-jar https://… ab12C")
	}
	s = storefrontAnswer{words[0], words[1], words[2]}
	_, err = offer.NewStorefront(s.Name, s.URL, 0)
	return s, errors.Join(err, offer.CheckRailName(s.Name))
}

// parseNotifications parses endpoints that are separated by commas. Each secret has a variable of its own.
func parseNotifications(text string) (all []announceAnswer, err error) {
	taken := make(map[string]int)
	for one := range strings.SplitSeq(text, ",") {
		a, err := parseAnnounce(one)
		if err != nil {
			return nil, err
		}
		if a.Ntfy == "" {
			a.Variable = "ANNOUNCE_SECRET"
			if a.Mailbox != "" {
				a.Variable = "ANNOUNCE_SMTP_PASSWORD"
			}
			if taken[a.Variable]++; taken[a.Variable] > 1 {
				a.Variable += "_" + strconv.Itoa(taken[a.Variable])
			}
		}
		all = append(all, a)
	}
	return all, nil
}

func parseAnnounce(text string) (a announceAnswer, err error) {
	words := strings.Fields(text)
	isNtfy := len(words) > 0 && words[0] == "ntfy"
	switch {
	case isNtfy && (len(words) == 1 || !strings.Contains(words[1], "://")):
		err = errors.New("the topic's address is missing; write ntfy https://ntfy.sh/your-topic")
	case strings.Contains(text, "@") && !strings.Contains(text, "://") && words[0] != "email":
		err = errors.New("for a mailbox write email me@example.org mail.example.org:587 user (without a password)")
	case len(words) == 1 && strings.Contains(text, "://"):
		a.Webhook = words[0]
		_, err = offer.ParseURL(a.Webhook)
	case isNtfy && len(words) == 2:
		a.Ntfy = words[1]
		_, err = offer.ParseURL(a.Ntfy)
	case len(words) == 4 && words[0] == "email" && !strings.Contains(words[3], ":"):
		a.Mailbox, a.SMTP, a.User = words[1], words[2], words[3]
		_, wrong := announce.ChooseTLS(a.SMTP, "")
		_, err = offer.ParseMailbox(a.Mailbox)
		err = errors.Join(err, wrong)
	default:
		err = errors.New("write https://…, or ntfy https://ntfy.sh/topic, or email me@example.org mail.example.org:587 user (without a password)")
	}
	return a, err
}

func parsePrivate(text string) (bool, error) {
	if text != "yes" && text != "no" {
		return false, errors.New("write yes or no")
	}
	return text == "no", nil
}
