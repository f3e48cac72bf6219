package card

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

const (
	dollarsAndEuros = `{"currency":"usd","unit_amount":4200,"custom_unit_amount":null,"currency_options":{
		"usd":{"unit_amount":4200,"custom_unit_amount":null},"eur":{"unit_amount":3900,"custom_unit_amount":null},
		"gbp":{"unit_amount":null,"custom_unit_amount":{"minimum":100}},"jpy":{"unit_amount":null}}}`
	yen       = `{"currency":"jpy","unit_amount":6500,"custom_unit_amount":null}`
	euros     = `{"currency":"eur","unit_amount":3900}`
	anyEuros  = `{"currency":"eur","unit_amount":null,"custom_unit_amount":{"preset":3900}}`
	linkItems = "/v1/payment_links/"
)

func TestLinkPrices(t *testing.T) {
	for name, c := range map[string]struct {
		prices []string
		want   map[string]ledger.CheckoutPrice
	}{
		"options":        {[]string{dollarsAndEuros}, map[string]ledger.CheckoutPrice{"USD": ledger.PriceFixed, "EUR": ledger.PriceFixed, "GBP": ledger.PriceChosen}},
		"one currency":   {[]string{euros}, map[string]ledger.CheckoutPrice{"EUR": ledger.PriceFixed}},
		"chosen":         {[]string{anyEuros}, map[string]ledger.CheckoutPrice{"EUR": ledger.PriceChosen}},
		"fixed, chosen":  {[]string{euros, anyEuros}, map[string]ledger.CheckoutPrice{"EUR": ledger.PriceChosen}},
		"chosen, fixed":  {[]string{anyEuros, euros}, map[string]ledger.CheckoutPrice{"EUR": ledger.PriceChosen}},
		"of no currency": {[]string{`{"unit_amount":1}`}, nil},
		"of no amount":   {[]string{`{"currency":"eur","unit_amount":0}`, `{"currency":"gbp","unit_amount":"1"}`}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			r.processor.SetPrices(c.prices...)
			prices, err := r.provider.prices(t.Context(), testLink)
			if c.want == nil {
				require.Error(t, err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, prices)
		})
	}
}

// checkout is the stored evidence of a payment.
func (r *rig) checkout(t testing.TB, intent string) ledger.Checkout {
	t.Helper()
	c := ledger.CheckoutOf(r.row(t, intent))
	require.NotEmpty(t, c.Session)
	return c
}

// However a payment is read, the ledger has what was asked for.
func TestCheckoutKeepsAskedPrice(t *testing.T) {
	pay := map[string]func(p *payoffertest.Processor) string{
		"promotion code": func(p *payoffertest.Processor) string { return p.PayDiscounted(testLink, 4200, 42) },
		"dollars":        func(p *payoffertest.Processor) string { return p.Pay(testLink, 4200, false) },
		"euros":          func(p *payoffertest.Processor) string { return p.PayIn("eur", testLink, 3900, false) },
		"pounds":         func(p *payoffertest.Processor) string { return p.PayIn("gbp", testLink, 3900, false) },
		"francs":         func(p *payoffertest.Processor) string { return p.PayIn("chf", testLink, 3900, false) },
	}
	want := map[string]ledger.Checkout{
		"promotion code": {Subtotal: 4200}, "dollars": {Subtotal: 4200}, "euros": {Price: ledger.PriceFixed},
		"pounds": {Price: ledger.PriceChosen}, "francs": {},
	}
	for way, read := range map[string]func(t *testing.T, r *rig){
		"webhooks":             func(t *testing.T, r *rig) { r.deliverAll(t, 0) },
		"events":               func(t *testing.T, r *rig) { require.NoError(t, r.try(t)) },
		"payments":             func(t *testing.T, r *rig) { r.clock.Pass(40 * day); require.NoError(t, r.observer(t, nil).try(t)) },
		"webhooks, then polls": func(t *testing.T, r *rig) { r.deliverAll(t, 0); require.NoError(t, r.try(t)); r.deliverAll(t, 0) },
		"polls before and after the permission": func(t *testing.T, r *rig) {
			r.processor.Refuse(linkItems)
			fresh := r.observer(t, nil)
			require.NoError(t, fresh.try(t))
			r.processor.Refuse("")
			require.NoError(t, fresh.try(t))
		},
	} {
		for name := range pay {
			t.Run(name+" by "+way, func(t *testing.T) {
				r := newRig(t, nil)
				r.processor.SetPrices(dollarsAndEuros)
				require.NoError(t, r.try(t))
				intent := pay[name](r.processor)
				read(t, r)
				got := r.checkout(t, intent)
				require.Equal(t, want[name], ledger.Checkout{Price: got.Price, Subtotal: got.Subtotal})
			})
		}
	}
}

// Without a key, or without its permission, the price in another currency stays unknown, and payments are read as ever.
func TestPriceUnknownWithoutPermission(t *testing.T) {
	for name, change := range map[string]func(*Config){"no key": withoutKey, "no permission": nil} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, change)
			r.processor.SetPrices(dollarsAndEuros)
			r.processor.Refuse(linkItems)
			require.NoError(t, r.try(t))
			intent := r.processor.PayIn("eur", testLink, 3900, false)
			r.deliverAll(t, 0)
			require.NoError(t, r.try(t))
			require.Empty(t, r.checkout(t, intent).Price)
			require.Empty(t, r.Health().LastError)
		})
	}
}

// The prices of a moment without an answer stay those that are known.
func TestKnownPricesSurviveFailedRead(t *testing.T) {
	r := newRig(t, nil)
	r.processor.SetPrices(yen)
	require.NoError(t, r.try(t))
	r.processor.Refuse(linkItems)
	require.NoError(t, r.try(t))
	intent := r.processor.PayIn("jpy", testLink, 6500, false)
	r.deliverAll(t, 0)
	require.Equal(t, ledger.PriceFixed, r.checkout(t, intent).Price)
}
