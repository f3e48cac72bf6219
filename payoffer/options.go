package payoffer

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// option reads one option of a block. The dispenser stands at its name.
type option struct {
	parse func(d *caddyfile.Dispenser) error
	// repeats allows the option more than once.
	repeats bool
}

// parseBlock reads the block of what, if there is one: one option a line, each
// known, and no more often than allowed.
func parseBlock(d *caddyfile.Dispenser, what string, options map[string]option) error {
	seen := make(map[string]bool)
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		name := d.Val()
		o, known := options[name]
		if !known {
			return d.Errf("unrecognized option '%s' of %s; known are: %s", name, what,
				strings.Join(slices.Sorted(maps.Keys(options)), ", "))
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

// checkArg runs check on the argument at which the dispenser stands, unless it
// is empty or known only later.
func checkArg(d *caddyfile.Dispenser, name, value string, check func(string) error) error {
	if value == "" || hasPlaceholder(value) {
		return nil
	}
	if err := check(value); err != nil {
		return d.Errf("%s: %v", name, err)
	}
	return nil
}

// text is an option with one argument.
func text(into *string, check func(string) error) option {
	return option{parse: func(d *caddyfile.Dispenser) error {
		name := d.Val()
		if !d.AllArgs(into) {
			return wrongArgs(d, name)
		}
		return checkArg(d, name, *into, check)
	}}
}

// secret is an option with one argument that nothing may repeat. A literal
// empty one is a mistake: an unset variable written as {$NAME}.
func secret(into *string) option {
	return option{parse: func(d *caddyfile.Dispenser) error {
		name := d.Val()
		if !d.AllArgs(into) {
			return wrongArgs(d, name)
		}
		if *into == "" {
			return d.Errf("%s is empty; write {env.NAME} or {file.PATH}, or leave the option out", name)
		}
		return nil
	}}
}

// list is an option with one or more arguments.
func list(into *[]string, check func(string) error) option {
	return option{parse: func(d *caddyfile.Dispenser) error {
		name := d.Val()
		for d.NextArg() {
			if err := checkArg(d, name, d.Val(), check); err != nil {
				return err
			}
			if slices.Contains(*into, d.Val()) {
				return d.Errf("%s: an argument is given twice", name)
			}
			*into = append(*into, d.Val())
		}
		if len(*into) == 0 {
			return wrongArgs(d, name)
		}
		return nil
	}}
}

// repeated is an option with one argument that may stand on several lines.
func repeated(into *[]string, check func(string) error) option {
	return option{repeats: true, parse: func(d *caddyfile.Dispenser) error {
		var value string
		if err := text(&value, check).parse(d); err != nil {
			return err
		}
		*into = append(*into, value)
		return nil
	}}
}

// flag is an option without arguments.
func flag(into *bool) option {
	return option{parse: func(d *caddyfile.Dispenser) error {
		name := d.Val()
		if d.NextArg() {
			return wrongArgs(d, name)
		}
		*into = true
		return nil
	}}
}

// noted is an option that leaves a note that it was given, for its value may be
// known only later.
func noted(given *bool, o option) option {
	return option{repeats: o.repeats, parse: func(d *caddyfile.Dispenser) error {
		*given = true
		return o.parse(d)
	}}
}

// number is an option with one whole number between low and high.
func number(into *int, low, high int) option {
	return option{parse: func(d *caddyfile.Dispenser) error {
		name := d.Val()
		var value string
		if !d.AllArgs(&value) {
			return wrongArgs(d, name)
		}
		n, err := strconv.Atoi(value)
		if err != nil || n < low || n > high {
			return d.Errf("%s: %q is not a whole number from %d to %d", name, value, low, high)
		}
		*into = n
		return nil
	}}
}

// wrongArgs is the error for too few or too many arguments. Unlike the
// dispenser's own it repeats none of them: one may be a secret.
func wrongArgs(d *caddyfile.Dispenser, name string) error {
	return d.Errf("wrong number of arguments for '%s'", name)
}

// parseDuration reads a positive duration.
func parseDuration(d *caddyfile.Dispenser, name, value string, into *caddy.Duration) error {
	duration, err := caddy.ParseDuration(value)
	if err != nil || duration <= 0 {
		return d.Errf("%s: %q is not a duration; write for example 30s or 1m", name, value)
	}
	*into = caddy.Duration(duration)
	return nil
}
