package docs

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/handbook"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/skip"
)

// installed reports whether a page is about the server as guides/systemd installs it: root works there.
func installed(page handbook.Page) bool {
	return strings.Contains(page.Text, "as-pay-offer") || strings.Contains(page.Text, "\n$ sudo ") || strings.Contains(page.Text, "\n$ docker ")
}

// public is the address of the offer in these pages, and operators an operator's Caddyfile for it. The chain is out of reach.
const (
	public    = "https://pay.example.org"
	operators = `{
	pay_offer {
		ledger {$LEDGER:sqlite}
	}
}
http://:%s {
	bind 127.0.0.1
	pay_offer {
		base_url https://pay.example.org
		card https://buy.example.com/pay-42
		usdc base %s {
			facilitator https://facilitator.example
			rpc https://rpc.example
		}
		bank_transfer transfer invoices@example.org
	}
}
`
)

// install returns the sandbox of an operator at a server with the folders of the systemd unit, which are below a scratch folder.
// It has two payments. Nothing stands for the rights of users: sudo and runuser just run their commands, and systemctl
// starts and stops the server as the unit says.
func (d *sandbox) install(t *testing.T) *sandbox {
	t.Helper()
	root, tools := t.TempDir(), t.TempDir()
	port, admin := payoffertest.FreePort(t), "localhost:"+payoffertest.FreePort(t)
	o := *d
	o.tools, o.root = tools, root
	var paths []string
	for _, folder := range []string{"/etc/pay-offer", "/var/lib/pay-offer"} {
		paths = append(paths, folder, root+folder)
		require.NoError(t, os.MkdirAll(root+folder, 0o700))
	}
	here := strings.NewReplacer(paths...)
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(root+"/etc/pay-offer/"+name, []byte(text), 0o600))
	}
	write("Caddyfile", fmt.Sprintf(operators, port, payoffertest.EVMAddress))
	write("environment", "CADDY_ADMIN="+admin+"\nHTTP_PROXY=http://127.0.0.1:1\nHTTPS_PROXY=http://127.0.0.1:1\n")

	script := lab.Must(os.ReadFile(lab.Path(t, "caddy/package/as-pay-offer")))(t)
	o.write(t, "as-pay-offer", here.Replace(string(script)))
	// Nothing of this machine is touched, whatever a page says.
	o.write(t, "sudo", `[ "$1" = useradd ] && exit; for word; do case $word in /dev/*|`+root+`/*) ;; /*) echo "the test does not know $word" >&2; exit 1 ;; esac; done; exec "$@"`)
	o.write(t, "runuser", `shift 3 && exec "$@"`)
	pid := root + "/pid"
	as := func(command string) string { return "as-pay-offer " + command + " >>" + root + "/log 2>&1 </dev/null" }
	start := as(here.Replace("caddy start --config /etc/pay-offer/Caddyfile --adapter caddyfile --pidfile " + pid))
	stop := "p=$(cat " + pid + "); kill $p; tail -s 0.05 --pid=$p -f /dev/null"
	o.write(t, "systemctl", `case $1 in
start|enable) [ -e `+pid+` ] || `+start+` ;;
stop) `+stop+` ;;
restart) `+stop+`; `+start+` ;;
reload) `+as("caddy reload --force")+` ;;
esac`)

	// The container has the folders of the unit under its own names.
	o.write(t, "docker", `case $1 in
exec) shift 2; exec as-pay-offer "$@" ;;
cp) exec cp "${2#pay-offer:}" "$3" ;;
stop|start) exec systemctl $1 ;;
run) case " $* " in *" busybox "*) shift 5; exec "$@" ;; esac; shift 7; exec as-pay-offer caddy "$@" ;;
esac`)
	paths = append(paths, "/data/", root+"/var/lib/pay-offer/", "/etc/caddy/", root+"/etc/pay-offer/")

	o.env = append(slices.DeleteFunc(slices.Clone(d.env), func(v string) bool {
		return strings.HasPrefix(v, "PATH=") || strings.HasPrefix(v, "CADDY_ADMIN=")
	}), "PATH="+tools+":"+d.tools+":"+os.Getenv("PATH"), "CADDY_ADMIN="+admin)
	// The first one of two for the same text is used.
	o.there = slices.Concat([]string{public, "http://localhost:" + port, "localhost:2019", admin}, paths, d.there)
	o.back = slices.Concat([]string{root, "", "http://localhost:" + port, public, admin, "localhost:2019"}, d.back)
	sh := func(command string) {
		t.Helper()
		c := exec.Command("sh", "-c", command)
		c.Env, c.Dir = o.env, root
		output, err := c.CombinedOutput()
		if err != nil {
			log, _ := os.ReadFile(root + "/log")
			t.Fatalf("%s: %v\n%s%s", command, err, output, log)
		}
	}
	sh("systemctl start pay-offer")
	t.Cleanup(func() { sh("[ ! -e " + pid + " ] || systemctl stop pay-offer") })
	for _, reference := range []string{"INV-7", "INV-8"} {
		sh("caddy pay-offer record --rail transfer --amount 42 --sure --date 2026-11-20 --reference " + reference)
	}
	sh("until caddy pay-offer announcements | grep -q 'events  *0'; do sleep 0.2; done") // the pages show them delivered
	return &o
}

