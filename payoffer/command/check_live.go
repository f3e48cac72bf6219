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

// exitUnchecked is the exit status of a check that could check nothing.
const exitUnchecked = 2

// askTimeout bounds how long the admin API may take.
const askTimeout = 15 * time.Second

// checkLive checks what surrounds the server. The exit status is 0 without problems, 1 with
// problems, and 2 if nothing could be checked.
func checkLive(fl caddycmd.Flags, out io.Writer) (int, error) {
	app, err := configuredApp(fl)
	if err != nil {
		return exitUnchecked, err
	}
	report := diagnose.Run(context.Background(), diagnose.World{
		Transport: source.NewTransport(), Now: time.Now,
		Ask: func(ctx context.Context) ([]operator.Diagnostics, error) { return askDiagnostics(ctx, fl) },
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

// askDiagnostics asks the running server, which may hang.
func askDiagnostics(ctx context.Context, fl caddycmd.Flags) ([]operator.Diagnostics, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	type reply struct {
		Offers []operator.Diagnostics `json:"offers"`
		err    error
	}
	replies := make(chan reply, 1)
	go func() {
		r, err := ask[reply](fl, http.MethodGet, operator.PathDiagnostics, nil)
		r.err = err
		replies <- r
	}()
	select {
	case r := <-replies:
		return r.Offers, r.err
	case <-ctx.Done():
		return nil, errors.New("the admin API does not answer in time")
	}
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
