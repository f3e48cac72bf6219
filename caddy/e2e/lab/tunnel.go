package lab

import (
	"io"
	"net"
	"net/http"
)

// Tunnel answers a client of a proxy (RFC 9110, section 9.3.6): it connects the client with an address, whomever that asks for.
func Tunnel(w http.ResponseWriter, r *http.Request, address string) {
	if r.Method != http.MethodConnect {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	site, err := net.Dial("tcp4", address)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	w.WriteHeader(http.StatusOK)
	client, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		_ = site.Close()
		return
	}
	go func() {
		_, _ = io.Copy(site, buffered) // until the client leaves
		_ = site.Close()
	}()
	_, _ = io.Copy(client, site)
	_ = client.Close()
}
