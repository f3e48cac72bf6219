package bench

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/postgres"
)

// distance is how long a question to the far database and its answer take on their way.
const distance = 15 * time.Millisecond

// measureFar shows how long it takes until each of many offers takes a payment whose database is far away.
func measureFar(b *testing.B, t *table) {
	f, database := startFacilitator(b, latency), postgres.Start(b)
	for _, count := range counts[1:] {
		var opened, payable []float64
		missing := 0
		for range repeats() {
			dsn := farther(b, database.DSN(b))
			m := newMany(b, count, "postgres {env.LEDGER_DSN}", f.url, "off")
			at, last, unpaid := m.openFar(b, "LEDGER_DSN="+dsn)
			opened, payable, missing = append(opened, at), append(payable, last), missing+unpaid
		}
		goal := map[bool]string{true: "≤ 10"}[count == 1000]
		figure := fmt.Sprintf("%d offers on a PostgreSQL %v away: ", count, distance)
		if missing > 0 {
			t.add(figure+"offers that take no payment", float64(missing)/float64(len(opened)), "0", fmt.Sprintf("within %v", patience))
			continue
		}
		t.add(figure+"seconds until each is payable", spreadOf(payable), goal, number(spreadOf(opened).median)+" until the port is open")
	}
}

// sampled is how many of the offers are paid: a payment costs more than to be ready for it.
const sampled = 20

// openFar starts the server and waits until every offer looks at what pays it, and some, of all places in the configuration,
// are paid. It returns the seconds until the port is open and until all that is done, and how many are never ready.
func (m *many) openFar(b *testing.B, env string) (opened, last float64, unpaid int) {
	s := launch(b, m.binary, m.folder, m.caddyfile(), env)
	defer s.stop()
	connection := s.opens(m.port)
	if connection == nil {
		return 0, 0, m.count
	}
	opened = time.Since(s.began).Seconds()
	for n := range m.count {
		at := connection.at(m.host(n))
		if !s.until(at.looks) {
			return opened, 0, m.count - n
		}
	}
	var paying sync.WaitGroup
	var refused atomic.Int64
	for n := 0; n < m.count; n += max(1, m.count/sampled) {
		own := openLane(b, "localhost:"+m.port)
		at := own.at(m.host(n))
		d := demanded(b, &side{lanes: []*lane{at}}, request{method: http.MethodPost, path: offer.PathSponsor})
		payment := d.signed(b, newBuyers(b, 1)[0], at.host)
		paying.Go(func() {
			if !s.until(func() bool { return requirePaid(at.send(payment)) == nil }) {
				refused.Add(1)
			}
		})
	}
	paying.Wait()
	return opened, time.Since(s.began).Seconds(), int(refused.Load())
}

// looks reports whether the offer of the lane's host has its ledger open: it refuses then what is no payment at all, without
// a question to the ledger, of which a thousand in a row would take longer than the start.
func (l *lane) looks() bool {
	none := request{method: http.MethodPost, path: offer.PathSponsor, header: http.Header{"Payment-Signature": {"none"}}}
	status, err := l.send(none.bytes(l.host))
	return err == nil && status != http.StatusServiceUnavailable
}

// farther is the address of a database as it is reached through a proxy that is half the distance away in either direction.
func farther(t testing.TB, dsn string) string {
	t.Helper()
	address, err := url.Parse(dsn)
	require.NoError(t, err)
	query := address.Query()
	socket := filepath.Join(query.Get("host"), ".s.PGSQL.5432")
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("unix", socket)
			if err != nil {
				_ = near.Close()
				continue
			}
			go delay(near, far)
			go delay(far, near)
		}
	}()
	host, port, err := net.SplitHostPort(listener.Addr().String())
	require.NoError(t, err)
	query.Set("host", host)
	query.Set("port", port)
	query.Set("sslmode", "disable")
	address.RawQuery = query.Encode()
	return address.String()
}

// delay passes on what comes when it has been under way for half the distance. It is done when either side closes.
func delay(to, from net.Conn) {
	type packet struct {
		due  time.Time
		data []byte
	}
	packets := make(chan packet, 1<<12)
	go func() {
		defer close(packets)
		for {
			data := make([]byte, 32<<10)
			n, err := from.Read(data)
			if n > 0 {
				packets <- packet{time.Now().Add(distance / 2), data[:n]}
			}
			if err != nil {
				return
			}
		}
	}()
	defer to.Close()
	for p := range packets {
		time.Sleep(time.Until(p.due))
		if _, err := to.Write(p.data); err != nil {
			_ = from.Close()
			break
		}
	}
	for range packets { // until the other goroutine has ended
	}
}
