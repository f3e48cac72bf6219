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

// callAdmin sends a request to the admin API, with a JSON body unless it is nil. The error is
// the server's message.
func callAdmin[T any](fl caddycmd.Flags, method, uri string, body any) (T, error) {
	return callAdminContext[T](context.Background(), fl, method, uri, body)
}

func callAdminContext[T any](ctx context.Context, fl caddycmd.Flags, method, uri string, body any) (answer T, err error) {
	response, err := openAdmin(ctx, fl, method, uri, body)
	if err != nil {
		return answer, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return answer, err
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return answer, fmt.Errorf("the admin address does not answer as pay_offer (%w); write the right one, such as --address localhost:2019", err)
	}
	return answer, nil
}

// perOffer is an answer with one object for each offer.
type perOffer[T any] struct {
	Offers []T `json:"offers"`
}

// openAdmin is callAdmin with the response itself, which the caller closes.
func openAdmin(ctx context.Context, fl caddycmd.Flags, method, uri string, body any) (*http.Response, error) {
	address, err := adminAddress(fl)
	if err != nil {
		return nil, err
	}
	response, err := send(ctx, address, method, uri, body)
	if err == nil {
		err = statusError(response)
	}
	return response, err
}

// statusError returns the server's message if the status is an error, and then closes the response.
func statusError(response *http.Response) error {
	if response.StatusCode < http.StatusBadRequest {
		return nil
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	var refusal caddy.APIError
	if json.Unmarshal(text, &refusal) != nil || refusal.Message == "" {
		return fmt.Errorf("the admin address answers %q, not as pay_offer; write the right one, such as --address localhost:2019", response.Status)
	}
	return errors.New(printable(refusal.Message))
}

// send is caddycmd.AdminAPIRequest with a context, and leaves the response to the caller.
func send(ctx context.Context, address, method, uri string, body any) (*http.Response, error) {
	var sent bytes.Buffer
	if body != nil {
		if err := json.NewEncoder(&sent).Encode(body); err != nil {
			return nil, err
		}
	}
	listener, err := caddy.ParseNetworkAddress(address)
	if err != nil || listener.PortRangeSize() > 1 {
		return nil, fmt.Errorf("the admin address %q is not valid (%v); write for example --address localhost:2019", address, err)
	}
	dial := listener.JoinHostPort(0)
	origin := "http://" + dial
	if listener.IsUnixNetwork() {
		origin = "http://127.0.0.1"         // a request needs a host
		dial, _, _ = strings.Cut(dial, "|") // without the permissions
	}
	request, err := http.NewRequestWithContext(ctx, method, origin+uri, &sent)
	if err != nil {
		return nil, fmt.Errorf("the admin API cannot be asked: %v; check --address", err)
	}
	if !listener.IsUnixNetwork() {
		request.Header.Set("Origin", origin)
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, listener.Network, dial)
		},
	}}
	response, err := client.Do(request)
	if refused := (*net.OpError)(nil); errors.As(err, &refused) && refused.Op == "dial" {
		return nil, fmt.Errorf("no server answers at the admin API %s (%v); start the server, or name its address with --address", printable(dial), refused.Err)
	}
	if err != nil {
		return nil, fmt.Errorf("the admin API did not answer to the end (%v); read the server's log, and try again", err)
	}
	return response, nil
}

// adminAddress is the address of the admin API: --address, or that of the configuration,
// by default the Caddyfile in this folder.
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
		// Another server, with another ledger, may answer at the default address.
		return "", fmt.Errorf("%s turns the admin API off, and this command needs it; write 'admin localhost:2019' there, or give --address", file)
	}
	return caddycmd.DetermineAdminAPIAddress("", raw, file, fl.String("adapter"))
}
