package skip

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSkipIsRecordedWithReason(t *testing.T) {
	noted := filepath.Join(t.TempDir(), "skipped")
	t.Setenv("PAY_OFFER_NO_SKIP", "")
	t.Setenv("PAY_OFFER_SKIPPED", noted)
	for _, reason := range []string{"Python is not installed", "it cannot be built:\nmain.go:1"} {
		require.Equal(t, "skipped: "+reason, end(t, func(t testing.TB) { Test(t, reason) }))
	}
	text, err := os.ReadFile(noted)
	require.NoError(t, err)
	require.Equal(t, "Python is not installed\t"+t.Name()+"\nit cannot be built:\t"+t.Name()+"\n", string(text))
}

func TestNoSkipVariableFailsTest(t *testing.T) {
	t.Setenv("PAY_OFFER_NO_SKIP", "1")
	require.Equal(t, "failed: It is not installed, and PAY_OFFER_NO_SKIP=1 forbids to skip",
		end(t, func(t testing.TB) { Program(t, "It", "no-such-program") }))
}

// end is how a test ends.
func end(t *testing.T, test func(testing.TB)) string {
	r := &recorder{TB: t}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		test(r)
	}()
	<-ended
	return r.end
}

// recorder is a test whose end is its own.
type recorder struct {
	testing.TB
	end string
}

func (r *recorder) Fatal(arguments ...any) {
	r.end = "failed: " + fmt.Sprint(arguments...)
	runtime.Goexit()
}

func (r *recorder) Skip(arguments ...any) {
	r.end = "skipped: " + fmt.Sprint(arguments...)
	runtime.Goexit()
}

func TestProgramReturnsFirstInstalled(t *testing.T) {
	folder := t.TempDir()
	for name, mode := range map[string]os.FileMode{"first": 0o600, "second": 0o700, "third": 0o700} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), nil, mode))
	}
	t.Setenv("PATH", folder)
	require.Equal(t, filepath.Join(folder, "second"), Program(t, "It", "first", "second", "third"))
}
