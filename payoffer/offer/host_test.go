package offer

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHostname(t *testing.T) {
	for address, want := range map[string]string{
		"https://example.org": "example.org", "https://example.org:8443/a?b": "example.org", "http://[::1]": "[::1]", "http://[::1]:80": "[::1]", "": "",
	} {
		require.Equal(t, want, Hostname(address))
	}
}
