package payoffer

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/operator"
)

// movementsTimeout is how long a client may pause: the ledger keeps a snapshot until the movements are read.
const movementsTimeout = 30 * time.Second

// exports bounds the exports at once, because a client that pauses keeps one of the four connections
// by which the ledger is read for payments too.
var exports = make(chan struct{}, 2)

// movements returns all movements of an offer, one JSON object a line, and their sums in the last line. The query
// parameter is offer.
func (*AdminAPI) movements(w http.ResponseWriter, r *http.Request) error {
	d, err := findOperator(r.URL.Query().Get("offer"))
	if err != nil {
		return err
	}
	select {
	case exports <- struct{}{}:
		defer func() { <-exports }()
	case <-r.Context().Done():
		return nil
	}
	buffer := bufio.NewWriterSize(patientWriter{w, http.NewResponseController(w)}, 64<<10)
	encoder, begun := json.NewEncoder(buffer), false
	err = d.Movements(r.Context(), func(line operator.MovementLine) error {
		if !begun {
			begun = true
			w.Header().Set("Content-Type", "application/x-ndjson")
		}
		return encoder.Encode(line)
	})
	if err != nil && !begun {
		return answerJSON(w, nil, err)
	}
	_ = buffer.Flush() // a client that leaves misses the end
	return nil
}

// patientWriter has a deadline for each write.
type patientWriter struct {
	io.Writer
	control *http.ResponseController
}

// Write implements io.Writer.
func (pw patientWriter) Write(p []byte) (int, error) {
	_ = pw.control.SetWriteDeadline(time.Now().Add(movementsTimeout)) // without a deadline if there can be none
	defer func() { _ = pw.control.SetWriteDeadline(time.Time{}) }()
	return pw.Writer.Write(p)
}

// feed returns the changes after a cursor, and waits for one. The query parameters are offer and after.
func (*AdminAPI) feed(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	for name := range query {
		if name != "offer" && name != "after" {
			return refusal(http.StatusBadRequest, "there is no parameter %.40q; use offer and after", name)
		}
	}
	d, err := findOperator(query.Get("offer"))
	if err != nil {
		return err
	}
	// Caddy stops reading a request after ten seconds, which would end this one.
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	if app := activeApp(); app != nil {
		defer context.AfterFunc(app.ctx, cancel)() // a waiting request must not delay a reload
	}
	feed, err := d.Feed(ctx, query.Get("after"))
	return answerJSON(w, feed, err)
}
