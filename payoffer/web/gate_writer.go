package web

import (
	"bufio"
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/payoffer/caddy-pay-offer/payoffer/gate"
)

// paidWriter keeps a response with paid content out of shared caches. With a debit it holds the response back until its
// first byte: until then the handlers have a header map of their own.
type paidWriter struct {
	http.ResponseWriter
	debit   *debit // nil if nothing is to be charged (any more)
	started bool
}

// errRefused is the error of a write after the charge was refused.
var errRefused = errors.New("the payment for this response was not charged, so it is not sent")

// pay charges the payment for a response with a status. It reports whether the response may be sent.
func (w *paidWriter) pay(status int) bool {
	if w.debit != nil && w.debit.settle(status) {
		w.debit = nil
	}
	return w.debit == nil
}

// Header implements http.ResponseWriter.
func (w *paidWriter) Header() http.Header {
	if w.debit != nil {
		return w.debit.header
	}
	return w.ResponseWriter.Header()
}

// WriteHeader implements http.ResponseWriter. Before the charge it drops 1xx responses, which can have links to the content.
func (w *paidWriter) WriteHeader(status int) {
	if status < http.StatusOK {
		if w.debit == nil {
			w.ResponseWriter.WriteHeader(status)
		}
		return
	}
	if !w.pay(status) {
		return
	}
	if !w.started {
		w.started = true
		gate.Private(w.Header())
	}
	w.ResponseWriter.WriteHeader(status)
}

// begin starts the response. Error: errRefused.
func (w *paidWriter) begin() error {
	if !w.started {
		w.WriteHeader(http.StatusOK)
	}
	if w.debit != nil {
		return errRefused
	}
	return nil
}

func (w *paidWriter) Write(p []byte) (int, error) {
	if err := w.begin(); err != nil {
		return 0, err
	}
	return w.ResponseWriter.Write(p)
}

// ReadFrom implements io.ReaderFrom, so that files are sent without a copy.
func (w *paidWriter) ReadFrom(r io.Reader) (int64, error) {
	if err := w.begin(); err != nil {
		return 0, err
	}
	return io.Copy(w.ResponseWriter, r)
}

// FlushError implements the flusher of http.ResponseController.
func (w *paidWriter) FlushError() error {
	if err := w.begin(); err != nil {
		return err
	}
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Hijack implements http.Hijacker, because Unwrap would bypass the charge.
func (w *paidWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if w.debit != nil {
		return nil, nil, errRefused
	}
	return http.NewResponseController(w.ResponseWriter).Hijack()
}

// Unwrap is for http.ResponseController, whose other methods send nothing.
func (w *paidWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// debit is the charge that a response waits for.
type debit struct {
	header  http.Header // of the handlers behind the gate
	outer   http.ResponseWriter
	request *http.Request
	path    string // of the request, before rewrites
	// charge returns the headers of a paid response, or the refusal.
	charge func() ([]header, *response)
	cancel context.CancelFunc // of the handlers behind the gate
	// ended: the content is not sent; refused is what was sent instead, or nil if the client had left.
	ended   bool
	refused *response
}

// settle charges for a response with a status, unless it is no success. It reports whether the response may be sent.
func (d *debit) settle(status int) bool {
	var paid []header
	switch {
	case d.ended:
		return false
	case !d.succeeds(status):
	case d.request.Context().Err() != nil: // the client has left
		d.ended = true
	default:
		paid, d.refused = d.charge()
		d.ended = d.refused != nil
	}
	if d.ended {
		if d.refused != nil {
			d.refused.ServeHTTP(d.outer, d.request)
		}
		d.cancel()
		return false
	}
	h := d.outer.Header()
	clear(h)
	maps.Copy(h, d.header)
	confirm(h, paid)
	return true
}

// confirm adds the headers of a paid response.
func confirm(h http.Header, headers []header) {
	for _, each := range headers {
		if each.name == "Set-Cookie" {
			h[each.name] = append(h[each.name], each.value)
		} else if each.name != "" {
			h[each.name] = []string{each.value}
		}
	}
}

// succeeds reports whether a response is worth its price: 2xx and 3xx, but not the redirect of a GET to its own path with
// or without a slash at the end.
func (d *debit) succeeds(status int) bool {
	if status < http.StatusOK || status >= http.StatusBadRequest {
		return false
	}
	location := d.header.Get("Location")
	if d.request.Method != http.MethodGet || location == "" || status < http.StatusMultipleChoices {
		return true
	}
	here := &url.URL{Scheme: "https", Host: d.request.Host, Path: d.path}
	to, err := here.Parse(location)
	return err != nil || to.Hostname() != here.Hostname() || strings.TrimSuffix(to.Path, "/") != strings.TrimSuffix(here.Path, "/")
}
