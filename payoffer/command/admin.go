package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	var sent io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return answer, err
		}
		sent = bytes.NewReader(text)
	}
	response, err := caddycmd.AdminAPIRequest(address, method, uri, nil, sent)
	if err != nil {
		return answer, refusal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil {
		err = json.Unmarshal(text, &answer)
	}
	if err != nil {
		return answer, fmt.Errorf("the admin API's answer cannot be read: %w", err)
	}
	return answer, nil
}

// refusal is the server's sentence, which Caddy's error ends in as JSON; or that
// error.
func refusal(err error) error {
	var answer caddy.APIError
	_, text, _ := strings.Cut(err.Error(), "{")
	if json.Unmarshal([]byte("{"+text), &answer) != nil || answer.Message == "" {
		return err
	}
	return errors.New(printable(answer.Message))
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
