package bench

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// side is a process that is compared with others.
type side struct {
	name, host string
	pid        int
	lanes      []*lane
}

// newSide opens the lanes to a process that listens on host.
func newSide(t testing.TB, name, host string, pid, lanes int) *side {
	t.Helper()
	s := &side{name: name, host: host, pid: pid}
	for range lanes {
		s.lanes = append(s.lanes, openLane(t, host))
	}
	return s
}

// ask is the answer to a request.
func (s *side) ask(t testing.TB, r request) answer {
	t.Helper()
	a, err := s.lanes[0].ask(r)
	require.NoError(t, err, "%s: %s %s", s.name, r.method, r.path)
	return a
}

// cost is the processor time in microseconds that the process spends on one of a number of equal requests.
func (s *side) cost(t testing.TB, r request, status, count int) float64 {
	t.Helper()
	sent := r.bytes(s.host)
	before := processorTime(t, s.pid)
	var sending sync.WaitGroup
	failed := make([]error, len(s.lanes))
	for i, l := range s.lanes {
		sending.Go(func() {
			for range count / len(s.lanes) {
				got, err := l.send(sent)
				if err == nil && got != status {
					err = fmt.Errorf("status %d", got)
				}
				if failed[i] = err; err != nil {
					return
				}
			}
		})
	}
	sending.Wait()
	spent := processorTime(t, s.pid) - before
	for _, err := range failed {
		require.NoError(t, err, "%s: %s %s", s.name, r.method, r.path)
	}
	return float64(spent.Nanoseconds()) / 1000 / float64(count/len(s.lanes)*len(s.lanes))
}

// takeTurns measures every side once a round, in turns forwards and backwards, after a round that does not count. It returns
// the numbers of each side by round.
func takeTurns(sides int, measure func(side int) float64) [][]float64 {
	measured := make([][]float64, sides)
	for round := range *rounds + 1 {
		for i := range sides {
			if round%2 == 1 {
				i = sides - 1 - i
			}
			if number := measure(i); round > 0 {
				measured[i] = append(measured[i], number)
			}
		}
	}
	return measured
}

// costs is what one of equal requests costs each side, by round. A round is many short turns: what else the machine does
// falls on all sides alike.
func costs(t testing.TB, r request, status int, sides ...*side) [][]float64 {
	t.Helper()
	const turns, requests = 16, 250
	byRound := make([][]float64, len(sides))
	for round := range *rounds + 1 {
		sums := make([]float64, len(sides))
		for turn := range turns {
			for i := range sides {
				i = (i + turn) % len(sides)
				sums[i] += sides[i].cost(t, r, status, requests) / turns
			}
		}
		if round == 0 {
			continue // of what is done once
		}
		for i, sum := range sums {
			byRound[i] = append(byRound[i], sum)
		}
	}
	return byRound
}

// caddyfile is a server with one site. In braces and capitals stands what is filled in.
const caddyfile = `{
	admin off
	persist_config off
	default_bind 127.0.0.1
	storage file_system {DIR}
	{GLOBAL}
}
http://localhost:{PORT} {
	{SITE}
	respond 404
}
`

// startCaddy runs a binary with a site, and what it has in the global block.
func startCaddy(t testing.TB, binary, name, global, site string, lanes int, env ...string) *side {
	t.Helper()
	port := payoffertest.FreePort(t)
	host := "localhost:" + port
	config := strings.NewReplacer("{GLOBAL}", global, "{SITE}", site).Replace(caddyfile)
	config = strings.NewReplacer("{DIR}", t.TempDir(), "{PORT}", port, "{HOST}", host).Replace(config)
	process := server.StartBinary(t, binary, "http://"+host, config, env...)
	return newSide(t, name, host, process.Pid(), lanes)
}

var bareCaddy = lab.Program{Name: "caddy-bare", Package: "./caddy/bare", Tags: "release"}

// startBare runs Caddy with the handler that writes answers, by method and path, and does nothing else.
func startBare(t testing.TB, answers map[string]answer, lanes int) *side {
	t.Helper()
	binary, output, err := bareCaddy.Path(t)
	require.NoError(t, err, "%s", output)
	file := filepath.Join(t.TempDir(), "answers.json")
	data, err := json.Marshal(answers)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, data, 0o600))
	return startCaddy(t, binary, "bare Caddy handler", "", "bare * "+file, lanes)
}

// copied is an answer as another server can write it.
func (a answer) copied() answer {
	header := a.Header.Clone()
	for _, own := range []string{"Date", "Server"} {
		header.Del(own)
	}
	return answer{a.Status, header, a.Body}
}

// requireSame checks that another side writes the same.
func requireSame(t testing.TB, want, got answer) {
	t.Helper()
	require.Equal(t, want.Status, got.Status)
	require.Equal(t, string(want.Body), string(got.Body))
	require.Equal(t, want.Header, got.copied().Header)
}
