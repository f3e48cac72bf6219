package payoffer

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/operator"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/postgres"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// payOffer runs 'caddy pay-offer' with arguments.
func payOffer(t *testing.T, args ...string) (string, error) {
	t.Helper()
	registered := caddycmd.Commands()["pay-offer"]
	command := &cobra.Command{Use: registered.Name, SilenceUsage: true, SilenceErrors: true}
	registered.CobraFunc(command)
	var out bytes.Buffer
	command.SetOut(&out)
	command.SetErr(&out)
	command.SetArgs(args)
	err := command.ExecuteContext(t.Context())
	return out.String(), err
}

// A backup whose command is mistyped must not look like one that was made.
func TestUnknownCommandFails(t *testing.T) {
	registered := caddycmd.Commands()["pay-offer"]
	run := func(args ...string) (string, error) {
		caddy, command := &cobra.Command{Use: "caddy", SilenceUsage: true, SilenceErrors: true}, &cobra.Command{Use: registered.Name}
		registered.CobraFunc(command)
		caddy.AddCommand(command)
		var out bytes.Buffer
		caddy.SetOut(&out)
		caddy.SetArgs(append([]string{"pay-offer"}, args...))
		err := caddy.ExecuteContext(t.Context())
		return out.String(), err
	}
	const all = `; valid commands of 'caddy pay-offer': announcements, check, init, intents, ledger, pass, pay, received, record, resolve, rotate-key, site, systemd, verify, watch`
	for want, args := range map[string][]string{
		`unknown command "bakcup" (did you mean 'caddy pay-offer ledger backup'?)`: {"ledger", "bakcup", "x.db"},
		`unknown command "Backup" (did you mean 'caddy pay-offer ledger backup'?)`: {"ledger", "Backup", "x.db"},
		`unknown command "recieved" (did you mean 'caddy pay-offer received'?)`:    {"recieved"},
		`unknown command "foo"` + all: {"foo"},
		`unknown command ""` + all:    {""},
	} {
		out, err := run(args...)
		require.EqualError(t, err, want)
		require.Empty(t, out)
	}
	for _, args := range [][]string{{}, {"ledger"}, {"--help"}, {"ledger", "--help"}, {"help"}} {
		out := must(run(args...))(t)
		require.Contains(t, out, "Usage:")
	}
	for _, args := range [][]string{{"help", "ledger", "backup"}, {"ledger", "help", "backup"}} {
		require.Contains(t, must(run(args...))(t), "caddy pay-offer ledger backup", args)
	}
	for _, args := range [][]string{{"--colour"}, {"ledger", "backup", "x.db", "--colour"}} {
		_, err := run(args...)
		require.ErrorContains(t, err, "there is no option --colour; write for example: caddy pay-offer ")
	}
}

// payOffer runs a command against the instance's admin API.
func (o *operated) payOffer(args ...string) (string, error) {
	o.t.Helper()
	return payOffer(o.t, append(args, "--address", o.address)...)
}

// The commands print days in the time zone of the machine: it is UTC here, and set
// before any server reads the time.
func init() { time.Local = time.UTC }

