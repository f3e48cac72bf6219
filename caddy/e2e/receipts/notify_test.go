package receipts

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"mime/quotedprintable"
	"net/mail"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// Secrets of both forms that sign at once.
const (
	secret     = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	secretText = "correct horse battery staple of 32"
)

// sender is a server that announces to a receiver of each form, and its ledger outlives it.
type sender struct {
	*testing.T
	url, admin, caddyfile string
	hook                  *payoffertest.Receiver
	topic                 *payoffertest.Ntfy
	mailbox               *mailbox
}

func openSender(t *testing.T) *sender {
	t.Helper()
	s := &sender{T: t, url: "http://localhost:" + payoffertest.FreePort(t), admin: "localhost:" + payoffertest.FreePort(t)}
	s.hook, s.topic, s.mailbox = payoffertest.NewReceiver(t), payoffertest.NewNtfy(t), openMailbox(t)
	s.topic.Token = "tk_AgQdq7mVBoFD37zQVN29RhuMzNIz2"
	s.caddyfile = fmt.Sprintf(`{
	admin %s
	persist_config off
	default_bind 127.0.0.1
	storage file_system %[3]s/storage
	pay_offer {
		ledger sqlite %[3]s/ledger.db
	}
}
%[2]s {
	pay_offer {
		base_url %[2]s
		id       pay.example
		card     https://checkout.example/pay
		bank_transfer transfer pay@example.com
		name     Tea
		goal     1000
		announce %[4]s {
			secret {env.ANNOUNCE_SECRET}
			secret {env.ANNOUNCE_SECRET_NEXT}
		}
		announce ntfy %[5]s {
			token {env.ANNOUNCE_NTFY_TOKEN}
		}
		announce email operator@example.com {
			smtp     %[6]s
			tls      starttls
			from     %[7]s
			user     %[7]s
			password {env.ANNOUNCE_SMTP_PASSWORD}
		}
	}
}
`, s.admin, s.url, t.TempDir(), s.hook.URL(), s.topic.URL(), s.mailbox.address, mailUser)
	return s
}

func (s *sender) start() *server.Process {
	s.Helper()
	return server.Start(s, s.url, s.caddyfile, "ANNOUNCE_SECRET="+secret, "ANNOUNCE_SECRET_NEXT="+secretText, "ANNOUNCE_NTFY_TOKEN="+s.topic.Token,
		"ANNOUNCE_SMTP_PASSWORD="+mailPassword, "SSL_CERT_FILE="+s.mailbox.authority)
}

// record runs the operator's command.
func (s *sender) record(arguments ...string) {
	s.Helper()
	output, err := server.Command(s, "", append([]string{"record", "--address", s.admin, "--rail", "transfer"}, arguments...)...)
	require.NoError(s, err, output)
}

// watcher is 'caddy pay-offer watch', as it runs in a terminal.
type watcher struct {
	*exec.Cmd
	lines *bufio.Scanner
}

// watch starts it, and returns when it watches.
func (s *sender) watch() *watcher {
	s.Helper()
	w := &watcher{Cmd: exec.Command(server.Released(s), "pay-offer", "watch", "--address", s.admin)}
	out := lab.Must(w.StdoutPipe())(s)
	require.NoError(s, w.Start())
	s.Cleanup(func() { _ = w.Process.Kill() })
	w.lines = bufio.NewScanner(out)
	require.Equal(s, []string{"NUMBER", "TIME", "RAIL", "AMOUNT", "REFUNDED", "STATUS", "EVIDENCE", "REFERENCE:", "CHANGE;", "WHY", "(YOUR", "REASON)"}, w.line(s))
	return w
}

// line is the next one, in its columns.
func (w *watcher) line(t testing.TB) []string {
	t.Helper()
	require.True(t, w.lines.Scan(), "%v", w.lines.Err())
	return strings.Fields(w.lines.Text())
}

func TestEveryEndpointTypeSurvivesOutages(t *testing.T) {
	s := openSender(t)
	process := s.start()
	watcher := s.watch()
	s.mailbox.refuseNext(1)
	today := time.Now().UTC().Format(time.DateOnly)
	s.record("--reference", "INV-1", "--amount", "42", "--date", today)
	s.hook.Await(1)
	s.topic.Await(1)
	s.mailbox.await(1) // at its second try
	s.hook.Down()
	s.topic.Down()
	s.mailbox.down()
	s.record("--reference", "INV-1", "--void", "--reason", "recalled by the bank of Jane Roe")
	s.record("--reference", "INV-2", "--amount", "42.50")
	process.Terminate()
	process.Await(t)
	log := process.Log()

	s.hook.Up()
	s.topic.Up()
	s.mailbox.up()
	process = s.start()
	s.record("--reference", "INV-1", "--amount", "42", "--date", today, "--reason", "the recall was refused")
	for _, want := range []string{
		"1 42 - confirmed INV-1: new; you entered it",
		"1 42 - voided INV-1: status from confirmed to reversed; you voided it (recalled by the bank of Jane Roe)",
		"2 42.50 - confirmed INV-2: new; you entered it",
		"1 42 - confirmed INV-1: status from reversed to confirmed; you entered it (the recall was refused)",
	} {
		line := watcher.line(t) // NUMBER DATE TIME RAIL AMOUNT USD REFUNDED STATUS EVIDENCE REFERENCE: CHANGE
		require.Equal(t, want, strings.Join([]string{line[0], line[4], line[6], line[7], strings.Join(line[9:], " ")}, " "))
	}
	require.NoError(t, watcher.Process.Signal(os.Interrupt))
	require.NoError(t, watcher.Wait(), "whoever stops it is told of no error")

	s.requireWebhooks()
	s.requireMessages()
	s.requireLetters()
	process.Terminate()
	process.Await(t)
	log += process.Log()
	s.requireLines(log)
	for _, hidden := range []string{"secret-path", "tk_AgQdq7", mailPassword, secret, secretText, "/v1/receipt/", "Jane"} {
		require.NotContains(t, log, hidden)
	}
}

