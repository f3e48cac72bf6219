package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/spf13/cobra"

	"github.com/payoffer/caddy-pay-offer/payoffer/diagnose"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/site"
)

func checkCommand() *cobra.Command {
	cmd := withConfigFlags(&cobra.Command{
		Use:   "check",
		Short: "Checks a configuration, and with --live what is around it",
		Long: `
Checks a configuration and prints what its offers publish.

--live also checks public addresses, proxies in front, chains, facilitators,
price sources, and the webhooks, ledger and clock of the running server. It
moves no money, and uses a proxy of the environment (HTTPS_PROXY).
Exit status of --live: 0 no problems; 1 problems; 2 nothing could be checked.`,
		Example: "  caddy pay-offer check --live --config /etc/caddy/Caddyfile\n  caddy pay-offer check --live --json",
	}, nil)
	setRunWithStatus(cmd, func(fl caddycmd.Flags) (int, error) {
		if fl.Bool("live") {
			return checkLive(fl, cmd.OutOrStdout())
		} else if fl.Bool("json") || fl.String("address") != "" {
			return caddy.ExitCodeFailedStartup, errors.New("--json and --address need --live; write for example 'caddy pay-offer check --live --json'")
		}
		app, raw, err := provisionApp(fl, warnings)
		if err == nil && !reaches(raw, "pay_offer", offer.PathMethods, "path") {
			err = fmt.Errorf("no request for %s reaches pay_offer, because a path matcher around it leaves that path out, such as 'handle_path /shop/*'; "+
				"write pay_offer directly into the site block", offer.PathMethods)
		}
		if err != nil {
			return caddy.ExitCodeFailedStartup, err
		}
		checked := app.Checked()
		for i, o := range app.Offers() {
			printOffer(cmd.OutOrStdout(), o)
			for _, warning := range misplaced(raw, o) {
				fmt.Fprintf(cmd.OutOrStdout(), "  warning: %s\n", warning)
			}
			for _, option := range checked[i].LeftOut {
				fmt.Fprintf(cmd.OutOrStdout(), "  %s is left out, because its address is empty; set its variable, or remove the option\n", option)
			}
		}
		return caddy.ExitCodeSuccess, nil
	})
	cmd.Flags().Bool("live", false, "Also check public addresses, chains, facilitators and the running server")
	cmd.Flags().Bool("json", false, "With --live: print the problems as JSON")
	cmd.Flags().String("address", "", "With --live: the address of the admin API, if not that of the configuration")
	return cmd
}

// plugin is the app of this plugin, as the commands use it.
type plugin interface {
	// Acquire returns the mistakes that 'caddy validate' does not find, such as a gate
	// without an offer.
	Acquire() error
	// Offers returns at least one offer.
	Offers() []*offer.Offer
	// Checked are the offers for 'check --live'.
	Checked() []diagnose.Offer
	// NewLedger returns an unopened handle to the ledger that words name as in the
	// configuration; empty words name the configured ledger.
	NewLedger(words string) (*ledger.Ledger, error)
	caddy.CleanerUpper
}

// Logging during provisioning: none, or only warnings without time and level.
const (
	silence  = `{"default": {"writer": {"output": "discard"}}}`
	warnings = `{"default": {"level": "WARN", "encoder": {"format": "console", "time_key": "", "level_key": "", "name_key": ""}}}`
)

// configuredApp provisions a configuration, as 'caddy validate' does.
func configuredApp(fl caddycmd.Flags) (plugin, error) {
	app, _, err := provisionApp(fl, silence)
	return app, err
}

// provisionApp also returns the configuration as JSON.
func provisionApp(fl caddycmd.Flags, logs string) (app plugin, raw []byte, err error) {
	raw, file, _, err := caddycmd.LoadConfig(fl.String("config"), fl.String("adapter"))
	if err != nil {
		return nil, nil, explainLoad(locate(err, file))
	}
	if file == "" {
		return nil, nil, errors.New("there is no Caddyfile in this folder; name the configuration, such as --config /etc/caddy/Caddyfile")
	}
	var config caddy.Config
	if err := json.Unmarshal(caddy.RemoveMetaFields(raw), &config); err != nil {
		return nil, nil, fmt.Errorf("the configuration is not valid JSON of Caddy: %w; see where with 'caddy adapt'", err)
	}
	config.Logging = new(caddy.Logging)
	if err := json.Unmarshal([]byte(logs), &config.Logging.Logs); err != nil {
		return nil, nil, err
	}
	ctx, err := caddy.ProvisionContext(&config)
	if err != nil {
		return nil, nil, locate(err, file)
	}
	value, err := ctx.App("pay_offer")
	if err != nil {
		return nil, nil, locate(err, file)
	}
	app = value.(plugin)
	if err := app.Acquire(); err != nil {
		return nil, nil, errors.Join(locate(err, file), app.Cleanup())
	}
	if len(app.Offers()) == 0 {
		return nil, nil, fmt.Errorf("%s has no pay_offer directive; add one, or name another file with --config", file)
	}
	return app, raw, nil
}

