package buyer

import (
	"bytes"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAPurchaseIsThatOfOneProcess(t *testing.T) {
	_, c, p := opened(t)
	_, err := OpenPurchase(c.state, c.target, c.key.Address())
	require.ErrorIs(t, err, ErrBusy)
	_, err = OpenPurchase(c.state, c.target, payee)
	require.NoError(t, err, "another payer's is another purchase")
	other, err := NewTarget(http.MethodGet, c.target.URL())
	require.NoError(t, err)
	_, err = OpenPurchase(c.state, other, c.key.Address())
	require.NoError(t, err, "so is that by another method")
	require.NoError(t, p.Close())
	c.open()
}

func TestAPaymentThatCannotBeReadIsNotPassedOver(t *testing.T) {
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

func TestWhatWasWrittenInPartIsNoPayment(t *testing.T) {
	_, c, p := opened(t)
	require.NoError(t, os.WriteFile(filepath.Join(p.folder, "1.json.next"), []byte(`{"state":`), 0o600))
	p = c.reopen(p)
	require.Nil(t, p.Payment)
	c.sign(p)
	require.Len(t, c.kept(), 1)
	require.NoFileExists(t, filepath.Join(p.folder, "1.json.next"))
}

// Where a payment cannot be kept, it is not sent.
func TestAPaymentThatCannotBeKeptIsNotSent(t *testing.T) {
	s, c, p := opened(t)
	require.NoError(t, os.Mkdir(filepath.Join(p.folder, "1.json"), 0o700))
	q, err := c.Quote(t.Context(), c.target)
	require.NoError(t, err)
	require.ErrorContains(t, p.Sign(c.target, q, c.key), "the payment could not be stored")
	all, _ := s.sent()
	require.Zero(t, all)
}

func TestTheNextPaymentLeavesTheOneBefore(t *testing.T) {
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
