package buyer

import (
	"bytes"
	"crypto/ecdsa"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/node"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/failpoint"
)

// market is a chain with a facilitator.
type market struct {
	*testing.T
	*chain.Chain
	facilitator string
}

var shared lab.Shared[market]

// openMarket returns the market that all tests share, each with payees of its own.
func openMarket(t *testing.T) *market {
	t.Helper()
	lab.RequireNode(t)
	m := shared.Get(t, func(t testing.TB) market {
		c := chain.Start(t)
		return market{Chain: c, facilitator: node.StartFacilitator(t, c.URL, c.Facilitator)}
	})
	m.T = t
	return &m
}

// sell starts the built server and returns its payable URL and the payee.
func (m *market) sell() (url string, payee common.Address) {
	m.Helper()
	payee = chain.NewAddress(m)
	base, _ := server.StartPayable(m, payee.Hex(), m.facilitator, m.URL)
	return base + "/v1/sponsor", payee
}

// person is a buyer at a terminal of his own: a key, and the folder of his payments.
type person struct {
	*testing.T
	key         *ecdsa.PrivateKey
	home, state string
}

func newPerson(t *testing.T, key *ecdsa.PrivateKey) *person {
	t.Helper()
	home := t.TempDir()
	return &person{t, key, home, filepath.Join(home, "data", "caddy", "pay_offer", "payments")}
}

// result is how a run of the command ended.
type result struct {
	code     int // -1 for one that was killed
	out, err string
}

// command is a run of a binary with a key in its environment.
func (p *person) command(binary string, args ...string) *exec.Cmd {
	p.Helper()
	command := exec.Command(binary, append([]string{"pay-offer", "pay"}, args...)...)
	command.Dir = p.home
	command.Env = append(server.Inherited(), "HOME="+p.home, "XDG_DATA_HOME="+filepath.Join(p.home, "data"),
		"PAY_OFFER_KEY="+hexutil.Encode(crypto.FromECDSA(p.key)))
	return command
}

// pay runs the command as it is released.
func (p *person) pay(args ...string) result {
	p.Helper()
	return p.end(p.command(server.Released(p), args...))
}

// payKilledAt runs it until a point at which it dies.
func (p *person) payKilledAt(point failpoint.Point, args ...string) {
	p.Helper()
	command := p.command(server.Crashing(p), args...)
	command.Env = append(command.Env, fmt.Sprintf("%s=%s:1", failpoint.Variable, point))
	got := p.end(command)
	require.Equal(p, -1, got.code, "it was not killed: %+v", got)
}

// end runs a command, whose output must not contain the key.
func (p *person) end(command *exec.Cmd) result {
	p.Helper()
	var out, failed bytes.Buffer
	command.Stdout, command.Stderr = &out, &failed
	err := command.Run()
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) {
		require.NoError(p, err)
	}
	p.requireNoKey(out.String() + failed.String())
	return result{command.ProcessState.ExitCode(), out.String(), failed.String()}
}

func (p *person) requireNoKey(text string) {
	p.Helper()
	require.NotContains(p, strings.ToLower(text), hexutil.Encode(crypto.FromECDSA(p.key))[2:18])
}

// kept are the payments that were kept on disk, in their order.
func (p *person) kept() (payments []payment) {
	p.Helper()
	files := lab.Must(filepath.Glob(filepath.Join(p.state, "*", "*")))(p)
	for _, name := range files {
		info := lab.Must(os.Stat(name))(p)
		require.Equal(p, os.FileMode(0o600), info.Mode().Perm(), name)
		text := lab.Must(os.ReadFile(name))(p)
		p.requireNoKey(string(text))
		if filepath.Ext(name) == ".json" {
			var next payment
			require.NoError(p, json.Unmarshal(text, &next))
			payments = append(payments, next)
		}
	}
	return payments
}

// payment is what tests look at in a file of the state folder.
type payment struct {
	State  string
	Nonce  string
	Answer string
	Header string `json:"paymentSignature"`
}

// requireOneTransfer requires that the payee was paid once by the person, and that one payment was kept for it.
func (m *market) requireOneTransfer(p *person, payee common.Address) chain.Transfer {
	m.Helper()
	transfers := m.TransfersTo(m, payee)
	require.Len(m, transfers, 1)
	require.Equal(m, chain.Address(p.key), transfers[0].From)
	require.EqualValues(m, 42_000_000, transfers[0].Value.Int64())
	require.Len(m, p.kept(), 1)
	return transfers[0]
}
