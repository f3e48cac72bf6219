package docs

import (
	"bufio"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
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
	return page.Name != "README.md" && (strings.Contains(page.Text, "as-pay-offer") || strings.Contains(page.Text, "\n$ docker "))
}

// public is the address of the offer in these pages, and answered what their operator answers to 'caddy pay-offer init'.
const (
	public   = "https://pay.example.org"
	answered = "pay.example.org\n\n\n\nhttps://buy.example.com/pay-42\n" + payoffertest.EVMAddress + "\n\n\ninvoices@example.org\n\n\n\n"
)

// install returns the sandbox of an operator who has the program and a Caddyfile by 'init'. The folders of the machine are below a
// scratch folder. Nothing stands for the rights of users: sudo and runuser just run their commands. systemctl runs the commands of
// the units.
func (s *sandbox) install(t *testing.T) *sandbox {
	t.Helper()
	root, tools := t.TempDir(), t.TempDir()
	port, admin := payoffertest.FreePort(t), "localhost:"+payoffertest.FreePort(t)
	o := *s
	o.tools, o.root, o.folder = tools, root, root+"/home"
	for _, folder := range []string{"/home", "/etc/systemd/system", "/usr/local/bin", "/usr/local/sbin", "/var/lib"} {
		require.NoError(t, os.MkdirAll(root+folder, 0o700))
	}
	require.NoError(t, os.Symlink(server.Released(t), root+"/usr/local/bin/caddy"))

	// Nothing of this machine is touched, whatever a page says.
	o.write(t, "sudo", `case $1 in useradd|userdel) exit ;; esac
for word; do case $word in /dev/*|`+root+`|`+root+`/*|"$HOME"/*) ;; /*) echo "the test does not know $word" >&2; exit 1 ;; esac; done; exec "$@"`)
	o.write(t, "runuser", `shift 3 && exec "$@"`)
	o.write(t, "install", `for word; do shift; case $word in -[go]) skip=1 ;; *) [ "$skip" ] || set -- "$@" "$word"; skip= ;; esac; done; exec `+
		lab.Must(exec.LookPath("install"))(t)+` "$@"`)
	o.write(t, "sudoedit", `printf 'CADDY_ADMIN=`+admin+`\nHTTP_PROXY=http://127.0.0.1:1\nHTTPS_PROXY=http://127.0.0.1:1\n' >>"$1"`)
	here := `sed -e 's#/etc/pay-offer#` + root + `&#g; s#/var/lib/pay-offer#` + root + `&#g; s#/usr/local/#` + root + `&#g'`
	o.write(t, "as-pay-offer", here+" "+root+"/usr/local/sbin/as-pay-offer >"+root+"/as-pay-offer && exec sh "+root+`/as-pay-offer "$@"`)
	pid := root + "/pid"
	o.write(t, "systemctl", `unit() { sed -n "s/%%/%/g; s/^$1=//p" `+root+`/etc/systemd/system/$2.service | `+here+`; }
start() {
	mkdir -p `+root+`/var/lib/pay-offer
	case $1 in
	*.timer) [ -e `+root+`/etc/systemd/system/$1 ] ;;
	pay-offer) [ -e `+pid+` ] || as-pay-offer $(unit ExecStart $1 | sed 's# run # start --pidfile `+pid+` #') >>`+root+`/log 2>&1 </dev/null ;;
	*) unit ExecStart $1 >`+root+`/commands
		while read -r line; do as-pay-offer sh -c "${line#-}" >>`+root+`/log 2>&1 </dev/null || [ "$line" != "${line#-}" ] || { start $(unit OnFailure $1 | sed 's/.service$//'); return 1; }
		done <`+root+`/commands ;;
	esac
}
stop() { [ ! -e `+pid+` ] || { p=$(cat `+pid+`); kill $p; tail -s 0.05 --pid=$p -f /dev/null; }; }
what=$1; shift; [ "$1" != --now ] || shift
case $what in
start|enable) for name; do start $name || exit 1; done ;;
stop|disable) stop ;;
restart) stop; start $1 ;;
reload) as-pay-offer $(unit ExecReload $1) >>`+root+`/log 2>&1 ;;
esac`)
	// The disk is new: it has nothing but what another machine sends.
	o.write(t, "rsync", `for target; do :; done; systemctl stop pay-offer; mv "$target" `+root+`/lost; mkdir "$target"; cp -r `+root+`/lost/backup "$target"`)

	// The container has the folders of the unit under its own names.
	o.write(t, "docker", `case $1 in
exec) shift 2; exec as-pay-offer "$@" ;;
cp) exec cp "${2#pay-offer:}" "$3" ;;
stop|start) exec systemctl $1 pay-offer ;;
run) case " $* " in *" busybox "*) shift 5; exec "$@" ;; esac; shift 7; exec as-pay-offer caddy "$@" ;;
esac`)
	o.env = append(slices.DeleteFunc(slices.Clone(s.env), func(v string) bool {
		return strings.HasPrefix(v, "PATH=") || strings.HasPrefix(v, "CADDY_ADMIN=")
	}), "PATH="+tools+":"+root+"/usr/local/bin:"+s.tools+":"+os.Getenv("PATH"), "CADDY_ADMIN="+admin)
	// The first one of two for the same text is used.
	o.there = slices.Concat([]string{
		public, "http://localhost:" + port, "localhost:2019", admin, "systemd /\n", "systemd " + root + "\n",
		"/data/", root + "/var/lib/pay-offer/", "/etc/caddy/", root + "/etc/pay-offer/",
		"/etc/", root + "/etc/", "/usr/local/", root + "/usr/local/", "/var/lib/", root + "/var/lib/",
	}, s.there)
	o.back = slices.Concat([]string{root, "", "http://localhost:" + port, public, admin, "localhost:2019"}, s.back)

	o.sh(t, "printf '"+answered+"' | caddy pay-offer init >/dev/null")
	text := string(lab.Must(os.ReadFile(o.folder + "/Caddyfile"))(t))
	require.Contains(t, text, "\n"+public+" {")
	text = strings.Replace(text, "\n"+public+" {", "\nhttp://:"+port+" {\n\tbind 127.0.0.1", 1)
	// The facilitator and the chain are out of reach.
	text = regexp.MustCompile(`(?s)facilitator .*?\n\t\t\t}`).ReplaceAllString(text, "facilitator https://facilitator.example\n\t\t\trpc https://rpc.example")
	require.NoError(t, os.WriteFile(o.folder+"/Caddyfile", []byte(text), 0o600))
	t.Cleanup(func() { o.sh(t, "systemctl stop pay-offer") })
	return &o
}

