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

// view is what the endpoints that can be read show in one round.
type view struct {
	readers []*reader
	// endpoints are all, and now is when the round began.
	endpoints []*endpoint
	now       time.Time
	// need is how many hosts must show the same for it to be true.
	need int
	// problem is why an endpoint is left out, or what is wrong besides; partial
	// says that because of it not all is known.
	problem error
	partial bool
	// foreign are the hosts that show another history than was final.
	foreign map[string]bool
}

// look prepares to read all endpoints that are not left alone.
func (o *Observer) look(k recalled) *view {
	v := &view{endpoints: o.endpoints, now: o.config.Now(), foreign: make(map[string]bool)}
	v.weigh()
	for _, e := range o.endpoints {
		if e.due.After(o.config.Now()) {
			v.leaveOut(e, e.last)
			continue
		}
		v.readers = append(v.readers, &reader{endpoint: e, network: o.config.Rail.CAIP2(), from: k, finalDepth: o.final()})
	}
	return v
}

// weigh counts how many hosts must show the same, after endpoints have answered or failed.
func (v *view) weigh() {
	hosts := make(map[string]bool)
	for _, e := range v.endpoints {
		if e.witness.Awaited(v.now) {
			hosts[e.host()] = true
		}
	}
	v.need = observe.Needed(len(hosts))
}

// leaveOut goes on without an endpoint.
func (v *view) leaveOut(e *endpoint, err error) {
	if source.Code(err) == observe.ErrHistory {
		v.foreign[e.host()] = true
		err = &observe.Error{Code: observe.ErrDisagree, Host: e.host()}
	}
	v.trouble(err)
}

// usable is the error of a view that shows nothing. While enough hosts show
// another history, or all that answer do, nothing that they say is recorded.
func (v *view) usable() error {
	switch {
	case len(v.foreign) >= v.need || len(v.readers) == 0 && len(v.foreign) > 0:
		return &observe.Error{Code: observe.ErrHistory, Host: strings.Join(slices.Sorted(maps.Keys(v.foreign)), ", ")}
	case len(v.readers) == 0:
		return v.problem
	default:
		return nil
	}
}

// trouble keeps the first problem; nil is none.
func (v *view) trouble(err error) {
	if v.problem == nil {
		v.problem = err
	}
}

// unsure keeps a problem because of which not all is known.
func (v *view) unsure(code string) {
	v.partial = true
	v.trouble(&observe.Error{Code: code, Host: v.names()})
}

// names lists the hosts that are read.
func (v *view) names() string {
	var names []string
	for _, r := range v.readers {
		names = append(names, r.host())
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ", ")
}

// quorum says whether enough hosts can be read.
func (v *view) quorum() bool {
	_, ok := reached(v, func(*reader) (int64, bool) { return 0, true })
	return ok
}

const (
	// patience is how long a round waits in all for an endpoint once enough other hosts
	// are done, beyond some times as long as these took.
	patience, times = time.Minute, 3
	// maxWork bounds a step of a round where no others are: it reads maxPages, at a
	// second each.
	maxWork = 35 * time.Minute
)

// each has all readers work at the same time, and goes on without those that
// fail, or that enough others have waited for too long.
func (v *view) each(ctx context.Context, work func(context.Context, *reader) error) error {
	errs, done := make([]error, len(v.readers)), make(chan int)
	working := make(map[int]context.CancelFunc)
	for i, r := range v.readers {
		limited, stop := context.WithTimeout(ctx, maxWork)
		defer stop()
		working[i] = stop
		go func() {
			if errs[i] = r.steadily(limited, work); errs[i] != nil && limited.Err() != nil {
				errs[i] = r.fail(observe.ErrUnreachable)
			}
			done <- i
		}()
	}
	var enough time.Time // since when enough hosts are done
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
			r.witness.Answered()
			well = append(well, r)
		} else {
			v.leaveOut(r.endpoint, errs[i])
		}
	}
	v.readers = well
	v.weigh()
	return v.usable()
}

// reached is the highest number that as many hosts as are needed have reached; ok
// is false where not so many have one.
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

// nth is the number that so many hosts reach.
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

// agreed is what enough hosts say alike; ok is false where they do not.
func agreed[T comparable](v *view, say func(*reader) (T, bool)) (word T, ok bool) {
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
	return word, false
}

// tip is the newest block that enough hosts have reached, by its height.
func (v *view) tip() (t tip, ok bool) {
	height, ok := reached(v, func(r *reader) (int64, bool) { return r.tip.height, true })
	for _, r := range v.readers {
		if ok && r.tip.height == height && (t.hash == "" || r.tip.time < t.time) {
			t = r.tip
		}
	}
	return t, ok
}

// anchor is the highest block, above one that is final and below one, that is
// final for enough hosts and the same; ok is false where there is none.
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

// listsAgree reports whether enough hosts count the same of what is final and older
// than the lists that were read down to a height, at each address that so many have
// read.
func (v *view) listsAgree(above int64) bool {
	addresses := make(map[string]bool)
	for _, r := range v.readers {
		for address := range r.words.lists {
			addresses[address] = true
		}
	}
	for address := range addresses {
		older := func(r *reader) (int64, bool) {
			l, read := r.words.lists[address]
			return l.older, read && l.above == above && above <= l.final
		}
		_, enough := reached(v, older)
		if _, same := agreed(v, older); enough && !same {
			return false
		}
	}
	return true
}

// undecided is why enough hosts do not say the same.
func (v *view) undecided() error {
	if v.quorum() {
		v.unsure(observe.ErrDisagree)
	}
	return v.problem
}
