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

// ask asks the admin API of the running server, with a JSON body unless it is
// nil. The error is the server's sentence.
func ask[T any](fl caddycmd.Flags, method, uri string, body any) (answer T, err error) {
	address, err := adminAddress(fl)
	if err != nil {
		return answer, err
	}
	response, err := send(context.Background(), address, method, uri, body)
	if err != nil {
		return answer, err
	}
	defer response.Body.Close()
	if err := refused(response); err != nil {
		return answer, err
	}
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return answer, err
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return answer, fmt.Errorf("the admin API's answer cannot be read: %w", err)
	}
	return answer, nil
}

// refused returns the server's sentence where it refuses.
func refused(response *http.Response) error {
	if response.StatusCode < http.StatusBadRequest {
		return nil
	}
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	var refusal caddy.APIError
	if json.Unmarshal(text, &refusal) != nil || refusal.Message == "" {
		return fmt.Errorf("caddy responded with error: HTTP %d: %s", response.StatusCode, text)
	}
	return errors.New(printable(refusal.Message))
}

// send asks as caddycmd.AdminAPIRequest does, which puts the status and the body
// of a refusal into one string.
func send(ctx context.Context, address, method, uri string, body any) (*http.Response, error) {
	var sent bytes.Buffer
	if body != nil {
		if err := json.NewEncoder(&sent).Encode(body); err != nil {
			return nil, err
		}
	}
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
	request, err := http.NewRequestWithContext(ctx, method, origin+uri, &sent)
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
		DisableKeepAlives: true, // nobody asks by it again
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, listener.Network, where)
		},
	}}
	response, err := client.Do(request)
	if refused := (*net.OpError)(nil); errors.As(err, &refused) && refused.Op == "dial" {
		return nil, fmt.Errorf("no server answers at the admin API %s (%v): start it with 'caddy run', or name the address of one that runs with --address", printable(where), refused.Err)
	}
	if err != nil {
		return nil, fmt.Errorf("performing request: %v", err)
	}
	return response, nil
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
	var config caddy.Config
	if json.Unmarshal(raw, &config) == nil && config.Admin != nil && config.Admin.Disabled {
		// At the default address another server may answer, with other books.
		return "", fmt.Errorf("%s turns the admin API off, by which the running server is asked; set 'admin' there, or name an --address", file)
	}
	return caddycmd.DetermineAdminAPIAddress("", raw, file, fl.String("adapter"))
}
