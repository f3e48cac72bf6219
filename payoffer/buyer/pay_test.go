package buyer

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

func TestPaymentStoredSentAndPaid(t *testing.T) {
	s := openSeller(t)
	s.quote["extensions"].(object)["offer-receipt"] = object{"info": object{"offers": []any{}}}
	s.quote["extensions"].(object)["other"] = object{"info": object{"b": 1}}
	s.quote["extensions"].(object)["access"] = object{"info": object{"token": "TOKENOFTHEQUOTE"}}
	c := newCustomer(t, s)
	q := must(c.Quote(t.Context(), c.target))(t)
	require.Equal(t, "42", q.Amount())

	p := c.open()
	require.Nil(t, p.Payment)
	require.NoError(t, p.Sign(c.target, q, c.key))
	info := must(os.Stat(c.kept()[0]))(t)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	if all, _ := s.sent(); all != 0 {
		t.Fatal("it is sent before it is kept")
	}
	require.NoError(t, c.Settle(t.Context(), c.target, p))
	require.Equal(t, Paid, p.State)
	require.Empty(t, p.Header, "nothing that can be spent is kept any longer")

	require.Equal(t, transaction, p.Transaction)
	require.Equal(t, s.base+"/receipt", p.ReceiptURL)

	var payload struct {
		X402Version int
		Accepted    object
		Resource    object
		Extensions  map[string]struct{ Info map[string]any }
		Payload     struct {
			Authorization map[string]string
		}
	}
	text := must(base64.StdEncoding.DecodeString(s.payments[0]))(t)
	require.NoError(t, json.Unmarshal(text, &payload))
	require.Equal(t, 2, payload.X402Version)
	require.Equal(t, payee, payload.Payload.Authorization["to"])
	require.Equal(t, "42000000", payload.Payload.Authorization["value"])
	require.JSONEq(t, string(encoded(t, s.accept(nil))), string(encoded(t, payload.Accepted)), "the terms as they came")
	require.Equal(t, s.quote["resource"], payload.Resource)
	require.Regexp(t, `^[A-Za-z0-9_-]{16,128}$`, payload.Extensions["payment-identifier"].Info["id"])
	require.Equal(t, false, payload.Extensions["payment-identifier"].Info["required"])
	require.EqualValues(t, 1, payload.Extensions["other"].Info["b"], "extensions are echoed")
	require.Equal(t, "TOKENOFTHEQUOTE", payload.Extensions["access"].Info["token"])
	require.NotContains(t, payload.Extensions, "offer-receipt")
	c.requireNoSecret(string(text))

	again := c.reopen(p)
	require.Equal(t, Paid, again.State)
	require.Equal(t, transaction, again.Transaction)
}

// Whatever happens on the way, the bytes that are sent are those that were kept.
func TestRetrySendsSameBytes(t *testing.T) {
	s := openSeller(t)
	pending := x402.EncodeHeader(x402.SettleResponse{Transaction: transaction, ErrorReason: "settlement_pending"})
	s.paid = []http.HandlerFunc{
		breaks, says(503, `{"reason":"settlement_unknown"}`), says(429, ""), says(502, "<html>"), says(500, ""),
		func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set(x402.HeaderResponse, pending)
			says(402, "{}")(w, r)
		},
		s.settles(),
	}
	c := newCustomer(t, s)
	synctest.Test(t, func(t *testing.T) {
		c.t, c.Transport, c.Wait = t, s, time.Minute
		var told []string
		c.Progress = func(sentence string) { told = append(told, sentence) }
		p := c.open()
		c.sign(p)
		began := time.Now()
		require.NoError(t, c.Settle(t.Context(), c.target, p))
		require.Equal(t, 10*time.Second, time.Since(began), "a broken connection is tried again after five seconds, the others when they say")
		all, different := s.sent()
		require.Equal(t, 7, all)
		require.Equal(t, 1, different)
		require.Len(t, told, 6)
		require.Contains(t, told[1], `status 503: "settlement_unknown"`)
		require.NoError(t, p.Close())
	})
}

// A gate charges before the application behind it answers, such as a file server that refuses POST.
func TestChargedPaymentIsPaidDespiteErrorStatus(t *testing.T) {
	for _, status := range []int{303, 402, 404, 405, 429, 500, 503} {
		s, c, p := opened(t)
		s.paid = []http.HandlerFunc{func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set(x402.HeaderResponse, x402.EncodeHeader(x402.SettleResponse{Success: true, Transaction: transaction}))
			w.WriteHeader(status)
		}}
		c.sign(p)
		require.NoError(t, c.Settle(t.Context(), c.target, p))
		require.Equal(t, Paid, p.State)
		require.Equal(t, transaction, p.Transaction)
		require.Contains(t, p.Reason, fmt.Sprint("the payment was taken, and the answer is status ", status))
		require.NotContains(t, p.Reason, "incomplete")
		require.Equal(t, status, p.Status)
		all, _ := s.sent()
		require.Equal(t, 1, all)
		require.NoError(t, p.Close())
	}
}

