package command

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	"github.com/payoffer/caddy-pay-offer/payoffer/desk"
	"github.com/payoffer/caddy-pay-offer/payoffer/inspect"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// exitUnseen is the exit status of a check that could not look.
const exitUnseen = 2

// askPatience bounds how long the admin API may take.
const askPatience = 15 * time.Second

// checkLive looks at the world around the offers. The exit status is 0 where nothing is
// found, 1 where something is, and 2 where nothing could be looked at.
func checkLive(fl caddycmd.Flags, out io.Writer) (int, error) {
	app, config, err := configuredApp(fl)
	if err != nil {
		return exitUnseen, err
	}
	resolve, err := resolver(fl.String("dns"))
	if err != nil {
		return exitUnseen, err
	}
	token := make([]byte, 16)
	_, _ = rand.Read(token) // never fails
	offers := app.Inspected()
	found := findSites(config)
	for n, o := range offers {
		offers[n].Sites = found[o.Offer.BaseURL]
	}
	report := inspect.Run(context.Background(), inspect.World{
		Transport: source.NewTransport(), Resolve: resolve, ClockAhead: app.ClockOffset, Token: hex.EncodeToString(token), Now: time.Now,
		Ask: func(ctx context.Context, s desk.Sounding) ([]desk.Inspection, error) {
			return askInspection(ctx, fl, s)
		},
	}, offers)
	if fl.Bool("json") {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		err = encoder.Encode(report)
	} else {
		err = printFindings(out, report)
	}
	switch n := len(report.Findings); {
	case err != nil:
		return exitUnseen, err
	case n > 0:
		return caddy.ExitCodeFailedStartup, fmt.Errorf("there is something to mend: %s", count(n, "finding"))
	}
	return caddy.ExitCodeSuccess, nil
}

// askInspection asks the running server, which may hang.
func askInspection(ctx context.Context, fl caddycmd.Flags, s desk.Sounding) ([]desk.Inspection, error) {
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	type answer struct {
		Offers []desk.Inspection `json:"offers"`
		err    error
	}
	answered := make(chan answer, 1)
	go func() {
		a, err := ask[answer](fl, http.MethodPost, desk.PathInspection, s)
		a.err = err
		answered <- a
	}()
	select {
	case a := <-answered:
		return a.Offers, a.err
	case <-ctx.Done():
		return nil, errors.New("the admin API does not answer in time")
	}
}

// printFindings prints a report for people.
func printFindings(out io.Writer, report inspect.Report) error {
	for _, o := range report.Offers {
		if o.Answers == 0 {
			fmt.Fprintf(out, "%s: its addresses were not asked for\n", printable(o.BaseURL))
			continue
		}
		fmt.Fprintf(out, "%s: %s, the largest of %d KB, the slowest after %d ms\n",
			printable(o.BaseURL), count(o.Answers, "answer"), (o.LargestBytes+1023)>>10, o.SlowestMillis)
	}
	for _, f := range report.Findings {
		of := ""
		if f.Offer != "" {
			of = " (" + printable(f.Offer) + ")"
		}
		fmt.Fprintf(out, "%s%s: %s\n  mend: %s\n", f.Code, of, printable(f.What), f.Mend)
	}
	if len(report.Findings) == 0 {
		fmt.Fprintln(out, "nothing to mend")
	}
	return nil
}

// count is a number of things in words.
func count(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// handler is what is read of a handler of Caddy's: a subroute, a rewrite, or the
// directive.
type handler struct {
	Name    string  `json:"handler"`
	Routes  []route `json:"routes"`
	Strip   string  `json:"strip_path_prefix"`
	BaseURL string  `json:"base_url"`
}

type route struct {
	Match []struct {
		Host []string `json:"host"`
	} `json:"match"`
	Handle []handler `json:"handle"`
}

// findSites finds where the directive stands in a configuration, by base_url.
func findSites(config []byte) map[string][]inspect.Site {
	var read struct {
		Apps struct {
			HTTP struct {
				Servers map[string]struct {
					Listen []string `json:"listen"`
					Routes []route  `json:"routes"`
				} `json:"servers"`
			} `json:"http"`
		} `json:"apps"`
	}
	found := make(map[string][]inspect.Site)
	if json.Unmarshal(config, &read) != nil {
		return found // it was provisioned, so that this is another form of it
	}
	for _, server := range read.Apps.HTTP.Servers {
		at := inspect.Site{}
		for _, address := range server.Listen {
			if parsed, err := caddy.ParseNetworkAddress(address); err == nil {
				at.Listen = append(at.Listen, parsed.JoinHostPort(0))
			}
		}
		walk(server.Routes, at, found)
	}
	return found
}

// walk follows routes, one after the other: what is taken away from the path stays away
// for those that follow.
func walk(routes []route, at inspect.Site, found map[string][]inspect.Site) {
	for _, r := range routes {
		here := at
		for _, match := range r.Match {
			if len(match.Host) > 0 {
				here.Hosts = match.Host
			}
		}
		for _, h := range r.Handle {
			switch h.Name {
			case "rewrite":
				here.Prefix = cmp.Or(h.Strip, here.Prefix)
				if len(r.Match) == 0 {
					at.Prefix = here.Prefix
				}
			case "subroute":
				walk(h.Routes, here, found)
			case "pay_offer":
				base, err := offer.ParseOrigin(caddy.NewReplacer().ReplaceKnown(h.BaseURL, ""))
				if err == nil {
					found[base] = append(found[base], here)
				}
			}
		}
	}
}