// sell installs the server and enters two payments.
func (s *sandbox) sell(t *testing.T) {
	t.Helper()
	s.sh(t, "caddy pay-offer systemd "+s.root+" >/dev/null && cp Caddyfile "+s.root+"/etc/pay-offer && sudoedit "+s.root+"/etc/pay-offer/environment")
	s.sh(t, "systemctl start pay-offer")
	for _, reference := range []string{"INV-7", "INV-8"} {
		s.sh(t, "caddy pay-offer record --rail transfer --amount 42 --sure --date 2026-11-20 --reference "+reference)
	}
	s.sh(t, "until caddy pay-offer announcements | grep -q 'events  *0'; do sleep 0.2; done") // the pages show them delivered
}

func (s *sandbox) sh(t *testing.T, command string) {
	t.Helper()
	c := exec.Command("sh", "-c", command)
	c.Env, c.Dir = s.env, s.folder
	output, err := c.CombinedOutput()
	if err != nil {
		log, _ := os.ReadFile(s.root + "/log")
		t.Fatalf("%s: %v\n%s%s", command, err, output, log)
	}
}

// requireInstalled looks for the files that the unit names.
func (s *sandbox) requireInstalled(t *testing.T) {
	t.Helper()
	unit := lab.Must(os.ReadFile(s.root + "/etc/systemd/system/pay-offer.service"))(t)
	files := regexp.MustCompile(`(?:ExecStart=|EnvironmentFile=| --config )(/\S+)`).FindAllStringSubmatch(string(unit), -1)
	require.Greater(t, len(files), 3)
	for _, file := range files {
		require.FileExists(t, s.root+file[1])
	}
}

