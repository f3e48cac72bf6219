package storefront

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/cases"
)

// stepsPerHistory is how many cases one history is worth.
const stepsPerHistory = 100

// worth is the reference model: what the seller holds of a sale, in US cents.
func worth(s payoffertest.StorefrontSale) int64 {
	if s.Disputed && !s.DisputeWon {
		return 0
	}
	return s.Price - s.RefundedCents
}

// Whatever happens at the shop, whatever notices say of it,
// whenever the shop or the ledger fail, and whenever the ledger is lost or an
// older copy of it is put back: what counts after the next reading is what the
// seller holds.
func TestRandomHistoriesAgreeWithTheModel(t *testing.T) {
	t.Parallel()
	for seed := range cases.Count(t) / stepsPerHistory {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { randomHistory(t, rand.New(rand.NewPCG(uint64(seed), 42))) })
	}
}

func randomHistory(t *testing.T, random *rand.Rand) {
	f := newFixture(t)
	begin := beginAt(f.now())
	var copied []byte
	copyAt, loseAt := random.IntN(stepsPerHistory), random.IntN(stepsPerHistory)
	sales := []payoffertest.StorefrontSale{f.sell()}
	for step := range stepsPerHistory {
		if step == copyAt {
			copied = f.copyLedger(begin)
		}
		if step == loseAt {
			f.loseLedger(copied)
			f.start(begin)
		}
		f.pass(time.Duration(random.IntN(3600)) * time.Second)
		at := random.IntN(len(sales))
		switch random.IntN(9) {
		case 0:
			sales = append(sales, f.sell(func(s *payoffertest.StorefrontSale) { s.Price = 1 + random.Int64N(9999) }))
		case 1, 2:
			sales[at] = f.shop.Change(sales[at].ID, happen(random))
		case 3, 4:
			require.Equal(t, observe.Ignored, f.tell(sales[at], "sale"))
		case 5:
			forged := sales[at]
			happen(random)(&forged)
			forged.Price += random.Int64N(1_000_000)
			require.Equal(t, observe.Ignored, f.tell(forged, "refund"))
		case 6:
			f.shop.Fail(&payoffertest.StorefrontFault{Status: http.StatusBadGateway, After: random.IntN(3)})
			_ = f.read() // it may fail
			f.shop.Fail(nil)
		case 7:
			f.db.broken = true
			require.Error(t, f.read())
			f.db.broken = false
		default:
			f.requireModel(sales)
		}
	}
	f.requireModel(sales)
}

// loseLedger goes on with an older copy of the ledger, or with none.
func (f *fixture) loseLedger(copied []byte) {
	f.t.Helper()
	if copied == nil {
		f.openLedger(f.now().Unix())
		return
	}
	file := payoffertest.LedgerFile(f.t)
	require.NoError(f.t, os.WriteFile(file, copied, 0o600))
	f.useLedger(file)
}

func (f *fixture) requireModel(sales []payoffertest.StorefrontSale) {
	f.t.Helper()
	f.pass(sweepEvery) // by then a change of any sale is met
	f.mustRead()
	var want int64
	for _, s := range sales {
		want += worth(s)
	}
	require.Equal(f.t, want, f.held())
}

// happen is something that happens to a sale.
func happen(random *rand.Rand) func(*payoffertest.StorefrontSale) {
	share, event := random.Int64N(5), random.IntN(4)
	return func(s *payoffertest.StorefrontSale) {
		switch event {
		case 0:
			s.RefundedCents = s.Price * share / 4
		case 1:
			s.RefundedCents = 0
		case 2:
			s.Disputed = true
		default:
			s.DisputeWon = s.Disputed
		}
	}
}
