package node

import (
	"context"
	"crypto/ecdsa"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/skip"
)

// Agent is the script of one official client of an agent protocol.
type Agent string

// The official clients: the TypeScript SDK of MCP, the JavaScript SDK of A2A, that of MPP, and Cloudflare's buyer over MCP.
const (
	AgentMCP        Agent = "agents-mcp.mjs"
	AgentA2A        Agent = "agents-a2a.mjs"
	AgentMPP        Agent = "agents-mppx.mjs"
	AgentCloudflare Agent = "cloudflare/agents-mcp.mjs"
	// AgentGate is a client of x402 or of MPP at a gated address.
	AgentGate Agent = "visit-gate.mjs"
)

// Visit lets an agent ask the service at url for the offer and pay it. It reads into answer what the script prints.
func Visit(t testing.TB, agent Agent, url string, key *ecdsa.PrivateKey, answer any, env ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	readLine(t, start(ctx, t, string(agent), append(env, "URL="+url, "PRIVATE_KEY="+privateKey(key))...), answer)
}

var newer struct {
	sync.Once
	path string
}

// Newer returns the path of Node.js 22 or newer, which some programs need: the installed one, or that which npm brings.
func Newer(t testing.TB) string {
	t.Helper()
	lab.RequireNode(t)
	newer.Do(func() {
		for _, path := range []string{"node", lab.Path(t, "caddy/e2e/node/node_modules/.bin/node")} {
			output, err := exec.Command(path, "--print", "process.versions.node").Output()
			if err != nil {
				continue
			}
			major, _, _ := strings.Cut(string(output), ".")
			if number, err := strconv.Atoi(major); err == nil && number >= 22 {
				newer.path = path
				return
			}
		}
	})
	if newer.path == "" {
		skip.Test(t, "Node.js 22 is not installed")
	}
	return newer.path
}
