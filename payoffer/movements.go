package payoffer

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/operator"
)

// movementsPatience is how long a reader of movements may take no more of them: the
// ledger is held as it stood until they are read.
const movementsPatience = 30 * time.Second

// movements answers with all movements of an offer, one JSON object a line, and with
// their end as the last. The query parameter is offer.
func (*AdminAPI) movements(w http.ResponseWriter, r *http.Request) error {
	d, err := findOperator(r.URL.Query().Get("offer"))
	if err != nil {
		return err
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
	_ = buffer.Flush() // who does not read to the end misses the end
	return nil
}

// patientWriter bounds each write.
type patientWriter struct {
	io.Writer
	control *http.ResponseController
}

// Write implements io.Writer.
func (w patientWriter) Write(p []byte) (int, error) {
	_ = w.control.SetWriteDeadline(time.Now().Add(movementsPatience)) // if it cannot be bounded, it is not
	defer func() { _ = w.control.SetWriteDeadline(time.Time{}) }()
	return w.Writer.Write(p)
}
