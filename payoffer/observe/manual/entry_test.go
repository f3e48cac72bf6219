package manual

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/accounting"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/report"
)

func TestParseAmount(t *testing.T) {
	for text, cents := range map[string]offer.USD{
		"42": 4200, "42.5": 4250, "42.05": 4205, "0.01": 1, "10000000": maxAmount, "9999999.99": maxAmount - 1,
	} {
		got, err := ParseAmount(text)
		require.NoError(t, err, text)
		require.Equal(t, cents, got, text)
	}
	for _, text := range []string{
		"", "0", "0.00", "-1", "+1", "042", "42.", ".5", "42.505", "4e1", "42,50", "1 000", "٤٢", "0x2a", "NaN",
		"10000000.01", "99999999999999999999", " 42", "42\n",
	} {
		_, err := ParseAmount(text)
		require.Error(t, err)
	}
}

func TestFutureDateNeedsConfirmation(t *testing.T) {
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	for date, want := range map[time.Time]string{
		now: "", now.Add(-time.Hour): "", {}: "", now.Add(12 * time.Hour): "the date 2026-11-30 is in the future",
	} {
		require.Equal(t, want, Entry{USD: 4200, OccurredAt: date}.Typo(4200, nil, now))
	}
}

// The reference is the number that the text is, read by the standard library.
func FuzzParseAmount(f *testing.F) {
	for _, seed := range []string{"42", "42.50", "0.01", "10000000", "1e3", "-0", "007"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		amount, err := ParseAmount(text)
		if err != nil {
			require.Error(t, err)
			return
		}
		number, err := strconv.ParseFloat(text, 64)
		require.NoError(t, err)
		require.InDelta(t, number*100, float64(amount), 1e-3)
		require.Positive(t, amount)
		require.LessOrEqual(t, amount, maxAmount)
	})
}

func TestParseDate(t *testing.T) {
	day, err := ParseDate("2026-11-20", time.UTC)
	require.NoError(t, err)
	require.Equal(t, int64(1_795_132_800), day.Unix()) // date -u -d 2026-11-20 +%s
	moment, err := ParseDate("2026-11-20T02:00:00+02:00", time.UTC)
	require.NoError(t, err)
	require.True(t, day.Equal(moment))
	for _, text := range []string{"", "20.11.2026", "2026-13-01", "2026-02-30", "yesterday", "2026-11-20 10:00"} {
		_, err := ParseDate(text, time.UTC)
		require.ErrorContains(t, err, "2026-11-20")
	}
}

// The zero time stands for no date, and is none that was given.
func TestParseDateRefusesBefore1970(t *testing.T) {
	for _, text := range []string{"0001-01-01", "0001-01-01T00:00:00Z", "0026-11-20", "1969-12-31", "1970-01-01T00:00:00Z"} {
		_, err := ParseDate(text, time.UTC)
		require.ErrorContains(t, err, "before 1970")
	}
}

func TestParseDateUsesTimeZone(t *testing.T) {
	berlin := time.FixedZone("Europe/Berlin", 3600)
	day, err := ParseDate("2026-11-20", berlin)
	require.NoError(t, err)
	require.Equal(t, "2026-11-20T00:00:00+01:00", day.Format(time.RFC3339))
	moment, err := ParseDate("2026-11-20T02:00:00-05:00", berlin)
	require.NoError(t, err)
	require.Equal(t, "2026-11-20T07:00:00Z", moment.UTC().Format(time.RFC3339), "a moment says its own")
}

func TestMalformedEntriesAreRefused(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	good := Entry{Action: "enter", Rail: "transfer", Reference: "INV-7", Amount: "42", Date: "2026-11-21T12:00:00Z", Reason: "sent by mail"}
	e := good
	require.NoError(t, e.Parse(now))
	require.Equal(t, offer.USD(4200), e.USD)
	require.Equal(t, now, e.OccurredAt)
	for name, c := range map[string]struct {
		change func(*Entry)
		want   string
	}{
		"no reference":         {func(e *Entry) { e.Reference = "" }, "reference is missing"},
		"a long reference":     {func(e *Entry) { e.Reference = strings.Repeat("é", 129) }, "use at most 128"},
		"broken UTF-8":         {func(e *Entry) { e.Reference = "INV\xff" }, "not UTF-8"},
		"a space at the end":   {func(e *Entry) { e.Reference = "INV-7 " }, "ends with a space"},
		"a negative amount":    {func(e *Entry) { e.Amount = "-1" }, "such as 42"},
		"a giant amount":       {func(e *Entry) { e.Amount = "10000001" }, "10000000"},
		"money of next week":   {func(e *Entry) { e.Date = "2026-11-22T13:00:00Z" }, "in the future"},
		"a date that is none":  {func(e *Entry) { e.Date = "soon" }, "2026-11-20"},
		"no reason":            {func(e *Entry) { e.Action, e.Reason = "void", "" }, "reason is missing"},
		"an endless reason":    {func(e *Entry) { e.Reason = strings.Repeat("x", 501) }, "use at most 500"},
		"a reason with a bell": {func(e *Entry) { e.Reason = "ring\a" }, "the reason contains"},
	} {
		t.Run(name, func(t *testing.T) {
			e := good
			c.change(&e)
			require.ErrorContains(t, e.Parse(now), c.want)
		})
	}
	for _, unseen := range []string{"\n", "\x1b[2J", "\u009b", "\u202e", "\u200b", "\u2028", "\ufeff", "\u00ad"} {
		e := good
		e.Reference = "INV" + unseen + "7"
		require.ErrorContains(t, e.Parse(now), "cannot be printed", "%+q", unseen)
	}
	e = good
	e.Reference, e.Amount, e.Date = strings.Repeat("é", 128), "10000000", "2026-11-22T12:00:00Z"
	require.NoError(t, e.Parse(now))
}

