package lab

import (
	"os"
	"os/exec"
	"testing"
)

// RequireBrowser returns the path of Chromium, which PAY_OFFER_CHROMIUM may name, and skips the test where there is none or
// where the packages that drive it are not installed.
func RequireBrowser(t testing.TB) string {
	t.Helper()
	RequireNode(t)
	// The shell is the same engine without the windows around its pages, which cost half of the time.
	names := []string{"chromium-headless-shell", "chromium"}
	if name := os.Getenv("PAY_OFFER_CHROMIUM"); name != "" {
		names = []string{name}
	}
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	Skip(t, "Chromium is not installed: install chromium-headless-shell or chromium, or name its program in PAY_OFFER_CHROMIUM")
	return ""
}
