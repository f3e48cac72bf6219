package mpp

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

const (
	payTo = "0x52908400098527886E0F7030069857D2E4169EE7"
	payer = "0x8617E340B3D01FA5F11F306F4090FD50E238070D"
)

func noLive() offer.Live { return offer.Live{} }

var at = time.Unix(1_763_724_000, 0)

func newOffer(t testing.TB, field string, networks ...string) *offer.Offer {
	t.Helper()
	card, err := offer.NewCard("https://checkout.example/pay", nil, 42_00)
	require.NoError(t, err)
	var rails []offer.Rail
	for _, name := range networks {
		network, err := offer.LookupNetwork(name)
		require.NoError(t, err)
		rail, err := offer.NewUSDC("usdc-"+network.Name, network, payTo, 42_00)
		require.NoError(t, err)
		rails = append(rails, rail)
	}
	o, err := offer.New(offer.Terms{BaseURL: "https://pay.example.org:8443", Amount: 42_00, MPP: field}, card, rails...)
	require.NoError(t, err)
	return o
}

func newIssuer(t testing.TB, o *offer.Offer, secret string) *Issuer {
	t.Helper()
	return New(o, o.BaseURL, func() []byte { return []byte(secret) }, func() time.Time { return at }, noLive)
}

var parameter = regexp.MustCompile(`([a-z]+)="([^"]*)"`)

// answer is the credential of a client for a challenge, as JSON. Nothing here looks
// at its signature.
func answer(header string) map[string]any {
	challenge := map[string]any{}
	for _, found := range parameter.FindAllStringSubmatch(header, -1) {
		challenge[found[1]] = found[2]
	}
	text, _ := base64.RawURLEncoding.DecodeString(challenge["request"].(string))
	var request charge
	_ = json.Unmarshal(text, &request)
	expires, _ := time.Parse(time.RFC3339, challenge["expires"].(string))
	return map[string]any{
		"challenge": challenge,
		"payload": map[string]any{
			"type": "authorization", "from": payer, "to": request.Recipient, "value": request.Amount, "validAfter": "0",
			"validBefore": strconv.FormatInt(expires.Unix(), 10), "signature": "0x" + strings.Repeat("11", 65),
			"nonce": crypto.Keccak256Hash([]byte(challenge["id"].(string) + challenge["realm"].(string))).Hex(),
		},
		"source": "did:pkh:eip155:8453:" + payer,
	}
}

// carried is a request's header with a credential.
func carried(field string, credential map[string]any) http.Header {
	text, _ := json.Marshal(credential)
	return http.Header{field: {"Payment " + base64.RawURLEncoding.EncodeToString(text)}}
}

func TestChallengePerChain(t *testing.T) {
	for field, named := range map[string]bool{"Authorization": false, "Payment-Authorization": true} {
		i := newIssuer(t, newOffer(t, field, "base", "polygon"), "secret")
		headers, native := i.AppendHeader(nil), i.Required(nil).Challenges
		require.Len(t, headers, 2)
		require.NotEqual(t, headers, i.AppendHeader(nil), "a second payment must not be a replay of the first")
		for n, chain := range []string{"8453", "137"} {
			require.Equal(t, named, strings.Contains(headers[n], `, header="Payment-Authorization"`))
			require.Contains(t, headers[n], `, realm="pay.example.org", method="evm", intent="charge", request="`)
			require.Contains(t, headers[n], `, expires="2025-11-21T11:25:00Z"`)
			text, err := base64.RawURLEncoding.DecodeString(answer(headers[n])["challenge"].(map[string]any)["request"].(string))
			require.NoError(t, err)
			network, err := offer.LookupNetwork("eip155:" + chain)
			require.NoError(t, err)
			require.Equal(t, `{"amount":"42000000","currency":"`+network.USDC+`","methodDetails":{"chainId":`+chain+
				`,"credentialTypes":["authorization"],"decimals":6,"feePayer":true},"recipient":"`+payTo+`"}`, string(text))
			require.Equal(t, string(text), string(native[n].Request), "MCP says the same")
			size := len("WWW-Authenticate: \r\n") + len(strings.Replace(headers[n], `, header="Payment-Authorization"`, "", 1))
			require.Less(t, size, 530, "a proxy's buffer is small")
		}
	}
}

