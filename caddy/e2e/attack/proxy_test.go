package attack

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// A meddler stands before a server: it reports whether it has answered the request, whose body it is given.
type meddler func(w http.ResponseWriter, r *http.Request, body []byte) (answered bool)

// proxy starts a server that passes on what the meddler does not answer. The meddler runs beside the test's goroutine.
func (m *market) proxy(target string, meddle meddler) string {
	m.Helper()
	to, err := url.Parse(target)
	require.NoError(m, err)
	passing := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }}
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		if !meddle(w, r, body) {
			passing.ServeHTTP(w, r)
		}
	}))
	m.Cleanup(func() {
		proxy.CloseClientConnections()
		proxy.Close()
	})
	return proxy.URL
}

// readPayment reads what a facilitator is asked to verify or settle, or what a buyer sends; what is neither has no nonce.
func readPayment(body []byte) (p payoffertest.Settlement) {
	type payload struct {
		Payload struct {
			Signature     string
			Authorization payoffertest.Settlement
		}
	}
	var request struct {
		PaymentPayload payload // of a facilitator
		payload                // of a buyer
	}
	_ = json.Unmarshal(body, &request)
	for _, found := range []payload{request.PaymentPayload, request.payload} {
		if found.Payload.Authorization.Nonce != "" {
			p = found.Payload.Authorization
			p.Signature = found.Payload.Signature
		}
	}
	return p
}

// settle makes a payment, as facilitators do, and returns the transaction's hash. It may run beside the test's goroutine.
func (m *market) settle(p payoffertest.Settlement) (string, error) {
	signature, err := hexutil.Decode(p.Signature)
	a := chain.Authorization{From: common.HexToAddress(p.From), To: common.HexToAddress(p.To), Nonce: common.HexToHash(p.Nonce)}
	for text, number := range map[string]*int64{p.Value: &a.Value, p.ValidAfter: &a.ValidAfter, p.ValidBefore: &a.ValidBefore} {
		var wrong error
		*number, wrong = strconv.ParseInt(text, 10, 64)
		err = errors.Join(err, wrong)
	}
	if err != nil {
		return "", err
	}
	hash, err := m.broadcast(a.Call(m, signature))
	return hash.Hex(), err
}
