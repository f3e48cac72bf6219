package e2e

import (
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
)

// A logo is a file of the operator's own site, beside the offer.
func TestALogoIsServedBesideTheOffer(t *testing.T) {
	const logo = `<svg xmlns="http://www.w3.org/2000/svg"/>`
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "logo.svg"), []byte(logo), 0o600))
	shipped := server.StartEdited(t, []string{"logo /logo.svg", "respond /none 404\n\troot * " + folder + "\n\tfile_server"})
	_, page := get(t, shipped.Service+"/v1/pay", "text/html")
	require.Contains(t, page, `<link rel="icon" href="/logo.svg">`)
	_, body := get(t, shipped.Service+"/logo.svg")
	require.Equal(t, logo, body)
}

// The page is made anew for each request, of a file that has ranges and validators.
func TestThePageOfTheSiteIsSentWholeWhateverIsAskedForOfIt(t *testing.T) {
	address := server.StartShipped(t).Site + "/offer/"
	whole, page := get(t, address)
	require.Contains(t, page, "</html>")
	names := func(h http.Header) []string {
		return slices.DeleteFunc(slices.Sorted(maps.Keys(h)), func(name string) bool { return name == "Date" || name == "Content-Length" })
	}
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		for _, header := range [][2]string{
			{"Accept", "*/*"}, {"Range", "bytes=0-9"}, {"Range", "bytes=0-0,-1"}, {"Range", "bytes=99999999-"}, {"If-None-Match", "*"}, {"If-Match", `"none"`},
			{"If-Modified-Since", "Tue, 01 Jan 2036 00:00:00 GMT"}, {"If-Unmodified-Since", "Mon, 01 Jan 1990 00:00:00 GMT"}, {"If-Range", `"none"`},
		} {
			t.Run(method+" "+strings.Join(header[:], " "), func(t *testing.T) {
				answer, err := server.Do(server.Client, method, address, "", http.Header{header[0]: {header[1]}})
				require.NoError(t, err)
				require.Equal(t, http.StatusOK, answer.Status)
				require.Equal(t, strconv.Itoa(len(page)), answer.Header.Get("Content-Length"))
				require.Equal(t, names(whole.Header), names(answer.Header))
				require.Equal(t, whole.Header.Get("Content-Security-Policy"), answer.Header.Get("Content-Security-Policy"))
				if method == http.MethodGet {
					require.Equal(t, page, answer.Body)
				}
			})
		}
	}
}
