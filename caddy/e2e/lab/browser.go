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
	name := os.Getenv("PAY_OFFER_CHROMIUM")
	if name == "" {
		name = "chromium"
	}
	path, err := exec.LookPath(name)
	if err != nil {
		Skip(t, "Chromium is not installed: install it, or name its program in PAY_OFFER_CHROMIUM")
	}
	return path
}