func TestCheckPublishableRefusesEmail(t *testing.T) {
	for _, reference := range []string{"jane.doe@example.org", "from jane@mail.example.org, INV-7", "<jane+tag@example.co>"} {
		require.ErrorContains(t, CheckPublishable(reference), "looks like an e-mail address")
	}
	for _, reference := range []string{"INV-7", "order @ shop", "a@b", "A-m3CDDC5dlrSdKZp0RFhA=="} {
		require.NoError(t, CheckPublishable(reference))
	}
}

func TestEntryKeepsDay(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for written, day := range map[string]string{
		"2026-11-20": "2026-11-20", "2026-11-20T00:00:00+14:00": "2026-11-20", "2026-11-20T00:00:00-12:00": "2026-11-20",
		"2026-11-20T00:00:01Z": "", "2026-11-20T02:00:00+02:00": "",
	} {
		e := Entry{Action: "enter", Rail: "transfer", Reference: "INV-7", Amount: "42", Date: written}
		require.NoError(t, e.Parse(now))
		require.Equal(t, day, e.Day(), written)
		row, words := accounting.Merge(ledger.Receipt{}, nil, e.Enter(ledger.Receipt{}, now))
		require.Equal(t, day, report.Day(row), written)
		require.True(t, e.IsDated(row))
		reversed, _ := accounting.Merge(row, words, e.Void(row, now))
		require.Equal(t, day, report.Day(reversed), written)
		again, _ := accounting.Merge(row, words, e.Enter(ledger.Receipt{}, now.Add(time.Hour)))
		require.Equal(t, row.OccurredAt, again.OccurredAt)
	}
	require.Empty(t, Entry{}.Day(), "no date is not a day")
}

func TestParseRefund(t *testing.T) {
	for _, c := range []struct {
		asset, text string
		atomic      int64
	}{
		{"USD", "10", 1000}, {"USD", "10.50", 1050}, {"0x036cbd53842c5426634e7929541ec2318f3dcf7e", "10.000001", 10_000_001},
		{"BTC", "0.0007", 70_000}, {"JPY", "6300", 6300}, {"EUR", "0.01", 1}, {"KWD", "1.005", 1005},
	} {
		atomic, err := ParseRefund(c.text, offer.UnitOf(c.asset))
		require.NoError(t, err)
		require.Equal(t, c.atomic, atomic)
	}
	for asset, texts := range map[string][]string{
		"USD": {"", "0", "-1", "1e3", "0.001", "42,50", "NaN"}, "JPY": {"0.5"}, "BTC": {"0.000000001"},
	} {
		for _, text := range texts {
			_, err := ParseRefund(text, offer.UnitOf(asset))
			require.Error(t, err, "%s of %s", text, asset)
		}
	}
}

func TestParseTransaction(t *testing.T) {
	digits := strings.Repeat("aB", 32)
	for _, c := range []struct{ asset, text, want string }{
		{"USDC", "0x" + digits, "0x" + strings.ToLower(digits)},
		{"BTC", digits, strings.ToLower(digits)},
	} {
		hash, err := ParseTransaction(c.asset, c.text)
		require.NoError(t, err)
		require.Equal(t, c.want, hash)
	}
	for _, c := range []struct{ asset, text, want string }{
		{"USDC", digits, "0x and 64"}, {"USDC", "0x" + digits[1:], "0x and 64"}, {"USDC", "0x" + strings.Repeat("0", 64), "0x and 64"},
		{"BTC", "0x" + digits, "64 hexadecimal"}, {"BTC", "0x" + digits[2:], "64 hexadecimal"}, {"BTC", strings.Repeat("g", 64), "64 hexadecimal"},
		{"USD", "0x" + digits, "only a payment on a chain"}, {"EUR", "re_1", "only a payment on a chain"},
	} {
		_, err := ParseTransaction(c.asset, c.text)
		require.ErrorContains(t, err, c.want, "%s of %s", c.text, c.asset)
	}
}

func TestRefundIDIsStable(t *testing.T) {
	base := Entry{Reason: "half of it"}
	other, dated, named := base, base, base
	other.Reason = "the other half"
	dated.OccurredAt = time.Unix(1_795_132_800, 0)
	named.Transaction = "0x1"
	require.Equal(t, base.RefundID(1000), Entry{Reason: "half of it", Reference: "x"}.RefundID(1000))
	ids := map[string]bool{base.RefundID(1000): true, base.RefundID(1001): true, other.RefundID(1000): true, dated.RefundID(1000): true, named.RefundID(1000): true}
	require.Len(t, ids, 5)
	require.Equal(t, named.RefundID(1000), named.RefundID(7), "a transaction is one refund, whatever the amount")
	require.Equal(t, ledger.RefundTransactionID("0x1"), named.RefundID(7))

	for id, want := range map[string]string{base.RefundID(1): "", named.RefundID(1): "0x1"} {
		transaction, entered := EnteredRefund(ledger.Return{ID: id, Kind: ledger.ReturnRefund})
		require.True(t, entered)
		require.Equal(t, want, transaction)
	}
	for _, foreign := range []ledger.Return{{ID: "re_1", Kind: ledger.ReturnRefund}, {ID: "operator", Kind: ledger.ReturnReversal}} {
		_, entered := EnteredRefund(foreign)
		require.False(t, entered)
	}
}
