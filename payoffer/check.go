package payoffer

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/net/http/httpguts"

	"github.com/payoffer/caddy-pay-offer/payoffer/announce"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/evm"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/rate"
)

// The checks of option values. The Caddyfile runs them on what it reads, so
// that an error carries file and line; Provision runs them again on what the
// placeholders became and on JSON. Those of addresses that money arrives at
// repeat none of it; all others go through noSecret.

var (
	offerID       = regexp.MustCompile(`^[A-Za-z0-9._:\[\]-]{1,100}$`)
	paymentLink   = regexp.MustCompile(`^plink_[A-Za-z0-9_]+$`)
	paymentMethod = regexp.MustCompile(`^[a-z0-9_]{1,40}$`)
	shopID        = regexp.MustCompile(`^[!-~]{1,200}$`)
	railName      = regexp.MustCompile(`^[a-z0-9-]{1,80}$`)
)

// checkUpstream checks the URL of a service that is called. It may hold a key,
// so that no error repeats it.
func checkUpstream(s string) error {
	u, err := url.Parse(s)
	switch {
	case err == nil && checkNoSecret(u.Host) != nil:
		return errMisplacedHost
	case err != nil || u.Hostname() == "" || (u.Scheme != "https" && u.Scheme != "http"):
		if err := offer.CheckNoWalletSecret(s); err != nil {
			return err
		}
		return errors.New("this is not an absolute URL; write it whole, as in https://host.example.org/path")
	case u.Scheme == "http" && !offer.IsLoopback(u.Hostname()):
		return fmt.Errorf("the URL for host %q is plain http to a host that is not loopback; use https", u.Hostname())
	}
	if _, err := offer.ParseURL(s); err != nil {
		return fmt.Errorf("the URL for host %q holds a user name, a password or an unescaped character; write a key into its path or query, percent-encoded", u.Hostname())
	}
	return nil
}

// parseLogo checks the address of an image: a path, or a whole URL whose host is
// compared later.
func parseLogo(s string) error {
	if strings.HasPrefix(s, "/") && !strings.HasPrefix(s, "//") {
		s = "https://host.example" + s
	}
	if _, err := offer.ParseURL(s); err != nil {
		return errors.New("this is no address of an image; write a path on the host of base_url, as in /logo.svg, or its whole address")
	}
	return nil
}

// parseExplorer checks the address of a block explorer, or the word for none.
func parseExplorer(s string) error {
	if s == upstreamOff {
		return nil
	}
	if _, err := offer.ParseURL(s); err != nil || !strings.HasSuffix(s, "/") && !strings.HasSuffix(s, "=") {
		return errors.New("write the address that a transaction's hash is appended to, as in https://basescan.org/tx/, or off")
	}
	return nil
}

// checkUpstreamOrOff is checkUpstream, or the word that turns a chain's observer
// off.
func checkUpstreamOrOff(s string) error {
	switch {
	case s == upstreamOff:
		return nil
	case strings.Contains(s, ",http") || strings.Contains(s, " http"):
		return errors.New("these are several addresses in one; write them with spaces between, and without quotation marks around all of them")
	}
	return checkUpstream(s)
}

// checkTopic checks the URL of a topic of ntfy, of which no error repeats anything
// but the host. A topic may be random; a token in its place reads all others.
func checkTopic(s string) error {
	if err := checkUpstream(s); err != nil {
		return err
	}
	_, topic, err := announce.ParseTopic(s)
	if kind := serviceSecret(topic); kind != "" {
		return fmt.Errorf("the topic of this URL looks like %s, which servers and proxies would log; write the topic there, the token as 'token {env.NAME}' into the block, "+
			"and make a new one if this was shown to anybody", kind)
	}
	return err
}

func checkEVMAddress(s string) error {
	_, err := offer.ParseEVMAddress(s)
	return err
}

func checkNetwork(s string) error {
	if strings.HasPrefix(s, "0x") {
		return errors.New("the network comes first, then the address; write 'usdc <network> <address>'")
	}
	return checkKnownNetwork(s)
}

// earliest is before the first payment on any rail that is read back.
var earliest = time.Date(2009, time.January, 1, 0, 0, 0, 0, time.UTC)

// parseSince reads from when on money counts: a day, which begins in UTC, or an
// RFC 3339 moment, from 2009 until now.
func parseSince(s string) (time.Time, error) {
	begin, err := time.Parse(time.DateOnly, s)
	if err != nil {
		begin, err = time.Parse(time.RFC3339, s)
	}
	switch {
	case err != nil:
		return begin, fmt.Errorf("%q is no day and no moment; write it as in 2026-11-01, which begins in UTC, or as in 2026-11-01T09:00:00+01:00", s)
	case begin.Before(earliest):
		return begin, fmt.Errorf("%s is before 2009; look for a slip in the year", s)
	case begin.After(time.Now()):
		return begin, fmt.Errorf("%s is in the future; write the day of the first payment that counts", s)
	}
	return begin, nil
}

