package payoffer

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// option is one option of a block: how it is read from a Caddyfile, and how its
// value is put to use when the configuration is loaded. Checks run at both
// times: the first tells file and line, the second sees what placeholders
// became, and JSON.
type option struct {
	// parse reads it. The dispenser stands at its name.
	parse func(d *caddyfile.Dispenser) error
	// resolve replaces placeholders in place and checks; name is what errors
	// call the option.
	resolve func(r *resolver, name string)
	// repeats allows the option more than once.
	repeats bool
}

// block is the options of a block by their names.
type block map[string]option

// parse reads the block of what, if there is one: one option a line, each
// known, and no more often than allowed.
func (b block) parse(d *caddyfile.Dispenser, what string) error {
	seen := make(map[string]bool)
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		name := d.Val()
		o, known := b[name]
		if err := checkNoSecret(name); err != nil {
			return d.Errf("%s has a line that begins with no option: %v", what, err)
		}
		if err := checkWords(*d); err != nil {
			return d.Errf("%s: %v", what, err)
		}
		if !known {
			return d.Errf("unrecognized option '%s' of %s%s; known are: %s", repeatable(name), what, misspelled(name, b),
				strings.Join(slices.Sorted(maps.Keys(b)), ", "))
		}
		if seen[name] && !o.repeats {
			return d.Errf("duplicate option '%s' of %s", name, what)
		}
		seen[name] = true
		if err := o.parse(d); err != nil {
			return err
		}
		if d.NextBlock(nesting + 1) {
			return d.Errf("option '%s' of %s takes no block", name, what)
		}
	}
	return nil
}

// resolve resolves all options, in the order of their names. what, if it is not
// empty, stands before the names in errors.
func (b block) resolve(r *resolver, what string) {
	for _, name := range slices.Sorted(maps.Keys(b)) {
		b[name].resolve(r, strings.TrimPrefix(what+" "+name, " "))
	}
}

// resolver replaces placeholders and checks what they became. It collects every
// mistake, so that one load reports all of them, and keeps what the operator
// should be warned of.
type resolver struct {
	repl *caddy.Replacer
	errs []error
	// off are secrets without a value, literal are secrets written into the
	// configuration.
	off, literal []string
	// unset are the placeholders without a value, with the options that they stand at.
	unset []string
	// hooksOff are the rails whose webhook's secret is one of off, and leftOut the
	// names of those without an address.
	hooksOff, leftOut []string
}

func newResolver() *resolver { return &resolver{repl: caddy.NewReplacer()} }

func (r *resolver) fail(option string, err error) {
	r.errs = append(r.errs, fmt.Errorf("%s: %w", option, err))
}

// err is everything that is wrong, and what may have made it so; nil for nothing.
func (r *resolver) err() error {
	if len(r.errs) > 0 && len(r.unset) > 0 {
		return errors.Join(append(r.errs, fmt.Errorf("without a value here: %s", strings.Join(r.unset, ", ")))...)
	}
	return errors.Join(r.errs...)
}

// replace is a value with its placeholders replaced.
func (r *resolver) replace(option, value string) string {
	for _, p := range withoutValue(r.repl, value) {
		r.unset = append(r.unset, p+" ("+option+")")
	}
	return r.repl.ReplaceKnown(value, "")
}

// text resolves a value and checks it unless it is empty.
func (r *resolver) text(option string, value *string, check func(string) error) {
	*value = r.replace(option, *value)
	if *value == "" {
		return
	}
	if err := check(*value); err != nil {
		r.fail(option, err)
	}
}

// texts resolves a list and leaves its empty values out.
func (r *resolver) texts(option string, values *[]string, check func(string) error) {
	var resolved []string
	for _, value := range *values {
		r.text(option, &value, check)
		switch {
		case value == "":
		case slices.Contains(resolved, value):
			r.fail(option, errors.New("a value is given twice"))
		default:
			resolved = append(resolved, value)
		}
	}
	*values = resolved
}

// secret resolves a value that must never be shown. Without a value its
// feature is off.
func (r *resolver) secret(option string, value *string) {
	if *value == "" {
		return
	}
	if !hasPlaceholder(*value) {
		r.literal = append(r.literal, option)
	}
	*value = r.replace(option, *value)
	if *value == "" {
		r.off = append(r.off, option)
	}
}

// hook notes a rail whose webhook cannot be taken, for its secret has no value.
func (r *resolver) hook(rail, secret string) {
	if slices.Contains(r.off, secret) {
		r.hooksOff = append(r.hooksOff, rail)
	}
}

// hasPlaceholder reports whether a value is only known once the configuration
// is loaded.
func hasPlaceholder(s string) bool {
	return strings.Contains(s, "{env.") || strings.Contains(s, "{file.")
}

// argument is one argument of an option, with its check.
type argument struct {
	into  *string
	check func(string) error
}

// parseArguments reads exactly these arguments of the option name. Those that are empty
// or known only later are not checked.
func parseArguments(d *caddyfile.Dispenser, name string, arguments ...argument) error {
	var into []*string
	for _, a := range arguments {
		into = append(into, a.into)
	}
	if !d.AllArgs(into...) {
		return wrongArgs(d, name)
	}
	for _, a := range arguments {
		if err := checkArg(d, name, *a.into, a.check); err != nil {
			return err
		}
	}
	return nil
}

// anything is no check.
func anything(string) error { return nil }

// text is an option with one argument.
func text(into *string, check func(string) error) option {
	return option{
		parse:   func(d *caddyfile.Dispenser) error { return parseArguments(d, d.Val(), argument{into, check}) },
		resolve: func(r *resolver, name string) { r.text(name, into, check) },
	}
}

