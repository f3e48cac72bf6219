// Package e2e tests the built server from outside: over HTTP, with official clients, against a chain.
package e2e

// price is the amount of the offer in atomic units of USDC.
const price = 42_000_000
