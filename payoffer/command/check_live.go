package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	"github.com/payoffer/caddy-pay-offer/payoffer/diagnose"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
	"github.com/payoffer/caddy-pay-offer/payoffer/operator"
)

// exitUnchecked is the exit status if nothing could be checked.
const exitUnchecked = 2

// askTimeout bounds how long the admin API may take.
const askTimeout = 15 * time.Second

// checkLive runs the diagnostics and returns the exit status.
func checkLive(fl caddycmd.Flags, out io.Writer) (int, error) {
	app, err := configuredApp(fl)
	if err != nil {
		return exitUnchecked, err
	}
	report := diagnose.Run(context.Background(), diagnose.World{
		Transport: source.NewTransport(), Now: time.Now,
		Ask: func(ctx context.Context) ([]operator.Diagnostics, error) { return askDiagnostics(ctx, fl) },
		Pass: func(ctx context.Context, p operator.PassChange) (operator.Pass, error) {
			ctx, cancel := context.WithTimeout(ctx, askTimeout)
			defer cancel()
			return callAdminContext[operator.Pass](ctx, fl, http.MethodPost, operator.PathPasses, p)
		},
	}, app.Checked())
	problems := "1 problem found"
	if n := len(report.Issues); n != 1 {
		problems = fmt.Sprintf("%d problems found", n)
	}
	if fl.Bool("json") {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		err = encoder.Encode(report)
	} else {
		err = printIssues(out, report)
	}
	switch {
	case err != nil:
		return exitUnchecked, err
	case len(report.Issues) > 0:
		return caddy.ExitCodeFailedStartup, errors.New(problems)
	}
	return caddy.ExitCodeSuccess, nil
}

// askDiagnostics requests the running server's report.
func askDiagnostics(ctx context.Context, fl caddycmd.Flags) ([]operator.Diagnostics, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	a, err := callAdminContext[perOffer[operator.Diagnostics]](ctx, fl, http.MethodGet, operator.PathDiagnostics, nil)
	if ctx.Err() != nil {
		err = errors.New("the admin API does not answer within 15 s; read the server's log, and try again")
	}
	return a.Offers, err
}

// printIssues prints a report for people.
func printIssues(out io.Writer, report diagnose.Report) error {
	for _, i := range report.Issues {
		of := ""
		if i.Offer != "" {
			of = " (" + printable(i.Offer) + ")"
		}
		if _, err := fmt.Fprintf(out, "%s%s: %s\n  fix: %s\n", i.Code, of, printable(i.What), i.Fix); err != nil {
			return err
		}
	}
	if len(report.Issues) > 0 {
		return nil
	}
	_, err := fmt.Fprintln(out, "no problems found")
	return err
}
