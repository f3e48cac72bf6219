package payoffer

import (
	"encoding/json"
	"errors"
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
	"github.com/xrash/smetrics"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
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
		return nil, d.Err("the global option pay_offer is given twice; merge both blocks")
	}
	app := new(App)
	if err := (options{"ledger": &app.Ledger}).unmarshal(d, "pay_offer { ... }"); err != nil {
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

// unmarshal reads an option that begins like its usage: its arguments, and its block, if it has one.
func (o options) unmarshal(d *caddyfile.Dispenser, usage string, values ...*string) error {
	if err := arguments(d, usage, values...); err != nil {
		return err
	}
	_, err := o.unmarshalBlock(d, strings.Fields(usage)[0])
	return err
}

// unmarshalBlock reads one option a line, and returns their names.
func (o options) unmarshalBlock(d *caddyfile.Dispenser, block string) (seen map[string]bool, err error) {
	seen = make(map[string]bool)
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		name := d.Val()
		field, known := o[name]
		if !known {
			return nil, d.WrapErr(o.unrecognized(name, block))
		}
		if seen[name] && !repeats(field) {
			return nil, d.Errf("duplicate option '%s' of %s; keep one of them", name, block)
		}
		seen[name] = true
		if err := unmarshalField(d, name, field); err != nil {
			return nil, err
		}
		if d.NextBlock(nesting + 1) {
			return nil, d.Errf("option '%s' of %s takes no block; remove its braces", name, block)
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
		return arguments(d, name+" <value> (in quotes if it has spaces)", field)
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
				return d.Errf("%s: the value is not on or off; write for example '%s on'", name, name)
			}
		}
		return arguments(d, name+" [on|off]")
	case *int, *uint64:
		if err := arguments(d, name+" <number>", &value); err != nil {
			return err
		}
		if n, err := strconv.ParseUint(value, 10, 63); err != nil || n == 0 || json.Unmarshal([]byte(value), field) != nil {
			return d.WrapErr(redact(fmt.Errorf("%s: %q is not a whole number from 1 on; write for example '%s 3'", name, value, name)))
		}
		return nil
	case *caddy.Duration:
		if err := arguments(d, name+" <duration>, such as "+name+" "+exampleDuration(name), &value); err != nil {
			return err
		}
		return parseDuration(d, name, value, field)
	default:
		return unmarshalConfig(d, reflect.ValueOf(field).Elem())
	}
	return nil
}

// unmarshalConfig makes a config block for a field, which is a pointer to it or a slice of
// such pointers, and reads it.
func unmarshalConfig(d *caddyfile.Dispenser, field reflect.Value) error {
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
		var line []string
		for _, value := range values {
			line = append(line, *value)
		}
		if err := offer.CheckNoSeedPhrase(strings.Join(append(line, d.RemainingArgs()...), " ")); err != nil {
			return d.WrapErr(err)
		}
		return d.Errf("wrong number of arguments; write it as: %s", usage)
	}
	return nil
}

func parseDuration(d *caddyfile.Dispenser, name, value string, into *caddy.Duration) error {
	duration, err := caddy.ParseDuration(value)
	if err != nil || duration <= 0 {
		return d.WrapErr(redact(fmt.Errorf("%s: %q is not a positive duration; write for example %s", name, value, exampleDuration(name))))
	}
	*into = caddy.Duration(duration)
	return nil
}

func exampleDuration(name string) string {
	if name == "access" {
		return "30d"
	}
	return "30s"
}

// unrecognized is the error for an option that a block does not have.
func (o options) unrecognized(name, block string) error {
	if len(o) == 0 {
		return fmt.Errorf("option '%s' takes no block; remove its braces", block)
	}
	names := slices.Sorted(maps.Keys(o))
	distance := func(known string) int { return smetrics.WagnerFischer(name, known, 1, 1, 1) }
	nearest := slices.MinFunc(names, func(a, b string) int { return distance(a) - distance(b) })
	if blocks := blocksWith(name, "pay_offer", new(Handler).options()); len(blocks) > 0 && o["ledger"] != nil {
		return fmt.Errorf("'%s' belongs inside the %s block of a site; this one of the global options takes only 'ledger'", name, strings.Join(blocks, " or "))
	} else if len(blocks) > 0 {
		return fmt.Errorf("'%s' belongs inside the %s block; if it is there, a '}' above it is missing", name, strings.Join(blocks, " or "))
	} else if name == "ledger" {
		return errors.New("'ledger' belongs inside the 'pay_offer { }' block of the global options, at the top of the file")
	} else if strings.HasPrefix(name, "pay_offer") {
		return fmt.Errorf("'%s' is a directive of its own; a '}' above it is missing", redact(errors.New(name)))
	} else if len(name) > 2 && distance(nearest) <= 2 {
		return redact(fmt.Errorf("unrecognized option %q of %s (did you mean '%s'?)", name, block, nearest))
	}
	return redact(fmt.Errorf("unrecognized option %q of %s; valid options: %s", name, block, strings.Join(names, ", ")))
}

// blocksWith returns the blocks that have an option of this name, such as 'card { }'.
func blocksWith(name, block string, o options) (found []string) {
	if o[name] != nil {
		found = append(found, "'"+block+" { }'")
	}
	for _, inner := range slices.Sorted(maps.Keys(o)) {
		kind := reflect.TypeOf(o[inner]).Elem()
		for kind.Kind() == reflect.Slice || kind.Kind() == reflect.Pointer {
			kind = kind.Elem()
		}
		if config, ok := reflect.New(kind).Interface().(interface{ options() options }); ok {
			found = append(found, blocksWith(name, inner, config.options())...)
		}
	}
	return found
}
