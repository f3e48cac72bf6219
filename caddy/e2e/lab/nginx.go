package lab

import (
	"os/exec"
	"testing"
)

// RequireNginx returns the path of nginx and skips the test where it is not installed. Debian keeps it out of the PATH of
// users.
func RequireNginx(t testing.TB) string {
	t.Helper()
	for _, name := range []string{"nginx", "/usr/sbin/nginx"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	Skip(t, "nginx is not installed")
	return ""
}
