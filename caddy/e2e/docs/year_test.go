package docs

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/manual"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/skip"
)

// year is a ledger that is kept through 2025, by its own clock.
type year struct {
	*ledger.Ledger
	t     *testing.T
	now   time.Time
	later map[int][]func() // what happens later, by its step
}

const day = 24 * time.Hour

var yearAccounts = map[string]ledger.Account{
	"card":     {Offer: "year", ID: "stripe/plink_9", Rail: "card"},
	"transfer": {Offer: "year", ID: "operator/year/transfer", Rail: "transfer"},
	"usdc":     {Offer: "year", ID: "eip155:8453/year", Rail: "usdc"},
	"btc":      {Offer: "year", ID: "bip122:year", Rail: "btc"},
	"test":     {Offer: "year", ID: "eip155:84532/year", Rail: "test", Testnet: true},
}

// Steps of the year: payments begin in the first, and the rest brings only what happens to them.
const paying, steps = 230, 254

// play plays some steps on the ledger of a file.
func (y *year) play(file string, from, to int) {
	y.t.Helper()
	y.Ledger = ledger.NewSQLite(file, func() time.Time { return y.now })
	require.NoError(y.t, y.Open(y.t.Context()))
	for _, account := range yearAccounts {
		require.NoError(y.t, y.Register(y.t.Context(), account))
	}
	for n := from; n < to; n++ {
		y.now = time.Date(2025, 1, 4, 7, 13*n%60, 0, 0, time.UTC).Add(time.Duration(n) * 34 * time.Hour)
		for _, f := range y.later[n] {
			f()
		}
		if n < paying {
			y.begin(n)
		}
	}
	require.NoError(y.t, y.Close())
}

// pay records a payment. Its value is unknown if the money is not dollars.
func (y *year) pay(rail, id, asset string, amount int64, change ...func(*ledger.Observation)) {
	y.t.Helper()
	account := yearAccounts[rail]
	s := ledger.Observation{
		Offer: account.Offer, Account: account.ID, Rail: rail, ExternalID: id, Asset: asset, Amount: amount, State: ledger.StatusConfirmed,
		EvidenceLevel: ledger.LevelSigned, OccurredAt: y.now.Add(-time.Hour).Unix(), Cause: "webhook",
	}
	switch asset {
	case "USD":
		s.USDCents, s.ValueBasis = &amount, ledger.BasisFace
	case "USDC":
		s.USDCents, s.ValueBasis = new(amount/10_000), ledger.BasisFace
	}
	if rail != "card" {
		s.EvidenceLevel, s.Transaction, s.Cause = ledger.LevelChain, "0x"+id, "chain"
	}
	for _, f := range change {
		f(&s)
	}
	_, err := y.Record(y.t.Context(), nil, s)
	require.NoError(y.t, err)
}

// back records a refund or a dispute of a card payment.
func (y *year) back(payment, id string, kind ledger.ReturnKind, amount int64, gone bool) {
	r := ledger.Return{ID: id, Kind: kind, Amount: amount, Gone: gone, At: y.now.Unix() - 60}
	y.pay("card", payment, "", 0, func(s *ledger.Observation) { s.Addendum, s.Returns = true, []ledger.Return{r} })
}

// enter records what the operator enters: what an entry does with the receipt, or with none.
func (y *year) enter(rail, reference, amount string, do func(manual.Entry, ledger.Receipt) ledger.Observation) {
	y.t.Helper()
	account := yearAccounts[rail]
	stored, found, err := y.Receipt(y.t.Context(), account.Offer, account.ID, reference)
	require.NoError(y.t, err)
	if !found {
		stored = ledger.Receipt{Offer: account.Offer, Account: account.ID, Rail: rail, ExternalID: reference}
	}
	e := manual.Entry{
		Action: "enter", Rail: rail, Reference: reference, Amount: json.Number(amount), Date: y.now.Add(-3 * day).Format(time.DateOnly),
		Reason: "as; on the \"statement\", 1,50 " + y.now.Format(time.DateOnly),
	}
	require.NoError(y.t, e.Parse(y.now))
	_, err = y.Record(y.t.Context(), nil, do(e, stored))
	require.NoError(y.t, err)
}

