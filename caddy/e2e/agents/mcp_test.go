package agents

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/a2aproject/a2a-go/a2a"
	"github.com/a2aproject/a2a-go/a2aclient"
	"github.com/a2aproject/a2a-go/a2aclient/agentcard"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/node"
	"github.com/payoffer/caddy-pay-offer/payoffer/document"
)

// toolResult is the result of tools/call.
type toolResult struct {
	IsError bool `json:"isError"`
	Content []struct{ Type, Text string }
	// StructuredContent stands in the text too.
	StructuredContent json.RawMessage `json:"structuredContent"`
	Meta              struct {
		Payment *settlement `json:"x402/payment-response"`
	} `json:"_meta"`
}

func (tr toolResult) terms(t testing.TB) (terms struct {
	AmountUSD   float64
	Paid        bool
	Status      string
	Error       string
	Methods     []struct{ Rail string }
	Transaction string
}) {
	t.Helper()
	require.Len(t, tr.Content, 1)
	require.Equal(t, "text", tr.Content[0].Type)
	require.JSONEq(t, string(tr.StructuredContent), tr.Content[0].Text)
	require.NoError(t, json.Unmarshal(tr.StructuredContent, &terms))
	require.EqualValues(t, 42, terms.AmountUSD)
	return terms
}

// requireQuote checks that a result quotes every rail, and demands a payment.
func (tr toolResult) requireQuote(t testing.TB) {
	t.Helper()
	require.True(t, tr.IsError)
	terms := tr.terms(t)
	require.False(t, terms.Paid)
	require.Contains(t, terms.Error, "charges nothing")
	rails := make(map[string]bool)
	for _, method := range terms.Methods {
		rails[method.Rail] = true
	}
	require.Equal(t, map[string]bool{"card": true, "usdc": true}, rails)
}

func TestOfficialTypeScriptClientPaysByMCP(t *testing.T) {
	m := openMarket(t)
	buyer := m.chain.Buyers[0]
	var visit struct {
		Tools              []string
		Quote, Paid, Again toolResult
	}
	node.Visit(t, node.AgentMCP, m.base, buyer, &visit)
	require.Equal(t, []string{document.ToolName}, visit.Tools)
	visit.Quote.requireQuote(t)
	for _, result := range []toolResult{visit.Paid, visit.Again} {
		require.False(t, result.IsError)
		require.True(t, result.terms(t).Paid)
		require.NotNil(t, result.Meta.Payment)
		m.requirePaid(buyer, *result.Meta.Payment)
	}
}

func TestOfficialGoClientPaysByMCP(t *testing.T) {
	m := openMarket(t)
	session, err := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, nil).
		Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: m.base + "/mcp"}, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = session.Close() })
	call := func(meta mcp.Meta) (result toolResult) {
		called := lab.Must(session.CallTool(t.Context(), &mcp.CallToolParams{Name: document.ToolName, Meta: meta}))(t)
		decode(t, called, &result)
		return result
	}
	quote := call(nil)
	quote.requireQuote(t)

	buyer := m.chain.Buyers[0]
	payment := m.sign(quote.StructuredContent, buyer)
	forged := m.sign(quote.StructuredContent, m.chain.Buyers[1])
	forged["payload"].(map[string]any)["authorization"] = payment["payload"].(map[string]any)["authorization"]
	var refused, paid toolResult
	m.settled(func() string {
		refused = call(mcp.Meta{"x402/payment": forged})
		return refused.terms(t).Status
	})
	require.True(t, refused.IsError)
	require.Contains(t, refused.terms(t).Error, "signature")
	require.Empty(t, m.chain.TransfersTo(t, m.payee))

	m.settled(func() string {
		paid = call(mcp.Meta{"x402/payment": payment})
		return paid.terms(t).Status
	})
	require.False(t, paid.IsError, "%s", paid.StructuredContent)
	require.NotNil(t, paid.Meta.Payment)
	m.requirePaid(buyer, *paid.Meta.Payment)
	require.Equal(t, paid.Meta.Payment.Transaction.Hex(), paid.terms(t).Transaction)
}

// Its buyer sends the payment as text, where the specification has an object.
func TestCloudflareClientPaysByMCP(t *testing.T) {
	lab.RequirePackages(t, "caddy/e2e/node/cloudflare")
	m := openMarket(t)
	buyer := m.chain.Buyers[0]
	var paid toolResult
	node.Visit(t, node.AgentCloudflare, m.base, buyer, &paid)
	require.False(t, paid.IsError, "%s", paid.StructuredContent)
	require.True(t, paid.terms(t).Paid)
	require.NotNil(t, paid.Meta.Payment)
	m.requirePaid(buyer, *paid.Meta.Payment)
}

const extension = "https://github.com/google-a2a/a2a-x402/v0.1"

// activation activates the extension for payments, when it is on.
type activation struct {
	a2aclient.PassthroughInterceptor
	on bool
}

func (a *activation) Before(ctx context.Context, request *a2aclient.Request) (context.Context, error) {
	if a.on {
		request.Meta["X-A2A-Extensions"] = []string{extension}
	}
	return ctx, nil
}

