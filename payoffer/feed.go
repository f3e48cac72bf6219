package payoffer

import (
	"context"
	"net/http"
	"time"
)

// feed answers with what has changed since a cursor, and waits a while where nothing
// has. The query parameters are offer and after.
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
	// Caddy gives up reading a request after ten seconds, which would end this one.
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	if app := activeApp(); app != nil {
		defer context.AfterFunc(app.ctx, cancel)() // whoever waits holds up no reload and no end
	}
	feed, err := d.Feed(ctx, query.Get("after"))
	return answerJSON(w, feed, err)
}