// begin is the payment of a step, and what happens to it in later ones.
func (y *year) begin(n int) {
	later := func(steps int, f func()) { y.later[n+steps] = append(y.later[n+steps], f) }
	id, cents := fmt.Sprint("p", n), int64(4200+n%7*13)
	entered := func(e manual.Entry, stored ledger.Receipt) ledger.Observation { return e.Enter(stored, y.now) }
	valued := func(e manual.Entry, stored ledger.Receipt) ledger.Observation { return e.StateValue(stored, y.now) }
	refunded := func(e manual.Entry, stored ledger.Receipt) ledger.Observation {
		return e.Refund(stored, stored.Amount/3, nil, y.now)
	}
	switch n % 12 {
	case 0:
		y.pay("card", id, "USD", cents)
		later(3, func() { y.back(id, "re_"+id, ledger.ReturnRefund, 1001, true) })
	case 1:
		y.pay("usdc", id, "USDC", cents*10_000)
		later(20, func() { y.enter("usdc", id, "", refunded) })
	case 2:
		y.enter("transfer", "INV-"+id, "42.50", entered)
	case 3:
		y.pay("btc", id, "BTC", 46_667+int64(n))
		later(9, func() { y.enter("btc", id, "43.17", valued) })
	case 4:
		y.pay("card", id, "EUR", 3900)
		later(2, func() { y.back(id, "re_"+id, ledger.ReturnRefund, 777, true) })
		later(15, func() { y.enter("card", id, "45.21", valued) })
	case 5:
		y.pay("card", id, "USD", cents)
		later(2, func() { y.back(id, "re_"+id, ledger.ReturnRefund, cents, true) })
		later(7, func() { y.back(id, "re_"+id, ledger.ReturnRefund, cents, false) })
	case 6:
		y.pay("card", id, "USD", cents)
		later(5, func() { y.back(id, "dp_"+id, ledger.ReturnReversal, cents/2, true) })
		if n%24 == 6 {
			later(21, func() { y.back(id, "dp_"+id, ledger.ReturnReversal, cents/2, false) })
		}
	case 7: // both refunds come before their payment
		y.back(id, "re_a"+id, ledger.ReturnRefund, 500, true)
		y.back(id, "re_b"+id, ledger.ReturnRefund, 700, true)
		y.pay("card", id, "USD", cents)
	case 8:
		y.enter("transfer", "INV-"+id, "42", entered)
		later(1, func() {
			y.enter("transfer", "INV-"+id, "", func(e manual.Entry, stored ledger.Receipt) ledger.Observation { return e.Void(stored, y.now) })
		})
		later(4, func() { y.enter("transfer", "INV-"+id, "40.40", entered) })
	case 9: // a reorganization moves it into another block
		y.pay("usdc", id, "USDC", cents*10_000)
		later(1, func() {
			y.pay("usdc", id, "USDC", cents*10_000, func(s *ledger.Observation) { s.State, s.Cause = ledger.StatusDropped, "reorg" })
		})
		later(2, func() { y.pay("usdc", id, "USDC", cents*10_000) })
	case 10:
		y.pay("card", id, "USD", cents)
		later(11, func() {
			y.enter("card", id, "", func(e manual.Entry, stored ledger.Receipt) ledger.Observation { return e.MarkOwn(stored) })
		})
	case 11:
		y.pay("test", id, "USDC", cents*10_000)
		y.pay("card", id, "USD", cents, func(s *ledger.Observation) { s.State = ledger.StatusSeen })
		if n%24 == 11 {
			later(3, func() { y.pay("card", id, "USD", cents) })
		}
	}
}

// served is the server on the ledger, and export what its command writes.
type served struct {
	*server.Process
	t          *testing.T
	url, admin string
}

func serveYear(t *testing.T, file string) *served {
	s := &served{t: t, url: "http://localhost:" + payoffertest.FreePort(t), admin: "localhost:" + payoffertest.FreePort(t)}
	s.Process = server.Start(t, s.url, fmt.Sprintf(`{
	admin %s
	persist_config off
	default_bind 127.0.0.1
	storage file_system %q
	pay_offer {
		ledger sqlite %q
	}
}
%s {
	pay_offer {
		base_url %[4]s
		id year
		card https://checkout.example/pay
		bank_transfer transfer pay@example.org
	}
}
`, s.admin, file+"-storage", file, s.url))
	return s
}

// export writes the CSV into a file of the folder.
func (s *served) export(file string, arguments ...string) {
	s.t.Helper()
	command := exec.Command(server.Released(s.t), append([]string{"pay-offer", "received", "--csv", "--address", s.admin}, arguments...)...)
	out, err := os.Create(file)
	require.NoError(s.t, err)
	var told strings.Builder
	command.Stdout, command.Stderr, command.Dir = out, &told, s.t.TempDir()
	command.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + command.Dir, "TZ=Europe/Berlin"}
	require.NoError(s.t, command.Run(), &told)
	require.NoError(s.t, out.Close())
}

