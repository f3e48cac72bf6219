package node

import (
	"context"
	"crypto/ecdsa"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Shopper is a buyer who wants one thing, and who signs anew after every answer but 200.
type Shopper struct {
	Key *ecdsa.PrivateKey
	// Address is the IP address from which the buyer comes, as a proxy in front of the service would tell.
	Address string
}

// Try is one answer that a Shopper got.
type Try struct {
	Answer
	// Text is the body and the decoded headers that speak of the payment.
	Text string
}

// Shop lets shoppers with the official client of version 1 or 2 ("v1", "v2") buy at an address at the same time, each with a
// pause between two tries and for no longer than given: once, when that is 0. It returns each one's answers; only the last can
// be a 200.
func Shop(t testing.TB, client, url string, pause, longest time.Duration, shoppers ...Shopper) [][]Try {
	t.Helper()
	var keys, addresses []string
	for _, shopper := range shoppers {
		keys, addresses = append(keys, privateKey(shopper.Key)), append(addresses, shopper.Address)
	}
	ctx, cancel := context.WithTimeout(t.Context(), longest+patience)
	defer cancel()
	var tries [][]Try
	readLine(t, start(ctx, t, "shoppers.mjs", "URL="+url, "CLIENT="+client,
		"PRIVATE_KEYS="+strings.Join(keys, ","), "ADDRESSES="+strings.Join(addresses, ","),
		"PAUSE="+strconv.FormatInt(pause.Milliseconds(), 10), "PATIENCE="+strconv.FormatInt(longest.Milliseconds(), 10)), &tries)
	return tries
}
