package offer

import (
	"errors"
	"fmt"
	"net/mail"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// hostName is the form of a DNS name as it stands in a URL. Names of other
// scripts are written in their ASCII form (RFC 5890).
var hostName = regexp.MustCompile(`^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\.?$`)

// maxHostName is the length in bytes of the longest name that DNS holds (RFC
// 1035 section 2.3.4), written with dots.
const maxHostName = 253

// ParseURL reads an absolute http or https URL (RFC 3986) without user
// information. Plain http is for loopback only. Characters that would break
// out of a header or a list of URIs are refused. A URL may hold a key, so that
// errors name its host and no more.
func ParseURL(s string) (*url.URL, error) {
	if i := strings.IndexFunc(s, breaksOut); i >= 0 {
		return nil, fmt.Errorf("this URL holds the character %q; percent-encode it, and write a host name in its ASCII form (xn--…)", []rune(s[i:])[0])
	}
	u, err := url.Parse(s)
	if err != nil || u.Hostname() == "" || (u.Scheme != "https" && u.Scheme != "http") {
		return nil, errors.New("this is not an absolute URL; write it whole, as in https://pay.example.org")
	}
	if u.User != nil {
		return nil, fmt.Errorf("the URL for host %q holds a user name or password; leave them out, it is published", u.Host)
	}
	if !validHost(u) {
		return nil, fmt.Errorf("the URL for host %q has no host name, IP address or port that is valid; write it as in https://pay.example.org:8443", u.Host)
	}
	if _, err := url.PathUnescape(u.RawQuery); err != nil {
		return nil, fmt.Errorf("the URL for host %q holds a percent sign that starts no escape; write it as %%25", u.Host)
	}
	if u.Scheme == "http" && !IsLoopback(u.Hostname()) {
		return nil, fmt.Errorf("the URL for host %q is plain http to a host that is not loopback; use https", u.Host)
	}
	return u, nil
}

// breaksOut reports whether a character may not stand in a URI (RFC 3986
// section 2).
func breaksOut(r rune) bool {
	return r <= ' ' || r > '~' || strings.ContainsRune(`<>"\^{}|`+"`", r)
}

// validHost checks the host and the port: RFC 3986 allows an empty port and a
// host of almost any characters, which no certificate or resolver knows.
func validHost(u *url.URL) bool {
	if port := u.Port(); port != "" {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 || port[0] == '0' {
			return false
		}
	} else if strings.HasSuffix(u.Host, ":") {
		return false
	}
	if strings.HasPrefix(u.Host, "[") {
		addr, err := netip.ParseAddr(u.Hostname())
		return err == nil && addr.Is6() && addr.Zone() == ""
	}
	return len(u.Hostname()) <= maxHostName && hostName.MatchString(u.Hostname())
}

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
	return Origin(u), nil
}

// Origin is the origin of an http or https URL.
func Origin(u *url.URL) string {
	host := strings.ToLower(u.Host)
	if (u.Scheme == "https" && u.Port() == "443") || (u.Scheme == "http" && u.Port() == "80") {
		host = strings.TrimSuffix(host, ":"+u.Port())
	}
	return u.Scheme + "://" + host
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

// Hostname is the host of an origin or URL without its port; an IPv6 address keeps
// its brackets.
func Hostname(address string) string {
	host := Host(address)
	if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
		return host[:i]
	}
	return host
}

// ParseMailbox checks a bare e-mail address (RFC 5321 Mailbox with a dot-string
// and a domain, no display name).
func ParseMailbox(s string) (string, error) {
	a, err := mail.ParseAddress(s)
	if err != nil || a.Address != s || strings.ContainsAny(s, " \"<>()[]") {
		return "", fmt.Errorf("%q is not an e-mail address; write it bare, as in pay@example.com", s)
	}
	return s, nil
}

// percentEncode escapes a value for a URI's query. A space becomes %20: the
// form encoding's plus sign would reach the reader of a BIP-21 or RFC 6068 URI
// as it is.
func percentEncode(s string) string {
	return strings.ReplaceAll(url.QueryEscape(s), "+", "%20")
}