// explainLoad adds to Caddy's error of a configuration file what to do.
func explainLoad(err error) error {
	if problem, unread := strings.CutPrefix(err.Error(), "reading config from file: "); unread {
		return errors.New(problem + "; name a file that this user can read, such as --config /etc/caddy/Caddyfile")
	}
	return errors.New(strings.Replace(err.Error(), "did you mean to use a config adapter (the --adapter flag)?", "if it is a Caddyfile, add --adapter caddyfile", 1))
}

// misplaced says which addresses of an offer do not reach their handlers, by the hosts and paths of a configuration.
func misplaced(config []byte, o *offer.Offer) (warnings []string) {
	const proxy = ", unless a proxy in front sends another Host"
	if !reaches(config, "pay_offer", o.URL(offer.PathMethods), "path", "host") {
		warnings = append(warnings, "no site block with pay_offer answers for "+offer.Host(o.BaseURL)+
			", the host of base_url; write it as the address of the site block"+proxy)
	}
	for _, g := range o.Gates {
		if !reaches(config, "pay_offer_gate", g.Start, "path", "host") {
			warnings = append(warnings, "no pay_offer_gate covers "+g.Start+", where its payers arrive; "+
				"write the whole address at its option start, such as start https://example.org/members/, and a matcher that covers it"+proxy)
		}
	}
	return warnings
}

// reaches reports whether a request for an address reaches a handler of a configuration, as far as the matchers of these
// names decide: path, host.
func reaches(config []byte, handler, address string, names ...string) bool {
	var all any
	_ = json.Unmarshal(config, &all) // it was provisioned
	ctx := context.WithValue(context.Background(), caddy.ReplacerCtxKey, caddy.NewReplacer())
	request, _ := http.NewRequestWithContext(ctx, http.MethodGet, address, nil) // of a valid offer
	return leads(request, handler, all, names)
}

// leads reports whether a request reaches a handler in a part of a configuration.
func leads(request *http.Request, handler string, part any, names []string) bool {
	switch part := part.(type) {
	case []any:
		return slices.ContainsFunc(part, func(inner any) bool { return leads(request, handler, inner, names) })
	case map[string]any:
		sets, _ := part["match"].([]any)
		if len(sets) > 0 && !slices.ContainsFunc(sets, func(set any) bool { return matches(request, set, names) }) {
			return false
		}
		return part["handler"] == handler || leads(request, handler, slices.Collect(maps.Values(part)), names)
	}
	return false
}

// matches reports whether no matcher with one of the names keeps a request from a matcher set.
func matches(request *http.Request, set any, names []string) bool {
	matchers, _ := set.(map[string]any)
	for _, name := range names {
		words, isList := matchers[name].([]any)
		if !isList {
			continue
		}
		var list []string
		for _, word := range words {
			list = append(list, fmt.Sprint(word))
		}
		path, host := caddyhttp.MatchPath(list), caddyhttp.MatchHost(list)
		_, _ = path.Provision(caddy.Context{}), host.Provision(caddy.Context{}) // to lower case, and sorted
		if name == "path" && !path.Match(request) || name == "host" && !host.Match(request) {
			return false
		}
	}
	return true
}

// printClock prints how far the clock is wrong, and nothing if it is right.
func printClock(w io.Writer, ahead int64) {
	if ahead == 0 {
		return
	}
	fmt.Fprintf(w, "the clock of this machine is off by %+d s: payments cannot be judged by their time; set it and keep it right by NTP\n", ahead)
}

func printOffer(w io.Writer, o *offer.Offer) {
	fmt.Fprintf(w, "%s: %s USD for %s\n  %s\n  %s\n", o.Name, o.Amount, o.Operator, o.URL(offer.PathMethods), o.SitePage())
	for _, m := range o.Methods(offer.Live{}) {
		link := m.Link()
		switch {
		case m.InvoiceURL != "":
			link = m.PayTo + " ('check --live' says whether the wallet reports payments)"
		case !m.Available:
			link = "(its amount follows the rate while the server runs)"
		}
		fmt.Fprintf(w, "  %-12s %-10s %s\n", m.Rail, m.Scheme, link)
		printBank(w, m)
	}
	b := o.Bitcoin()
	switch {
	case b == nil:
	case b.Extended():
		fmt.Fprintf(w, "  the first addresses of the extended key are %s; compare them with the first two receiving addresses in its wallet: if they differ, the wallet will not show the payments\n",
			strings.Join(b.FirstAddresses(), " and "))
	default:
		address, _ := b.Address(0) // a single address has no error
		fmt.Fprintf(w, "  bitcoin goes to %s\n", address)
	}
}

// printBank prints the account, amount and reference of a bank transfer; nothing for other
// methods or if payers request the account by e-mail.
func printBank(w io.Writer, m offer.Method) {
	if m.Bank == nil {
		return
	}
	amount := m.AmountUSD.String() + " USD, no amount in euros,"
	if m.Bank.AmountEUR > 0 {
		amount = m.Bank.AmountEUR.Decimal() + " EUR"
	}
	fmt.Fprintf(w, "  bank transfers go to %s; payers see %s and the reference %q\n", m.Bank, amount, m.Memo)
}

func siteCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "site <dir>",
		Short:   "Writes the payment page into a folder, for another web server",
		Example: "  caddy pay-offer site /srv/www/offer",
		Args:    checkArguments,
		RunE: func(_ *cobra.Command, args []string) error {
			return site.Write(args[0])
		},
	}
}
