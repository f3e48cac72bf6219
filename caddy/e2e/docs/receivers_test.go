package docs

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// Each program of guides/notifications gets a payment from a server, delivers for it, and refuses a webhook of somebody else.
func TestReceiversOfTheDocumentationDeliverForAPayment(t *testing.T) {
	lab.RequireNode(t)
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
		out, err := command.StdoutPipe()
		require.NoError(t, err)
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
