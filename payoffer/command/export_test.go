package command

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/accounting"
	"github.com/payoffer/caddy-pay-offer/payoffer/operator"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/skip"
	"github.com/payoffer/caddy-pay-offer/payoffer/report"
)

func inBerlin(t *testing.T) {
	t.Helper()
	berlin := must(time.LoadLocation("Europe/Berlin"))(t)
	before := time.Local
	time.Local = berlin
	t.Cleanup(func() { time.Local = before })
}

// moved is a movement of a card payment in US cents, on a day of 2027 in UTC.
func moved(kind accounting.MovementKind, day, reference string, cents int64) report.Movement {
	m := report.Movement{Kind: kind, Date: "2027-" + day + "Z"}
	m.Rail, m.ID, m.Number, m.Asset, m.AmountAtomic, m.Dollars = "card", reference, 7, "USD", strconv.FormatInt(cents, 10), report.NewDollars(&cents)
	m.ValueBasis, m.Status, m.Evidence, m.Counted = "face", "confirmed", "signed", true
	m.RecordedAt, m.Line = m.Date, "7v1p1"
	return m
}

// bitcoin is 0.0007 BTC of unknown value.
func bitcoin(day, reference string) report.Movement {
	m := report.Movement{Kind: accounting.MovementPayment, Date: "2027-" + day + "Z"}
	m.Rail, m.ID, m.Number, m.Asset, m.AmountAtomic = "btc", reference, 8, "BTC", "70000"
	m.Status, m.Evidence, m.Own, m.Counted, m.Transaction = "confirmed", "chain", true, true, "ab01"
	m.RecordedAt, m.Line = m.Date, "8v1p1"
	return m
}

// movements answers with movements and their end.
func movements(t *testing.T, end operator.MovementsEnd, rows ...report.Movement) *adminAPI {
	t.Helper()
	var text strings.Builder
	for _, m := range rows {
		require.NoError(t, json.NewEncoder(&text).Encode(operator.MovementLine{Movement: &m}))
	}
	if end.Count == 0 {
		end.Count = int64(len(rows))
	}
	require.NoError(t, json.NewEncoder(&text).Encode(operator.MovementLine{End: &end}))
	api := newAdminAPI(t)
	api.answers = []string{text.String()}
	return api
}

// exported are what the command prints, and what it tells on standard error.
func (a *adminAPI) exported(args ...string) (out, told string, err error) {
	a.t.Helper()
	var printed, aside bytes.Buffer
	command := receivedCommand()
	command.SetOut(&printed)
	command.SetErr(&aside)
	command.SilenceUsage, command.SilenceErrors = true, true
	command.SetArgs(append([]string{"--csv", "--address", a.address}, args...))
	err = command.ExecuteContext(a.t.Context())
	return printed.String(), aside.String(), err
}

func TestCSVExportHasRowPerMovement(t *testing.T) {
	inBerlin(t)
	seen := moved(accounting.MovementPayment, "01-31T23:30:00", "pi_2", 500)
	seen.Counted, seen.Status = false, "seen"
	refund := moved(accounting.MovementRefund, "03-05T10:00:00", "pi_1", -1200)
	refund.Line, refund.RecordedAt, refund.Reason = "7v2p1", "2027-03-06T11:00:00Z", "half, by phone"
	api := movements(t, operator.MovementsEnd{ReceivedCents: 3000, ExternalCents: 3000, Partial: true},
		moved(accounting.MovementPayment, "01-31T23:30:00", "pi_1", 4200), refund,
		bitcoin("07-01T10:00:00", "ab01:0"), seen)
	out, told, err := api.exported("--offer", "one")
	require.NoError(t, err)
	require.Equal(t, []string{"GET /pay_offer/movements?offer=one"}, api.asked)
	require.Equal(t, strings.ReplaceAll(`date_utc,date_local,time_zone,kind,rail,reference,number,asset,amount,amount_atomic,usd_value,value_basis,status,evidence,own,testnet,counted,transaction,recorded_at,line,reason
2027-01-31T23:30:00Z,2027-02-01,Europe/Berlin,payment,card,pi_1,7,USD,42,4200,42.00,face,confirmed,signed,no,no,yes,,2027-01-31T23:30:00Z,7v1p1,
2027-03-05T10:00:00Z,2027-03-05,Europe/Berlin,refund,card,pi_1,7,USD,-12,-1200,-12.00,face,confirmed,signed,no,no,yes,,2027-03-06T11:00:00Z,7v2p1,"half, by phone"
2027-07-01T10:00:00Z,2027-07-01,Europe/Berlin,payment,btc,ab01:0,8,BTC,0.0007,70000,,,confirmed,chain,yes,no,yes,ab01,2027-07-01T10:00:00Z,8v1p1,
2027-01-31T23:30:00Z,2027-02-01,Europe/Berlin,payment,card,pi_2,7,USD,5,500,5.00,face,seen,signed,no,no,no,,2027-01-31T23:30:00Z,7v1p1,
`, "\n", "\r\n"), out)
	require.Equal(t, `4 lines, 30.00 USD counted
all movements add up to the ledger's sums: 30.00 USD received, 30.00 of it from others
some money of unknown value is not in these dollars: its usd_value is empty
`, told)
}

