package soak

import (
	"fmt"
	"os"
	"regexp"
	"strconv"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// resources are what a process may leak: goroutines, open files, and bytes of its heap that are in use after a collection.
type resources struct{ goroutines, files, heap int }

// Bounds of what comes and goes by itself between two quiet moments: idle connections and their goroutines, and what the heap
// keeps ready. Every round has a reload and tens of requests, of which each would leave something behind.
const (
	fewMore      = 30
	fewMoreBytes = 16 << 20
	// fewFiles is how many more files the server may open under traffic than it has at rest.
	fewFiles = 100
)

var (
	goroutines = regexp.MustCompile(`^goroutine profile: total (\d+)`)
	heap       = regexp.MustCompile(`# HeapInuse = (\d+)`)
)

// resources counts those of the server when it has come to rest: two counts are equal.
func (s *shop) resources() (r resources) {
	s.Helper()
	server.Eventually(s, "the server has come to rest", func() bool {
		before := r
		files := lab.Must(os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.process.Pid())))(s)
		r = resources{goroutines: s.profile("goroutine?debug=1", goroutines), files: len(files)}
		return r == before
	})
	r.heap = s.profile("heap?gc=1&debug=1", heap)
	return r
}

// profile is a number of a profile.
func (s *shop) profile(name string, number *regexp.Regexp) int {
	s.Helper()
	body := server.Get(s, "http://"+s.admin+"/debug/pprof/"+name, "")
	found := number.FindStringSubmatch(body)
	require.NotNil(s, found, "%.200s", body)
	count := lab.Must(strconv.Atoi(found[1]))(s)
	return count
}

// requireNoGrowth compares a quiet moment with the first one.
func (s *shop) requireNoGrowth(first resources) {
	s.Helper()
	var last resources
	server.Eventually(s, fmt.Sprintf("the server is back at about %+v", first), func() bool {
		last = s.resources()
		return last.goroutines < first.goroutines+fewMore && last.files < first.files+fewMore && last.heap < first.heap+first.heap/2+fewMoreBytes
	})
	s.Logf("%+v at the first quiet moment, %+v at the last", first, last)
}

// limitFiles lets the server have few more files than it has at rest.
func (s *shop) limitFiles(atRest int) {
	s.Helper()
	limit := unix.Rlimit{Cur: uint64(atRest + fewFiles), Max: uint64(atRest + fewFiles)}
	require.NoError(s, unix.Prlimit(s.process.Pid(), unix.RLIMIT_NOFILE, &limit, nil))
}
