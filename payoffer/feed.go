package payoffer

import (
	"context"
	"net/http"
	"time"
)

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
