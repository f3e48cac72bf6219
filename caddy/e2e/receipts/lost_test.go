package receipts

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Somebody deletes the file of the ledger while the server runs.
func TestNoPaymentIsAcknowledgedOrLostAfterTheLedgerFileIsDeleted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	storage := "storage file_system " + strconv.Quote(t.TempDir())
	s := openShop(t, "sqlite "+strconv.Quote(path), storage)
	acknowledged := 0
	deliver := func() int {
		status := s.deliverCard(paid(strconv.Itoa(acknowledged)), cardSecret)
		if status == http.StatusOK {
			acknowledged++
		}
		return status
	}
	require.Equal(t, http.StatusOK, deliver())
	files, err := filepath.Glob(path + "*")
	require.NoError(t, err)
	for _, file := range files {
		require.NoError(t, os.Remove(file))
	}

	// The file is compared once a second: what is acknowledged before is saved.
	require.Eventually(t, func() bool { return deliver() == http.StatusServiceUnavailable }, patience, again)
	require.Equal(t, http.StatusServiceUnavailable, deliver(), "it stays so")
	out, err := s.command("record", "--rail", "transfer", "--reference", "INV-7", "--amount", "42", "--address", s.admin)
	require.Error(t, err, out)

	saved, err := filepath.Glob(path + ".rescued-*")
	require.NoError(t, err)
	require.Len(t, saved, 1)
	response, err := http.Get("http://" + s.admin + "/pay_offer/diagnostics")
	require.NoError(t, err)
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Contains(t, string(answer), saved[0])
	s.Terminate()
	s.Await(t)
	require.Equal(t, 1, strings.Count(s.Log(), "the ledger file was deleted or replaced"), s.Log())
	require.NoFileExists(t, path, "no connection makes an empty one")

	rescued := openShop(t, "sqlite "+strconv.Quote(saved[0]), storage)
	require.GreaterOrEqual(t, rescued.rail("card").Confirmed.Count, int64(acknowledged))
}