func TestOpenPaymentResumesInNextProcess(t *testing.T) {
	s, c, p := opened(t)
	s.paid = []http.HandlerFunc{breaks, says(503, ""), s.settles()}
	c.sign(p)
	for range 2 {
		err := c.Settle(t.Context(), c.target, p)
		require.ErrorIs(t, err, ErrOpen)
		require.Equal(t, Open, p.State)
		p = c.reopen(p)
	}
	require.NoError(t, c.Settle(t.Context(), c.target, p))
	require.Len(t, c.kept(), 1)
	all, different := s.sent()
	require.Equal(t, []int{3, 1, 1}, []int{all, different, s.quotes})
}

func TestRefusalFinalAfterAuthorizationExpires(t *testing.T) {
	for name, refusal := range map[string]http.HandlerFunc{
		"402": says(402, `{"x402Version":2,"error":"insufficient_funds"}`),
		"409": says(409, `{"reason":"payer_has_open_payment"}`),
		"400": says(400, ""),
		"404": says(404, ""),
		"302": says(302, ""),
		"200": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set(x402.HeaderResponse, x402.EncodeHeader(x402.SettleResponse{ErrorReason: "no"}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, c, p := opened(t)
			s.paid = []http.HandlerFunc{refusal}
			c.sign(p)
			err := c.Settle(t.Context(), c.target, p)
			require.ErrorContains(t, err, "the seller refused the payment: status "+name)
			require.Equal(t, name == "409", strings.Contains(err.Error(), "send that one again"))
			require.Equal(t, Refused, p.State)
			require.True(t, p.Spendable())
			p = c.reopen(p)
			require.NotEmpty(t, p.Header, "whoever has it can spend it")
			q := must(c.Quote(t.Context(), c.target))(t)
			require.ErrorContains(t, p.Sign(c.target, q, c.key), "is undecided", "a second one could be spent besides")

			p.ValidBefore = time.Now().Add(-voidAfter)
			require.Error(t, c.Settle(t.Context(), c.target, p))
			require.Equal(t, Void, p.State)
			require.Empty(t, c.reopen(p).Header)
			_, different := s.sent()
			require.Equal(t, 1, different)
		})
	}
}

func TestRefusedPaymentMaySettleLater(t *testing.T) {
	s, c, p := opened(t)
	s.paid = []http.HandlerFunc{says(402, ""), s.settles()}
	c.sign(p)
	require.Error(t, c.Settle(t.Context(), c.target, p))
	p = c.reopen(p)
	require.NoError(t, c.Settle(t.Context(), c.target, p))
	require.Equal(t, Paid, p.State)
	_, different := s.sent()
	require.Equal(t, 1, different)
}

func TestIncompleteResponseIsPaid(t *testing.T) {
	s, c, p := opened(t)
	s.paid = []http.HandlerFunc{func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "100000")
		s.settles()(w, r)
	}}
	c.sign(p)
	require.NoError(t, c.Settle(t.Context(), c.target, p))
	require.Equal(t, Paid, p.State)
	require.Equal(t, "the response is incomplete: the connection ended early", p.Reason)
	require.FileExists(t, p.Answer)
}

func TestSignRefusesPayeeKey(t *testing.T) {
	s := openSeller(t)
	c := newCustomer(t, s)
	s.quote["accepts"] = []any{s.accept(object{"payTo": c.key.Address()})}
	q := must(c.Quote(t.Context(), c.target))(t)
	require.ErrorContains(t, c.open().Sign(c.target, q, c.key), "the key belongs to the payee")
	require.Empty(t, c.kept())
}

func TestPurchaseLockedByOneProcess(t *testing.T) {
	_, c, p := opened(t)
	_, err := OpenPurchase(c.state, c.target, c.key.Address())
	require.ErrorIs(t, err, ErrBusy)
	_, err = OpenPurchase(c.state, c.target, payee)
	require.NoError(t, err, "another payer's is another purchase")
	for _, method := range []string{"", http.MethodGet} {
		_, err = OpenPurchase(c.state, must(NewTarget(method, c.target.URL()))(t), c.key.Address())
		require.ErrorIs(t, err, ErrBusy, "whatever the method: the payment in it may be charged")
	}
	require.NoError(t, p.Close())
	c.open()
}