// installing are the folders that a page installs files into. They go elsewhere, because the server of the test runs already.
var installing = regexp.MustCompile(` (/etc|/usr)/`)

// requireInstalled looks for the files that the unit names among those that the page installs.
func (d *sandbox) requireInstalled(t *testing.T) {
	t.Helper()
	unit := lab.Must(os.ReadFile(d.root + "/installed/etc/systemd/system/pay-offer.service"))(t)
	files := regexp.MustCompile(`(?:ExecStart=|EnvironmentFile=| --config )(/\S+)`).FindAllStringSubmatch(string(unit), -1)
	require.Greater(t, len(files), 3)
	for _, file := range files {
		require.FileExists(t, d.root+"/installed"+file[1])
	}
}

// TestTheBooksOfTheDocumentationBalance imports an export as guides/accounting says, with the programs themselves.
func TestTheBooksOfTheDocumentationBalance(t *testing.T) {
	if os.Getenv("FULL") != "1" {
		t.Skip("hledger and beancount run with FULL=1")
	}
	for _, program := range []string{"hledger", "bean-check", "python3"} {
		skip.Program(t, program, program)
	}
	page := pageOf(t, "accounting")
	folder := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
	}
	for language, name := range map[string]string{"hledger": "pay-offer.rules", "python": "beans.py"} {
		require.Len(t, page[language], 1)
		write(name, page[language][0])
	}
	head := regexp.MustCompile(`(?m)^date_utc,.*$`).FindString(strings.Join(page["console"], ""))
	write("2026.csv", head+`
2026-11-20T00:00:00Z,2026-11-20,UTC,payment,transfer,INV-7,1,USD,42,4200,42.00,face,confirmed,manual,no,no,yes,,2026-11-24T00:00:00Z,1v1p1,
2026-11-21T00:00:00Z,2026-11-21,UTC,refund,transfer,INV-7,1,USD,-10,-1000,-10.00,face,confirmed,manual,no,no,yes,,2026-11-24T00:00:00Z,1v1p1,
2026-11-21T00:00:00Z,2026-11-21,UTC,payment,tip-jar,"A ""quoted"" sale",2,USD,42,4200,42.00,face,confirmed,provider,no,no,yes,,2026-11-24T00:00:00Z,1v1p1,
2026-11-22T00:00:00Z,2026-11-22,UTC,payment,usdc,eip155:84532:0xabc:0,3,USDC,42,42000000,42.00,peg,confirmed,chain,no,yes,no,0xabc,2026-11-24T00:00:00Z,3v1p1,
`)
	for command, balance := range map[string]string{
		"hledger -f 2026.csv --rules-file pay-offer.rules balance -N":                                                    `74\.00 USD  assets|-74\.00 USD  income`,
		"python3 beans.py <2026.csv >2026.beancount && bean-check 2026.beancount && bean-report 2026.beancount balances": `Income:PayOffer +-74\.00 USD`,
	} {
		c := exec.Command("sh", "-c", command)
		c.Dir = folder
		output, err := c.CombinedOutput()
		require.NoError(t, err, "%s: %s", command, output)
		require.Regexp(t, balance, string(output), command)
	}
}

