package payoffer

import (
	"fmt"
	"slices"

	"github.com/caddyserver/caddy/v2"
)

// resolver turns configured values into values in use: placeholders are
// replaced and the result is checked. It collects every mistake, so that one
// load reports all of them, and keeps what the operator should be warned of.
type resolver struct {
	repl *caddy.Replacer
	errs []error
	// off are secrets without a value, literal are secrets written into the
	// configuration.
	off, literal []string
}

func newResolver() *resolver { return &resolver{repl: caddy.NewReplacer()} }

func (r *resolver) fail(option string, err error) {
	r.errs = append(r.errs, fmt.Errorf("%s: %w", option, err))
}

// text resolves a value; fallback stands for an empty one.
func (r *resolver) text(option, value, fallback string, check func(string) error) string {
	s := r.repl.ReplaceKnown(value, "")
	if s == "" {
		return fallback
	}
	if err := check(s); err != nil {
		r.fail(option, err)
	}
	return s
}

// texts resolves a list and leaves its empty values out.
func (r *resolver) texts(option string, values []string, check func(string) error) []string {
	var resolved []string
	for _, value := range values {
		s := r.text(option, value, "", check)
		switch {
		case s == "":
		case slices.Contains(resolved, s):
			r.errs = append(r.errs, fmt.Errorf("%s: a value is given twice", option))
		default:
			resolved = append(resolved, s)
		}
	}
	return resolved
}

// secret resolves a value that must never be shown. Without a value its
// feature is off.
func (r *resolver) secret(option, value string) string {
	if value == "" {
		return ""
	}
	if !hasPlaceholder(value) {
		r.literal = append(r.literal, option)
	}
	s := r.repl.ReplaceKnown(value, "")
	if s == "" {
		r.off = append(r.off, option)
	}
	return s
}
