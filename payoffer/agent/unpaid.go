package agent

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"slices"
	"sync"

	"github.com/payoffer/caddy-pay-offer/payoffer/document"
)

// Most calls come without payment, and agents send the same one again and again. The
// SDK answers each kind of them once; what it wrote is kept, around the id of the call
// and the challenges, which are new in each answer.

const (
	// maxKinds bounds the kinds of calls whose answer is kept: one for each protocol
	// version, and for each client that describes itself in every call.
	maxKinds = 12
	// maxDescription is how many bytes of _meta a client may describe itself by.
	maxDescription = 2 << 10
)

// callKind is all that the answer to a call without payment follows from, beside the quote.
type callKind struct {
	version, method, name string // headers
	meta                  string // the _meta of its params
	challenged            bool
}

// unpaidAnswers are the answers to kinds of calls by one quote.
type unpaidAnswers struct {
	mu      sync.RWMutex
	answers map[callKind]*answer
	order   []callKind
}

// answer is what the SDK wrote: before the id of the call, between that and the
// challenges, and after them.
type answer struct{ before, between, after []byte }

// quoteTo answers a call without payment as the SDK answered another one of its kind.
// It returns false, and has written nothing, for every other call.
func (e *Endpoint) quoteTo(w http.ResponseWriter, r *http.Request, c call) bool {
	of, ok := kindOf(r.Header, c)
	if !ok {
		return false
	}
	var challenges []byte
	if required := e.Challenges.Required(nil); required != nil {
		of.challenged, challenges = true, encode(required)
	}
	found := e.quote().unpaid.find(of)
	if found == nil {
		if found = e.record(r, c, of); found == nil {
			return false
		}
	}
	body := buffers.Get().(*bytes.Buffer)
	defer buffers.Put(body)
	body.Reset()
	for _, part := range [...][]byte{found.before, c.id, found.between, challenges, found.after} {
		body.Write(part)
	}
	writeBody(w, http.StatusOK, typeJSON, body.Bytes())
	return true
}

// buffers are for whole answers, which are written at once.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// kindOf is the kind of a call of the tool; false for a call of which the SDK may
// have more to say.
func kindOf(h http.Header, c call) (of callKind, ok bool) {
	if c.method != "tools/call" || c.meta != nil || string(c.id) == "null" {
		return of, false
	}
	for name, values := range h {
		var to *string
		switch {
		case name == "Mcp-Protocol-Version":
			to = &of.version
		case name == "Mcp-Method":
			to = &of.method
		case name == "Mcp-Name":
			to = &of.name
		case name == "Last-Event-Id" || len(name) > 4 && name[:4] == "Mcp-":
			return of, false
		default:
			continue
		}
		if len(values) != 1 || len(values[0]) > len(document.ToolName) {
			return of, false
		}
		*to = values[0]
	}
	called := false
	ok = members(c.params, func(name string, value json.RawMessage) {
		switch name {
		case "name":
			called = string(value) == `"`+document.ToolName+`"`
		case "_meta":
			of.meta = string(value)
		case "arguments": // which nobody looks at
		default:
			called = false
		}
	})
	return of, ok && called && len(of.meta) <= maxDescription
}

// find is the answer kept for a kind of calls; nil where there is none.
func (u *unpaidAnswers) find(of callKind) *answer {
	u.mu.RLock()
	defer u.mu.RUnlock()
	return u.answers[of]
}

// add keeps an answer, for the one that was kept first where there are too many.
func (u *unpaidAnswers) add(of callKind, a *answer) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.answers[of] != nil {
		return
	}
	if u.answers == nil {
		u.answers = make(map[callKind]*answer)
	}
	if len(u.order) == maxKinds {
		delete(u.answers, u.order[0])
		u.order = slices.Delete(u.order, 0, 1)
	}
	u.answers[of], u.order = a, append(u.order, of)
}

// recording is a call that stands for all of its kind. The SDK is given marks in place
// of what differs.
type recording struct {
	id, challenges string
	// of is the quote that the tool answered by; nil where it was not asked.
	of         *quote
	challenged bool
}

// recordingKey is its key in the context that the SDK hands to the tool.
type recordingKey struct{}

// record has the SDK answer a kind of calls, and keeps the answer; nil where it is not
// the quote, or the call has a payment.
func (e *Endpoint) record(r *http.Request, c call, of callKind) *answer {
	if e.payment(c, "") != nil {
		return nil
	}
	rec := &recording{id: rand.Text(), challenges: rand.Text()} // nobody can have them in a text
	c.id = encode(rec.id)
	captured := e.capture(context.WithValue(r.Context(), recordingKey{}, rec), r, c)
	if rec.of == nil || rec.challenged != of.challenged || captured.status != http.StatusOK || captured.header.Get("Content-Type") != typeJSON {
		return nil
	}
	body := captured.body.Bytes()
	before, rest, found := bytes.Cut(body, c.id)
	a := &answer{before: bytes.Clone(before), after: bytes.Clone(rest)}
	if found && of.challenged {
		before, rest, found = bytes.Cut(rest, encode(rec.challenges))
		a.between, a.after = bytes.Clone(before), bytes.Clone(rest)
	}
	if !found {
		return nil
	}
	rec.of.unpaid.add(of, a)
	return a
}
