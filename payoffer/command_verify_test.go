package payoffer

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// verify runs the command and returns what it printed.
func verify(t *testing.T, argument string) (string, error) {
	t.Helper()
	command := verifyCommand()
	var out bytes.Buffer
	command.SetOut(&out)
	command.SetErr(&out)
	command.SilenceUsage, command.SilenceErrors = true, true
	command.SetIn(strings.NewReader(argument))
	if strings.ContainsAny(argument, "\n{") {
		argument = "-"
	}
	command.SetArgs([]string{argument})
	command.SetContext(t.Context())
	err := command.Execute()
	return out.String(), err
}

func TestCommandVerifySaysWhatAStatementProves(t *testing.T) {
	i := newInstance(t)
	require.NoError(t, i.load(smallest))
	signing := running.newest().offers()[0].signing
	receipt := x402.ReceiptPayload{
		Version: 1, Network: "eip155:84532", ResourceURL: i.service + "/v1/sponsor", Payer: "0x00aa", IssuedAt: time.Now().Unix(),
	}
	signed := signing.Sign(receipt)
	out, err := verify(t, signed)
	require.NoError(t, err)
	host := strings.TrimPrefix(i.service, "http://")
	require.Contains(t, out, "VALID receipt: "+host+" says that 0x00aa paid for "+i.service+"/v1/sponsor on base-sepolia (eip155:84532); issued 20")
	require.Contains(t, out, "names no amount and no transaction")
	require.Contains(t, out, "which "+host+" publishes")

	quote := i.get(i.service + "/v1/quote").header.Get(x402.HeaderRequired)
	out, err = verify(t, "HTTP/1.1 402 Payment Required\r\nPayment-Required: "+quote+"\r\n\r\n{}")
	require.NoError(t, err)
	require.Contains(t, out, "VALID offer: "+host+" asks 42 USDC on base-sepolia (eip155:84532)")
	require.Contains(t, out, "to 0x52908400098527886E0F7030069857D2E4169EE7 (exact); it holds until 20")

	file := filepath.Join(i.folder, "receipt.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"format":"jws","signature":"`+signed+`"}`), 0o600))
	out, err = verify(t, file)
	require.NoError(t, err)
	require.Contains(t, out, "VALID receipt")
}

func TestCommandVerifyGuessesNoUnit(t *testing.T) {
	const usdc = "0x036cbd53842c5426634e7929541ec2318f3dcf7e"
	for want, o := range map[string]x402.OfferPayload{
		"0.5 USDC":                   {Network: "eip155:84532", Asset: usdc, Amount: "500000"},
		"1000 USDC":                  {Network: "eip155:84532", Asset: usdc, Amount: "1000000000"},
		"1 atomic units of 0x00":     {Network: "eip155:84532", Asset: "0x00", Amount: "1"},
		"1 atomic units of " + usdc:  {Network: "eip155:8453", Asset: usdc, Amount: "1"},
		"-1 atomic units of " + usdc: {Network: "eip155:84532", Asset: usdc, Amount: "-1"},
		"1 atomic units of native":   {Network: "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp", Asset: "native", Amount: "1"},
	} {
		require.Equal(t, want, price(&o))
	}
}

// many are so many artifacts.
func many(signing *signing, count int) string {
	var artifacts []string
	for n := range count {
		artifacts = append(artifacts, `{"format":"jws","signature":"`+signing.Sign(map[string]int{"n": n})+`"}`)
	}
	return "[" + strings.Join(artifacts, ",") + "]"
}

func TestCommandVerifyFailsWithASentence(t *testing.T) {
	i := newInstance(t)
	require.NoError(t, i.load(smallest))
	signing := running.newest().offers()[0].signing
	receipt := func(change func(*x402.ReceiptPayload)) string {
		payload := x402.ReceiptPayload{
			Version: 1, Network: "eip155:84532", ResourceURL: i.service + "/v1/sponsor", Payer: "0x00aa", IssuedAt: time.Now().Unix(),
		}
		change(&payload)
		return signing.Sign(payload)
	}
	good := receipt(func(*x402.ReceiptPayload) {})
	other := receipt(func(p *x402.ReceiptPayload) { p.Payer = "0x00bb" })
	tampered := good[:strings.LastIndex(good, ".")] + other[strings.LastIndex(other, "."):]
	forged := loaded(t, newSigning(signing.storage, "https://evil.example"))
	for name, c := range map[string]struct{ argument, want string }{
		"nothing signed":      {"receipt.json", "there is no signed receipt or offer here"},
		"tampered":            {tampered, "NOT VALID: the signature is not that of the key which 127.0.0.1:"},
		"no Ed25519":          {"eyJhbGciOiJub25lIn0.e30.AAAA", "NOT VALID: it has a signature that is not 64 bytes long"},
		"no statement":        {signing.Sign(map[string]int{"version": 1}), "NOT VALID: it is neither an offer nor a receipt"},
		"another version":     {receipt(func(p *x402.ReceiptPayload) { p.Version = 2 }), "version 2"},
		"no URL":              {receipt(func(p *x402.ReceiptPayload) { p.ResourceURL = "pay" }), "names no domain"},
		"plain http":          {receipt(func(p *x402.ReceiptPayload) { p.ResourceURL = "http://pay.example.org/" }), "plain http"},
		"another domain":      {receipt(func(p *x402.ReceiptPayload) { p.ResourceURL = "https://evil.example/" }), "is none of evil.example"},
		"another key":         {forged.Sign(x402.ReceiptPayload{Version: 1, Network: "eip155:1", ResourceURL: i.service + "/", Payer: "0x", IssuedAt: 1}), "is none of 127.0.0.1"},
		"nobody there":        {loaded(t, newSigning(signing.storage, "http://127.0.0.1:9")).Sign(x402.ReceiptPayload{Version: 1, Network: "eip155:1", ResourceURL: "http://127.0.0.1:9/", Payer: "0x", IssuedAt: 1}), "127.0.0.1:9 cannot be asked for its keys"},
		"of tomorrow":         {receipt(func(p *x402.ReceiptPayload) { p.IssuedAt += 86_400 }), "in the future"},
		"an offer that ended": {signing.Sign(x402.OfferPayload{Version: 1, ResourceURL: i.service + "/", Scheme: "exact", Network: "eip155:1", PayTo: "0x", ValidUntil: 1}), "EXPIRED"},
		"another format":      {`{"format":"eip712","signature":"0x00"}`, "NOT VALID: it is not a JWS"},
		"too many":            {many(signing, 17), "more than 16"},
		"one of two":          {`[{"format":"jws","signature":"` + good + `"},{"format":"jws","signature":"` + tampered + `"}]`, "number 2 of 2: NOT VALID"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := verify(t, c.argument)
			require.ErrorContains(t, err, c.want)
		})
	}
}

// What a stranger signed must not steer the terminal that it is printed on.
func TestCommandVerifyPrintsNoControlCharacters(t *testing.T) {
	i := newInstance(t)
	require.NoError(t, i.load(smallest))
	out, err := verify(t, running.newest().offers()[0].signing.Sign(x402.ReceiptPayload{
		Version: 1, Network: "eip155:1\u202e", ResourceURL: i.service + "/", Payer: "\x1b[2Jme", IssuedAt: 1,
	}))
	require.NoError(t, err)
	require.Contains(t, out, "[2Jme")
	require.NotContains(t, out, "\x1b")
	require.NotContains(t, out, "\u202e")
}