func TestCommandRecordEntries(t *testing.T) {
	o := newOperated(t, books)
	for _, c := range []struct{ args, want string }{
		{"--amount 42 --sure --date 2026-11-20", "transfer INV-7: 42 USD of 2026-11-20, confirmed, evidence manual, version 1\n"},
		{"--amount 42 --sure --date 2026-11-20", "transfer INV-7: 42 USD of 2026-11-20, confirmed, evidence manual, version 1\n"},
		{"--void --reason recalled", "transfer INV-7: 42 USD of 2026-11-20, voided, evidence manual, version 2\n"},
		{"--amount 40.50 --sure --date 2026-11-20 --reason fee-kept", "transfer INV-7: 40.50 USD of 2026-11-20, confirmed, evidence manual, version 3\n"},
		{"--refund 10 --date 2026-11-21 --reason half", "transfer INV-7: 40.50 USD of 2026-11-20, confirmed, evidence manual, version 4\n" +
			"  paid 40.50 USD, refunded 10 USD\n  refund of 10 USD at 2026-11-21 00:00 UTC = 2026-11-21T00:00:00Z\n"},
		{"--refund 10 --date 2026-11-21 --reason half", "transfer INV-7: 40.50 USD of 2026-11-20, confirmed, evidence manual, version 4\n" +
			"  paid 40.50 USD, refunded 10 USD\n  refund of 10 USD at 2026-11-21 00:00 UTC = 2026-11-21T00:00:00Z\n" +
			"  this refund is recorded already, nothing was changed; another refund of the same amount needs another reason or date\n"},
		{"--restore --reason typo", "transfer INV-7: 40.50 USD of 2026-11-20, confirmed, evidence manual, version 5\n"},
	} {
		out, err := o.payOffer(append([]string{"record", "--rail", "transfer", "--reference", "INV-7"}, strings.Fields(c.args)...)...)
		require.NoError(t, err)
		want := strings.Replace(c.want, "of 2026-11-20,", "of 2026-11-20 00:00 UTC = 2026-11-20T00:00:00Z,", 1)
		told, page, _ := strings.Cut(out, "  page for the payer: ")
		require.Equal(t, want, told)
		require.Regexp(t, `^http://127\.0\.0\.1:\d+/v1/receipt/ci9JTlYtNw\.[\w-]{22}\n$`, page, "the same for all that becomes of the entry")
	}
}

func TestCommandVerifyChecksSignedQuote(t *testing.T) {
	i := newInstance(t)
	require.NoError(t, i.load(smallest))
	quote := i.get(i.service + "/v1/quote")
	whole := "HTTP/1.1 402 Payment Required\r\nPayment-Required: " + quote.header.Get(x402.HeaderRequired) + "\r\n\r\n" + quote.body
	file := filepath.Join(i.folder, "answer.txt")
	require.NoError(t, os.WriteFile(file, []byte(whole), 0o600))

	out, err := payOffer(t, "verify", file)

	require.NoError(t, err)
	require.Contains(t, out, "VALID offer: "+offer.Host(i.service)+" asks 42 USDC on base-sepolia (eip155:84532)")
	require.Contains(t, out, "to 0x52908400098527886E0F7030069857D2E4169EE7 (exact); it is valid until 20")
}

// ledgerCommand runs 'caddy pay-offer ledger' with the instance's configuration,
// on another ledger if one is named.
func (i *instance) ledgerCommand(ledger string, args ...string) (string, error) {
	i.t.Helper()
	file := filepath.Join(i.t.TempDir(), "Caddyfile")
	text := i.caddyfile(smallest)
	if ledger != "" {
		text = strings.Replace(text, "sqlite "+i.ledgerPath(), ledger, 1)
	}
	require.NoError(i.t, os.WriteFile(file, []byte(text), 0o600))
	return payOffer(i.t, append([]string{"ledger"}, append(args, "--config", file)...)...)
}

// copied matches what is printed of a copy of one payment.
const copied = " contains 1 receipts with 1 changes, 0 x402 payments and 2 accounts; sums and history agree\n" +
	`the newest entry is of 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d UTC, \d+ (second|minute|hour|day)s ago` + "\n"

func TestCommandLedgerBackupAndRestore(t *testing.T) {
	i := newInstance(t)
	require.NoError(t, i.load(smallest))
	record(t)
	backup := filepath.Join(i.folder, "backup.db")
	out := must(i.ledgerCommand("", "backup", backup))(t)
	require.Regexp(t, "^ledger: "+i.ledgerPath()+"\n"+backup+copied+"$", out)
	require.ErrorContains(t, errorOf(i.ledgerCommand("", "backup", backup)), "already exists")
	require.ErrorContains(t, errorOf(i.ledgerCommand("", "restore", backup)), "a server or another command is using this ledger")
	_, err := i.ledgerCommand("", "move", "--to", "sqlite "+filepath.Join(i.folder, "other.db"))
	require.ErrorContains(t, err, "a server or another command is using this ledger")
	require.NoFileExists(t, filepath.Join(i.folder, "other.db"))

	require.NoError(t, caddy.Stop())
	require.NoError(t, awaitUnended(t.Context()))
	require.ErrorContains(t, errorOf(i.ledgerCommand("", "restore", backup)), "already contains accounts")
	require.NoError(t, os.Remove(i.ledgerPath()))
	_, err = i.ledgerCommand("", "restore", backup)
	require.ErrorContains(t, err, "there is no ledger")
	require.ErrorContains(t, err, "Only if "+i.ledgerPath()+" is the path of the server's ledger, add --create")
	require.NoFileExists(t, i.ledgerPath())
	out = must(i.ledgerCommand("", "restore", "--create", backup))(t)
	require.Regexp(t, "^ledger: "+i.ledgerPath()+"\nthe ledger "+i.ledgerPath()+copied+"$", out)
	require.NoError(t, i.load(smallest))
	require.Contains(t, i.get(i.service+"/v1/received").body, "0x01")
}

