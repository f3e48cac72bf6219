//go:build !unix

package lab

import "testing"

// AwaitBrowser has nothing to wait by.
func AwaitBrowser(testing.TB) {}

// Lock has nothing to lock with.
func Lock(testing.TB, string) func() { return func() {} }
