//go:build !release

package main

import (
	"os"

	"github.com/payoffer/caddy-pay-offer/caddy/demo"
)

// A server that is run from a clone can run the demo of the shipped Caddyfile. A server
// that xcaddy builds has another main, and a release is built with the tag release.
func init() { demo.Prepare(os.Args[1:]) }
