package web

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWebFingerReadsTheResourceInEveryForm(t *testing.T) {
	s := newWorld(t).server(t)
	for query, want := range map[string]int{
		"resource=acct:pay@pay.example.org":                                 200,
		"resource=acct%3Apay%40pay.example.org":                             200,
		"resource=acct:pay@pay.example.org&rel=payment&rel=other&unknown=1": 200,
		"":             400,
		"resource=%zz": 400,
		"rel=payment":  400,
		"resource=acct:pay@pay.example.org&resource=acct:b@pay.example.org": 400,
		"resource=acct:other@pay.example.org":                               404,
	} {
		res := send(t, s, "GET", "/.well-known/webfinger?"+query, "")
		require.Equal(t, want, res.StatusCode, query)
		if want == http.StatusOK {
			require.Equal(t, "application/jrd+json", res.Header.Get("Content-Type"))
			require.Equal(t, "acct:pay@pay.example.org", readJSON(t, res)["subject"])
			continue
		}
		require.Equal(t, "application/problem+json", res.Header.Get("Content-Type"))
		require.Contains(t, readJSON(t, res)["detail"], "acct:pay@pay.example.org")
	}
}
