//go:build !failpoints

package failpoint

// Hit says that a point was reached. It does nothing in this build.
func Hit(Point) {}