// An announcement whose answer Down cut off comes again, here and below.

func (s *sender) requireWebhooks() {
	s.Helper()
	for count := 4; ; count++ {
		s.hook.Await(count)
		if payoffertest.Untagged(s, s.hook.Requests()[count-1].Header.Get("webhook-id")) == "transfer:INV-1:3" {
			break
		}
	}
	encoded := lab.Must(standardwebhooks.NewWebhook(secret))(s)
	raw := lab.Must(standardwebhooks.NewWebhookRaw([]byte(secretText)))(s)
	var got []string
	for _, request := range s.hook.Requests() {
		require.NoError(s, encoded.Verify(request.Body, request.Header))
		require.NoError(s, raw.Verify(request.Body, request.Header))
		require.Error(s, encoded.Verify(append(request.Body, ' '), request.Header))
		require.NotContains(s, string(request.Body), "Jane")
		var payload struct {
			Type string
			Data struct{ ID, AmountUSDDecimal string }
		}
		require.NoError(s, json.Unmarshal(request.Body, &payload))
		require.Equal(s, request.Header.Get("webhook-id"), payload.Data.ID)
		got = append(got, payload.Type+" "+payoffertest.Untagged(s, payload.Data.ID)+" "+payload.Data.AmountUSDDecimal)
	}
	require.Equal(s, []string{
		"payment_confirmed transfer:INV-1:1 42.00", "payment_reversed transfer:INV-1:2 42.00",
		"payment_confirmed transfer:INV-2:1 42.50", "payment_confirmed transfer:INV-1:3 42.00",
	}, slices.Compact(got))
}

// told is what people are told of the four changes, in their order: the headline, and the receipt.
var told = []string{
	"$42 received: receipt 1, version 1", "$42 voided: receipt 1, version 2", "$42.50 received: receipt 2, version 1", "$42 no longer voided: receipt 1, version 3",
}

// total is a line of a message.
var total = regexp.MustCompile(`\nTotal: \$[0-9.]+ of \$1,000\n`)

// summary is the title and the number of what people are told. The link opens the payer's page.
func (s *sender) summary(title, text string) string {
	s.Helper()
	text = strings.ReplaceAll(text, "\r\n", "\n")
	require.NotContains(s, text, "INV-")
	require.Contains(s, text, "Payment method: Bank transfer\nOffer: Tea\n")
	require.Regexp(s, total, text)
	_, link, found := strings.Cut(text, "\nReceipt: ")
	require.True(s, found, text)
	link, _, _ = strings.Cut(link, "\n")
	require.Contains(s, server.Get(s, link, "text/html"), "INV-")
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return title + ": " + strings.NewReplacer(" of pay.example", "", "Receipt", "receipt").Replace(strings.Trim(lines[len(lines)-1], "."))
}

func (s *sender) requireMessages() {
	s.Helper()
	var got []string
	for count := 4; len(got) < 4; count++ {
		s.topic.Await(count)
		got = nil
		names := map[string]bool{}
		for _, m := range s.topic.Messages() {
			if !names[m.Sequence] {
				got = append(got, s.summary(m.Title, m.Message))
				require.Contains(s, m.Message, "\nReceipt: "+m.Click+"\n")
			}
			names[m.Sequence] = true
		}
	}
	require.Equal(s, told, got)
}

func (s *sender) requireLetters() {
	s.Helper()
	var got []string
	for count := 4; len(got) < 4; count++ { // a letter whose answer was lost comes again
		got = nil
		names := map[string]bool{}
		for _, letter := range s.mailbox.await(count) {
			text, err := io.ReadAll(quotedprintable.NewReader(letter.Body))
			require.NoError(s, err)
			_, err = mail.ParseDate(letter.Header.Get("Date"))
			require.NoError(s, err)
			if id := letter.Header.Get("Message-ID"); !names[id] {
				names[id] = true
				got = append(got, s.summary(letter.Header.Get("Subject"), string(text)))
			}
		}
	}
	require.Equal(s, told, got)
}

// requireLines requires a line of the log for each change, in their order.
func (s *sender) requireLines(log string) {
	s.Helper()
	var got []string
	for line := range strings.Lines(log) {
		var l struct {
			Level, Logger, Msg, Offer, Rail, Amount, USD, Status, Evidence, Reference, Page string
			Number                                                                          int64
		}
		if json.Unmarshal([]byte(line), &l) != nil || !strings.HasPrefix(l.Msg, "a receipt ") {
			continue
		}
		require.Equal(s, []string{"info", "pay_offer", "pay.example", "transfer", "manual"}, []string{l.Level, l.Logger, l.Offer, l.Rail, l.Evidence})
		require.Equal(s, fmt.Sprintf("caddy pay-offer received --receipts --before %d --offer pay.example", l.Number+1), l.Page)
		got = append(got, l.Msg+": "+l.Reference+" "+l.Status+" "+l.Amount+" "+l.USD)
	}
	require.Equal(s, []string{
		"a receipt is new: INV-1 confirmed 42 USD 42.00", "a receipt has changed: INV-1 reversed 42 USD 42.00",
		"a receipt is new: INV-2 confirmed 42.50 USD 42.50", "a receipt has changed: INV-1 confirmed 42 USD 42.00",
	}, got)
}
