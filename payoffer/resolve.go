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

	"github.com/caddyserver/caddy/v2"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// off is the value that disables the reading of a chain or the link to a block explorer.
const off = "off"

// resolver replaces placeholders and checks the results. It collects every error, so that
// one load reports all of them, and what the operator should be warned about.
type resolver struct {
	replacer *caddy.Replacer
	errs     []error
	// values are all values after replacement. They identify the settings.
	values []string
	// secretsOff are the secrets without a value, with their variables; literalSecrets
	// are those that the configuration itself contains.
	secretsOff, literalSecrets []string
	// hooksOff are the rails whose webhook secret is empty. leftOut are the rails whose
	// address is empty, and withoutAddress their options.
	hooksOff, leftOut, withoutAddress []string
	// customized says that an option is set that a demo does not have. inDemo says that
	// the offer is a demo.
	customized, inDemo bool
}

func newResolver() *resolver { return &resolver{replacer: caddy.NewReplacer()} }

func (r *resolver) fail(option string, err error) {
	r.errs = append(r.errs, fmt.Errorf("%s: %w", option, err))
}

// leaveOut notes that an option has no address, and the names that its rail may have.
func (r *resolver) leaveOut(option string, names ...string) {
	r.withoutAddress, r.leftOut = append(r.withoutAddress, option), append(r.leftOut, names...)
}

// replace returns a value with its placeholders replaced.
func (r *resolver) replace(value string) string {
	value = r.replacer.ReplaceKnown(value, "")
	r.values = append(r.values, value)
	return value
}

// resolve replaces the placeholders of a value and parses it. An empty value is the zero
// value of the type. A value that looks like a secret is refused, and no error repeats a
// long value, because it may be a secret.
func resolve[T any](r *resolver, option, value string, parse func(string) (T, error)) (parsed T) {
	if value = r.replace(value); value == "" {
		return parsed
	}
	err := offer.CheckNoSecret(value)
	if err == nil {
		parsed, err = parse(value)
	}
	if err != nil {
		r.fail(option, redact(err))
	}
	return parsed
}

// entry names an entry of a list by its JSON path, such as announce[1].
func entry(option string, i, n int) string {
	if n > 1 {
		option += fmt.Sprintf("[%d]", i)
	}
	return option
}

// resolveAll resolves the values of a list, without the empty ones.
func resolveAll(r *resolver, option string, values []string, parse func(string) (string, error)) (resolved []string) {
	for i, value := range values {
		name := entry(option, i, len(values))
		switch value = resolve(r, name, value, parse); {
		case slices.Contains(resolved, value):
			r.fail(name, redact(fmt.Errorf("%q is given twice; remove one", value)))
		case value != "":
			resolved = append(resolved, value)
		}
	}
	return resolved
}

// longValue matches a value in an error that may be a secret: 64 bits are 16 hexadecimal digits.
var longValue = regexp.MustCompile(`"(?:[^"\\]|\\.){16,}"`)

// harmless matches a value that is not a secret: an EVM address, or a host or an e-mail
// address whose labels of more than 15 characters have no digit and no capital letter.
var harmless = regexp.MustCompile(`^(?:0[xX][0-9a-fA-F]{40}|(?:(?:[\w.+-]{1,15}|[a-z.-]{1,64})@)?(?:(?:[\w-]{1,15}|[a-z-]{1,63})\.){1,4}[a-z]{2,15}(?::\d{1,5})?)$`)

// redact removes long values from an error, except harmless ones and the host of a URL.
func redact(err error) error {
	return errors.New(longValue.ReplaceAllStringFunc(err.Error(), func(quoted string) string {
		value := strings.Trim(quoted, `"`)
		if harmless.MatchString(value) {
			return quoted
		}
		if u, err := url.Parse(value); err == nil && (u.Scheme == "https" || u.Scheme == "http") && (len(u.Host) < 16 || harmless.MatchString(u.Host)) {
			return `"` + u.Scheme + "://" + u.Host + `/…"`
		}
		return `"…"`
	}))
}

// text resolves a text for people: one line of at most limit characters. An unknown
// placeholder is refused, because people would read it.
func (r *resolver) text(option, value string, limit int) string {
	if _, err := r.replacer.ReplaceOrErr(value, false, true); err != nil {
		r.fail(option, fmt.Errorf("%w; write {env.NAME}, {file.PATH} or the text itself, with \\{ for a brace", err))
	}
	return resolve(r, option, value, func(s string) (string, error) {
		if n := utf8.RuneCountInString(s); n > limit {
			return "", fmt.Errorf("this text has %d characters and may have %d; shorten it", n, limit)
		}
		if !utf8.ValidString(s) {
			return "", errors.New("this text is not valid UTF-8; save the configuration as UTF-8")
		}
		return s, offer.CheckPrintable(s)
	})
}

// word resolves a value of a form; want describes the form.
func (r *resolver) word(option, value string, form *regexp.Regexp, want string) string {
	return resolve(r, option, value, func(s string) (string, error) {
		if !form.MatchString(s) {
			return "", fmt.Errorf("%q is not %s", s, want)
		}
		return s, nil
	})
}