// TestDocsAccountingImportBalances imports an export as guides/accounting says, with the programs themselves.
func TestDocsAccountingImportBalances(t *testing.T) {
	skip.Full(t, "hledger and beancount")
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

// The documented search finds why a server did not start. Without a terminal, Caddy writes its log as JSON.
func TestDocsFindWhyServerDoesNotStart(t *testing.T) {
	guide := string(lab.Must(os.ReadFile(lab.Path(t, "payoffer/docs/guides/troubleshooting.md")))(t))
	search := regexp.MustCompile("`sudo journalctl -u pay-offer (\\| [^`]+)` says why").FindStringSubmatch(guide)
	require.NotNil(t, search)
	const site = "{\n\tadmin off\n\tpay_offer {\n\t\tledger sqlite LEDGER\n\t}\n}\nhttp://localhost:PORT {\n\tpay_offer {\n\t\tbase_url http://localhost:PORT\n" +
		"\t\tcard https://buy.example/x {\n\t\t\tpayment_link plink_1\n\t\t\tOPTION\n\t\t}\n\t}\n}\n"
	for want, change := range map[string][]string{
		`(did you mean 'webhook_secret'?), at Caddyfile:12`: {"OPTION", "webhok_secret x"},
		"card webhook_secret: this is not a signing secret": {"OPTION", "webhook_secret {env.SECRET}"},
		"/none/pay_offer.db": {"OPTION", "", "LEDGER", "/dev/null/none/pay_offer.db"},
	} {
		folder := t.TempDir()
		text := strings.NewReplacer(append(change, "PORT", payoffertest.FreePort(t), "LEDGER", folder+"/pay_offer.db")...).Replace(site)
		require.NoError(t, os.WriteFile(folder+"/Caddyfile", []byte(text), 0o600))
		command := exec.Command("sh", "-c", server.Released(t)+` run --config Caddyfile --adapter caddyfile >log 2>&1 </dev/null; cat log `+search[1])
		command.Dir = folder
		command.Env = append(os.Environ(), "SECRET=abc", "HOME="+folder, "XDG_DATA_HOME="+folder, "XDG_CONFIG_HOME="+folder)
		require.Contains(t, string(lab.Must(command.Output())(t)), want)
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
func TestDocsWebhookEndpointsWork(t *testing.T) {
	lab.RequireNode(t)
	skip.Program(t, "Python", "python3")
	const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	programs := pageOf(t, "notifications")
	folder := t.TempDir()
	url, admin := "http://localhost:"+payoffertest.FreePort(t), "localhost:"+payoffertest.FreePort(t)
	caddyfile := fmt.Sprintf("{\n\tadmin %s\n\tpersist_config off\n}\n%s {\n\tbind 127.0.0.1\n\tpay_offer {\n\t\tbase_url %[2]s\n"+
		"\t\tid pay.example.org\n\t\tcard https://checkout.example/pay\n\t\tbank_transfer transfer pay@example.com\n", admin, url)
	said, addresses := map[string]*bufio.Scanner{}, map[string]string{}
	for language, run := range map[string][]string{"mjs": {"node"}, "python": {"python3"}} {
		require.Len(t, programs[language], 1, language)
		file := filepath.Join(folder, "receiver."+language)
		require.NoError(t, os.WriteFile(file, []byte(programs[language][0]), 0o600))
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

		for _, again := range []string{ // and one that is new, after a reference was replaced and after a restore
			`"number":1,"externalId":"INV-7-replaced"`, `"number":99,"externalId":"INV-7"`, `"number":100,"externalId":"INV-8"`,
		} {
			body := `{"data":{"counted":true,"offer":"pay.example.org","rail":"transfer",` + again + `}}`
			sent := server.Ask(server.Client, http.MethodPost, address, body, signedWebhook(t, secret, body))
			require.Equal(t, http.StatusNoContent, sent.Status, "%s: %s", language, sent.Body)
		}
		require.True(t, said[language].Scan(), language)
		require.Equal(t, "deliver for pay.example.org transfer 100 INV-8", said[language].Text(), language)
	}
}

// signedWebhook has the headers of a webhook (Standard Webhooks).
func signedWebhook(t *testing.T, secret, body string) http.Header {
	key := lab.Must(base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_")))(t)
	id, now := "msg_1", strconv.FormatInt(time.Now().Unix(), 10)
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + now + "." + body))
	return http.Header{
		"Webhook-Id": {id}, "Webhook-Timestamp": {now}, "Webhook-Signature": {"v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))},
	}
}