func TestCommandLedgerMovesToPostgresAndBack(t *testing.T) {
	dsn := postgres.Shared(t).DSN(t)
	t.Setenv("OFFER_TEST_DSN", dsn)
	i := newInstance(t)
	require.NoError(t, i.load(smallest))
	record(t)
	require.NoError(t, caddy.Stop())
	require.NoError(t, awaitUnended(t.Context()))

	config := must(pgx.ParseConfig(dsn))(t)
	database := "the database " + config.Database + " on " + config.Host + "\n"
	_, err := i.ledgerCommand("", "move", "--to", "postgres {env.OFFER_TEST_DSN}")
	require.ErrorContains(t, err, "add --create")
	out := must(i.ledgerCommand("", "move", "--create", "--to", "postgres {env.OFFER_TEST_DSN}"))(t)
	require.Regexp(t, "^ledger: "+i.ledgerPath()+"\nto: "+database+"the ledger on PostgreSQL"+copied+regexp.QuoteMeta(`Write this into the global option pay_offer of the configuration, or its words into the variable LEDGER if it says
ledger {$LEDGER:sqlite}, and start the server:
	ledger postgres {env.OFFER_TEST_DSN}
The old ledger keeps its data and accepts no more payments.
`)+"$", out)
	require.ErrorContains(t, i.load(smallest), "moved to another database")
	require.NoError(t, i.loadOnPostgres("{env.OFFER_TEST_DSN}"))
	require.Contains(t, i.get(i.service+"/v1/received").body, "0x01")
	backup, other := filepath.Join(i.folder, "backup.db"), "sqlite "+filepath.Join(i.folder, "other.db")
	out = must(i.ledgerCommand("postgres {env.OFFER_TEST_DSN}", "backup", backup))(t)
	require.Regexp(t, "^ledger: "+database+backup+copied+"$", out)
	_, err = i.ledgerCommand("postgres {env.OFFER_TEST_DSN}", "move", "--to", other)
	require.ErrorContains(t, err, "stop all instances first")
	require.NotContains(t, err.Error(), dsn)

	require.NoError(t, caddy.Stop())
	require.NoError(t, awaitUnended(t.Context()))
	_, err = i.ledgerCommand("postgres {env.OFFER_TEST_DSN}", "move", "--to", other)
	require.ErrorContains(t, err, "add --create")
	require.NoFileExists(t, filepath.Join(i.folder, "other.db"))
	must(i.ledgerCommand("postgres {env.OFFER_TEST_DSN}", "move", "--create", "--to", other))(t)
	out = must(i.ledgerCommand(other, "backup", filepath.Join(i.folder, "second.db")))(t)
	require.Regexp(t, copied, out)
}

func TestLedgerBackupKeepsNewestCopies(t *testing.T) {
	i := newInstance(t)
	require.NoError(t, i.load(smallest))
	record(t)
	folder := filepath.Join(i.folder, "backup")
	out := must(i.ledgerCommand("", "backup", "--keep", "2", folder))(t)
	require.Regexp(t, folder+`/pay_offer-\d{8}T\d{6}Z\.db`+copied, out)
	require.NoError(t, os.Remove(onlyFile(t, folder)))
	old := []string{"pay_offer-20250101T000000Z.db", "pay_offer-20251231T235959Z.db", "pay_offer-20260101T000000Z.db"}
	others := []string{"pay_offer.db", "pay_offer-20240101T000000Z.db.gz", "pay_offer-20241301T000000Z.db", "storage.tar"}
	for _, name := range append(others, old...) {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(name), 0o600))
	}
	for _, bad := range []string{"0", "-1"} {
		require.ErrorContains(t, errorOf(i.ledgerCommand("", "backup", "--keep", bad, folder)), "--keep "+bad+" would keep no copy; write how many to keep")
	}
	require.Error(t, errorOf(i.ledgerCommand("sqlite "+filepath.Join(i.folder, "none.db"), "backup", "--keep", "1", folder)))
	for _, name := range append(others, old...) {
		require.FileExists(t, filepath.Join(folder, name), "nothing is deleted before there is a new copy")
	}
	must(i.ledgerCommand("", "backup", "--keep", "2", folder))(t)
	files := must(os.ReadDir(folder))(t)
	require.Len(t, files, len(others)+2)
	for _, name := range append(others, old[2]) {
		require.FileExists(t, filepath.Join(folder, name))
	}
}

