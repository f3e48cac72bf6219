package arrive

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/postgres"
)

const (
	// pages are open at once, each with a connection of its own, and ask so often without a pause: what they do in a
	// minute and a half happens as fast as the server answers.
	pages, rounds = 1_000, 22
	// atOnce is how many ask at the same moment: each does so every four seconds, at a moment of its own.
	atOnce = 16
	// mostMemory is how many bytes they may cost.
	mostMemory = 20 << 20
)

const crowdCaddyfile = `{
	admin off
	persist_config off
	default_bind 127.0.0.1
	pay_offer {
		ledger postgres {env.LEDGER_DSN}
	}
}
http://localhost:{PORT} {
	pay_offer {
		base_url http://localhost:{PORT}
		card https://checkout.example/pay {
			payment_link plink_1
			webhook_secret {env.CARD_SECRET}
		}
	}
	respond 404
}
`

// The database itself counts how often the sums are read: each report reads the table currency_totals once, and nothing
// else does while nobody pays. It has counted all when the sessions of the server are over.
func TestAThousandOpenPagesCostLittle(t *testing.T) {
	port, dsn := payoffertest.FreePort(t), postgres.Start(t).DSN(t)
	url := "http://localhost:" + port
	process := server.Start(t, url, strings.ReplaceAll(crowdCaddyfile, "{PORT}", port), "LEDGER_DSN="+dsn, "CARD_SECRET="+cardSecret)
	began := time.Now()
	few := newCrowd(20, url)
	for range rounds {
		few.ask(t) // the server has done everything once
	}
	idle := lab.Resident(t, process.Pid())
	all := newCrowd(pages, url)
	all.path = "/favicon.svg"
	for range rounds {
		all.ask(t) // what a thousand connections cost the server, whatever they ask
	}
	before, most := lab.Resident(t, process.Pid()), 0
	all.path = report
	for range rounds {
		all.ask(t)
		most = max(most, lab.Resident(t, process.Pid()))
	}
	lasted := time.Since(began)
	few.close()
	all.close()
	process.Terminate()
	process.Await(t)
	reads := scans(t, dsn)
	seconds := int(lasted/time.Second) + 1
	t.Logf("%d open connections: %.1f MB more resident memory; as open pages: %.1f MB more than that, %d answers and %d readings of the ledger in %.1f s",
		pages, float64(before-idle)/(1<<20), float64(most-before)/(1<<20), rounds*pages, reads, lasted.Seconds())
	require.LessOrEqual(t, most-before, mostMemory)
	require.Positive(t, reads)
	require.LessOrEqual(t, reads, seconds+startReads)
}

// report is what open pages ask for.
const report = "/v1/received"

// startReads are those of the start: the server is asked whether it answers.
const startReads = 2

// scans is how often the database has read the table of sums.
func scans(t *testing.T, dsn string) (count int) {
	t.Helper()
	connection, err := pgx.Connect(t.Context(), dsn)
	require.NoError(t, err)
	defer func() { require.NoError(t, connection.Close(t.Context())) }()
	require.NoError(t, connection.QueryRow(t.Context(),
		"SELECT seq_scan + coalesce(idx_scan, 0) FROM pg_stat_user_tables WHERE relname = 'currency_totals'").Scan(&count))
	return count
}

// crowd are open pages, each with a connection of its own.
type crowd struct {
	url, path string
	clients   []*http.Client
}

func newCrowd(size int, url string) *crowd {
	c := &crowd{url: url, path: report}
	for range size {
		c.clients = append(c.clients, &http.Client{Timeout: patience, Transport: &http.Transport{MaxIdleConns: 1, MaxConnsPerHost: 1}})
	}
	return c
}

// ask lets every page ask, and waits for all answers.
func (c *crowd) ask(t *testing.T) {
	t.Helper()
	var asking sync.WaitGroup
	errs, turns := make(chan error, len(c.clients)), make(chan int)
	for range atOnce {
		asking.Go(func() {
			for i := range turns {
				errs <- c.askOne(i)
			}
		})
	}
	for i := range c.clients {
		turns <- i
	}
	close(turns)
	asking.Wait()
	for range c.clients {
		require.NoError(t, <-errs)
	}
}

func (c *crowd) askOne(i int) error {
	request, err := http.NewRequest(http.MethodGet, c.url+c.path, nil)
	if err != nil {
		return err
	}
	request.Header.Set("Accept", "text/html")
	response, err := c.clients[i].Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the answer is %s", response.Status)
	}
	return nil
}

func (c *crowd) close() {
	for _, client := range c.clients {
		client.CloseIdleConnections()
	}
}
