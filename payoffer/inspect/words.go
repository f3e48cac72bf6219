package inspect

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"syscall"
)

func clockWords(ahead int64) string {
	if ahead < 0 {
		return fmt.Sprintf("the clock of this machine is %d s behind that of others", -ahead)
	}
	return fmt.Sprintf("the clock of this machine is %d s ahead of that of others", ahead)
}

func megabytes(n int64) string { return fmt.Sprintf("%d MiB", n>>20) }

// failure says why a call to a host failed, in words of ours: those of others may repeat
// an address, which may be a secret.
func failure(err error) string {
	var timeout net.Error
	var named *net.DNSError
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "the connection is refused"
	case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH):
		return "the network has no way to its address"
	case errors.As(err, &named):
		return "its name has no address"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "it does not answer in time"
	default:
		return "the connection fails"
	}
}

// untrusted is why a certificate is not trusted; empty where that is not what failed.
func untrusted(err error) string {
	if invalid := (*tls.CertificateVerificationError)(nil); errors.As(err, &invalid) {
		return invalid.Err.Error()
	}
	if alert := tls.AlertError(0); errors.As(err, &alert) {
		return alert.Error()
	}
	if spoken := (tls.RecordHeaderError{}); errors.As(err, &spoken) {
		return "the server does not speak TLS at this port"
	}
	return ""
}

// withoutQuery is an address as it may be told.
func withoutQuery(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	u.RawQuery, u.User, u.Fragment = "", nil, ""
	return u.String()
}
