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
		return nil, errors.New("this is not an absolute URL; write it whole, as in https://pay.example.org/path")
	}
	if u.User != nil {
		return nil, fmt.Errorf("the URL for host %q holds a user name or password; leave them out, it is published", u.Host)
	}
	if !validHost(u) {
		return nil, fmt.Errorf("the URL for host %q has no host name, IP address or port that is valid; write it as in https://pay.example.org:8443/path", u.Host)
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
	return hostName.MatchString(u.Hostname())
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
