package upgrade

import (
	"crypto/ecdsa"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/postgres"
)

const (
	offerID  = "upgrade"
	secret   = "whsec_of_the_card_rail"
	patience = time.Minute
	again    = 50 * time.Millisecond
)

const template = `{
	admin {ADMIN}
	persist_config off
	default_bind 127.0.0.1
	storage file_system {STORAGE}
	pay_offer {
		ledger postgres {DSN}
	}
}
{URL} {
	pay_offer {
		base_url https://pay.example
		id upgrade
		testnet
		amount 0.04
		rate_limit 10000 1s
		card https://checkout.example/pay {
			payment_link plink_1
			webhook_secret {env.CARD_SECRET}
		}
		usdc base-sepolia {PAYEE} {
			facilitator {FACILITATOR} {
				timeout 5s
			}
			rpc {RPC}
			confirm latest
		}
		bank_transfer transfer pay@example.org
	}
}
`

// shop is what all instances have in common: the ledger and the storage, and outside the chain and the facilitator.
type shop struct {
	t            *testing.T
	dsn, storage string
	payee        common.Address
	chain        *chain.Chain
	facilitator  *payoffertest.Facilitator
	client       *http.Client
}

func openShop(t *testing.T) *shop {
	t.Helper()
	key, err := crypto.GenerateKey()
	require.NoError(t, err)
	s := &shop{
		t: t, dsn: postgres.Start(t).DSN(t), storage: t.TempDir(), payee: chain.Address(key), chain: chain.Start(t),
		facilitator: payoffertest.NewFacilitator(t), client: &http.Client{Timeout: time.Minute},
	}
	t.Cleanup(s.client.CloseIdleConnections)
	s.facilitator.OnBroadcast(s.broadcast)
	return s
}

// broadcast tries a call, as the reference facilitator does, and does not wait for its block.
func (s *shop) broadcast(asked payoffertest.Settlement) (string, error) {
	signature, err := hexutil.Decode(asked.Signature)
	if err != nil {
		return "", err
	}
	a := chain.Authorization{From: common.HexToAddress(asked.From), To: common.HexToAddress(asked.To), Nonce: common.HexToHash(asked.Nonce)}
	for text, number := range map[string]*int64{asked.Value: &a.Value, asked.ValidAfter: &a.ValidAfter, asked.ValidBefore: &a.ValidBefore} {
		var wrong error
		*number, wrong = strconv.ParseInt(text, 10, 64)
		err = errors.Join(err, wrong)
	}
	if err != nil {
		return "", err
	}
	call := a.Call(s.t, signature)
	if err := s.chain.Try(s.chain.USDC, call); err != nil {
		return "", err
	}
	hash, err := s.chain.Send(s.chain.USDC, call)
	return hash.Hex(), err
}

// buyers are accounts with money.
func (s *shop) buyers(count int) (keys []*ecdsa.PrivateKey) {
	for range count {
		keys = append(keys, s.chain.NewBuyer(s.t))
	}
	return keys
}

// database is the ledger's, beside all instances.
func (s *shop) database() *sql.DB {
	db, err := sql.Open("pgx", s.dsn+"&application_name=pg_dump")
	require.NoError(s.t, err)
	s.t.Cleanup(func() { _ = db.Close() })
	return db
}

// backUp holds every table as pg_dump does, until it is ended.
func (s *shop) backUp() (end func()) {
	s.t.Helper()
	tx, err := s.database().BeginTx(s.t.Context(), &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	require.NoError(s.t, err)
	var names string
	err = tx.QueryRow(`SELECT string_agg(tablename, ', ') FROM pg_tables WHERE schemaname = current_schema()`).Scan(&names)
	require.NoError(s.t, err)
	_, err = tx.Exec(`LOCK TABLE ` + names + ` IN ACCESS SHARE MODE`)
	require.NoError(s.t, err)
	return func() { require.NoError(s.t, tx.Rollback()) }
}

// instance is one of several servers of one offer.
type instance struct {
	*server.Victim
	shop       *shop
	url, admin string
}

// instance prepares a server of a version, and starts nothing.
func (s *shop) instance(binary string) *instance {
	s.t.Helper()
	i := &instance{shop: s, url: "http://localhost:" + payoffertest.FreePort(s.t), admin: "localhost:" + payoffertest.FreePort(s.t)}
	i.Victim = server.NewVictimOf(s.t, binary, i.url, strings.NewReplacer(
		"{ADMIN}", i.admin, "{STORAGE}", strconv.Quote(s.storage), "{DSN}", strconv.Quote(s.dsn), "{URL}", i.url,
		"{PAYEE}", s.payee.Hex(), "{FACILITATOR}", s.facilitator.URL(), "{RPC}", s.chain.URL).Replace(template))
	return i
}

func (i *instance) launch() { i.Launch(i.shop.t, "CARD_SECRET="+secret) }

// ready waits until everything answers, as who balances load does.
func (i *instance) ready() {
	i.shop.t.Helper()
	require.True(i.shop.t, i.Answers(i.shop.t), "the server ended by itself")
	for _, url := range []string{i.url + "/v1/received", "http://" + i.admin + "/pay_offer/received"} { // one is there before the other
		require.Eventually(i.shop.t, func() bool {
			got, err := i.ask(http.MethodGet, url, nil)
			return err == nil && got.status == http.StatusOK
		}, patience, again)
	}
}

// answer is what a client keeps of an answer.
type answer struct {
	status int
	body   string
}

// ask sends a request once. An error is a connection that failed, as that to a killed server.
func (i *instance) ask(method, url string, body []byte, header ...string) (answer, error) {
	request, err := http.NewRequest(method, url, strings.NewReader(string(body)))
	if err != nil {
		return answer{}, err
	}
	for n := 0; n < len(header); n += 2 {
		request.Header.Set(header[n], header[n+1])
	}
	response, err := i.shop.client.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	read, err := io.ReadAll(response.Body)
	return answer{response.StatusCode, string(read)}, err
}

// read is the answer to a GET, which must be 200.
func (i *instance) read(url string, into any) {
	i.shop.t.Helper()
	got, err := i.ask(http.MethodGet, url, nil)
	require.NoError(i.shop.t, err)
	require.Equal(i.shop.t, http.StatusOK, got.status, got.body)
	require.NoError(i.shop.t, json.Unmarshal([]byte(got.body), into))
}

// received are the sums of all rails but for how fresh they are.
func (i *instance) received() string {
	i.shop.t.Helper()
	var report struct {
		ReceivedUSD json.Number      `json:"receivedUsd"`
		Rails       []map[string]any `json:"rails"`
	}
	i.read(i.url+"/v1/received", &report)
	sums := report.ReceivedUSD.String()
	for _, rail := range report.Rails {
		sums += fmt.Sprint(" ", rail["rail"], rail["confirmed"], rail["seen"], rail["settling"])
	}
	return sums
}

// tag ends the ids that are told of changes.
var tag = regexp.MustCompile(`:[0-9a-f]{16}$`)

// changes are all transitions that the feed lists, as "id to".
func (i *instance) changes() (all []string) {
	i.shop.t.Helper()
	for next := i.url + "/v1/received?after=0"; ; {
		var feed struct {
			Transitions []struct{ ID, To string }
			Last        json.Number
		}
		i.read(next, &feed)
		if len(feed.Transitions) == 0 {
			return all
		}
		for _, t := range feed.Transitions {
			all = append(all, tag.ReplaceAllString(t.ID, "")+" "+t.To)
		}
		next = i.url + "/v1/received?after=" + feed.Last.String()
	}
}
