package payoffertest

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// eventsKept is how long the processor lists an event.
const eventsKept = 30 * 24 * time.Hour

// RoundTrip implements http.RoundTripper: it answers as the API.
func (p *Processor) RoundTrip(r *http.Request) (*http.Response, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	p.calls = append(p.calls, r.URL.Path+"?"+r.URL.RawQuery)
	if p.reply.Unreachable {
		return nil, errors.New("connection refused")
	}
	status, body := p.answer(r)
	header := http.Header{
		"Content-Type": {"application/json"},
		"Date":         {p.now().UTC().Format(http.TimeFormat)},
	}
	if p.reply.Status != 0 {
		status = p.reply.Status
	}
	if p.reply.Location != "" {
		header.Set("Location", p.reply.Location)
	}
	if p.reply.Body != "" {
		body = []byte(p.reply.Body)
	}
	return &http.Response{
		StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: header, Request: r,
		Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
	}, nil
}

func (p *Processor) answer(r *http.Request) (status int, body []byte) {
	if r.Header.Get("Authorization") != "Bearer "+p.key {
		return http.StatusUnauthorized, apiError("Invalid API Key provided")
	}
	if p.refused != "" && strings.HasPrefix(r.URL.Path, p.refused) {
		return http.StatusForbidden, apiError("The provided key does not have the required permissions")
	}
	query := r.URL.Query()
	intent, isIntent := strings.CutPrefix(r.URL.Path, "/v1/payment_intents/")
	switch {
	case isIntent:
		return http.StatusOK, p.intent(intent, slices.Contains(query["expand[]"], "latest_charge"))
	case r.URL.Path == "/v1/events":
		return list(p.events, query, func(o processorObject) bool {
			return slices.Contains(query["types[]"], o["type"].(string)) &&
				o["created"].(int64) > p.now().Add(-eventsKept).Unix()
		})
	case r.URL.Path == "/v1/checkout/sessions":
		return list(p.sessions, query, func(o processorObject) bool {
			return o["payment_link"] == query.Get("payment_link") && o["status"] == query.Get("status")
		})
	case strings.HasPrefix(r.URL.Path, "/v1/payment_links/"):
		return http.StatusOK, p.items(slices.Contains(query["expand[]"], "data.price.currency_options"))
	case r.URL.Path == "/v1/refunds":
		return list(p.refunds, query, func(o processorObject) bool { return o["payment_intent"] == query.Get("payment_intent") })
	case r.URL.Path == "/v1/disputes":
		return list(p.disputes, query, func(o processorObject) bool { return o["payment_intent"] == query.Get("payment_intent") })
	default:
		return http.StatusNotFound, apiError("Unrecognized request URL")
	}
}

// intent is a payment intent in the states that a completed checkout leaves it
// in.
func (p *Processor) intent(id string, expand bool) []byte {
	session, status, charge := find(p.sessions, "payment_intent", id), "processing", any(p.charges[id]["id"])
	switch {
	case session["payment_status"] == "paid":
		status = "succeeded"
	case p.failed[id]:
		status = "requires_payment_method"
	case p.charges[id]["captured"] == false:
		status = "requires_capture"
	}
	if expand {
		charge = p.charge(id)
	}
	return encodeObject(processorObject{"id": id, "object": "payment_intent", "status": status, "latest_charge": charge})
}

// items are those of a payment link. The other currencies of a price are
// listed only on request.
func (p *Processor) items(expand bool) []byte {
	data := []processorObject{}
	for _, price := range p.prices {
		if price = maps.Clone(price); !expand {
			delete(price, "currency_options")
		}
		data = append(data, processorObject{"id": "li_1", "object": "item", "price": price})
	}
	return encodeObject(processorObject{"object": "list", "data": data, "has_more": false})
}

// list is one page of objects, newest first.
func list(objects []processorObject, query url.Values, matches func(processorObject) bool) (status int, body []byte) {
	limit, err := strconv.Atoi(query.Get("limit"))
	if err != nil || limit < 1 || limit > 100 {
		return http.StatusBadRequest, apiError("Invalid limit")
	}
	page, after, more := []processorObject{}, query.Get("starting_after"), false
	for _, object := range slices.Backward(objects) {
		switch {
		case !matches(object) || !within(query, object["created"].(int64)):
		case after != "":
			if object["id"] == after {
				after = ""
			}
		case len(page) == limit:
			more = true
		default:
			page = append(page, object)
		}
	}
	return http.StatusOK, encodeObject(processorObject{"object": "list", "data": page, "has_more": more, "url": "/v1/list"})
}

// within reports whether a time is in the range of created[gte] and
// created[lt].
func within(query url.Values, created int64) bool {
	from, err := strconv.ParseInt(query.Get("created[gte]"), 10, 64)
	if err == nil && created < from {
		return false
	}
	until, err := strconv.ParseInt(query.Get("created[lt]"), 10, 64)
	return err != nil || created < until
}

func apiError(message string) []byte {
	return encodeObject(processorObject{"error": processorObject{"type": "invalid_request_error", "message": message}})
}

var _ http.RoundTripper = (*Processor)(nil)
