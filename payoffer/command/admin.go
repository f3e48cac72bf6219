package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
)

// maxAnswer bounds what is read of an error's answer, in bytes.
const maxAnswer = 2 << 20

// adminRequest asks the admin API of the running server, with a JSON body unless
// it is nil. The error is the server's sentence.
func adminRequest(fl caddycmd.Flags, method, uri string, body any) ([]byte, error) {
	address, err := adminAddress(fl)
	if err != nil {
		return nil, err
	}
	var sent io.Reader
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		sent = bytes.NewReader(encoded)
	}
	response, err := send(address, method, uri, sent)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode < http.StatusBadRequest {
		return io.ReadAll(response.Body)
	}
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("HTTP %d: reading error message: %v", response.StatusCode, err)
	}
	var refusal caddy.APIError
	if json.Unmarshal(answer, &refusal) != nil || refusal.Message == "" {
		return nil, fmt.Errorf("caddy responded with error: HTTP %d: %s", response.StatusCode, answer)
	}
	return nil, errors.New(printable(refusal.Message))
}

// send asks as caddycmd.AdminAPIRequest does, which keeps the status and the
// body of a refusal to itself.
func send(address, method, uri string, body io.Reader) (*http.Response, error) {
	listener, err := caddy.ParseNetworkAddress(address)
	if err != nil || listener.PortRangeSize() > 1 {
		return nil, fmt.Errorf("invalid admin address %s: %v", address, err)
	}
	where := listener.JoinHostPort(0)
	origin := "http://" + where
	if listener.IsUnixNetwork() {
		origin = "http://127.0.0.1"           // a socket has no host, but a request needs one
		where, _, _ = strings.Cut(where, "|") // the rest is its permissions
	}
	request, err := http.NewRequest(method, origin+uri, body)
	if err != nil {
		return nil, fmt.Errorf("making request: %v", err)
	}
	if !listener.IsUnixNetwork() {
		request.Header.Set("Origin", origin)
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	client := http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, listener.Network, where)
		},
	}}
	response, err := client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("performing request: %v", err)
	}
	return response, nil
}

// decode reads the admin API's answer.
func decode(answer []byte, into any) error {
	if err := json.Unmarshal(answer, into); err != nil {
		return fmt.Errorf("the admin API's answer cannot be read: %w", err)
	}
	return nil
}

// adminAddress is where the admin API of the running server listens: as given,
// or as the configuration says, which may be the Caddyfile in this folder.
func adminAddress(fl caddycmd.Flags) (string, error) {
	if address := fl.String("address"); address != "" {
		return address, nil
	}
	raw, file, _, err := caddycmd.LoadConfig(fl.String("config"), fl.String("adapter"))
	if err != nil {
		return "", err
	}
	return caddycmd.DetermineAdminAPIAddress("", raw, file, fl.String("adapter"))
}
