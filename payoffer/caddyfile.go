package payoffer

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

func init() {
	httpcaddyfile.RegisterGlobalOption("pay_offer", parseGlobal)
	httpcaddyfile.RegisterHandlerDirective("pay_offer", parseCaddyfile)
	// Before try_files, rewrites and authentication, which would swallow the
	// offer's paths on a site that has them.
	httpcaddyfile.RegisterDirectiveOrder("pay_offer", httpcaddyfile.Before, "method")
}

func parseCaddyfile(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
	handler := new(Handler)
	err := handler.UnmarshalCaddyfile(h.Dispenser)
	return handler, err
}

// parseGlobal sets up the app from the global option.
func parseGlobal(d *caddyfile.Dispenser, existing any) (any, error) {
	d.Next() // the option's name
	if existing != nil {
		return nil, d.Err("the global option pay_offer is given twice")
	}
	app := new(App)
	if err := arguments(d, "pay_offer { ... }"); err != nil {
		return nil, err
	}
	if err := (options{"ledger": &app.Ledger}).unmarshal(d, "the global option pay_offer"); err != nil {
		return nil, err
	}
	return httpcaddyfile.App{Name: "pay_offer", Value: caddyconfig.JSON(app, nil)}, nil
}

// options are the options of a block: the name of each, with a pointer to the field that
// it sets. The type of the field says which arguments the option takes:
//
//   - string: one value; secret: one value that is not empty
//   - []string: one or more values; lines: one value, and the option may be repeated
//   - form: the values of its usage
//   - bool: nothing, on or off
//   - int, uint64, caddy.Duration: one number or duration
//   - a pointer to a config block: what its UnmarshalCaddyfile reads
//   - a slice of such pointers: the same, and the option may be repeated
type options map[string]any

type (
	secret string
	lines  []string
	form   struct {
		usage  string
		values []*string
	}
)

// unmarshal reads the block of an option, if it has one: one option a line.
func (o options) unmarshal(d *caddyfile.Dispenser, block string) error {
	_, err := o.unmarshalSeen(d, block)
	return err
}

// unmarshalSeen is unmarshal that returns the names of the options in the block.
func (o options) unmarshalSeen(d *caddyfile.Dispenser, block string) (seen map[string]bool, err error) {
	seen = make(map[string]bool)
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		name := d.Val()
		field, known := o[name]
		if !known {
			names := slices.Sorted(maps.Keys(o))
			return nil, d.WrapErr(redact(fmt.Errorf("unrecognized option %q of %s%s; its options are: %s", name, block, didYouMean(name, names), strings.Join(names, ", "))))
		}
		if seen[name] && !repeats(field) {
			return nil, d.Errf("duplicate option '%s' of %s", name, block)
		}
		seen[name] = true
		if err := unmarshalField(d, name, field); err != nil {
			return nil, err
		}
		if d.NextBlock(nesting + 1) {
			return nil, d.Errf("option '%s' of %s takes no block", name, block)
		}
	}
	return seen, nil
}

// repeats reports whether an option may be given on several lines.
func repeats(field any) bool {
	kind := reflect.TypeOf(field).Elem()
	return kind == reflect.TypeFor[lines]() || kind.Kind() == reflect.Slice && kind.Elem().Kind() == reflect.Pointer
}

// unmarshalField reads the line of an option into its field.
func unmarshalField(d *caddyfile.Dispenser, name string, field any) error {
	var value string
	switch field := field.(type) {
	case *string:
		return arguments(d, name+" <value>", field)
	case *secret:
		err := arguments(d, name+" <value>", (*string)(field))
		if err == nil && *field == "" {
			err = d.Errf("%s is empty; write {env.NAME} or {file.PATH}, or remove the option", name)
		}
		return err
	case *form:
		return arguments(d, field.usage, field.values...)
	case *[]string:
		if *field = d.RemainingArgs(); len(*field) == 0 {
			return arguments(d, name+" <value>...", &value)
		}
		*field = slices.DeleteFunc(*field, func(s string) bool { return s == "" })
	case *lines:
		err := arguments(d, name+" <value>", &value)
		*field = append(*field, value)
		return err
	case *bool:
		*field = true
		if d.NextArg() {
			if *field = d.Val() == "on"; !*field && d.Val() != "off" && d.Val() != "" {
				return d.Errf("%s: write on or off", name)
			}
		}
		return arguments(d, name+" [on|off]")
	case *int, *uint64:
		if err := arguments(d, name+" <number>", &value); err != nil {
			return err
		}
		if n, err := strconv.ParseUint(value, 10, 63); err != nil || n == 0 || json.Unmarshal([]byte(value), field) != nil {
			return d.Errf("%s: write a whole number from 1 on, or remove the option", name)
		}
		return nil
	case *caddy.Duration:
		if err := arguments(d, name+" <duration>", &value); err != nil {
			return err
		}
		return parseDuration(d, name, value, field)
	default:
		return unmarshalBlock(d, reflect.ValueOf(field).Elem())
	}
	return nil
}

// unmarshalBlock makes a config block for a field, which is a pointer to it or a slice of
// such pointers, and reads it.
func unmarshalBlock(d *caddyfile.Dispenser, field reflect.Value) error {
	kind := field.Type()
	if field.Kind() == reflect.Slice {
		kind = kind.Elem()
	}
	config := reflect.New(kind.Elem())
	if field.Kind() == reflect.Slice {
		field.Set(reflect.Append(field, config))
	} else {
		field.Set(config)
	}
	return config.Interface().(caddyfile.Unmarshaler).UnmarshalCaddyfile(d)
}

// arguments reads exactly the arguments of an option that usage shows. Unlike the
// dispenser's own error, the error repeats no argument, which may be a secret.
func arguments(d *caddyfile.Dispenser, usage string, values ...*string) error {
	if !d.AllArgs(values...) {
		return d.Errf("wrong number of arguments; write it as: %s", usage)
	}
	return nil
}

func parseDuration(d *caddyfile.Dispenser, name, value string, into *caddy.Duration) error {
	duration, err := caddy.ParseDuration(value)
	if err != nil || duration <= 0 {
		return d.Errf("%s: this is not a duration; write for example 30s or 1m", name)
	}
	*into = caddy.Duration(duration)
	return nil
}

// didYouMean names the option with the fewest typos, at most two.
func didYouMean(name string, known []string) string {
	nearest := slices.MinFunc(known, func(a, b string) int { return typos(name, a) - typos(name, b) })
	if typos(name, nearest) > min(2, len(name)/2) {
		return ""
	}
	return " (did you mean '" + nearest + "'?)"
}

// typos counts the bytes to insert, remove or replace to turn a into b (Levenshtein).
func typos(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0]++
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