// Hosts of one offer do not recognize each other's challenges.
func TestIssuerRefusesChallengeOfOtherOrigin(t *testing.T) {
	o := newOffer(t, "Authorization", "base")
	secret, now := func() []byte { return []byte("secret") }, func() time.Time { return at }
	own, shop := New(o, o.BaseURL, secret, now, noLive), New(o, "https://shop.example.org", secret, now, noLive)
	credential := answer(shop.AppendHeader(nil)[0])
	require.Equal(t, "shop.example.org", credential["challenge"].(map[string]any)["realm"])
	for issuer, want := range map[*Issuer]string{own: invalidChallenge, shop: ""} {
		read, err := issuer.FromHeader(carried("Authorization", credential))
		require.NoError(t, err)
		reason, _ := read.reject()
		require.Equal(t, want, reason)
	}
}

// Challenges are issued and recognized as soon as the secret is loaded, also for many payers at once.
func TestIssuerConcurrentPayers(t *testing.T) {
	var secret []byte
	i := New(newOffer(t, "Payment-Authorization", "base"), "https://pay.example.org", func() []byte { return secret }, func() time.Time { return at }, noLive)
	require.Empty(t, i.AppendHeader(nil))
	secret = []byte("secret")
	var payers sync.WaitGroup
	for range 8 {
		payers.Go(func() {
			for range 50 {
				header := i.AppendHeader(nil)[0]
				read, err := i.FromHeader(carried("Payment-Authorization", answer(header)))
				require.NoError(t, err)
				reason, detail := read.reject()
				require.Empty(t, reason, detail)
				require.Equal(t, header, read.challenge.String())
			}
		})
	}
	payers.Wait()
}

func TestNoChallengeWithoutMPP(t *testing.T) {
	for _, i := range []*Issuer{
		newIssuer(t, newOffer(t, "", "base"), "secret"), newIssuer(t, newOffer(t, "Authorization"), "secret"),
		New(newOffer(t, "Authorization", "base"), "https://pay.example.org", func() []byte { return nil }, time.Now, noLive),
	} {
		if i != nil {
			require.Empty(t, i.AppendHeader(nil))
		}
		require.Nil(t, i.Required(nil))
	}
	var none *Issuer
	c, err := none.FromHeader(carried("Authorization", answer(newIssuer(t, newOffer(t, "Authorization", "base"), "secret").AppendHeader(nil)[0])))
	require.NoError(t, err)
	require.Nil(t, c)
}

func TestCredentialToX402Payment(t *testing.T) {
	i := newIssuer(t, newOffer(t, "Authorization", "base"), "secret")
	want := `{"accepted":{"amount":"42000000","asset":"0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913","network":"eip155:8453","payTo":"` + payTo +
		`","scheme":"exact"},"payload":{"authorization":{"from":"` + payer + `","nonce":"NONCE","to":"` + payTo +
		`","validAfter":"0","validBefore":"1763724300","value":"42000000"},"signature":"0x` + strings.Repeat("11", 65) + `"},"x402Version":2}`
	over := map[string]func(map[string]any) (*Credential, error){
		"HTTP": func(credential map[string]any) (*Credential, error) {
			return i.FromHeader(carried("Authorization", credential))
		},
		"HTTP, padded, in lower case": func(credential map[string]any) (*Credential, error) {
			text, _ := json.Marshal(credential)
			return i.FromHeader(http.Header{"Authorization": {"Basic dXNlcjpwYXNz", "payment \t" + base64.URLEncoding.EncodeToString(text)}})
		},
		"JSON-RPC, as text": func(credential map[string]any) (*Credential, error) {
			text, _ := json.Marshal(credential)
			return i.FromMeta([]byte(`"` + base64.RawURLEncoding.EncodeToString(text) + `"`))
		},
		"JSON-RPC": func(credential map[string]any) (*Credential, error) {
			challenge := maps.Clone(credential["challenge"].(map[string]any))
			request, _ := base64.RawURLEncoding.DecodeString(challenge["request"].(string))
			challenge["request"] = json.RawMessage(" " + string(request)) // canonical is what its id is made of
			text, err := json.Marshal(map[string]any{"challenge": challenge, "payload": credential["payload"], "source": credential["source"]})
			require.NoError(t, err)
			return i.FromMeta(text)
		},
	}
	for name, read := range over {
		credential := answer(i.AppendHeader(nil)[0])
		c, err := read(credential)
		require.NoError(t, err, name)
		attempt := c.Attempt("192.0.2.7")
		require.JSONEq(t, strings.Replace(want, "NONCE", credential["payload"].(map[string]any)["nonce"].(string), 1), string(attempt.Payload), name)
		require.Equal(t, credential["challenge"].(map[string]any)["id"], attempt.Secret, "the chain has only its hash")
		require.Equal(t, "192.0.2.7", attempt.Client)
		reason, detail := attempt.Refuse()
		require.Empty(t, reason+detail, name)
	}
}

