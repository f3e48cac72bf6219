package reload

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"testing"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/cases"
)

var goroutines = regexp.MustCompile(`^goroutine profile: total (\d+)`)

// open are goroutines and open files of a process.
type open struct{ goroutines, files int }

// few is how many more there may be by chance, such as idle connections: fewer than one for each reload.
const few = 10

// open counts those of the server at rest: two counts are equal.
func (s *shop) open() (count open) {
	s.Helper()
	server.Eventually(s, "the server has come to rest", func() bool {
		before := count
		profile := goroutines.FindStringSubmatch(server.Get(s, "http://"+s.admin+"/debug/pprof/goroutine?debug=1", ""))
		files := lab.Must(os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.process.Pid())))(s)
		count = open{lab.Must(strconv.Atoi(profile[1]))(s), len(files)}
		return count == before
	})
	return count
}

// Nothing of a former configuration is left, however many there were.
func TestReloadLeavesNothingOpen(t *testing.T) {
	reloads := cases.EndToEnd(30, 200, 200)
	t.Parallel()
	s := openShop(t, "")
	s.reload(s.config(descriptions[1], ""))
	s.awaitHealth()
	first := s.open()
	for n := range reloads {
		s.reload(s.config(descriptions[n%2], ""))
	}
	var last open
	server.Eventually(t, fmt.Sprintf("the server is back at about %+v", first), func() bool {
		last = s.open()
		return last.goroutines < first.goroutines+few && last.files < first.files+few
	})
	t.Logf("%d reloads: %+v before, %+v after", reloads, first, last)
}
