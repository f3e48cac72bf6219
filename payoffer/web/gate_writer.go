package web

import (
	"bufio"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"

	"github.com/payoffer/caddy-pay-offer/payoffer/gate"
)

// paidWriter keeps a response with paid content out of shared caches. It can hold a response back until its first byte.
type paidWriter struct {
	http.ResponseWriter
	// header is that of the handlers while the response is held back, and nil otherwise.
	header http.Header
	// settle charges for a held response with a status, and reports whether it may be sent.
	settle  func(status int) bool
	started bool
}

// errRefused is the error of a write after the charge was refused.
var errRefused = errors.New("the payment for this response was not charged, so it is not sent")

// pay charges for a held response. It reports whether the response may be sent.
func (w *paidWriter) pay(status int) bool {
	if w.header != nil && w.settle(status) {
		h := w.ResponseWriter.Header()
		clear(h)
		maps.Copy(h, w.header)
		w.header = nil
	}
	return w.header == nil
}

// Header implements http.ResponseWriter.
func (w *paidWriter) Header() http.Header {
	if w.header != nil {
		return w.header
	}
	return w.ResponseWriter.Header()
}

// WriteHeader implements http.ResponseWriter. Before the charge it drops 1xx responses, which can have links to the content.
func (w *paidWriter) WriteHeader(status int) {
	if status < http.StatusOK {
		if w.header == nil {
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
	if w.header != nil {
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
	if w.header != nil {
		return nil, nil, errRefused
	}
	return http.NewResponseController(w.ResponseWriter).Hijack()
}

// Unwrap is for http.ResponseController, whose other methods send nothing.
func (w *paidWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