func TestCredentialMustAnswerOwnChallenge(t *testing.T) {
	o := newOffer(t, "Authorization", "base", "polygon")
	i := newIssuer(t, o, "secret")
	inChallenge := func(name string, value any) func(map[string]any) {
		return func(c map[string]any) { c["challenge"].(map[string]any)[name] = value }
	}
	inPayload := func(name string, value any) func(map[string]any) {
		return func(c map[string]any) { c["payload"].(map[string]any)[name] = value }
	}
	cheap := base64.RawURLEncoding.EncodeToString([]byte(strings.Replace(string(chargeOf(o.USDC()[0])), "42000000", "1", 1)))
	for name, c := range map[string]struct {
		change func(map[string]any)
		want   string
	}{
		"as it is":                     {func(map[string]any) {}, ""},
		"no source":                    {func(c map[string]any) { delete(c, "source") }, ""},
		"another id":                   {inChallenge("id", "AAAA"), invalidChallenge},
		"another realm":                {inChallenge("realm", "shop.example.org"), invalidChallenge},
		"another request":              {inChallenge("request", cheap), invalidChallenge},
		"a later end":                  {inChallenge("expires", "2035-11-21T11:25:00Z"), invalidChallenge},
		"another field":                {inChallenge("header", "Payment-Authorization"), invalidChallenge},
		"another nonce":                {inPayload("nonce", "0x"+strings.Repeat("22", 32)), verificationFailed},
		"another type":                 {inPayload("type", "permit2"), verificationFailed},
		"another payer than in source": {inPayload("from", payTo), verificationFailed},
		"a source on another chain":    {func(c map[string]any) { c["source"] = "did:pkh:eip155:137:" + payer }, verificationFailed},
	} {
		credential := answer(i.AppendHeader(nil)[0])
		c.change(credential)
		read, err := i.FromHeader(carried("Authorization", credential))
		require.NoError(t, err, name)
		reason, detail := read.reject()
		require.Equal(t, c.want, reason, name)
		require.Equal(t, c.want == "", detail == "", name)
		problem := read.Problem(x402.Outcome{Status: x402.Refused, Reason: reason, Detail: detail})
		if c.want != "" {
			require.Equal(t, problemType+c.want, problem.Type, name)
			require.Equal(t, 402, problem.Status)
			require.Equal(t, detail, problem.Detail, name)
			require.Equal(t, credential["challenge"].(map[string]any)["id"], problem.ChallengeID)
		}
	}
	neighbour := newOffer(t, "Authorization", "base")
	neighbour.BaseURL = "https://pay.example.org:9443"
	for name, other := range map[string]*Issuer{"another secret": newIssuer(t, o, "another"), "another offer": newIssuer(t, neighbour, "secret")} {
		read, err := i.FromHeader(carried("Authorization", answer(other.AppendHeader(nil)[0])))
		require.NoError(t, err)
		reason, _ := read.reject()
		require.Equal(t, invalidChallenge, reason, name)
	}
	later := New(o, o.BaseURL, i.secret, func() time.Time { return at.Add(validity) }, noLive)
	read, err := later.FromHeader(carried("Authorization", answer(i.AppendHeader(nil)[0])))
	require.NoError(t, err)
	reason, detail := read.reject()
	require.Equal(t, invalidChallenge, reason)
	require.Equal(t, "The challenge expired at "+at.Add(validity).Format(time.RFC3339)+". Answer one of the new challenges.", detail)
}

