package offer

import (
	"fmt"
	"net/netip"
	"strings"
)

// ParseOrigin reads an origin (RFC 6454): scheme, host and optional port. One
// trailing slash is dropped, the host is lower-cased and a default port left
// out. Plain http is for loopback only, where nobody can listen in.
func ParseOrigin(s string) (string, error) {
	u, err := ParseURL(s)
	if err != nil {
		return "", err
	}
	if (u.Path != "" && u.Path != "/") || strings.ContainsAny(s, "?#") {
		return "", fmt.Errorf("%q is more than an origin; leave scheme, host and port only, as in https://pay.example.org", s)
	}
	host := strings.ToLower(u.Host)
	if (u.Scheme == "https" && u.Port() == "443") || (u.Scheme == "http" && u.Port() == "80") {
		host = strings.TrimSuffix(host, ":"+u.Port())
	}
	return u.Scheme + "://" + host, nil
}

// IsLoopback reports whether a host name or address means this machine
// (RFC 6761 section 6.3 for names).
func IsLoopback(host string) bool {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && addr.IsLoopback()
}

// DIDWeb is the did:web identifier of an origin. The colon of a port is
// percent-encoded in upper case, for resolvers compare byte by byte (did:web
// method specification); so are the brackets of an IPv6 address, which a DID
// cannot hold.
func DIDWeb(origin string) string { return "did:web:" + percentEncode(Host(origin)) }

// Host is the host of an origin or URL, with its port when it has one.
func Host(address string) string {
	_, host, _ := strings.Cut(address, "://")
	if i := strings.IndexAny(host, "/?#"); i >= 0 {
		return host[:i]
	}
	return host
}
