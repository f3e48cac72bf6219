package web

import (
	"net/http"
	"time"
)

// bodyTimeout is how long the body of a request may take to arrive. It is small,
// or nobody reads it.
const bodyTimeout = 10 * time.Second

// arrive bounds the time that a request's body may take, whether somebody reads
// it or net/http before the answer; a read ends with os.ErrDeadlineExceeded then.
// net/http lifts the bound once the body has arrived, so that it cuts off no
// settlement. A server without deadlines has limits of its own. What follows a
// length of 0, as HTTP/2 could have it, is not read.
func arrive(w http.ResponseWriter, r *http.Request, within time.Duration) {
	if r.ContentLength == 0 {
		r.Body = http.NoBody
		return
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(within))
}