func TestCredentialHeaderField(t *testing.T) {
	i := newIssuer(t, newOffer(t, "Payment-Authorization", "base"), "secret")
	credential := answer(i.AppendHeader(nil)[0])
	own, foreign := carried("Payment-Authorization", credential), carried("Authorization", credential)
	c, err := i.FromHeader(own)
	require.NoError(t, err)
	require.NotNil(t, c)
	for _, h := range []http.Header{foreign, {"Payment-Authorization": {"Bearer abc"}}, {}} {
		c, err = i.FromHeader(h)
		require.NoError(t, err)
		require.Nil(t, c)
		require.False(t, i.HasCredential(h))
	}
	line := own["Payment-Authorization"][0]
	for _, twice := range [][]string{{line, line}, {line, "Payment e30"}} {
		h := http.Header{"Payment-Authorization": twice}
		_, err = i.FromHeader(h)
		require.ErrorIs(t, err, ErrSeveralCredentials)
		require.True(t, i.HasCredential(h))
	}
}

func TestMalformedCredentialErrors(t *testing.T) {
	i := newIssuer(t, newOffer(t, "Authorization", "base"), "secret")
	whole, _ := json.Marshal(answer(i.AppendHeader(nil)[0]))
	encoded := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	for line, want := range map[string]string{
		"Payment":                  "is not a JSON object with",
		"Payment !":                "is not base64url",
		"Payment " + encoded("{"):  "is not a JSON object with",
		"Payment " + encoded("{}"): "lacks 'payload' or a challenge id",
		"Payment " + encoded(strings.Replace(string(whole), `"payload"`, `"challenge"`, 1)):                  "is not a JSON object with",
		"Payment " + encoded(strings.Replace(string(whole), `"payload"`, `"Payload"`, 1)):                    "lacks 'payload' or a challenge id",
		"Payment " + encoded(strings.Replace(string(whole), `"value":"42000000"`, `"value":42`, 1)):          "has a payload with a member of the wrong type",
		"Payment " + encoded(strings.Replace(string(whole), `"request":"`, `"request":7,"x":"`, 1)):          "has a request that is not a charge request",
		"Payment " + encoded(strings.Replace(string(whole), `"request":"`, `"request":"AA`, 1)):              "has a request that is not a charge request",
		"Payment " + encoded(strings.Replace(string(whole), `"id":"`, `"id":"`+strings.Repeat("A", 100), 1)): "lacks 'payload' or a challenge id",
		"Payment " + encoded(string(whole)+strings.Repeat(" ", maxCredential)):                               "more than 16384",
	} {
		_, err := i.FromHeader(http.Header{"Authorization": {line}})
		var problem *Problem
		require.ErrorAs(t, err, &problem, line)
		require.Equal(t, problemType+malformedCredential, problem.Type)
		require.Equal(t, 402, problem.Status)
		require.Contains(t, problem.Detail, want, line)
	}
	for _, other := range []string{`"method":"tempo"`, `"intent":"session"`} {
		name, _, _ := strings.Cut(other, ":")
		text := regexp.MustCompile(name+`:"[a-z]+"`).ReplaceAllString(string(whole), other)
		_, err := i.FromHeader(http.Header{"Authorization": {"Payment " + encoded(text)}})
		var problem *Problem
		require.ErrorAs(t, err, &problem)
		require.Equal(t, problemType+methodUnsupported, problem.Type)
		require.Equal(t, 400, problem.Status, "another challenge of ours would be of no use")
	}
}

