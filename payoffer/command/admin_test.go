package command

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/operator"
	"github.com/payoffer/caddy-pay-offer/payoffer/report"
)

func TestAdminAPIErrorIsPrinted(t *testing.T) {
	for _, c := range []struct {
		status       int
		answer, want string
	}{
		{http.StatusConflict, `{"error":"it is: {so}"}` + "\n", "it is: {so}"},
		{http.StatusConflict, `{"error":"a\u001b[2Jb"}`, "a[2Jb"},
		{http.StatusServiceUnavailable, `{"error":""}`, `the admin address answers "503 Service Unavailable", not as pay_offer; write the right one, such as --address localhost:2019`},
		{http.StatusNotFound, "404 page not found", `the admin address answers "404 Not Found", not as pay_offer; write the right one, such as --address localhost:2019`},
	} {
		api := newAdminAPI(t)
		api.status, api.answers = c.status, []string{c.answer}
		_, err := api.run(receivedCommand())
		require.EqualError(t, err, c.want)
	}
}

func TestAdminAPIUnreachable(t *testing.T) {
	_, err := execute(t, receivedCommand(), "--address", "127.0.0.1:9")
	require.ErrorContains(t, err, "no server answers at the admin API 127.0.0.1:9 (connect: connection refused); start the server, or name its address with --address")
	require.ErrorContains(t, err, "refused)")
	_, err = execute(t, receivedCommand(), "--address", "127.0.0.1:9-10")
	require.ErrorContains(t, err, `the admin address "127.0.0.1:9-10" is not valid`)
}

func TestAdminAPIOriginHeader(t *testing.T) {
	api := newAdminAPI(t, operator.RotatedKey{})
	must(api.run(rotateKeyCommand()))(t)
	require.Equal(t, "http://"+api.address, api.header.Get("Origin"))
	require.Equal(t, "application/json", api.header.Get("Content-Type"))
}

func TestAdminAPIUnixSocket(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "admin.sock")
	listener := must(net.Listen("unix", socket))(t)
	api := newAdminAPI(t, operator.Intents{})
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: api}}
	server.Start()
	defer server.Close()
	for _, address := range []string{"unix/" + socket, "unix/" + socket + "|0600"} {
		api.address = address
		out, err := api.run(intentsCommand())
		require.NoError(t, err, address)
		require.Equal(t, "no payment has an unknown outcome\n", out)
		require.NotContains(t, api.header, "Origin")
	}
}

