package reload

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/stretchr/testify/require"
)

// bitcoins are the receipts of the Bitcoin rail: how many there are of each status.
func (s *shop) bitcoins() map[string]int {
	s.Helper()
	var report struct {
		Receipts []struct{ Rail, Status string }
	}
	require.NoError(s, json.Unmarshal([]byte(server.Get(s, s.url+"/v1/received", "")), &report))
	found := make(map[string]int)
	for _, r := range report.Receipts {
		if r.Rail == "btc" {
			found[r.Status]++
		}
	}
	return found
}

func (s *shop) awaitBitcoins(what string, want map[string]int) {
	s.Helper()
	server.Eventually(s, what, func() bool { return maps.Equal(want, s.bitcoins()) })
}

// Who puts an address in the place of a key, and a key in the place of an address, keeps the money that was under way, and what comes late.
// Every reload begins with a look at the chain.
func TestAReplacedBitcoinKeyIsFollowed(t *testing.T) {
	const first, second = "tb1q6rz28mcfaxtmd6v789l9rrlrusdprr9pqcpvkl", "tb1qw508d6qejxtdg4y5r3zarvary0c5xw7kxpjzsx"
	s := openShop(t, "")
	replaced := func(words string) string {
		return strings.Replace(s.config(words, ""), "bitcoin "+vpub, "bitcoin "+second, 1)
	}

	underWay := s.coins.Payment(t, first, 50_000)
	s.coins.Send(t, underWay)
	s.reload(replaced("An address."))
	require.Contains(t, server.Get(s, s.url+"/v1/pay/btc.uri", ""), second, "what was replaced is not published")
	s.awaitBitcoins("seen at the former key", map[string]int{"seen": 1})

	late := s.coins.Payment(t, first, 60_000)
	s.coins.Mine(t, underWay, late)
	s.coins.MineEmpty(t, 1)
	s.reload(replaced("The same address."))
	s.awaitBitcoins("what was under way, and what came late", map[string]int{"confirmed": 2})
	state := rails(server.Get(s, s.url+"/v1/received", ""))
	require.Equal(t, "btc", state[2].Rail)

	// All of it is in one offer, and none of it twice.
	s.reload(replaced("Still that address."))
	s.coins.Mine(t, s.coins.Payment(t, second, 70_000))
	s.coins.MineEmpty(t, 1)
	s.reload(s.config("Back again.", ""))
	s.awaitBitcoins("the address, which is a former one now", map[string]int{"confirmed": 3})
	s.reload(s.config("And once more.", ""))
	s.awaitBitcoins("nothing twice", map[string]int{"confirmed": 3})
}