func TestCredentialProblemPerStatus(t *testing.T) {
	i := newIssuer(t, newOffer(t, "Authorization", "base"), "secret")
	c, err := i.FromHeader(carried("Authorization", answer(i.AppendHeader(nil)[0])))
	require.NoError(t, err)
	for status, reasons := range map[x402.Status]map[string]string{
		x402.Malformed: {"invalid_payload": malformedCredential},
		x402.Refused: {
			"insufficient_funds": verificationFailed,
			"invalid_exact_evm_payload_authorization_valid_before": paymentExpired,
			"payment_expired": paymentExpired,
		},
		x402.Settled: {"": ""}, x402.Open: {"": ""}, x402.Unavailable: {"": ""}, x402.Conflict: {"": ""}, x402.Limited: {"": ""},
	} {
		for reason, want := range reasons {
			problem := c.Problem(x402.Outcome{Status: status, Reason: reason, Detail: "So it is."})
			if want == "" {
				require.Nil(t, problem, status)
				continue
			}
			require.Equal(t, problemType+want, problem.Type)
			require.Contains(t, problem.Detail, "So it is.")
		}
	}
}

func TestReceiptNamesTransaction(t *testing.T) {
	i := newIssuer(t, newOffer(t, "Authorization", "base"), "secret")
	credential := answer(i.AppendHeader(nil)[0])
	c, err := i.FromHeader(carried("Authorization", credential))
	require.NoError(t, err)
	text, err := json.Marshal(c.Receipt(x402.Outcome{
		Status: x402.Settled, At: at, Response: &x402.SettleResponse{Network: "eip155:8453", Transaction: "0xabc"},
	}))
	require.NoError(t, err)
	require.JSONEq(t, `{"status":"success","method":"evm","timestamp":"2025-11-21T11:20:00Z","reference":"0xabc","chainId":8453,"challengeId":"`+
		credential["challenge"].(map[string]any)["id"].(string)+`"}`, string(text))
}

func FuzzFromHeader(f *testing.F) {
	i := newIssuer(f, newOffer(f, "Authorization", "base"), "secret")
	f.Add(carried("Authorization", answer(i.AppendHeader(nil)[0]))["Authorization"][0])
	f.Add("Payment e30, Payment e30")
	f.Fuzz(func(t *testing.T, line string) {
		c, err := i.FromHeader(http.Header{"Authorization": {line}})
		switch {
		case err != nil:
			require.Nil(t, c)
			require.NotContains(t, err.Error(), "\n")
		case c != nil:
			require.True(t, json.Valid(c.Attempt("").Payload))
			c.reject()
		}
	})
}

func TestTakeLeavesOtherCredentials(t *testing.T) {
	i := newIssuer(t, newOffer(t, fieldAuthorization, "base"), "a secret")
	for name, c := range map[string]struct{ lines, taken, left []string }{
		"none":                  {[]string{"Bearer abc"}, nil, []string{"Bearer abc"}},
		"one":                   {[]string{"Payment abc"}, []string{"Payment abc"}, nil},
		"two lines":             {[]string{"Bearer abc", "Payment def"}, []string{"Payment def"}, []string{"Bearer abc"}},
		"after another":         {[]string{"Basic abc=, Payment def"}, []string{"Payment def"}, []string{"Basic abc="}},
		"before another":        {[]string{"payment def=,Basic abc="}, []string{"Payment def="}, []string{"Basic abc="}},
		"between others":        {[]string{"Basic abc=, PAYMENT\tdef , Bearer ghi"}, []string{"Payment def"}, []string{"Basic abc=,  Bearer ghi"}},
		"two":                   {[]string{"Payment abc, Payment def"}, []string{"Payment abc", "Payment def"}, nil},
		"malformed":             {[]string{"Payment {a b}"}, []string{"Payment {a b}"}, nil},
		"empty":                 {[]string{"Payment"}, []string{"Payment "}, nil},
		"another scheme's word": {[]string{`Digest realm="a, payment b c"`, "Payments abc"}, nil, []string{`Digest realm="a, payment b c"`, "Payments abc"}},
	} {
		t.Run(name, func(t *testing.T) {
			h := http.Header{}
			for _, line := range c.lines {
				h.Add(fieldAuthorization, line)
			}
			require.Equal(t, len(c.taken) > 0, i.HasCredential(h))
			require.Equal(t, c.taken, i.Take(h))
			require.Equal(t, c.left, h[fieldAuthorization])
			require.False(t, i.HasCredential(h))
		})
	}
	require.Nil(t, (*Issuer)(nil).Take(http.Header{fieldAuthorization: {"Payment abc"}}), "the offer does not speak it")
}
