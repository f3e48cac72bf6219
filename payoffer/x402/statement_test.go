package x402

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	goodReceipt = `{"issuedAt":1703123456,"network":"eip155:8453","payer":"0x857b06519E91e3A54538791bDbb0E22373e36b66","resourceUrl":"https://api.example.com/premium-data","version":1}`
	goodOffer   = `{"amount":"10000","asset":"0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913","network":"eip155:8453","payTo":"0x209693Bc6afc0C5328bA36FaF03C514EF312287C","resourceUrl":"https://api.example.com/premium-data","scheme":"exact","validUntil":1703123516,"version":1}`
)

func TestParseStatementReadsBothKinds(t *testing.T) {
	receipt, err := ParseStatement([]byte(goodReceipt))
	require.NoError(t, err)
	require.Equal(t, "https://api.example.com/premium-data", receipt.ResourceURL())
	require.EqualValues(t, 1703123456, receipt.Receipt.IssuedAt)
	offer, err := ParseStatement([]byte(goodOffer))
	require.NoError(t, err)
	require.Equal(t, "https://api.example.com/premium-data", offer.ResourceURL())
	require.EqualValues(t, 1703123516, offer.Offer.ValidUntil)
	for _, optional := range []string{
		strings.Replace(goodReceipt, `,"version"`, `,"transaction":"0x12","version"`, 1),
		strings.Replace(goodOffer, `,"validUntil":1703123516`, "", 1),
	} {
		_, err := ParseStatement([]byte(optional))
		require.NoError(t, err, optional)
	}
}

func TestParseStatementRefusesWhatIsNotExactlyAStatement(t *testing.T) {
	for name, c := range map[string]struct{ payload, want string }{
		"no JSON":                {"receipt", "cannot be read"},
		"another version":        {strings.Replace(goodReceipt, `"version":1`, `"version":2`, 1), "version 2"},
		"no version":             {strings.Replace(goodReceipt, `,"version":1`, "", 1), "version 0"},
		"a member of neither":    {strings.Replace(goodReceipt, `"issuedAt"`, `"amount":"1","issuedAt"`, 1), "neither"},
		"a member twice":         {strings.Replace(goodReceipt, `"payer":`, `"payer":"0x00","payer":`, 1), "neither"},
		"a member in caps":       {strings.Replace(goodReceipt, `"payer"`, `"Payer"`, 1), "neither"},
		"no payer":               {strings.Replace(goodReceipt, `"payer":"0x857b06519E91e3A54538791bDbb0E22373e36b66",`, "", 1), "neither"},
		"an integer as text":     {strings.Replace(goodReceipt, `1703123456`, `"1703123456"`, 1), "neither"},
		"a date out of time":     {strings.Replace(goodReceipt, `1703123456`, `170312345600000`, 1), "neither"},
		"spaces":                 {strings.Replace(goodReceipt, `,`, `, `, 1), "neither"},
		"members out of order":   {`{"version":1,` + strings.TrimSuffix(goodReceipt[1:], `,"version":1}`) + `}`, "neither"},
		"an offer without payTo": {strings.Replace(goodOffer, `"payTo":"0x209693Bc6afc0C5328bA36FaF03C514EF312287C",`, "", 1), "neither"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseStatement([]byte(c.payload))
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestFindSignedLooksWherePeopleKeepReceipts(t *testing.T) {
	const jws, other = "eyJhbGciOiJFZERTQSJ9.e30.c2lnbmF0dXJl", "eyJhbGciOiJFZERTQSJ9.e30.b3RoZXI"
	settlement := `{"success":true,"extensions":{"offer-receipt":{"info":{"receipt":{"format":"jws","signature":"` + jws + `"}}}}}`
	header := base64.StdEncoding.EncodeToString([]byte(settlement))
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"the JWS":                   {" " + jws + "\n", []string{jws}},
		"the artifact":              {`{"format":"jws","signature":"` + jws + `"}`, []string{jws}},
		"a settlement":              {settlement, []string{jws}},
		"the header's value":        {header, []string{jws}},
		"without padding":           {strings.TrimRight(header, "="), []string{jws}},
		"the header":                {"payment-response: " + header, []string{jws}},
		"a whole answer":            {"HTTP/2 200\r\nx-a: b\r\nPayment-Response: " + header + "\r\n\r\n{}\n", []string{jws}},
		"offers, one of them twice": {`{"offers":[{"format":"jws","signature":"` + jws + `"},{"format":"jws","signature":"` + other + `"},{"format":"jws","signature":"` + jws + `"}]}`, []string{jws, other}},
		"another format":            {`{"format":"eip712","signature":"` + jws + `"}`, []string{"eip712:" + jws}},
		"another header":            {"x-payment: " + header, nil},
		"nothing":                   {"", nil},
		"a file name":               {"receipt.v1.json", nil},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, FindSigned([]byte(c.text))) })
	}
	many, err := json.Marshal(strings.Split(strings.Repeat("x", 100), ""))
	require.NoError(t, err)
	text := strings.NewReplacer(`"x"`, `{"format":"jws","signature":"x"}`).Replace(string(many))
	for n := range 100 {
		text = strings.Replace(text, `"signature":"x"`, `"signature":"`+strings.Repeat("y", n+2)+`"`, 1)
	}
	require.Len(t, FindSigned([]byte(text)), MaxArtifacts+1, "one more tells that there are too many")
}

func FuzzFindSigned(f *testing.F) {
	f.Add([]byte(`{"format":"jws","signature":"a.b.c"}`))
	f.Add([]byte("PAYMENT-RESPONSE: eyJhIjpbeyJmb3JtYXQiOiJqd3MiLCJzaWduYXR1cmUiOiJhIn1dfQ=="))
	f.Add([]byte(strings.Repeat("[", 1000)))
	f.Fuzz(func(t *testing.T, text []byte) {
		require.LessOrEqual(t, len(FindSigned(text)), 16)
	})
}

func FuzzParseStatement(f *testing.F) {
	f.Add([]byte(goodReceipt))
	f.Add([]byte(goodOffer))
	f.Fuzz(func(t *testing.T, payload []byte) {
		statement, err := ParseStatement(payload)
		if err == nil {
			require.NotPanics(t, func() { statement.ResourceURL() })
			require.NotEqual(t, statement.Offer == nil, statement.Receipt == nil)
		}
	})
}
