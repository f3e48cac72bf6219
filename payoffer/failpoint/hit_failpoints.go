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

// armed is the point and the number of hits until the kill.
type armed struct {
	point Point
	left  atomic.Int64
}

// read reads Variable once. It panics if no hit could match, because a test would then
// prove nothing.
var read = sync.OnceValue(func() *armed {
	a := new(armed)
	value := os.Getenv(Variable)
	if value == "" {
		return a
	}
	name, count, counted := strings.Cut(value, ":")
	n, err := int64(1), error(nil)
	if counted {
		n, err = strconv.ParseInt(count, 10, 64)
	}
	a.point = Point(name)
	if err != nil || n < 1 || !slices.Contains(Points(), a.point) {
		panic(fmt.Sprintf("failpoint: %s=%s: write <point> or <point>:<number from 1>", Variable, value))
	}
	a.left.Store(n)
	return a
})

// Hit kills the process if Variable names this hit. Nothing is flushed or deferred.
func Hit(p Point) {
	a := read()
	if p != a.point || a.left.Add(-1) != 0 {
		return
	}
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Kill()
	}
	if err != nil {
		panic("failpoint: " + err.Error())
	}
	select {} // the caller must not continue
}