func TestOfficialGoClientPaysByA2A(t *testing.T) {
	m := openMarket(t)
	card := lab.Must(agentcard.DefaultResolver.Resolve(t.Context(), m.base))(t)
	require.Equal(t, m.base+"/mcp", card.URL)
	require.Len(t, card.Capabilities.Extensions, 2)
	require.Equal(t, extension, card.Capabilities.Extensions[0].URI)
	require.False(t, card.Capabilities.Extensions[0].Required)
	activation := new(activation)
	client := lab.Must(a2aclient.NewFromCard(t.Context(), card, a2aclient.WithInterceptors(activation)))(t)
	send := func(message *a2a.Message) a2a.SendMessageResult {
		result := lab.Must(client.SendMessage(t.Context(), &a2a.MessageSendParams{Message: message}))(t)
		return result
	}

	offer, ok := send(a2a.NewMessage(a2a.MessageRoleUser, a2a.TextPart{Text: "How can I pay?"})).(*a2a.Message)
	require.True(t, ok)
	require.Len(t, offer.Parts, 2)
	require.Contains(t, offer.Parts[0].(a2a.TextPart).Text, "https://checkout.example/pay")
	require.EqualValues(t, 42, offer.Parts[1].(a2a.DataPart).Data["amountUsd"])

	activation.on = true
	demand, ok := send(a2a.NewMessage(a2a.MessageRoleUser, a2a.TextPart{Text: "I would like to pay."})).(*a2a.Task)
	require.True(t, ok)
	require.Equal(t, a2a.TaskStateInputRequired, demand.Status.State)
	require.Equal(t, "payment-required", demand.Status.Message.Metadata["x402.payment.status"])
	required, err := json.Marshal(demand.Status.Message.Metadata["x402.payment.required"])
	require.NoError(t, err)

	buyer := m.chain.Buyers[0]
	message := a2a.NewMessageForTask(a2a.MessageRoleUser, demand, a2a.TextPart{Text: "Here is the payment."})
	message.Metadata = map[string]any{"x402.payment.status": "payment-submitted", "x402.payment.payload": m.sign(required, buyer)}
	for range 2 { // the same payment again has the same answer
		var paid *a2a.Task
		m.settled(func() string {
			paid, ok = send(message).(*a2a.Task)
			require.True(t, ok)
			status, _ := paid.Status.Message.Parts[1].(a2a.DataPart).Data["status"].(string)
			return status
		})
		require.Equal(t, demand.ID, paid.ID)
		m.requireCompleted(string(paid.Status.State), paid.Status.Message.Metadata)
		var receipts []settlement
		decode(t, paid.Status.Message.Metadata["x402.payment.receipts"], &receipts)
		require.Len(t, receipts, 1)
		m.requirePaid(buyer, receipts[0])
	}

	_, err = client.GetTask(t.Context(), &a2a.TaskQueryParams{ID: demand.ID})
	require.ErrorIs(t, err, a2a.ErrTaskNotFound)
}

func (m *market) requireCompleted(state string, metadata map[string]any) {
	m.Helper()
	require.Equal(m, "completed", state, "%v", metadata)
	require.Equal(m, "payment-completed", metadata["x402.payment.status"])
}

func TestOfficialJavaScriptClientPaysByA2A(t *testing.T) {
	m := openMarket(t)
	buyer := m.chain.Buyers[0]
	type message struct {
		Parts []struct {
			Content struct {
				Case  string `json:"$case"`
				Value json.RawMessage
			}
		}
		Metadata map[string]json.RawMessage
	}
	type task struct {
		ID     string
		Status struct {
			State   int
			Message message
		}
	}
	var visit struct {
		Card struct {
			Name   string
			Skills []struct{ ID string }
		}
		Offer        message
		Demand, Paid task
	}
	node.Visit(t, node.AgentA2A, m.base, buyer, &visit)
	require.Equal(t, "pay-42", visit.Card.Skills[0].ID)
	require.Len(t, visit.Offer.Parts, 2)
	require.Equal(t, "text", visit.Offer.Parts[0].Content.Case)
	require.Contains(t, string(visit.Offer.Parts[0].Content.Value), "https://checkout.example/pay")
	require.Equal(t, "data", visit.Offer.Parts[1].Content.Case)

	// Numbers of the states in the protocol buffers of A2A 1.0.
	const completed, inputRequired = 3, 6
	require.Equal(t, inputRequired, visit.Demand.Status.State)
	require.Equal(t, visit.Demand.ID, visit.Paid.ID)
	paid := visit.Paid.Status
	require.Equal(t, completed, paid.State, "%s", paid.Message.Metadata)
	require.Equal(t, `"payment-completed"`, string(paid.Message.Metadata["x402.payment.status"]))
	var receipts []settlement
	require.NoError(t, json.Unmarshal(paid.Message.Metadata["x402.payment.receipts"], &receipts))
	require.Len(t, receipts, 1)
	m.requirePaid(buyer, receipts[0])
}