func TestLedgerBackupTwiceInOneSecond(t *testing.T) {
	i := newInstance(t)
	for second := range 60 { // whichever the command sees
		name := time.Now().Add(time.Duration(second) * time.Second).UTC().Format("pay_offer-20060102T150405Z.db")
		require.NoError(t, os.WriteFile(filepath.Join(i.folder, name), nil, 0o600))
	}
	require.ErrorContains(t, errorOf(i.ledgerCommand("", "backup", "--keep", "2", i.folder)), "was made in this second; run the command again")
}

// A server that refuses every payment must not look healthy to a monitor.
func TestDeletedLedgerIsReportedToMonitoring(t *testing.T) {
	i := newOperated(t, smallest)
	record(t)
	check := func() error { return errorOf(i.payOffer("received", "--check")) }
	require.NoError(t, check())
	require.EqualValues(t, 1, metric(t, "caddy_pay_offer_ledger_up"))
	require.NoError(t, os.Remove(i.ledgerPath()))
	require.Eventually(t, func() bool { return check() != nil }, time.Minute, 10*time.Millisecond)
	require.ErrorContains(t, check(), "takes no payments: "+i.ledgerPath()+" was deleted or replaced while the ledger was open; its payments were saved in ")
	require.Zero(t, metric(t, "caddy_pay_offer_ledger_up"))
}

// onlyFile is the path of the only file in a folder.
func onlyFile(t *testing.T, folder string) string {
	t.Helper()
	files := must(os.ReadDir(folder))(t)
	require.Len(t, files, 1)
	return filepath.Join(folder, files[0].Name())
}

// A backup without a payment says so, and not that its newest entry is of 1970.
func TestLedgerBackupWithoutEntries(t *testing.T) {
	i := newInstance(t)
	require.NoError(t, i.load(smallest))
	require.Contains(t, must(i.ledgerCommand("", "backup", filepath.Join(i.folder, "b.db")))(t), "sums and history agree\nit has no entries\n")
}

func TestCommandLedgerRefusesDSNArgument(t *testing.T) {
	i := newInstance(t)
	for to, want := range map[string]string{
		"postgres postgres://u:hiddenword@127.0.0.1:1/base": "other users of this machine can read arguments",
		"postgres":                      "needs a DSN",
		"postgres {env.NOT_SET_AT_ALL}": "set it to a DSN",
		"mysql x":                       "the driver is unknown",
	} {
		_, err := i.ledgerCommand("", "move", "--to", to)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "hiddenword")
	}
	require.NoFileExists(t, i.ledgerPath())
}

// offered are the signed offers of a running instance's quote.
func (o *operated) offered() []string {
	o.t.Helper()
	return x402.FindSigned([]byte(o.get(o.service + "/v1/quote").body))
}

func TestCommandRotateKeyKeepsSignaturesValid(t *testing.T) {
	o := newOperated(t, smallest)
	before := o.offered()
	require.Len(t, before, 1)
	former := before[0]
	must(payOffer(t, "verify", former))(t)

	out := must(o.payOffer("rotate-key"))(t)
	require.Regexp(t, `^did:web:127\.0\.0\.1%3A\d+#[\w-]{43} signs from 20.*Z; former keys stay published\n$`, out)
	require.Len(t, o.keys(), 2)
	must(payOffer(t, "verify", former))(t)

	out = must(o.payOffer("rotate-key", "--revoke"))(t)
	require.Contains(t, out, "all former keys are withdrawn")
	require.Len(t, o.keys(), 1)
	require.NotEqual(t, before, o.offered(), "the quote is signed with the new key at once")
	must(payOffer(t, "verify", o.offered()[0]))(t)
	require.ErrorContains(t, errorOf(payOffer(t, "verify", former)), "have been revoked")
	require.NotContains(t, o.log(), `"private":`)
	require.Equal(t, http.StatusMethodNotAllowed, o.ask(http.MethodGet, operator.PathKeys, "").status)

	require.ErrorContains(t, errorOf(o.payOffer("rotate-key", "--offer", "other")), `no offer has the id "other"`)
}