// checkText makes a check for text for people: at most limit characters,
// valid and without any that nobody sees.
func checkText(limit int) func(string) error {
	return noSecret(func(s string) error {
		switch n := utf8.RuneCountInString(s); {
		case !utf8.ValidString(s):
			return errors.New("this text is not valid UTF-8")
		case n > limit:
			return fmt.Errorf("this text has %d characters; at most %d are allowed", n, limit)
		}
		return offer.CheckPrintable(s)
	})
}

func checkForm(form *regexp.Regexp, want string) func(string) error {
	return noSecret(func(s string) error {
		if !form.MatchString(s) {
			return fmt.Errorf("%q is not %s", s, want)
		}
		return nil
	})
}

// checkHeader checks the name of a request header. Those that frame a call are its own.
func checkHeader(s string) error {
	switch {
	case checkNoSecret(s) != nil || !httpguts.ValidHeaderFieldName(s):
		return errors.New("this is no name of a header; write the name first and the value behind it, as in 'header x-secret-key {env.SETTLER_KEY}'")
	case slices.Contains([]string{"host", "content-type", "content-length", "transfer-encoding", "connection"}, strings.ToLower(s)):
		return fmt.Errorf("the header %s belongs to the call itself; name the one that takes the key", s)
	}
	return nil
}

// checkHeaderValue checks the value of a header, which is a secret.
func checkHeaderValue(s string) error {
	if !httpguts.ValidHeaderFieldValue(s) {
		return errors.New("the value has a character that no header takes, such as a line break; compare it with what the facilitator gave you")
	}
	return nil
}

// checkPaymentLink checks the id of a payment link. By that of the demo a ledger would
// be taken for one of pretend payments, for good.
func checkPaymentLink(s string) error {
	if s == offer.DemoLink {
		return fmt.Errorf("%s is the payment link of the demo, which no processor has made; write the id of your own", s)
	}
	return checkForm(paymentLink, "the id of a payment link; it starts with plink_")(s)
}

// tag is the form of what facilitators and directories list a resource under
// (x402, Bazaar).
var tag = regexp.MustCompile(`^[!-~]([ -~]{0,30}[!-~])?$`)

// maxTags is how many of them a resource may have.
const maxTags = 5

// parseMPP is the request field that an operator chose for the Payment scheme.
func parseMPP(choice string) (field string, err error) {
	switch choice {
	case "authorization":
		return "Authorization", nil
	case "header":
		return "Payment-Authorization", nil
	case "off":
		return "", nil
	}
	return "", fmt.Errorf("%q is none of: authorization, header, off", choice)
}

// parseMailServer and parseTLS see one of the two alone.
func parseMailServer(s string) (string, error) { return announce.ChooseTLS(s, "") }

func parseTLS(word string) (string, error) { return announce.ChooseTLS("localhost:25", word) }

func parseRateSource(s string) (*rate.Watcher, error) {
	return rate.New(rate.Config{Sources: []string{s}})
}

var (
	checkOrigin        = parses(offer.ParseOrigin)
	checkURL           = parses(offer.ParseURL)
	checkMailbox       = parses(offer.ParseMailbox)
	checkMailServer    = parses(parseMailServer)
	checkTLS           = parses(parseTLS)
	checkAmount        = parses(offer.ParseUSD)
	checkKnownNetwork  = parses(offer.LookupNetwork)
	checkConfirm       = parses(evm.ParseLevel)
	checkRateSource    = parses(parseRateSource)
	checkSince         = parses(parseSince)
	checkRailName      = noSecret(offer.CheckRailName)
	checkRecommended   = checkForm(railName, "the name of a rail, as in usdc")
	checkLogo          = noSecret(parseLogo)
	checkExplorer      = noSecret(parseExplorer)
	checkTag           = checkForm(tag, "a tag of at most 32 printable ASCII characters")
	checkMPP           = parses(parseMPP)
	checkAccount       = noSecret(offer.CheckAccount)
	checkName          = checkText(80)
	checkDescription   = checkText(500)
	checkMemo          = checkText(140)
	checkHolder        = checkText(70)
	checkIBAN          = parses(offer.ParseIBAN)
	checkBIC           = parses(offer.ParseBIC)
	checkEuros         = parses(offer.ParseEUR)
	checkRouting       = parses(offer.ParseRouting)
	checkBankAccount   = parses(offer.ParseAccount)
	checkID            = checkForm(offerID, "an id; use at most 100 letters, digits, dots, colons, hyphens and underscores")
	checkPaymentMethod = checkForm(paymentMethod, "a payment method; use its identifier, as in us_bank_account")
	checkShopID        = checkForm(shopID, "an id of the shop; use printable characters without spaces")
)
