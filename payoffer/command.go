package payoffer

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"unicode"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"
)

func init() {
	caddycmd.RegisterCommand(caddycmd.Command{
		Name:  "pay-offer",
		Short: "Checks, shows and keeps the books of payment offers",
		Long: `
Works with the payment offers of a configuration.

Without --config the Caddyfile in the current directory is read. Nothing is
started, opened or called by check, qr and site. verify needs no configuration
and asks the domain that signed; the other commands ask the admin API of the
running server.`,
		CobraFunc: func(cmd *cobra.Command) {
			cmd.AddCommand(checkCommand(), qrCommand(), siteCommand(), receivedCommand(), recordCommand(),
				intentsCommand(), resolveCommand(), verifyCommand(), rotateKeyCommand())
		},
	})
}

func configFlags(cmd *cobra.Command) {
	cmd.Flags().StringP("config", "c", "", "The configuration file")
	cmd.Flags().StringP("adapter", "a", "", "The configuration adapter, if the file is no Caddyfile")
}

// adminCommand makes a command of one that asks the admin API of the running
// server.
func adminCommand(cmd *cobra.Command, run func(fl caddycmd.Flags, out io.Writer) error) *cobra.Command {
	configFlags(cmd)
	cmd.Args = cobra.NoArgs
	cmd.Flags().String("address", "", "The address of the admin API, if not that of the configuration")
	cmd.RunE = caddycmd.WrapCommandFuncForCobra(func(fl caddycmd.Flags) (int, error) {
		if err := run(fl, cmd.OutOrStdout()); err != nil {
			return caddy.ExitCodeFailedStartup, err
		}
		return caddy.ExitCodeSuccess, nil
	})
	return cmd
}

// adminRequest asks the admin API, with a JSON body unless it is nil. The error
// is the server's sentence.
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
	response, err := caddycmd.AdminAPIRequest(address, method, uri, http.Header{}, sent)
	if err != nil {
		return nil, sentence(err)
	}
	defer response.Body.Close()
	return io.ReadAll(response.Body)
}

// sentence takes the server's own words out of an error of the admin API.
func sentence(err error) error {
	var answer struct {
		Error string `json:"error"`
	}
	_, body, found := strings.Cut(err.Error(), ": {")
	if !found || json.Unmarshal([]byte("{"+body), &answer) != nil || answer.Error == "" {
		return err
	}
	return errors.New(printable(answer.Error))
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

// printable leaves out what would steer a terminal: many strings come from
// payers and providers.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return -1
	}, s)
}