// keys are those that the DID document lists.
func (i *instance) keys() (ids []string) {
	i.t.Helper()
	var did struct{ VerificationMethod []struct{ ID string } }
	require.NoError(i.t, json.Unmarshal([]byte(i.get(i.service+offer.PathDID).body), &did))
	for _, method := range did.VerificationMethod {
		ids = append(ids, method.ID)
	}
	return ids
}

func TestCommandAnnouncementsListsBacklog(t *testing.T) {
	receiver := payoffertest.NewReceiver(t)
	o := newOperated(t, strings.Replace(books, "bank_transfer", "announce "+receiver.URL()+"\n\t\tbank_transfer", 1))
	receiver.Script(payoffertest.AnnouncedReply{Status: http.StatusConflict})
	o.enter(`{"action":"enter","rail":"transfer","reference":"INV-1","amount":42,"sure":true,"date":"2026-11-20"}`)
	receiver.Await(1)
	waits := regexp.MustCompile(`(?m)^` + offer.Host(o.service) + ` +` + receiver.Host() + ` +1 +refused$`)
	require.Eventually(t, func() bool {
		out, err := o.payOffer("announcements")
		return err == nil && waits.MatchString(out) && !strings.Contains(out, "secret-path")
	}, 30*time.Second, 10*time.Millisecond)
	out := must(o.payOffer("announcements", "--json"))(t)
	require.Contains(t, out, `"last_error":"refused"`)
}

func TestCommandAnnouncementsSendsTest(t *testing.T) {
	hook, topic := payoffertest.NewReceiver(t), payoffertest.NewNtfy(t)
	o := newOperated(t, strings.Replace(books, "bank_transfer", "announce "+hook.URL()+"\n\t\tannounce ntfy "+topic.URL()+"\n\t\tbank_transfer", 1))
	before := o.ask(http.MethodGet, operator.PathReceipts, "").body
	out, err := o.payOffer("announcements", "--test")
	require.NoError(t, err, out)
	id := offer.Host(o.service)
	require.Equal(t, id+", events: accepted\n"+id+", "+hook.Host()+": accepted\n"+id+", "+topic.Host()+": accepted\n", out)

	hook.Script(payoffertest.AnnouncedReply{Status: http.StatusForbidden})
	out, err = o.payOffer("announcements", "--test")
	require.ErrorContains(t, err, "an endpoint did not accept the test message")
	require.Contains(t, out, hook.Host()+": refused (status 403): check the endpoint's address, secret and log\n")
	require.Contains(t, out, topic.Host()+": accepted\n", "the others are tested all the same")
	require.NotContains(t, out+err.Error(), "secret-path")

	require.Contains(t, string(hook.Requests()[0].Body), `"type":"notification_test"`)
	require.Equal(t, before, o.ask(http.MethodGet, operator.PathReceipts, "").body, "a test enters no ledger")
	_, err = o.payOffer("announcements", "--test", "--json")
	require.Error(t, err)
}

// The published state stays reversed, which programs read.
func TestCommandsPrintVoidedEntry(t *testing.T) {
	o := newOperated(t, books)
	must(o.payOffer("record", "--rail", "transfer", "--reference", "INV-1", "--amount", "42", "--date", "2026-11-20", "--sure"))(t)
	require.Contains(t, must(o.payOffer("record", "--rail", "transfer", "--reference", "INV-1", "--void", "--reason", "typo"))(t), ", voided, evidence manual")
	list := must(o.payOffer("received", "--receipts"))(t)
	require.Regexp(t, `42 USD +- +voided +manual +INV-1`, list)
	require.NotContains(t, list, "isputed")
	require.Contains(t, must(o.payOffer("received", "--receipts", "--json"))(t), `"status":"reversed"`)
}