// The first and the last day are in it, and days are the operator's.
func TestCSVExportUsesLocalDays(t *testing.T) {
	inBerlin(t)
	late := moved(accounting.MovementRefund, "02-10T10:00:00", "january", -100)
	late.RecordedAt = "2027-04-30T22:00:00Z"
	rows := []report.Movement{
		moved(accounting.MovementPayment, "01-31T22:59:59", "january", 100), moved(accounting.MovementPayment, "01-31T23:00:00", "first", 100),
		moved(accounting.MovementPayment, "02-28T22:59:59", "last", 100), moved(accounting.MovementPayment, "02-28T23:00:00", "march", 100),
		late,
	}
	end := operator.MovementsEnd{ReceivedCents: 300, ExternalCents: 300}
	for _, c := range []struct {
		args []string
		sum  string
		want []string
	}{
		{[]string{"--from", "2027-02-01", "--to", "2027-02-28"}, "3 lines, 1.00 USD counted", []string{"first", "last", "january"}},
		{[]string{"--from", "2027-03-01"}, "1 lines, 1.00 USD counted", []string{"march"}},
		{[]string{"--to", "2027-01-31"}, "1 lines, 1.00 USD counted", []string{"january"}},
		{[]string{"--from", "2028-01-01"}, "0 lines, 0.00 USD counted", nil},
		{[]string{"--recorded-since", "2027-03-01"}, "2 lines, 0.00 USD counted", []string{"march", "january"}},
		{[]string{"--recorded-since", "2027-05-01"}, "1 lines, -1.00 USD counted", []string{"january"}},
		{[]string{"--recorded-since", "2027-04-30T22:00:01Z"}, "0 lines, 0.00 USD counted", nil},
		{[]string{"--recorded-since", "2027-03-01", "--to", "2027-02-28"}, "1 lines, -1.00 USD counted", []string{"january"}},
	} {
		out, told, err := movements(t, end, rows...).exported(c.args...)
		require.NoError(t, err)
		var got []string
		for _, row := range readCSV(t, out)[1:] {
			got = append(got, row[5])
		}
		require.Equal(t, c.want, got)
		require.Contains(t, told, c.sum)
		require.Contains(t, told, "all movements, of whatever day, add up to the ledger's sums: 3.00 USD received")
	}
}

// An export whose sums differ from the ledger, or that ended early, must not be used.
func TestCSVExportFailsIfSumsDiffer(t *testing.T) {
	payment := moved(accounting.MovementPayment, "01-31T23:30:00", "pi_1", 4200)
	for name, c := range map[string]struct {
		end  operator.MovementsEnd
		says string
	}{
		"other money":    {operator.MovementsEnd{ReceivedCents: 4300, ExternalCents: 4200}, "add up to 42.00 USD received, 42.00 of it from others; the ledger says 1, 43.00 and 42.00: do not use this export"},
		"own money":      {operator.MovementsEnd{ReceivedCents: 4200}, "do not use this export"},
		"other lines":    {operator.MovementsEnd{Count: 2, ReceivedCents: 4200, ExternalCents: 4200}, "do not use this export"},
		"server's error": {operator.MovementsEnd{ReceivedCents: 4200, ExternalCents: 4200, Error: "the movements do not\x1b add up"}, "the movements do not add up"},
	} {
		t.Run(name, func(t *testing.T) {
			_, told, err := movements(t, c.end, payment).exported()
			require.ErrorContains(t, err, c.says)
			require.NotContains(t, told, "add up to the ledger's sums")
		})
	}
	cut := movements(t, operator.MovementsEnd{}, payment)
	cut.answers[0], _, _ = strings.Cut(cut.answers[0], "\n")
	_, told, err := cut.exported()
	require.ErrorContains(t, err, "ended early")
	require.Empty(t, told)

	refusing := newAdminAPI(t, map[string]any{"error": "no offer has the id \"x\""})
	refusing.status = 404
	_, _, err = refusing.exported("--offer", "x")
	require.EqualError(t, err, `no offer has the id "x"`)
}

func TestCSVExportFlagErrors(t *testing.T) {
	for _, c := range [][2]string{
		{"--from 2027-13-01", "is not a day"}, {"--to yesterday", "is not a day"}, {"--from 2027-02-02 --to 2027-02-01", "is after --to"},
		{"--recorded-since march", "--recorded-since: "}, {"--decimal dot", "write point or comma"},
	} {
		_, _, err := movements(t, operator.MovementsEnd{}).exported(strings.Fields(c[0])...)
		require.ErrorContains(t, err, c[1])
	}
	for _, arguments := range []string{"--from 2027-01-01", "--to 2027-01-01", "--recorded-since 2027-01-01", "--decimal comma"} {
		_, err := newAdminAPI(t, perOffer[operator.Received]{}).run(receivedCommand(), strings.Fields(arguments)...)
		require.ErrorContains(t, err, "need --csv")
	}
}

