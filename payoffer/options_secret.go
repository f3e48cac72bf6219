package payoffer

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// secretForms are what the secrets of services look like, wherever they stand in a
// value. Those of wallets are known to package offer.
var secretForms = []struct {
	kind string
	form *regexp.Regexp
}{
	{"an API key", regexp.MustCompile(`(?i)(^|[^a-z0-9])(sk|rk|ek)_(live|test|org|prod)[a-z]*_[a-z0-9]{6}|(^|[^a-z0-9])(sk-[a-z0-9]{3,8}-|gh[opsu]_|github_pat_|glpat-|xox[abp]-)[\w-]{10}`)},
	{"the signing secret of webhooks", regexp.MustCompile(`(^|[^A-Za-z0-9])wh(sec|sk)_[A-Za-z0-9+/=_-]{6}`)},
	{"a JSON web token", regexp.MustCompile(`\beyJ[\w-]{8,}\.eyJ[\w-]{8,}\.`)},
	{"a bearer token", regexp.MustCompile(`(?i)\bbearer\s+[\w.~+/=-]{24}`)},
	{"a key in PEM", regexp.MustCompile(`-----BEGIN|PRIVATE KEY`)},
	{"an access token of ntfy", regexp.MustCompile(`(^|[^A-Za-z0-9])tk_[A-Za-z0-9]{20}`)},
	{"an address with a password", regexp.MustCompile(`(?i)[a-z][a-z0-9+.-]*://[^/?#@\s]*:[^/?#@\s]+@|\bpassword\s*=\s*\S`)},
}

var (
	// token is one long word, as keys and tokens without a form of their own are.
	// Nothing else that stands for itself mixes so many letters and digits, but an
	// address.
	token   = regexp.MustCompile(`^[A-Za-z0-9_+/-]{40,}=*$`)
	address = regexp.MustCompile(`^0[xX][0-9a-fA-F]{40}$`)
	// hostForm is a host name with a domain, or an IPv4 address, and a port.
	hostForm = regexp.MustCompile(`^[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+(:[0-9]{1,5})?$`)
)

// serviceSecret says which secret of a service a value holds; empty is none.
func serviceSecret(value string) (kind string) {
	for _, secret := range secretForms {
		if secret.form.MatchString(value) {
			return secret.kind
		}
	}
	return ""
}

// checkNoSecret refuses what looks like a secret. The error says what to do, and
// repeats nothing of it.
func checkNoSecret(value string) error {
	if err := offer.CheckNoWalletSecret(value); err != nil {
		return err
	}
	kind := serviceSecret(value)
	if kind == "" && token.MatchString(value) && !address.MatchString(value) && strings.ContainsFunc(value, unicode.IsLower) &&
		strings.ContainsFunc(value, unicode.IsUpper) && strings.ContainsFunc(value, unicode.IsDigit) {
		kind = "a token"
	}
	if kind == "" {
		return nil
	}
	return fmt.Errorf("this looks like %s, which is no value of this option: it would be shown to others; write it at the option that it is for, if there is one, "+
		"as {env.NAME} or {file.PATH}, and make a new one if this file was shown to anybody", kind)
}

// errMisplacedHost is the refusal of a host that looks like a secret. Of the
// addresses that are called the rest may hold one, and the host is told.
var errMisplacedHost = errors.New("the host of this URL looks like a secret; write the host first, and the secret into the path, as in https://host.example.org/key")

// noSecret is the check of a value that is published, logged or told in an
// error: what looks like a secret is refused before anything repeats it.
func noSecret(check func(string) error) func(string) error {
	return func(s string) error {
		if err := checkNoSecret(s); err != nil {
			return err
		}
		return check(s)
	}
}

// quote is a value as an error repeats it.
var quote = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)

// hidden stands for a value that is not repeated.
const hidden = "…"

// discreet takes out of an error what it repeats of the configuration, but for
// what is too short to be a secret, and for hosts and addresses. Most secrets have
// no form by which they could be known.
func discreet(err error) error {
	if err == nil {
		return nil
	}
	words := err.Error()
	said := quote.ReplaceAllStringFunc(words, func(q string) string {
		value, wrong := strconv.Unquote(q)
		if wrong != nil {
			return `"` + hidden + `"`
		}
		return strconv.Quote(repeatable(value))
	})
	if said == words {
		return err
	}
	return errors.New(said)
}

// repeatable is a value as errors repeat it: of a URL scheme and host alone.
func repeatable(value string) string {
	if harmless(value) {
		return value
	}
	if u, err := url.Parse(value); err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != "" && harmless(u.Host) {
		return u.Scheme + "://" + u.Host + "/" + hidden
	}
	return hidden
}

// enough is the length from which on a word may be a secret: 64 bits in
// hexadecimal digits.
const enough = 16

// harmless reports whether a value may be repeated: it is seen, and it is short, an
// address, or a host none of whose labels may be a secret.
func harmless(value string) bool {
	switch {
	case offer.CheckPrintable(value) != nil:
		return false
	case len(value) < enough || address.MatchString(value):
		return true
	case !hostForm.MatchString(value):
		return false
	}
	host, _, _ := strings.Cut(value, ":")
	return !slices.ContainsFunc(strings.Split(host, "."), func(label string) bool {
		return len(label) >= enough && strings.ContainsFunc(label, unicode.IsDigit)
	})
}

// parses is noSecret for what a parser takes.
func parses[T any](parse func(string) (T, error)) func(string) error {
	return noSecret(func(s string) error {
		_, err := parse(s)
		return err
	})
}
