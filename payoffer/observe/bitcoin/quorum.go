package bitcoin

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
)

// view is what the readable endpoints show in one cycle.
type view struct {
	readers []*reader
	// endpoints are all of them, and now is when the cycle began.
	endpoints []*endpoint
	now       time.Time
	// need is how many hosts must agree.
	need int
	// problem is the first problem. partial means that it made the reading incomplete.
	problem error
	partial bool
	// otherHistory has the hosts that show another block at the height of a final one.
	otherHistory map[string]bool
}

func (o *Observer) newView(k state) *view {
	v := &view{endpoints: o.endpoints, now: o.config.Now(), otherHistory: make(map[string]bool)}
	v.countAwaited()
	for _, e := range o.endpoints {
		if e.due.After(o.config.Now()) {
			v.exclude(e, e.last)
			continue
		}
		v.readers = append(v.readers, &reader{endpoint: e, network: o.config.Rail.CAIP2(), from: k, finalDepth: o.final()})
	}
	return v
}

// countAwaited updates need, after endpoints have answered or failed.
func (v *view) countAwaited() {
	hosts := make(map[string]bool)
	for _, e := range v.endpoints {
		if e.witness.IsLive(v.now) {
			hosts[e.host()] = true
		}
	}
	v.need = observe.RequiredWitnesses(len(hosts))
}

func (v *view) exclude(e *endpoint, err error) {
	if source.Code(err) == observe.ErrHistory {
		v.otherHistory[e.host()] = true
		err = &observe.Error{Code: observe.ErrDisagree, Host: e.host()}
	}
	v.addProblem(err)
}

// usable returns why nothing can be recorded: no host answered, or a quorum of hosts or all that answered show another
// history.
func (v *view) usable() error {
	switch {
	case len(v.otherHistory) >= v.need || len(v.readers) == 0 && len(v.otherHistory) > 0:
		return &observe.Error{Code: observe.ErrHistory, Host: strings.Join(slices.Sorted(maps.Keys(v.otherHistory)), ", ")}
	case len(v.readers) == 0:
		return v.problem
	default:
		return nil
	}
}

func (v *view) addProblem(err error) {
	if v.problem == nil {
		v.problem = err
	}
}

func (v *view) markPartial(code string) {
	v.partial = true
	v.addProblem(&observe.Error{Code: code, Host: v.names()})
}

func (v *view) names() string {
	var names []string
	for _, r := range v.readers {
		names = append(names, r.host())
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ", ")
}

func (v *view) quorum() bool {
	_, ok := reached(v, func(*reader) (int64, bool) { return 0, true })
	return ok
}

const (
	// patience is how long a cycle waits in total for an endpoint after enough hosts are done, plus a multiple of
	// the time that those took.
	patience, times = time.Minute, 3
	// maxWork bounds a step of a cycle.
	maxWork = 35 * time.Minute
)

// each runs all readers in parallel. It excludes those that fail, and those that are too slow after enough others are
// done.
func (v *view) each(ctx context.Context, work func(context.Context, *reader) error) error {
	errs, done := make([]error, len(v.readers)), make(chan int)
	working := make(map[int]context.CancelFunc)
	for i, r := range v.readers {
		limited, stop := context.WithTimeout(ctx, maxWork)
		defer stop()
		working[i] = stop
		go func() {
			if errs[i] = r.readStable(limited, work); errs[i] != nil && limited.Err() != nil {
				errs[i] = r.fail(observe.ErrUnreachable)
			}
			done <- i
		}()
	}
	var enough time.Time // when enough hosts were done
	began, hosts := time.Now(), make(map[string]bool)
	for range v.readers {
		i := <-done
		delete(working, i)
		if !enough.IsZero() {
			v.readers[i].waited += time.Since(enough)
		}
		if errs[i] == nil {
			hosts[v.readers[i].host()] = true
		}
		if !enough.IsZero() || len(hosts) < v.need {
			continue
		}
		enough = time.Now()
		for i, stop := range working {
			left := patience + times*enough.Sub(began) - v.readers[i].waited
			defer time.AfterFunc(left, stop).Stop()
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var well []*reader
	for i, r := range v.readers {
		r.note(errs[i])
		if errs[i] == nil {
			r.witness.MarkResponded()
			well = append(well, r)
		} else {
			v.exclude(r.endpoint, errs[i])
		}
	}
	v.readers = well
	v.countAwaited()
	return v.usable()
}

// reached returns the highest number that enough hosts have reached.
func reached(v *view, of func(*reader) (number int64, ok bool)) (number int64, ok bool) {
	best := make(map[string]int64)
	for _, r := range v.readers {
		if n, ok := of(r); ok {
			if before, known := best[r.host()]; !known || n > before {
				best[r.host()] = n
			}
		}
	}
	return nth(best, v.need)
}

// nth returns the largest number that at least so many hosts reach.
func nth(best map[string]int64, need int) (number int64, ok bool) {
	if len(best) < need {
		return 0, false
	}
	var numbers []int64
	for _, n := range best {
		numbers = append(numbers, n)
	}
	slices.SortFunc(numbers, func(a, b int64) int { return cmp.Compare(b, a) })
	return numbers[need-1], true
}

// agreed returns what enough hosts say.
func agreed[T comparable](v *view, say func(*reader) (T, bool)) (value T, ok bool) {
	votes := make(map[T]map[string]bool)
	for _, r := range v.readers {
		said, ok := say(r)
		if !ok {
			continue
		}
		if votes[said] == nil {
			votes[said] = make(map[string]bool)
		}
		votes[said][r.host()] = true
		if len(votes[said]) >= v.need {
			return said, true
		}
	}
	return value, false
}

// tip returns the newest block that enough hosts have reached.
func (v *view) tip() (t tip, ok bool) {
	height, ok := reached(v, func(r *reader) (int64, bool) { return r.tip.height, true })
	for _, r := range v.readers {
		if ok && r.tip.height == height && (t.hash == "" || r.tip.time < t.time) {
			t = r.tip
		}
	}
	return t, ok
}

// anchor returns the highest block, above one height and below another, that is final and the same for enough hosts.
func (v *view) anchor(ctx context.Context, above, below int64) (height int64, hash string, ok bool) {
	var finals []int64
	for _, r := range v.readers {
		finals = append(finals, min(r.final(), below-1))
	}
	slices.Sort(finals)
	for _, height := range slices.Backward(slices.Compact(finals)) {
		if height <= above {
			break
		}
		hash, ok := agreed(v, func(r *reader) (string, bool) {
			if r.final() < height {
				return "", false
			}
			hash, err := r.at(ctx, height)
			return hash, err == nil
		})
		if ok {
			return height, hash, true
		}
	}
	return 0, "", false
}

// listsAgree reports whether enough hosts count the same number of final transactions below the read lists.
func (v *view) listsAgree(above int64) bool {
	addresses := make(map[string]bool)
	for _, r := range v.readers {
		for address := range r.responses.lists {
			addresses[address] = true
		}
	}
	for address := range addresses {
		older := func(r *reader) (int64, bool) {
			l, read := r.responses.lists[address]
			return l.older, read && l.above == above && above <= l.final
		}
		_, enough := reached(v, older)
		if _, same := agreed(v, older); enough && !same {
			return false
		}
	}
	return true
}

// undecided returns why too few hosts agree.
func (v *view) undecided() error {
	if v.quorum() {
		v.markPartial(observe.ErrDisagree)
	}
	return v.problem
}
