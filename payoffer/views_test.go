package payoffer

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/cases"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/observations"
)

// TestRandomHistoriesAgreeInAllReports lets payments live through refunds,
// disputes, an operator's statements, a copy of the ledger that is put back,
// and an origin that is lowered. Then the report, its rows, the feed, the
// metrics, the announcements and the export must all say what the reference
// model says.
func TestRandomHistoriesAgreeInAllReports(t *testing.T) {
	t.Parallel()
	const perBooks = 2_000
	total := cases.Of(500, 100_000, 1_000_000)
	for n := 0; n < total; n += perBooks {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			playBooks(t, onSQLite, rand.New(rand.NewPCG(uint64(n), 11)), min(perBooks, total-n))
		})
	}
	for n := range cases.Of(1, 2, 20) {
		t.Run(fmt.Sprint("PostgreSQL ", n), func(t *testing.T) {
			t.Parallel()
			playBooks(t, onPostgres, rand.New(rand.NewPCG(uint64(n), 12)), cases.Of(100, 500, 500))
		})
	}
}

// tale is a payment, and all that its source and the operator ever say of it.
type tale struct {
	id      string
	at      place
	history []ledger.Observation
	// early says that it was paid before the origin: nobody tells of it until
	// that is lowered.
	early bool
	// said is what the ledger was told, and kept how much of that a copy holds.
	said []ledger.Observation
	kept int
}

// newTale draws a payment at one of the places.
func newTale(rng *rand.Rand, id string) *tale {
	p := &tale{at: places[rng.IntN(len(places))], early: rng.IntN(8) == 0}
	for _, s := range observations.RandomHistory(rng, id) {
		p.id = s.ExternalID
		s.Account, s.Rail, s.Testnet = p.at.account, p.at.rail, p.at.test
		if p.early {
			s.Cause = ledger.CauseBackfilled
		}
		if s.EvidenceLevel == ledger.LevelChain && !p.at.chain {
			s.EvidenceLevel, s.Asset, s.Nonce = ledger.LevelProvider, "USD", ""
			if s.State == ledger.StatusMoved {
				s.State = ledger.StatusSeen
			}
		}
		p.history = append(p.history, s)
	}
	return p
}

// turns are the tales in a random order, each as often as it has something to
// tell.
func turns(rng *rand.Rand, tales []*tale, early bool) (order []*tale) {
	for _, p := range tales {
		if p.early == early {
			order = append(order, slices.Repeat([]*tale{p}, len(p.history))...)
		}
	}
	rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	return order
}

// playBooks plays count payments on one ledger, or on another one that a copy was
// put back into, and compares the views of it.
func playBooks(t *testing.T, create func(*testing.T) *ledger.Ledger, rng *rand.Rand, count int) {
	tales := make([]*tale, count)
	for i := range tales {
		tales[i] = newTale(rng, fmt.Sprint(i))
	}
	b := openViewed(t, create, "", make(map[string]row))
	next := make(map[*tale]int)
	tell := func(order []*tale) {
		for part := range slices.Chunk(order, 1+rng.IntN(500)) {
			var batch []ledger.Observation
			for _, p := range part {
				s := p.history[next[p]]
				next[p]++
				p.said = append(p.said, s)
				batch = append(batch, s)
			}
			must(b.ledger.Record(t.Context(), nil, batch...))(t)
		}
	}
	order := turns(rng, tales, false)
	copiedAt := rng.IntN(len(order))
	tell(order[:copiedAt])
	if rng.IntN(2) == 0 {
		copied, early, late := b.copy(tales), newReader(), newReader()
		early.readAll(b)
		tell(order[copiedAt:])
		late.readAll(b)
		b.close()
		b = openViewed(t, create, copied, b.events)
		for _, p := range tales {
			p.said = p.said[:p.kept:p.kept]
		}
		if late.at != early.at {
			b.refuses(late.at)
		}
		clear(next) // the sources are read from the beginning, the operator enters again
		tell(turns(rng, tales, false))
		early.readAll(b)
		require.Equal(t, b.rows(), early.rows, "who has read what the copy holds goes on")
	} else {
		tell(order[copiedAt:])
	}
	tell(turns(rng, tales, true))
	b.requireAgreement(tales)
	b.close()
}

// want is what the reference model says of the tales.
func want(tales []*tale) (sum money, rows map[string]row) {
	rows = make(map[string]row)
	for _, p := range tales {
		f := observations.Reference(p.said)
		if f.Status == "" {
			continue
		}
		own := slices.ContainsFunc(p.said, func(s ledger.Observation) bool { return s.Own && !s.Addendum })
		r := newRow(string(f.Status), string(f.Level), f.USD, f.Amount, f.Refunded, own, p.at.test)
		rows[p.at.rail+" "+p.id] = r
		sum.add(r)
	}
	return sum, rows
}

// requireAgreement compares all views of the books with what the tales say.
func (v *viewed) requireAgreement(tales []*tale) {
	t := v.t
	t.Helper()
	require.NoError(t, v.ledger.Check(t.Context()))
	sum, rows := want(tales)
	require.Equal(t, sum, v.report(), "the report")
	require.Equal(t, rows, v.rows(), "the rows")
	all := newReader()
	all.readAll(v)
	require.Equal(t, rows, all.rows, "the feed")
	require.Equal(t, money{received: sum.received, count: sum.count}, v.metrics(), "the metrics")
	require.Equal(t, sum, v.exported(), "the export")
	announced := v.announced()
	for _, view := range []map[string]row{rows, announced} { // what was never told of as a payment is told of as nothing
		maps.DeleteFunc(view, func(_ string, r row) bool {
			return r.status == string(ledger.StatusMoved) || r.status == string(ledger.StatusDropped)
		})
	}
	require.Equal(t, rows, announced, "the announcements")
}

// copy backs the ledger up and notes how much was told of each tale until now.
func (v *viewed) copy(tales []*tale) (path string) {
	path = filepath.Join(v.t.TempDir(), "copy.db")
	must(v.ledger.Backup(v.t.Context(), path))(v.t)
	for _, p := range tales {
		p.kept = len(p.said)
	}
	return path
}

// refuses requires that a reader is told that what it has read is not there any
// more.
func (v *viewed) refuses(cursor string) {
	v.t.Helper()
	w := httptest.NewRecorder()
	require.True(v.t, v.server.Serve(w, httptest.NewRequest(http.MethodGet, "/v1/received?after="+cursor, nil)))
	require.Equal(v.t, http.StatusGone, w.Code, w.Body)
}
