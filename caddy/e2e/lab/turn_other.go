//go:build !unix

package lab

import "testing"

// AwaitBrowser has nothing to wait by.
func AwaitBrowser(testing.TB) {}
