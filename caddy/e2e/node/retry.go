package node

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"encoding/json"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Purchase is one that a buyer goes on with until it holds a 200.
type Purchase struct {
	URL string
	Key *ecdsa.PrivateKey
	// Client is BuyerV2 unless it is set.
	Client Buyer
	// Address is the IP address from which a proxy in front says that the buyer comes, if any.
	Address string
}

// MarshalJSON writes the purchase as retry.mjs reads it.
func (p Purchase) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]string{
		"url": p.URL, "key": privateKey(p.Key), "client": string(cmp.Or(p.Client, BuyerV2)), "address": p.Address,
	})
}

// Bought is how a Purchase ended.
type Bought struct {
	Answer
	// Answers are the statuses of all answers, 0 for a connection that broke, and Texts all that they say: the body and,
	// decoded, the headers that speak of the payment.
	Answers []int
	Texts   []string
}

// Retry makes purchases at the same time with the official clients, each in a loop that signs anew at every try, until the
// answer is a 200 or the buyer gives up.
func Retry(t testing.TB, purchases []Purchase, giveUp time.Duration) []Bought {
	t.Helper()
	list, err := json.Marshal(purchases)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), giveUp+patience)
	defer cancel()
	var bought []Bought
	readLine(t, start(ctx, t, "retry.mjs", "PURCHASES="+string(list), "SECONDS="+strconv.Itoa(int(giveUp.Seconds()))), &bought)
	require.Len(t, bought, len(purchases))
	return bought
}
