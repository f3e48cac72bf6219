package payoffer

import (
	"errors"
	"io"
	"maps"
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/payoffer/caddy-pay-offer/payoffer/gate"
	"github.com/payoffer/caddy-pay-offer/payoffer/web"
)

// routeGroup is the context key of the groups of routes that already matched (caddyhttp).
const routeGroup caddy.CtxKey = "route_group"

// serve answers a gated request.
func (g *Gate) serve(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	_, uri := original(r)
	err := g.gate.Serve(w, r, web.Visit{
		URI:    uri,
		Status: func() int { return g.probe(r, next) },
		Next: func(w http.ResponseWriter, r *http.Request, granted *gate.Grant) error {
			g.setPlaceholders(r, granted)
			if granted != nil {
				w = &paidWriter{ResponseWriterWrapper: caddyhttp.ResponseWriterWrapper{ResponseWriter: w}}
			}
			return next.ServeHTTP(w, r)
		},
	})
	if status, ok := errors.AsType[web.Status](err); ok {
		return caddyhttp.Error(int(status), nil)
	}
	return err
}

// setPlaceholders says who paid. All placeholders are always set: an unknown one would
// reach the upstream as text.
func (g *Gate) setPlaceholders(r *http.Request, granted *gate.Grant) {
	if granted == nil {
		granted = new(gate.Grant)
	}
	r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer).Map(func(key string) (any, bool) {
		switch key {
		case "http.pay_offer.payment":
			return granted.Payment, true
		case "http.pay_offer.rail":
			return granted.Rail, true
		case "http.pay_offer.payer":
			return granted.Payer, true
		case "http.pay_offer.expires":
			return granted.ExpiresAt(g.gate.Access), true
		}
		return nil, false
	})
}

// probe returns the status of a HEAD request to the handlers behind the gate. It runs on a
// copy of the request with a context of its own, because Caddy keeps there which routes
// matched.
func (g *Gate) probe(r *http.Request, next caddyhttp.Handler) int {
	server, _ := r.Context().Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	before, _ := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	head := r.Clone(r.Context())
	if original, ok := r.Context().Value(caddyhttp.OriginalRequestCtxKey).(http.Request); ok {
		head.URL, head.RequestURI = original.URL, original.RequestURI // for the placeholders of the original request
	}
	head.Method, head.Body, head.ContentLength, head.TransferEncoding = http.MethodHead, http.NoBody, 0, nil
	head.Header.Del("Content-Length")
	w, repl := &statusWriter{header: make(http.Header)}, caddy.NewReplacer()
	head = caddyhttp.PrepareRequest(head, repl, w, server)
	rewritten := *r.URL
	head.URL, head.RequestURI = &rewritten, r.RequestURI
	g.setPlaceholders(head, nil)
	repl.Map(before.Get)
	copyValues[any](head, r, caddyhttp.VarsCtxKey)
	copyValues[struct{}](head, r, routeGroup)
	if err := next.ServeHTTP(w, head); err != nil && w.status == 0 {
		if failed, ok := errors.AsType[caddyhttp.HandlerError](err); ok {
			return failed.StatusCode
		}
		return http.StatusInternalServerError
	}
	return w.status
}

// copyValues copies a map in the context of a request to another one.
func copyValues[V any](to, from *http.Request, key caddy.CtxKey) {
	target, _ := to.Context().Value(key).(map[string]V)
	source, _ := from.Context().Value(key).(map[string]V)
	maps.Copy(target, source)
}

// statusWriter keeps the status of a response.
type statusWriter struct {
	header http.Header
	status int
}

func (w *statusWriter) Header() http.Header { return w.header }

func (w *statusWriter) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return len(p), nil
}

func (w *statusWriter) WriteHeader(status int) {
	if w.status == 0 && status >= http.StatusOK {
		w.status = status
	}
}

// paidWriter keeps a response with paid content out of shared caches.
type paidWriter struct {
	caddyhttp.ResponseWriterWrapper
	wrote bool
}

func (w *paidWriter) WriteHeader(status int) {
	if !w.wrote && status >= http.StatusOK {
		w.wrote = true
		gate.Private(w.Header())
	}
	w.ResponseWriterWrapper.WriteHeader(status)
}

func (w *paidWriter) Write(p []byte) (int, error) {
	w.begin()
	return w.ResponseWriterWrapper.Write(p)
}

// ReadFrom implements io.ReaderFrom, so that files are sent without a copy.
func (w *paidWriter) ReadFrom(r io.Reader) (int64, error) {
	w.begin()
	return w.ResponseWriterWrapper.ReadFrom(r)
}

// FlushError implements the flusher of http.ResponseController.
func (w *paidWriter) FlushError() error {
	w.begin()
	return http.NewResponseController(w.ResponseWriter).Flush()
}

func (w *paidWriter) begin() {
	if !w.wrote {
		w.WriteHeader(http.StatusOK)
	}
}