// pageOf are the blocks of a guide, by their language.
func pageOf(t *testing.T, guide string) map[string][]string {
	t.Helper()
	pages := lab.Must(handbook.Read(lab.Path(t, "")))(t)
	blocks := map[string][]string{}
	for _, page := range pages {
		if page.Name == "payoffer/docs/guides/"+guide+".md" {
			for _, b := range page.Blocks {
				blocks[b.Language] = append(blocks[b.Language], b.Text)
			}
		}
	}
	return blocks
}

// Each program of guides/notifications gets a payment from a server, delivers for it, and refuses a webhook of somebody else.
func TestReceiversOfTheDocumentationDeliverForAPayment(t *testing.T) {
	lab.RequireNode(t)
	skip.Program(t, "Python", "python3")
	const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	programs := pageOf(t, "notifications")
	folder := t.TempDir()
	url, admin := "http://localhost:"+payoffertest.FreePort(t), "localhost:"+payoffertest.FreePort(t)
	caddyfile := fmt.Sprintf("{\n\tadmin %s\n\tpersist_config off\n}\n%s {\n\tbind 127.0.0.1\n\tpay_offer {\n\t\tbase_url %[2]s\n"+
		"\t\tid pay.example.org\n\t\tcard https://checkout.example/pay\n\t\tbank_transfer transfer pay@example.com\n", admin, url)
	said, addresses := map[string]*bufio.Scanner{}, map[string]string{}
	for language, run := range map[string][]string{"mjs": {"node"}, "python": {"python3"}, "go": nil} {
		require.Len(t, programs[language], 1, language)
		file := filepath.Join(folder, "receiver."+language)
		require.NoError(t, os.WriteFile(file, []byte(programs[language][0]), 0o600))
		if run == nil {
			output, err := exec.Command("go", "build", "-o", folder+"/receiver", file).CombinedOutput()
			require.NoError(t, err, "%s", output)
			run, file = []string{folder + "/receiver"}, ""
		}
		port := payoffertest.FreePort(t)
		command := exec.Command(run[0], append(run[1:], file)...)
		command.Env = append(os.Environ(), "ANNOUNCE_SECRET="+secret, "PORT="+port)
		command.Stderr = os.Stderr
		out := lab.Must(command.StdoutPipe())(t)
		require.NoError(t, command.Start())
		t.Cleanup(func() {
			_ = command.Process.Kill()
			_ = command.Wait()
		})
		said[language], addresses[language] = bufio.NewScanner(out), "http://127.0.0.1:"+port
		caddyfile += "\t\tannounce " + addresses[language] + "/paid {\n\t\t\tsecret " + secret + "\n\t\t}\n"
	}
	server.Start(t, url, caddyfile+"\t}\n}\n")
	output, err := server.Command(t, "", "record", "--rail", "transfer", "--reference", "INV-7", "--amount", "42", "--address", admin)
	require.NoError(t, err, output)
	for language, address := range addresses {
		require.True(t, said[language].Scan(), language)
		require.Equal(t, "deliver for pay.example.org transfer 1 INV-7", said[language].Text(), language)
		forged := server.Ask(server.Client, http.MethodPost, address, `{"data":{"counted":true}}`, http.Header{
			"Webhook-Id": {"x"}, "Webhook-Timestamp": {strconv.FormatInt(time.Now().Unix(), 10)}, "Webhook-Signature": {"v1,AAAA"},
		})
		require.Equal(t, http.StatusUnauthorized, forged.Status, language)
	}
}