func TestAdminAddressFromConfiguration(t *testing.T) {
	api := newAdminAPI(t, map[string]any{"offers": []any{}})
	file := filepath.Join(t.TempDir(), "caddy.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"admin":{"listen":"`+api.address+`"}}`), 0o600))
	out := must(execute(t, receivedCommand(), "--config", file))(t)
	require.Equal(t, "no offer is running\n", out)
	require.ErrorContains(t, errorOf(execute(t, receivedCommand(), "--config", file+".none")), "caddy.json.none")
}

// At the default address another server may listen, with other books and keys.
func TestAdminAPIDisabledInConfiguration(t *testing.T) {
	file := filepath.Join(t.TempDir(), "caddy.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"admin":{"disabled":true}}`), 0o600))
	for _, command := range []*cobra.Command{receivedCommand(), rotateKeyCommand()} {
		_, err := execute(t, command, "--config", file)
		require.ErrorContains(t, err, "turns the admin API off")
		require.ErrorContains(t, err, file)
	}
}

func TestCommandReceivedExplainsClosedOffer(t *testing.T) {
	printed := map[string]any{"offers": []operator.Received{
		{ID: "one.example", Trouble: "its account belongs to\x1b another"}, {ID: "two.example", Report: new(report.Summary)},
	}}
	out := must(newAdminAPI(t, printed).run(receivedCommand()))(t)
	require.Contains(t, out, "one.example takes no payments: its account belongs to another\n")
	require.NotContains(t, out, "two.example takes no payments")
}

func usd(cents offer.USD) *offer.USD { return &cents }

// row is a receipt of a payment.
func row(number int64, rail, id, asset, amount, refunded string, cents *int64, occurred, status, evidence string) (r operator.Receipt) {
	r.Number, r.Rail, r.ID, r.OccurredAt, r.Status, r.Evidence = number, rail, id, occurred, status, evidence
	r.Amounts = report.Amounts{Asset: asset, AmountAtomic: amount, RefundedAtomic: refunded, Dollars: report.NewDollars(cents)}
	return r
}

func TestCommandRecordSendsOneEntry(t *testing.T) {
	inBerlin(t)
	entered := row(1, "transfer", "INV\u202e-7", "USD", "4050", "0", new(int64(4050)), "2026-11-19T23:00:00Z", "confirmed", "manual")
	entered.Version = 2
	api := newAdminAPI(t, entered)
	for args, want := range map[string]string{
		"--amount 42 --date 2026-11-20":                 `{"action":"enter","rail":"transfer","reference":"INV-7","amount":42,"date":"2026-11-20T00:00:00+01:00"}`,
		"--amount 42 --date 2026-11-20T05:00:00-05:00":  `{"action":"enter","rail":"transfer","reference":"INV-7","amount":42,"date":"2026-11-20T05:00:00-05:00"}`,
		"--offer x --amount 42.50":                      `{"action":"enter","offer":"x","rail":"transfer","reference":"INV-7","amount":42.50}`,
		"--void --reason recalled":                      `{"action":"void","rail":"transfer","reference":"INV-7","reason":"recalled"}`,
		"--restore --reason refused":                    `{"action":"restore","rail":"transfer","reference":"INV-7","reason":"refused"}`,
		"--refund 0.00000001 --reason x":                `{"action":"refund","rail":"transfer","reference":"INV-7","amount":0.00000001,"reason":"x"}`,
		"--refund 10 --transaction 0xAb --reason x":     `{"action":"refund","rail":"transfer","reference":"INV-7","amount":10,"transaction":"0xAb","reason":"x"}`,
		"--restore --transaction 0xAb --reason x":       `{"action":"restore","rail":"transfer","reference":"INV-7","transaction":"0xAb","reason":"x"}`,
		"--value 42.50 --reason x":                      `{"action":"value","rail":"transfer","reference":"INV-7","amount":42.50,"reason":"x"}`,
		"--own --reason x":                              `{"action":"own","rail":"transfer","reference":"INV-7","reason":"x"}`,
		"--amount 4200 --sure":                          `{"action":"enter","rail":"transfer","reference":"INV-7","amount":4200,"sure":true}`,
		"--redact --reason x":                           `{"action":"redact","rail":"transfer","reference":"INV-7","reason":"x"}`,
		"--redact=false --amount 42":                    `{"action":"enter","rail":"transfer","reference":"INV-7","amount":42}`,
		"--void=0 --amount 42":                          `{"action":"enter","rail":"transfer","reference":"INV-7","amount":42}`,
		"--restore=false --amount 42":                   `{"action":"enter","rail":"transfer","reference":"INV-7","amount":42}`,
		"--refund 10 --date 2026-11-20 --reason a-half": `{"action":"refund","rail":"transfer","reference":"INV-7","amount":10,"date":"2026-11-20T00:00:00+01:00","reason":"a-half"}`,
	} {
		api.asked, api.bodies = nil, nil
		out, err := api.run(recordCommand(), append([]string{"--rail", "transfer", "--reference", "INV-7"}, strings.Fields(args)...)...)
		require.NoError(t, err)
		require.Equal(t, []string{"POST /pay_offer/receipts"}, api.asked)
		require.Equal(t, []string{want}, api.bodies)
		require.Equal(t, "transfer INV-7: 40.50 USD of 2026-11-20 00:00 Europe/Berlin = 2026-11-19T23:00:00Z, confirmed, evidence manual, version 2\n", out)
	}
}

func TestCommandRecordRefusesBadFlags(t *testing.T) {
	api := newAdminAPI(t, nil)
	for args, want := range map[string]string{
		"--rail transfer --reference INV-7 --amount 42,50":             "write for example 42 or 42.50",
		"--rail transfer --reference INV-7 --refund NaN":               "write for example 42 or 42.50",
		"--rail transfer --reference INV-7 --amount 42 --date 20.11.":  "write for example 2026-11-20",
		"--rail transfer --reference INV-7 --restore --void":           "exclude each other, keep one of them",
		"--rail transfer --reference INV-7 --refund 10 --amount 42":    "exclude each other, keep one of them",
		"--rail transfer --amount 42":                                  "not set",
		"--reference INV-7 --amount 42":                                "not set",
		"--rail transfer --reference INV-7 --amount 42 of the invoice": `unexpected argument "of"`,
	} {
		_, err := api.run(recordCommand(), strings.Fields(args)...)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "\n")
	}
	require.Empty(t, api.asked)
}

func TestUsageErrorShowsExampleOfOption(t *testing.T) {
	require.EqualError(t, explainUsage(passCommand(), errorOf(execute(t, passCommand(), "--revoke")).Error()),
		"a value is missing after --revoke; write for example: caddy pay-offer pass --revoke k3j6d7a2x4 (see also --help)")
	require.ErrorContains(t, explainUsage(passCommand(), "unknown flag: --none"), "write for example: caddy pay-offer pass --for 30d --note Press (")
}

func TestCommandRecordPrintsReceipt(t *testing.T) {
	inBerlin(t)
	paid := row(3, "usdc", "eip155:8453:0x1:0", "USDC", "42000000", "10000000", new(int64(4200)), "2026-11-19T23:00:00Z", "confirmed", "chain")
	paid.Own, paid.Version, paid.Page, paid.Hints = true, 2, "https://pay.example/v1/receipt/x", []string{"this refund is a\u001bb"}
	paid.Returns = []operator.Return{{Kind: "refund", Amount: "10 USDC", Gone: true, At: "2026-11-20T10:00:00Z"}, {Kind: "refund", Amount: "5 USDC"}}
	api := newAdminAPI(t, paid)
	out := must(api.run(recordCommand(), "--rail", "usdc", "--reference", "x", "--refund", "10", "--reason", "x"))(t)
	require.Equal(t, `usdc eip155:8453:0x1:0: 42 USD of 2026-11-20 00:00 Europe/Berlin = 2026-11-19T23:00:00Z, confirmed, evidence chain, version 2
  your own payment, not a customer's
  paid 42 USDC, refunded 10 USDC
  refund of 10 USDC at 2026-11-20 11:00 Europe/Berlin = 2026-11-20T10:00:00Z
  this refund is ab
  page for the payer: https://pay.example/v1/receipt/x
`, out)
	paid = row(4, "card", "pi_1", "JPY", "6300", "0", new(int64(4200)), "2026-11-19T23:00:00Z", "confirmed", "signed")
	paid.ValueBasis = "stated"
	out, err := newAdminAPI(t, paid).run(recordCommand(), "--rail", "card", "--reference", "x", "--value", "42", "--reason", "x")
	require.NoError(t, err)
	require.Contains(t, out, "\n  worth 42 USD by your statement; paid 6300 JPY\n")
}

func TestCommandReceivedPrintsEveryOffer(t *testing.T) {
	const summary = `{"status":"partial","goalUsdDecimal":"42.00","goalMet":true,"receivedUsd":42.50,"receivedUsdDecimal":"42.50","payments":3,"externalUsd":42,"externalUsdDecimal":"42.00","rails":[
		{"rail":"usdc","state":"unknown","testnet":true,"settling":{"count":1,"amountAtomic":"42000000","amountUsdDecimal":"42.00"},"lagSeconds":7,"lastError":"unreachable\u001b"},
		{"rail":"btc","state":"observed","confirmed":{"count":2,"amountAtomic":"5","amountUsdDecimal":null},"seen":{"count":0,"amountAtomic":"0","amountUsdDecimal":"0"},
		"refunded":{"count":0,"amountAtomic":"5","amountUsdDecimal":"1.00"}}]}`
	api := newAdminAPI(t)
	api.answers = []string{`{"offers":[{"id":"one","report":` + summary + `},{"id":"two","report":{"receivedUsdDecimal":"0.00","goalUsdDecimal":"42.00","goalMet":false,"clockOffsetSeconds":-3600}}]}` + "\n"}
	out := must(api.run(receivedCommand()))(t)
	require.Equal(t, []string{"GET /pay_offer/received"}, api.asked)
	require.Equal(t, `one: 42.50 USD received in 3 payments, 42.00 USD of it from customers
METHOD       MONITORED  CONFIRMED  OUTCOME UNKNOWN  REFUNDED  LAST CHECK  ERROR
usdc (test)  not now    -          42.00 (1)        -         7s ago      unreachable
btc          automatic  ? (2)      -                1.00      -           -

two: 0.00 USD received in 0 payments
the clock of this machine is off by -3600 s: payments cannot be judged by their time; set it and keep it right by NTP
METHOD  MONITORED  CONFIRMED
`, out)

	raw := must(api.run(receivedCommand(), "--json"))(t)
	require.Equal(t, api.answers[0], raw, "the answer as it is")
}

func TestCommandReceivedListsReceipts(t *testing.T) {
	inBerlin(t)
	next := int64(2)
	page := operator.Receipts{Next: &next, Receipts: []operator.Receipt{
		row(3, "usdc", "eip155:84532:0x01:0", "BTC", "50000000", "10000000", nil, "2026-11-21T10:00:00Z", "seen", "chain"),
		row(2, "transfer", "INV-8", "USD", "4200", "0", new(int64(4200)), "2026-11-19T23:00:00Z", "confirmed", "manual"),
	}}
	page.Receipts[0].Testnet = true
	page.Receipts[1].Page, page.Receipts[1].History = "https://pay.example/v1/receipt/\u001bx", []operator.Change{{Reason: "statement"}, {Reason: "fee"}, {}}
	page.Receipts[0].Hints = []string{"its part of the payment\u001b is not known"}
	api := newAdminAPI(t, page)
	out := must(api.run(receivedCommand(), "--receipts", "--before", "4", "--offer", "one"))(t)
	require.Equal(t, []string{"GET /pay_offer/receipts?before=4&limit=100&offer=one"}, api.asked)
	require.Equal(t, `NUMBER  TIME              METHOD       AMOUNT   REFUNDED  STATUS     EVIDENCE  REFERENCE            LAST REASON
3       2026-11-21 11:00  usdc (test)  0.5 BTC  0.1 BTC   seen       chain     eip155:84532:0x01:0  -
2       2026-11-20 00:00  transfer     42 USD   -         confirmed  manual    INV-8                fee
3: its part of the payment is not known
Older receipts: caddy pay-offer received --receipts --before 2

Receipt pages (send each one only to its payer):
2: https://pay.example/v1/receipt/x
`, out)
	raw := must(api.run(receivedCommand(), "--receipts", "--json"))(t)
	require.Equal(t, api.answers[0], raw)
}

func TestCommandIntentsPrintsAllPages(t *testing.T) {
	next := int64(7)
	first := operator.Intents{Next: &next, Intents: []operator.Intent{{
		Offer: "one", Network: "eip155:8453", From: "0x11", Nonce: "0x01", Amount: 42_000_000, AmountUSD: usd(4200),
		State: "settling", Reason: "timeout\x1b[2J\u202e", CreatedAt: "2026-11-20T00:00:00Z", Waiting: "for its chain",
	}}}
	second := operator.Intents{Intents: []operator.Intent{{Offer: "one", Network: "eip155:1", Amount: 42, State: "settling", CreatedAt: "2026-11-21T00:00:00Z"}}}
	api := newAdminAPI(t, first, second)
	out := must(api.run(intentsCommand(), "--offer", "one"))(t)
	require.Equal(t, []string{"GET /pay_offer/intents?limit=100&offer=one", "GET /pay_offer/intents?after=7&limit=100&offer=one"}, api.asked)
	require.Equal(t, `42 USD on eip155:8453 for one, settling since 2026-11-20T00:00:00Z
  from         0x11
  nonce        0x01
  reason       timeout[2J
  waits        for its chain
42 atomic units on eip155:1 for one, settling since 2026-11-21T00:00:00Z
`, out, "nothing steers the terminal")

	claim := second
	claim.Intents[0].State, claim.Intents[0].Evidence, claim.Intents[0].UpdatedAt = "settled", "facilitator", "2026-11-22T00:00:00Z"
	api = newAdminAPI(t, claim)
	out = must(api.run(intentsCommand(), "--claims"))(t)
	require.Equal(t, []string{"GET /pay_offer/claims?limit=100"}, api.asked)
	require.Equal(t, "42 atomic units on eip155:1 for one, settled as of 2026-11-22T00:00:00Z\n  evidence     facilitator\n", out)
	out = must(newAdminAPI(t, operator.Intents{}).run(intentsCommand(), "--claims"))(t)
	require.Equal(t, "no payment has an unverified outcome\n", out)

	raw := must(newAdminAPI(t, first, second).run(intentsCommand(), "--json"))(t)
	require.Len(t, strings.Split(raw, "\n"), 3)
	require.Contains(t, raw, `"nonce":"0x01"`)
}

func TestCommandResolveSendsTheOutcome(t *testing.T) {
	api := newAdminAPI(t, operator.Intent{Offer: "one", Network: "eip155:8453", Amount: 42, State: "refused", CreatedAt: "2026-11-21T00:00:00Z", UpdatedAt: "2026-11-22T00:00:00Z"})
	key := []string{"--network", "base", "--from", "0x11", "--nonce", "0x01", "--reason", "looked-up"}
	require.ErrorContains(t, errorOf(api.run(resolveCommand(), key...)), "not-paid")
	require.Empty(t, api.asked)

	out := must(api.run(resolveCommand(), append(key, "--not-paid")...))(t)
	require.Equal(t, "42 atomic units on eip155:8453 for one, refused as of 2026-11-22T00:00:00Z\n", out)
	must(api.run(resolveCommand(), append(key, "--paid", "0xab")...))(t)
	const sent = `{"network":"base","from":"0x11","nonce":"0x01","outcome":`
	require.Equal(t, []string{
		sent + `"not_paid","reason":"looked-up"}`, sent + `"paid","transaction":"0xab","reason":"looked-up"}`,
	}, api.bodies)
}

func TestCommandRotateKeyOutput(t *testing.T) {
	key := operator.RotatedKey{KeyID: "did:web:pay.example#k", SignsFrom: "2026-11-21T00:00:00Z"}
	api := newAdminAPI(t, key)
	out := must(api.run(rotateKeyCommand(), "--offer", "one"))(t)
	require.Equal(t, "did:web:pay.example#k signs from 2026-11-21T00:00:00Z; former keys stay published\n", out)
	require.Equal(t, []string{`{"offer":"one"}`}, api.bodies)

	key.Revoked = true
	api = newAdminAPI(t, key)
	out = must(api.run(rotateKeyCommand(), "--revoke"))(t)
	require.Contains(t, out, "all former keys are withdrawn")
	require.Equal(t, []string{`{"revoke":true}`}, api.bodies)
}

// Go takes UTC for a zone that it does not know.
func TestUnknownTimeZoneIsRefused(t *testing.T) {
	for zone, known := range map[string]bool{
		"Europe/Berlin": true, ":Europe/Berlin": true, "UTC": true, "": true,
		"Europe/Berln": false, "CET-1CEST": false, "/no/such/file": false, "../Berlin": false,
	} {
		t.Setenv("TZ", zone)
		if known {
			require.NoError(t, checkZone(), zone)
			continue
		}
		api := movements(t, operator.MovementsEnd{})
		_, _, err := api.exported()
		require.ErrorContains(t, err, "the variable TZ is not known", zone)
		_, err = api.run(recordCommand(), "--rail", "transfer", "--reference", "INV-7", "--amount", "42", "--date", "2026-11-20")
		require.ErrorContains(t, err, "the variable TZ is not known", zone)
		require.Empty(t, api.asked)
	}
}

// Every command that prints an answer of the admin API prints it unchanged with --json.
func TestJSONFlagPrintsAnswerUnchanged(t *testing.T) {
	for name, c := range map[string]struct {
		command *cobra.Command
		args    []string
	}{
		"received":      {receivedCommand(), nil},
		"announcements": {announcementsCommand(), nil},
		"passes":        {passCommand(), nil},
		"a new pass":    {passCommand(), []string{"--for", "30d"}},
		"a revocation":  {passCommand(), []string{"--revoke", "abc"}},
		"record":        {recordCommand(), []string{"--rail", "transfer", "--reference", "INV-7", "--amount", "42"}},
		"resolve":       {resolveCommand(), []string{"--network", "base", "--from", "0x1", "--nonce", "0x2", "--not-paid", "--reason", "x"}},
		"rotate-key":    {rotateKeyCommand(), nil},
	} {
		answer := map[string]any{"offers": []any{}, "id": "<\x1b&", "unknown_member": 1}
		api := newAdminAPI(t, answer)
		out := must(api.run(c.command, append(c.args, "--json")...))(t)
		require.Equal(t, api.answers[0], out, name)
	}
}

func TestAnnouncementsSendText(t *testing.T) {
	api := newAdminAPI(t, map[string]any{"offers": []any{map[string]any{"offer": "o", "receivers": []any{map[string]any{"host": "ntfy.sh"}}}}})
	require.Equal(t, "o, ntfy.sh: accepted\n", must(api.run(announcementsCommand(), "--test", "--text", "The backup failed. Read its log."))(t))
	require.Equal(t, []string{"POST /pay_offer/announcements?text=The+backup+failed.+Read+its+log."}, api.asked)
	require.ErrorContains(t, errorOf(api.run(announcementsCommand(), "--text", "x")), "--text belongs to a test message; add --test")
}
