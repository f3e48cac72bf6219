package lab

import (
	"os"
	"testing"

	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/skip"
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
	return skip.Program(t, "Chromium (chromium-headless-shell or chromium on the PATH, or PAY_OFFER_CHROMIUM)", names...)
}
