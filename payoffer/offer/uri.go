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

// hostName matches a DNS name in a URL. Names of other scripts are in ASCII form (RFC 5890).
var hostName = regexp.MustCompile(`^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\.?$`)

// maxHostName is the longest DNS name in bytes, written with dots (RFC 1035 section 2.3.4).
const maxHostName = 253

// ParseURL reads an absolute http or https URL (RFC 3986) without user information. Plain
// http is for loopback only. It refuses characters that would break out of a header or a
// list of URIs. A URL may contain a key, so errors name only its host.
func ParseURL(s string) (*url.URL, error) {
	if i := strings.IndexFunc(s, breaksOut); i >= 0 {
		return nil, fmt.Errorf("this URL contains the character %q; percent-encode it, and write a host name in its ASCII form (xn--…)", []rune(s[i:])[0])
	}
	u, err := url.Parse(s)
	if err != nil || u.Hostname() == "" || (u.Scheme != "https" && u.Scheme != "http") {
		return nil, errors.New("this is not an absolute URL, which is https:// and a host; write one such as https://pay.example.org")
	}
	if u.User != nil {
		return nil, fmt.Errorf("the URL for host %q contains a user name or password and is published; remove them", u.Host)
	}
	if !validHost(u) {
		return nil, fmt.Errorf("the URL for host %q has no valid host name, IP address or port; write one such as https://pay.example.org:8443", u.Host)
	}
	if _, err := url.PathUnescape(u.RawQuery); err != nil {
		return nil, fmt.Errorf("the URL for host %q contains a percent sign that starts no escape; write %%25", u.Host)
	}
	if u.Scheme == "http" && !IsLoopback(u.Hostname()) {
		return nil, fmt.Errorf("the URL for host %q is plain http, which is accepted only for this machine; write https", u.Host)
	}
	return u, nil
}

// breaksOut reports whether a URI must not contain a character (RFC 3986 section 2).
func breaksOut(r rune) bool {
	return r <= ' ' || r > '~' || strings.ContainsRune(`<>"\^{}|`+"`", r)
}

// validHost checks the host and the port, because RFC 3986 allows almost any characters.
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

// ParseOrigin reads an origin (RFC 6454): scheme, host and optional port. It drops one
// trailing slash and a default port and converts the host to lower case.
func ParseOrigin(s string) (string, error) {
	if !strings.Contains(s, "://") {
		return "", fmt.Errorf("%q does not begin with https://; write the whole address, such as https://pay.example.org", s)
	}
	u, err := ParseURL(s)
	if err != nil {
		return "", err
	}
	if (u.Path != "" && u.Path != "/") || strings.ContainsAny(s, "?#") {
		return "", fmt.Errorf("%q is more than an origin; write only scheme, host and port, such as https://pay.example.org", s)
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

// DIDWeb is the did:web identifier of an origin. The colon of a port is percent-encoded in
// upper case (did:web method specification), as are the brackets of an IPv6 address.
func DIDWeb(origin string) string { return "did:web:" + percentEncode(Host(origin)) }

// Host is the host of an origin or URL, with its port if it has one.
func Host(address string) string {
	_, host, _ := strings.Cut(address, "://")
	if i := strings.IndexAny(host, "/?#"); i >= 0 {
		return host[:i]
	}
	return host
}

// Hostname is the host of an origin or URL without its port. An IPv6 address keeps its brackets.
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
		return "", fmt.Errorf("%q is not an e-mail address; write one without a name, such as pay@example.com", s)
	}
	return s, nil
}

// percentEncode escapes a value for a URI's query. A space becomes %20, because a plus sign
// is not decoded in BIP-21 and RFC 6068 URIs.
func percentEncode(s string) string {
	return strings.ReplaceAll(url.QueryEscape(s), "+", "%20")
}