// counted are the lines of an export that count, by their name, and their sum in US cents.
func counted(t *testing.T, file string) (lines map[string][]string, cents int64) {
	t.Helper()
	text := lab.Must(os.ReadFile(file))(t)
	rows := lab.Must(csv.NewReader(strings.NewReader(string(text))).ReadAll())(t)
	lines = map[string][]string{}
	column := map[string]int{}
	for i, name := range rows[0] {
		column[name] = i
	}
	for _, row := range rows[1:] {
		if row[column["counted"]] != "yes" {
			continue
		}
		var line []string
		for _, name := range []string{"date_utc", "kind", "reference", "amount", "usd_value", "own", "transaction", "recorded_at", "reason"} {
			line = append(line, row[column[name]])
		}
		require.NotContains(t, lines, row[column["line"]], "a name names one line")
		lines[row[column["line"]]] = line
		cents += centsOf(t, row[column["usd_value"]])
	}
	return lines, cents
}

// centsOf reads dollars with two decimals; nothing is 0.
func centsOf(t *testing.T, dollars string) int64 {
	t.Helper()
	if dollars == "" {
		return 0
	}
	require.Regexp(t, `^-?\d+\.\d\d$`, dollars)
	cents := lab.Must(strconv.ParseInt(strings.Replace(dollars, ".", "", 1), 10, 64))(t)
	return cents
}

// TestYearOfMovementsMatchesAccountingPrograms sums a year of mixed movements in the report, the feed, the metrics, the
// CSV, and the programs that the guide names, also LibreOffice. What was exported in the middle of the year, and then
// what was recorded since, is the whole.
func TestYearOfMovementsMatchesAccountingPrograms(t *testing.T) {
	skip.Full(t, "hledger, ledger, beancount and LibreOffice")
	for _, program := range []string{"hledger", "ledger", "bean-check", "python3", "soffice"} {
		skip.Program(t, program, program)
	}
	folder := t.TempDir()
	path := func(name string) string { return filepath.Join(folder, name) }
	y, file := &year{t: t, later: map[int][]func(){}}, path("ledger.db")
	y.play(file, 0, steps/2)
	middle := y.now.Add(time.Second).Format(time.RFC3339)
	s := serveYear(t, file)
	s.export(path("first.csv"))
	s.Terminate()
	s.Await(t)
	y.play(file, steps/2, steps)
	s = serveYear(t, file)
	s.export(path("2025.csv"))
	s.export(path("comma.csv"), "--decimal", "comma")
	s.export(path("since.csv"), "--recorded-since", middle)

	whole, cents := counted(t, path("2025.csv"))
	require.Greater(t, len(whole), 300)
	first, _ := counted(t, path("first.csv"))
	since, _ := counted(t, path("since.csv"))
	require.Greater(t, len(first), 100)
	require.Less(t, len(since), len(whole)-100)
	for name, line := range since {
		first[name] = line
	}
	require.Equal(t, whole, first, "an import that replaces lines by their names has the whole")

	require.Equal(t, offer.USD(cents).Decimal(), s.reported())
	require.Equal(t, cents, s.fed())
	require.Equal(t, cents, s.measured())
	for name, sum := range booked(t, folder) {
		require.Equal(t, cents, centsOf(t, sum), name)
	}
	point := `44,34,UTF-8,1,,0`
	comma := `59,34,UTF-8,1,,0`
	require.Equal(t, cents, spreadsheet(t, "en-US", path("2025.csv"), point))
	require.Equal(t, cents, spreadsheet(t, "de-DE", path("comma.csv"), comma))
	require.Zero(t, spreadsheet(t, "de-DE", path("2025.csv"), point), "this LibreOffice is German")
}

// reported is the money received in the report.
func (s *served) reported() string {
	var report struct{ ReceivedUsdDecimal string }
	require.NoError(s.t, json.Unmarshal([]byte(server.Get(s.t, s.url+"/v1/received", "")), &report))
	return report.ReceivedUsdDecimal
}

// fed is what a reader of the feed adds up from the last change of each receipt.
func (s *served) fed() (cents int64) {
	left := map[int64]int64{}
	for next := s.url + "/v1/received?after=0"; ; {
		var page struct {
			Next        string
			Transitions []struct {
				Number                       int64
				Counted                      bool
				AmountUsdDecimal             *string
				AmountAtomic, RefundedAtomic string
			}
		}
		a := server.Ask(server.Client, http.MethodGet, next, "", nil)
		require.Equal(s.t, http.StatusOK, a.Status, a.Body)
		require.NoError(s.t, json.Unmarshal([]byte(a.Body), &page))
		if len(page.Transitions) == 0 {
			break
		}
		for _, change := range page.Transitions {
			left[change.Number] = 0
			if change.Counted && change.AmountUsdDecimal != nil {
				value := centsOf(s.t, *change.AmountUsdDecimal)
				paid, err := strconv.ParseInt(change.AmountAtomic, 10, 64)
				require.NoError(s.t, err)
				refunded, err := strconv.ParseInt(change.RefundedAtomic, 10, 64)
				require.NoError(s.t, err)
				left[change.Number] = value - value*refunded/paid
			}
		}
		next = page.Next
	}
	for _, n := range left {
		cents += n
	}
	return cents
}