// secret is an option with one argument that nothing may repeat. A literal
// empty one is a mistake: an unset variable written as {$NAME}.
func secret(into *string) option {
	return option{
		parse: func(d *caddyfile.Dispenser) error {
			name := d.Val()
			err := parseArguments(d, name, argument{into, anything})
			if err == nil && *into == "" {
				err = d.Errf("%s is empty; write {env.NAME} or {file.PATH}, or leave the option out", name)
			}
			return err
		},
		resolve: func(r *resolver, name string) { r.secret(name, into) },
	}
}

// list is an option with one or more arguments. Empty ones are left out.
func list(into *[]string, check func(string) error) option {
	return option{
		parse: func(d *caddyfile.Dispenser) error {
			name := d.Val()
			if d.CountRemainingArgs() == 0 {
				return wrongArgs(d, name)
			}
			for _, value := range d.RemainingArgs() {
				if err := checkArg(d, name, value, check); err != nil {
					return err
				}
				switch {
				case value == "":
				case slices.Contains(*into, value):
					return d.Errf("%s: an argument is given twice", name)
				default:
					*into = append(*into, value)
				}
			}
			return nil
		},
		resolve: func(r *resolver, name string) { r.texts(name, into, check) },
	}
}

// repeated is an option with one argument that may stand on several lines.
func repeated(into *[]string, check func(string) error) option {
	return option{
		repeats: true,
		parse: func(d *caddyfile.Dispenser) error {
			var value string
			if err := text(&value, check).parse(d); err != nil {
				return err
			}
			*into = append(*into, value)
			return nil
		},
		resolve: func(r *resolver, name string) { r.texts(name, into, check) },
	}
}

// flag is an option that is on where it stands alone. With an argument, on or off,
// a variable can set it, and an empty one is off.
func flag(into *bool) option {
	return option{
		parse: func(d *caddyfile.Dispenser) error {
			name := d.Val()
			args := d.RemainingArgs()
			switch {
			case len(args) > 1:
				return wrongArgs(d, name)
			case len(args) == 0 || args[0] == "on":
				*into = true
			case args[0] != "off" && args[0] != "":
				return refused(d, name, args[0], fmt.Errorf("%q is neither on nor off", args[0]))
			}
			return nil
		},
		resolve: func(*resolver, string) {},
	}
}

// number is an option with one whole number between low and high, which want
// describes; 0 stands for the default.
func number[N int | uint64](into *N, low, high N, want string) option {
	set := noSecret(func(s string) error {
		n, err := strconv.ParseUint(s, 10, 63)
		if err != nil || N(n) < low || N(n) > high {
			return fmt.Errorf("%q is not %s", s, want)
		}
		*into = N(n)
		return nil
	})
	return option{
		parse: func(d *caddyfile.Dispenser) error {
			name := d.Val()
			var value string
			if err := parseArguments(d, name, argument{&value, anything}); err != nil {
				return err
			}
			return checkArg(d, name, value, set)
		},
		resolve: func(r *resolver, name string) {
			if *into == 0 {
				return
			}
			if err := set(fmt.Sprint(*into)); err != nil {
				r.fail(name, err)
			}
		},
	}
}

// span is a caddy.Duration whose errors do not repeat what was written.
type span caddy.Duration

// UnmarshalJSON reads a duration as Caddy does.
func (s *span) UnmarshalJSON(b []byte) error {
	if (*caddy.Duration)(s).UnmarshalJSON(b) != nil {
		return errors.New("this is not a duration; write for example 30s or 1m")
	}
	return nil
}

// duration is an option with a positive duration; 0 stands for the default.
func duration(into *span) option {
	return option{
		parse: func(d *caddyfile.Dispenser) error {
			name := d.Val()
			var value string
			if err := parseArguments(d, name, argument{&value, anything}); err != nil {
				return err
			}
			return parseDuration(d, name, value, into)
		},
		resolve: func(r *resolver, name string) {
			if *into < 0 {
				r.fail(name, errors.New("is negative; write for example 30s"))
			}
		},
	}
}

// parseDuration reads a positive duration.
func parseDuration(d *caddyfile.Dispenser, name, value string, into *span) error {
	duration, err := caddy.ParseDuration(value)
	if err != nil || duration <= 0 {
		return refused(d, name, value, fmt.Errorf("%q is not a duration; write for example 30s or 1m", value))
	}
	*into = span(duration)
	return nil
}

// noted is an option that leaves a note that it was given, for its value may be
// known only later.
func noted(given *bool, o option) option {
	parse := o.parse
	o.parse = func(d *caddyfile.Dispenser) error {
		*given = true
		return parse(d)
	}
	return o
}

// checkWords refuses a line that is a seed phrase without quotes. It reads a copy of
// the dispenser.
func checkWords(d caddyfile.Dispenser) error {
	if words := append([]string{d.Val()}, d.RemainingArgs()...); len(words) >= offer.SeedLength {
		return offer.CheckNoWalletSecret(strings.Join(words, " "))
	}
	return nil
}

// checkArg runs check on an argument unless it is empty or known only later.
func checkArg(d *caddyfile.Dispenser, name, value string, check func(string) error) error {
	if value == "" || hasPlaceholder(value) {
		return nil
	}
	if err := check(value); err != nil {
		return d.Errf("%s: %v", name, err)
	}
	return nil
}

// refused is the error for a value that err tells of, unless it may be a secret.
func refused(d *caddyfile.Dispenser, name, value string, err error) error {
	return d.Errf("%s: %v", name, noSecret(func(string) error { return err })(value))
}

// wrongArgs is the error for too few or too many arguments. Unlike the
// dispenser's own it repeats none of them: one may be a secret.
func wrongArgs(d *caddyfile.Dispenser, name string) error {
	return d.Errf("wrong number of arguments for '%s'%s; write it as: %s", name, unset(d, d.Line()), form(name))
}
