//go:build failpoints

package failpoint

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// trap ends the process at a hit of one point.
type trap struct {
	point Point
	left  atomic.Int64
}

// armed reads Variable once. A value that no hit could match would make a test
// that proves nothing, so it is a panic.
var armed = sync.OnceValue(func() *trap {
	t := new(trap)
	value := os.Getenv(Variable)
	if value == "" {
		return t
	}
	name, count, counted := strings.Cut(value, ":")
	t.point = Point(name)
	n, err := int64(1), error(nil)
	if counted {
		n, err = strconv.ParseInt(count, 10, 64)
	}
	if err != nil || n < 1 || !slices.Contains(Points(), t.point) {
		panic(fmt.Sprintf("failpoint: %s=%s: write <point> or <point>:<number from 1>", Variable, value))
	}
	t.left.Store(n)
	return t
})

// Hit kills the process, with nothing flushed and nothing deferred, if this is
// the hit that Variable names.
func Hit(p Point) {
	t := armed()
	if p != t.point || t.left.Add(-1) != 0 {
		return
	}
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Kill()
	}
	if err != nil {
		panic("failpoint: " + err.Error())
	}
	select {} // the caller must not get further
}
