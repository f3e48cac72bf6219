package payoffer

import (
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/service"
)

// wholeExample is the Caddyfile of the documentation with every option, and so with every rail.
func wholeExample(t *testing.T) string {
	t.Helper()
	return payoffertest.FillIn(page(t, "reference/caddyfile").Blocks[0].Text)
}

// blockOf is the config block of a field: the type to which it, or an element of its list, points.
func blockOf(field reflect.StructField) (config reflect.Type, isBlock bool) {
	kind := field.Type
	if kind.Kind() == reflect.Slice {
		kind = kind.Elem()
	}
	if !field.IsExported() || kind.Kind() != reflect.Pointer {
		return nil, false
	}
	return kind.Elem(), true
}

func TestHandlerBlocksAreOptions(t *testing.T) {
	h := new(Handler)
	var set []any
	for _, field := range h.options() {
		set = append(set, field)
	}
	for field, value := range reflect.ValueOf(h).Elem().Fields() {
		if _, isBlock := blockOf(field); isBlock {
			assert.Contains(t, set, value.Addr().Interface(),
				`Caddyfiles cannot set Handler.%s; add its name and &h.%[1]s to Handler.options in payoffer/handler.go`, field.Name)
		}
	}
}

var pathData = regexp.MustCompile(`^M[MmLlHhVvCcSsQqAaZz0-9 .-]+$`)

// TestRailsAreComplete looks in every rail for what no compiler asks for.
func TestRailsAreComplete(t *testing.T) {
	config, _, err := adaptAny(wholeExample(t))
	require.NoError(t, err)
	h := handlersOf(t, config)[0]
	s := must(h.settings(newResolver(), today))(t)
	tested := map[reflect.Type]bool{}
	for _, rail := range payoffertest.Offer(t, s.Offer.Terms, "base").Rails {
		tested[reflect.TypeOf(rail)] = true
	}
	for _, config := range h.rails() {
		r, settings := newResolver(), new(service.Settings)
		rail := config.provision(r, s.Offer.Terms, settings)
		require.Empty(t, r.errs)
		name := reflect.TypeOf(rail)
		assert.True(t, tested[name], "no test of pages and documents has %s; add it to Offer in payoffer/payoffertest/offer.go", name)
		assert.NotEmpty(t, settings.Rails, "no payment of %s is recorded; append a service.Rail to s.Rails in the provision method of %T, such as service.Manual{Rail: rail}", name, config)
		assert.Regexp(t, pathData, rail.Face().Icon, "%s has no icon; add one to the Face in its Face method: the data of an SVG path in a square of 24 units", name)
		if reflect.Indirect(reflect.ValueOf(config)).FieldByName("Name").IsValid() {
			continue // the operator chooses the name
		}
		names := []string{rail.Name()}
		for _, m := range rail.Methods(s.Offer, offer.Live{}) {
			names = append(names, m.Scheme)
		}
		for _, reserved := range names {
			assert.ErrorContains(t, offer.CheckRailName(reserved), "reserved",
				"an operator can give the name %q to another rail; add 'func init() { reserved = append(reserved, %[1]q) }' to the file of %s in payoffer/offer", reserved, name)
		}
	}
}

// readSources are the Go files of this package without its tests, one after the other.
func readSources(t *testing.T) (all string) {
	t.Helper()
	for _, name := range must(filepath.Glob("*.go"))(t) {
		if !strings.HasSuffix(name, "_test.go") {
			all += readSource(t, name)
		}
	}
	return all
}