func TestUnreadablePaymentIsNotSkipped(t *testing.T) {
	for name, damage := range map[string]func(file string, whole []byte) error{
		"half of it": func(file string, whole []byte) error { return os.WriteFile(file, whole[:len(whole)/2], 0o600) },
		"nothing":    func(file string, _ []byte) error { return os.WriteFile(file, nil, 0o600) },
		"empty":      func(file string, _ []byte) error { return os.WriteFile(file, []byte("{}"), 0o600) },
		"no signature": func(file string, whole []byte) error {
			return os.WriteFile(file, bytes.Replace(whole, []byte("paymentSignature"), []byte("signature"), 1), 0o600)
		},
		"no file": func(file string, _ []byte) error { return errors.Join(os.Remove(file), os.Mkdir(file, 0o700)) },
	} {
		_, c, p := opened(t)
		c.sign(p)
		require.NoError(t, p.Close())
		whole, err := os.ReadFile(c.kept()[0])
		require.NoError(t, err)
		require.NoError(t, damage(c.kept()[0], whole))
		_, err = OpenPurchase(c.state, c.target, c.key.Address())
		require.ErrorContains(t, err, "It contains a signed payment that may have been charged", name)
	}
}

func TestPartlyWrittenPaymentIsIgnored(t *testing.T) {
	_, c, p := opened(t)
	require.NoError(t, os.WriteFile(filepath.Join(p.folder, "1.json.next"), []byte(`{"state":`), 0o600))
	p = c.reopen(p)
	require.Nil(t, p.Payment)
	c.sign(p)
	require.Len(t, c.kept(), 1)
	require.NoFileExists(t, filepath.Join(p.folder, "1.json.next"))
}

// Where a payment cannot be kept, it is not sent.
func TestUnstoredPaymentIsNotSent(t *testing.T) {
	s, c, p := opened(t)
	require.NoError(t, os.Mkdir(filepath.Join(p.folder, "1.json"), 0o700))
	q := must(c.Quote(t.Context(), c.target))(t)
	require.ErrorContains(t, p.Sign(c.target, q, c.key), "the payment could not be stored")
	all, _ := s.sent()
	require.Zero(t, all)
}

func TestNextPaymentKeepsEarlierPayments(t *testing.T) {
	s, c, p := opened(t)
	for n := 1; n <= 11; n++ {
		c.sign(p)
		require.NoError(t, c.Settle(t.Context(), c.target, p))
		p = c.reopen(p)
		require.Len(t, c.kept(), n)
		require.Equal(t, n, p.number)
	}
	_, different := s.sent()
	require.Equal(t, 11, different)
}

// digits are a well-known key of test chains.
const digits = "59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d"

func TestParseKeyForms(t *testing.T) {
	for _, text := range []string{digits, "0x" + digits, " 0x" + strings.ToUpper(digits) + "\n"} {
		key := must(ParseKey(text))(t)
		require.Equal(t, "0x70997970C51812dc3A010C7d01b50e0d17dc79C8", key.Address())
	}
}

func TestKeyErrorsHideKey(t *testing.T) {
	secret := strings.Repeat("secret", 3)
	file := filepath.Join(t.TempDir(), "key")
	for _, text := range []string{"", secret, digits + "0", digits[:63], "0x" + digits[:62] + "zz", strings.Repeat("0", 64), strings.Repeat("f", 64)} {
		_, err := ParseKey(text)
		require.ErrorContains(t, err, "64 hexadecimal digits")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		_, fromFile := ReadKey(file)
		require.Equal(t, err, fromFile)
		if text != "" {
			require.NotContains(t, err.Error(), text[:8])
		}
	}
	_, err := ReadKey("0x" + digits)
	require.ErrorContains(t, err, "cannot be opened")
	require.NotContains(t, err.Error(), digits[:8], "a key in place of the file's name")

	key := must(ParseKey(digits))(t)
	for _, verb := range []string{"%v", "%+v", "%s", "%#v", "%q"} {
		text := fmt.Sprintf(verb, key) + fmt.Sprintf(verb, struct{ Key Key }{key}) + fmt.Sprintf(verb, &key)
		require.Contains(t, text, key.Address(), verb)
		require.NotContains(t, text, digits[:8], verb)
	}
}

func TestReadKeyFilePermissions(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(file, []byte(digits), 0o600))
	_, err := ReadKey(file)
	require.NoError(t, err)
	for _, mode := range []os.FileMode{0o604, 0o640, 0o660, 0o777, 0o610} {
		require.NoError(t, os.Chmod(file, mode))
		_, err := ReadKey(file)
		require.ErrorContains(t, err, "chmod 600", mode)
	}
}
