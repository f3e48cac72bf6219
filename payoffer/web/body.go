package web

import (
	"net/http"
	"time"
)

// bodyTimeout is the default time that the body of a request may take to arrive.
const bodyTimeout = 10 * time.Second

// limitBodyTime limits the time in which the body of a request must arrive. A later read
// ends with os.ErrDeadlineExceeded. net/http lifts the limit once the body has arrived, so
// that it does not interrupt a settlement.
func limitBodyTime(w http.ResponseWriter, r *http.Request, within time.Duration) {
	if r.ContentLength == 0 {
		r.Body = http.NoBody // HTTP/2 could send one anyway
		return
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(within)) // some servers have no deadlines
}