// number checks that a number is between 0, which stands for the default, and high.
func number[N int | uint64](r *resolver, option string, n, high N) N {
	if n < 0 || n > high {
		r.fail(option, fmt.Errorf("%d is out of range; write a whole number from 1 to %d", n, high))
	}
	return n
}

// duration checks that a duration is not negative; 0 stands for the default.
func (r *resolver) duration(option string, d caddy.Duration) time.Duration {
	if d < 0 {
		r.fail(option, errors.New("the duration is negative; write a positive one, such as 30s"))
	}
	return time.Duration(d)
}

// secret resolves a value that is never shown. Its feature is off if it has no value.
func (r *resolver) secret(option string, configured secret) string {
	if configured == "" {
		return ""
	}
	if !hasPlaceholder(string(configured)) {
		r.literalSecrets = append(r.literalSecrets, option)
	}
	value := r.replace(string(configured))
	if value == "" {
		r.secretsOff = append(r.secretsOff, option+" "+string(configured))
	}
	return value
}

// hookSecret resolves the secret of a rail's webhook.
func (r *resolver) hookSecret(rail, option string, configured secret) string {
	value := r.secret(option, configured)
	if configured != "" && value == "" {
		r.hooksOff = append(r.hooksOff, rail)
	}
	return value
}

// unset is the error of a needed option without a value. It names the placeholder that gave none.
func unset(configured, missing, advice string) error {
	if hasPlaceholder(configured) {
		return fmt.Errorf("%s is not set; set it, or %s", configured, advice)
	}
	return fmt.Errorf("%s; %s, or set its variable", missing, advice)
}

// hasPlaceholder reports whether a value is known only when the configuration is loaded.
func hasPlaceholder(s string) bool {
	return strings.Contains(s, "{env.") || strings.Contains(s, "{file.")
}

// upstream resolves the URL of a service that is called. It may contain a key, so no
// error repeats more than its host.
func (r *resolver) upstream(option, value string) string {
	value = r.replace(value)
	if err := checkUpstream(value); value != "" && err != nil {
		r.fail(option, err)
	}
	return value
}

// upstreams resolves the endpoints of a chain: public ones by default, none for "off".
func (r *resolver) upstreams(option string, values, public []string) (resolved []string) {
	for _, value := range values {
		value = r.replace(value)
		if err := checkUpstream(value); value != "" && value != off && err != nil {
			r.fail(option, err)
		}
		if slices.Contains(resolved, value) {
			r.fail(option, fmt.Errorf("the endpoint at %s is given twice; remove one, or name another host", offer.Host(value)))
		}
		if value != "" {
			resolved = append(resolved, value)
		}
	}
	switch {
	case len(resolved) == 0:
		return public
	case len(resolved) == 1 && resolved[0] == off:
		return nil
	case slices.Contains(resolved, off):
		r.fail(option, errors.New("'off' cannot be combined with endpoints; remove 'off' to read from the endpoints"))
	}
	return resolved
}

func checkUpstream(s string) error {
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Hostname() == "" || (u.Scheme != "https" && u.Scheme != "http") || strings.Contains(s, ",http"):
		return errors.New("this is not an absolute URL, which is https:// and a host; write one such as https://host.example.org/path")
	case u.Scheme == "http" && !offer.IsLoopback(u.Hostname()):
		return fmt.Errorf("the URL for host %q is plain http, which anyone on the way can read; write https", u.Hostname())
	}
	if _, err := offer.ParseURL(s); err != nil {
		return fmt.Errorf("the URL for host %q contains a user name, a password or an unescaped character; write a key into its path or query, "+
			"percent-encoded, such as ?key=abc%%20def", u.Hostname())
	}
	return nil
}

// explorer resolves the address of a block explorer. "off" is none.
func (r *resolver) explorer(option, value, public string) string {
	address := resolve(r, option, value, func(s string) (string, error) {
		if _, err := offer.ParseURL(s); s != off && (err != nil || !strings.HasSuffix(s, "/") && !strings.HasSuffix(s, "=")) {
			return "", errors.New("the address must end with / or =, because the hash of a transaction is appended; write for example https://basescan.org/tx/, or off")
		}
		return s, nil
	})
	switch address {
	case "":
		return public
	case off:
		return ""
	}
	return address
}

// since resolves the moment from which payments count to Unix seconds; 0 is the first start.
func (r *resolver) since(option, value string) int64 {
	begin := resolve(r, option, value, parseSince)
	if begin.IsZero() {
		return 0
	}
	return begin.Unix()
}

// parseSince reads a date, which begins in UTC, or an RFC 3339 moment, from 2009, when
// Bitcoin began, until now.
func parseSince(s string) (time.Time, error) {
	begin, err := time.Parse(time.DateOnly, s)
	if err != nil {
		begin, err = time.Parse(time.RFC3339, s)
	}
	switch {
	case err != nil:
		return begin, fmt.Errorf("%q is not a date; use 2026-11-01 (midnight UTC) or 2026-11-01T15:04:05Z", s)
	case begin.Year() < 2009:
		return begin, fmt.Errorf("%s is before 2009, when Bitcoin began; correct the year, such as 2026-11-01", s)
	case begin.After(time.Now()):
		return begin, fmt.Errorf("%s is in the future; write the day of the first payment that counts, such as 2026-11-01", s)
	}
	return begin, nil
}
