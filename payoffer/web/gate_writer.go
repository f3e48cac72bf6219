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
func (pw *paidWriter) pay(status int) bool {
	if pw.header != nil && pw.settle(status) {
		h := pw.ResponseWriter.Header()
		clear(h)
		maps.Copy(h, pw.header)
		pw.header = nil
	}
	return pw.header == nil
}

// Header implements http.ResponseWriter.
func (pw *paidWriter) Header() http.Header {
	if pw.header != nil {
		return pw.header
	}
	return pw.ResponseWriter.Header()
}

// WriteHeader implements http.ResponseWriter. Before the charge it drops 1xx responses, which can have links to the content.
func (pw *paidWriter) WriteHeader(status int) {
	if status < http.StatusOK {
		if pw.header == nil {
			pw.ResponseWriter.WriteHeader(status)
		}
		return
	}
	if !pw.pay(status) {
		return
	}
	if !pw.started {
		pw.started = true
		gate.Private(pw.Header())
	}
	pw.ResponseWriter.WriteHeader(status)
}

// begin starts the response. Error: errRefused.
func (pw *paidWriter) begin() error {
	if !pw.started {
		pw.WriteHeader(http.StatusOK)
	}
	if pw.header != nil {
		return errRefused
	}
	return nil
}

func (pw *paidWriter) Write(p []byte) (int, error) {
	if err := pw.begin(); err != nil {
		return 0, err
	}
	return pw.ResponseWriter.Write(p)
}

// ReadFrom implements io.ReaderFrom, so that files are sent without a copy.
func (pw *paidWriter) ReadFrom(r io.Reader) (int64, error) {
	if err := pw.begin(); err != nil {
		return 0, err
	}
	return io.Copy(pw.ResponseWriter, r)
}

// FlushError implements the flusher of http.ResponseController.
func (pw *paidWriter) FlushError() error {
	if err := pw.begin(); err != nil {
		return err
	}
	return http.NewResponseController(pw.ResponseWriter).Flush()
}

// Hijack implements http.Hijacker, because Unwrap would bypass the charge.
func (pw *paidWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if pw.header != nil {
		return nil, nil, errRefused
	}
	return http.NewResponseController(pw.ResponseWriter).Hijack()
}

// Unwrap is for http.ResponseController, whose other methods send nothing.
func (pw *paidWriter) Unwrap() http.ResponseWriter { return pw.ResponseWriter }
