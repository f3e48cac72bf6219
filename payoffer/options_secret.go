package payoffer

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"
)

// secretForms are what secrets look like, wherever they stand in a value.
var secretForms = []struct {
	kind string
	form *regexp.Regexp
}{
	{"an API key", regexp.MustCompile(`(?i)(^|[^a-z0-9])(sk|rk|ek)_(live|test|org|prod)[a-z]*_[a-z0-9]{6}|(^|[^a-z0-9])(sk-[a-z0-9]{3,8}-|gh[opsu]_|github_pat_|glpat-|xox[abp]-)[\w-]{10}`)},
	{"the signing secret of webhooks", regexp.MustCompile(`(^|[^A-Za-z0-9])wh(sec|sk)_[A-Za-z0-9+/=_-]{6}`)},
	{"a JSON web token", regexp.MustCompile(`\beyJ[\w-]{8,}\.eyJ[\w-]{8,}\.`)},
	{"a bearer token", regexp.MustCompile(`(?i)\bbearer\s+[\w.~+/=-]{24}`)},
	{"a key in PEM", regexp.MustCompile(`-----BEGIN|PRIVATE KEY`)},
	{"a private key", regexp.MustCompile(`\b0[xX][0-9a-fA-F]{64}\b|^[0-9a-fA-F]{64}$`)},
	{"a private key", regexp.MustCompile(`\b([59KLc][1-9A-HJ-NP-Za-km-z]{50,51}|6P[1-9A-HJ-NP-Za-km-z]{56})\b`)},
	{"an extended private key", regexp.MustCompile(`\b[A-Za-z]prv[0-9A-Za-z]{60}`)},
	{"an address with a password", regexp.MustCompile(`(?i)[a-z][a-z0-9+.-]*://[^/?#@\s]*:[^/?#@\s]+@|\bpassword\s*=\s*\S`)},
}

var (
	// token is one long word, as keys and tokens without a form of their own are.
	// Nothing else that stands for itself mixes so many letters and digits, but an
	// address.
	token   = regexp.MustCompile(`^[A-Za-z0-9_+/-]{40,}=*$`)
	address = regexp.MustCompile(`^0[xX][0-9a-fA-F]{40}$`)
)

// secretIn says what kind of secret a value looks like; empty is none.
func secretIn(value string) string {
	for _, secret := range secretForms {
		if secret.form.MatchString(value) {
			return secret.kind
		}
	}
	if token.MatchString(value) && !address.MatchString(value) && strings.ContainsFunc(value, unicode.IsLower) && strings.ContainsFunc(value, unicode.IsUpper) &&
		strings.ContainsFunc(value, unicode.IsDigit) {
		return "a token"
	}
	return ""
}

// misplaced is the refusal of what looks like a secret. It repeats nothing of it.
func misplaced(kind string) error {
	return fmt.Errorf("this looks like %s, which is no value of this option: it would be shown to others; write it at the option that it is for, "+
		"as {env.NAME} or {file.PATH}, and make a new one if this file was shown to anybody", kind)
}

// errMisplacedHost is the refusal of a host that looks like a secret. Of the
// addresses that are called the rest may hold one, and the host is told.
var errMisplacedHost = errors.New("the host of this URL looks like a secret; write the host first, and the secret into the path, as in https://host.example.org/key")

// noSecret is the check of a value that is published, logged or told in an
// error: what looks like a secret is refused before anything repeats it.
func noSecret(check func(string) error) func(string) error {
	return func(s string) error {
		if kind := secretIn(s); kind != "" {
			return misplaced(kind)
		}
		return check(s)
	}
}

// parses is noSecret for what a parser takes.
func parses[T any](parse func(string) (T, error)) func(string) error {
	return noSecret(func(s string) error {
		_, err := parse(s)
		return err
	})
}
