package command

import (
	"encoding/json"
	"errors"
	"os"
	"regexp"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
)

// tryCaddyfile says what 'caddy validate' has against a Caddyfile. It starts nothing
// and leaves nothing behind.
func tryCaddyfile(text []byte) error {
	adapted, _, err := caddyconfig.GetAdapter("caddyfile").Adapt(text, nil)
	if err != nil {
		return ofDirective(err)
	}
	var config caddy.Config
	if err := json.Unmarshal(adapted, &config); err != nil {
		return err
	}
	// Certificates of this machine would be made in Caddy's own storage.
	folder, err := os.MkdirTemp("", "pay-offer-init-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	config.StorageRaw = caddyconfig.JSONModuleObject(map[string]string{"root": folder}, "module", "file_system", nil)
	// What is warned of is that secrets are not set yet. From here on this is the log of
	// the process, in which Caddy reports why a command failed.
	config.Logging.Logs[caddy.DefaultLoggerName].Level = "ERROR"
	return ofDirective(caddy.Validate(&config))
}

// ofDirective is what the directive says in an error, without where in Caddy and in a
// file that nobody has seen yet.
func ofDirective(err error) error {
	if err == nil {
		return nil
	}
	words := err.Error()
	for _, around := range aroundDirective {
		words = around.ReplaceAllString(words, "")
	}
	return errors.New(words)
}

var aroundDirective = []*regexp.Regexp{
	regexp.MustCompile(`^parsing caddyfile tokens for 'pay_offer': `),
	regexp.MustCompile(`, at Caddyfile:\d+$`),
	regexp.MustCompile(`(?s)^.*http\.handlers\.pay_offer: (invalid configuration: )?`),
}