// measured is the sum of the metric of confirmed receipts.
func (s *served) measured() (cents int64) {
	text := server.Get(s.t, "http://"+s.admin+"/metrics", "")
	for _, m := range regexp.MustCompile(`(?m)^caddy_pay_offer_receipts_usd\{(.*)\} (\S+)$`).FindAllStringSubmatch(text, -1) {
		if strings.Contains(m[1], `status="confirmed"`) && strings.Contains(m[1], `testnet="false"`) {
			dollars, err := strconv.ParseFloat(m[2], 64)
			require.NoError(s.t, err)
			cents += int64(dollars*100 + 0.5)
		}
	}
	return cents
}

// booked are the sums of the income in the programs that the guide names, in dollars.
func booked(t *testing.T, folder string) map[string]string {
	page := pageOf(t, "accounting")
	for language, name := range map[string]string{"hledger": "pay-offer.rules", "python": "beans.py"} {
		require.Len(t, page[language], 1)
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(page[language][0]), 0o600))
	}
	sums := map[string]string{}
	for name, command := range map[string]string{
		"hledger":   "hledger -f 2025.csv --rules-file pay-offer.rules balance -N income",
		"ledger":    "hledger -f 2025.csv --rules-file pay-offer.rules print >2025.ledger && ledger -f 2025.ledger balance income",
		"beancount": "python3 beans.py <2025.csv >2025.beancount && bean-check 2025.beancount && bean-report 2025.beancount balances | grep Income:PayOffer",
	} {
		c := exec.Command("sh", "-c", command)
		c.Dir = folder
		output, err := c.CombinedOutput()
		require.NoError(t, err, "%s: %s", name, output)
		found := regexp.MustCompile(`-(\d+\.\d\d) USD`).FindAllStringSubmatch(string(output), -1)
		require.Len(t, found, 1, "%s: %s", name, output)
		sums[name] = found[0][1]
	}
	return sums
}

// macro sums the column usd_value of the lines that count, as a person would in a cell.
const macro = `<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE script:module PUBLIC "-//OpenOffice.org//DTD OfficeDocument 1.0//EN" "module.dtd">
<script:module xmlns:script="http://openoffice.org/2000/script" script:name="Module1" script:language="StarBasic">
Sub Main
	Dim options(2) As New com.sun.star.beans.PropertyValue
	options(0).Name = "Hidden"
	options(0).Value = True
	options(1).Name = "FilterName"
	options(1).Value = "Text - txt - csv (StarCalc)"
	options(2).Name = "FilterOptions"
	options(2).Value = Environ("BOOKS_OPTIONS")
	document = StarDesktop.loadComponentFromURL(ConvertToURL(Environ("BOOKS_CSV")), "_blank", 0, options())
	cell = document.Sheets.getByIndex(0).getCellByPosition(40, 0)
	cell.setFormula("=ROUND(100*SUMIF(Q1:Q5000;""yes"";K1:K5000))")
	Open Environ("BOOKS_SUM") For Output As #1
	Print #1, Format(cell.Value, "0")
	Close #1
	document.close(True)
	StarDesktop.terminate()
End Sub
</script:module>
`

// spreadsheet is the sum, in US cents, by LibreOffice in a country's settings.
func spreadsheet(t *testing.T, locale, file, options string) int64 {
	t.Helper()
	home := t.TempDir()
	write := func(name, text string) {
		name = filepath.Join(home, "user", name)
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o700))
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	}
	write("registrymodifications.xcu", `<?xml version="1.0" encoding="UTF-8"?>
<oor:items xmlns:oor="http://openoffice.org/2001/registry">
<item oor:path="/org.openoffice.Setup/L10N"><prop oor:name="ooSetupSystemLocale" oor:op="fuse"><value>`+locale+`</value></prop></item>
<item oor:path="/org.openoffice.Setup/L10N"><prop oor:name="ooLocale" oor:op="fuse"><value>`+strings.TrimSuffix(locale, "-DE")+`</value></prop></item>
</oor:items>`)
	sum := filepath.Join(home, "sum")
	var output []byte
	start := func(argument string) {
		var err error
		command := exec.Command("timeout", "300", "soffice", "-env:UserInstallation=file://"+home, "--headless", "--norestore", argument)
		command.Env = append(os.Environ(), "HOME="+home, "BOOKS_CSV="+file, "BOOKS_OPTIONS="+options, "BOOKS_SUM="+sum)
		output, err = command.CombinedOutput()
		require.NoError(t, err, "%s", output)
	}
	start("--terminate_after_init") // makes the library of macros
	write("basic/Standard/Module1.xba", macro)
	start("macro:///Standard.Module1.Main")
	text, err := os.ReadFile(sum)
	require.NoError(t, err, "%s", output)
	cents, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	require.NoError(t, err, "%s", text)
	return cents
}