// A spreadsheet of a country with a decimal comma reads the numbers, and only they have a comma.
func TestCSVExportDecimalComma(t *testing.T) {
	refund := moved(accounting.MovementRefund, "03-05T10:00:00", "INV.7", -1250)
	refund.Reason = "7.50 more"
	api := movements(t, operator.MovementsEnd{ReceivedCents: -1250, ExternalCents: -1250}, refund)
	out, told, err := api.exported("--decimal", "comma")
	require.NoError(t, err)
	require.Contains(t, told, "-12.50 USD counted")
	header, row, _ := strings.Cut(out, "\r\n")
	require.Equal(t, "\ufeff"+strings.Join(report.MovementColumns, ";"), header)
	require.Contains(t, row, ";INV.7;7;USD;-12,50;-1250;-12,50;face;")
	require.True(t, strings.HasSuffix(row, ";7.50 more\r\n"), row)
}

// Another version of the server, or something else on its port, must not end in a panic.
func TestCSVExportRefusesMalformedResponse(t *testing.T) {
	for _, answer := range []string{"{}", `{"kind":"payment"}`, `{"own":true}`, `{"end":null}`, "[]", "null", "{}\n{}"} {
		api := newAdminAPI(t)
		api.answers = []string{answer}
		_, _, err := api.exported()
		require.Error(t, err, answer)
	}
}

// hostile are references as a payer or a shop may send them, and the cell that
// becomes of each.
var hostile = map[string]string{
	`=HYPERLINK("https://evil.example","open")`: `'=HYPERLINK("https://evil.example","open")`,
	"+1+cmd|' /C calc'!A0":                      "'+1+cmd|' /C calc'!A0",
	"-2+3":                                      "'-2+3",
	"@SUM(A1)":                                  "'@SUM(A1)",
	"\t=1+1":                                    "'=1+1",
	"\r=1+1":                                    "'=1+1",
	"\x1b]0;=1+1":                               "]0;=1+1",
	"\u202e=1":                                  "'=1",
	"＝1+1":                                      "'＝1+1",
	`INV, "7"`:                                  `INV, "7"`,
	"INV\r\n8":                                  "INV8",
	"Größe 日本":                                  "Größe 日本",
	"":                                          "",
}

func readCSV(t *testing.T, text string) [][]string {
	t.Helper()
	return must(csv.NewReader(strings.NewReader(text)).ReadAll())(t)
}

func exportHostile(t *testing.T) (out string, want []string) {
	t.Helper()
	var rows []report.Movement
	for reference, cell := range hostile {
		m := moved(accounting.MovementPayment, "01-31T12:00:00", reference, 100)
		m.Transaction, m.Rail, m.Asset, m.ValueBasis, m.Status, m.Evidence = reference, reference, reference, reference, reference, reference
		rows, want = append(rows, m), append(want, cell)
	}
	cents := int64(100 * len(rows))
	out, _, err := movements(t, operator.MovementsEnd{ReceivedCents: cents, ExternalCents: cents}, rows...).exported()
	require.NoError(t, err)
	return out, want
}

func TestCSVExportEscapesFormulas(t *testing.T) {
	out, want := exportHostile(t)
	rows := readCSV(t, out)
	require.Len(t, rows, len(want)+1)
	for n, cell := range want {
		for _, column := range []int{4, 5, 7, 11, 12, 13, 17} {
			require.Equal(t, cell, rows[n+1][column], rows[0][column])
		}
	}
	require.Equal(t, len(want)+1, strings.Count(out, "\r\n"), "a line a movement")
	require.NotContains(t, strings.ReplaceAll(out, "\r\n", ""), "\n")
}

// Another reader finds the same cells.
func TestCSVExportReadByPython(t *testing.T) {
	python := skip.Program(t, "Python", "python3")
	out, _ := exportHostile(t)
	reader := exec.CommandContext(t.Context(), python, "-c",
		"import csv, io, json, sys\nprint(json.dumps(list(csv.reader(io.TextIOWrapper(sys.stdin.buffer, 'utf-8', newline=''), strict=True))))")
	reader.Stdin = strings.NewReader(out)
	answer := must(reader.Output())(t)
	var rows [][]string
	require.NoError(t, json.Unmarshal(answer, &rows))
	require.Equal(t, readCSV(t, out), rows)
}

func TestUnnamedTimeZoneShowsOffset(t *testing.T) {
	at := time.Date(2027, 1, 31, 12, 0, 0, 0, time.FixedZone("Local", -9*3600-30*60))
	require.Equal(t, "UTC-09:30", zoneOf(at))
	require.Equal(t, "UTC", zoneOf(at.UTC()))
	require.Equal(t, "UTC", zoneOf(at.In(time.FixedZone("Local", 0))), "as with TZ=UTC")
}
