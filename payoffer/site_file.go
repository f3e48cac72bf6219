package payoffer

import (
	"bytes"
	"context"
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// Limits of a file of the site.
const (
	siteFileTimeout = 5 * time.Second
	maxSiteFile     = 1 << 20 // bytes
)

// siteFile is a file of the site, as the server of a request serves it to others. It uses no
// network, as httpInclude of Caddy's templates. Without such a file it is nil.
func siteFile(r *http.Request, address string) []byte {
	server, ok := r.Context().Value(caddyhttp.ServerCtxKey).(http.Handler)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), siteFileTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil
	}
	request.RequestURI, request.RemoteAddr, request.TLS = request.URL.RequestURI(), r.RemoteAddr, r.TLS
	answer := siteAnswer{header: make(http.Header)}
	server.ServeHTTP(&answer, request)
	if answer.status != http.StatusOK {
		return nil
	}
	return answer.body.Bytes()
}

// siteAnswer keeps an answer of the server up to a limit.
type siteAnswer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *siteAnswer) Header() http.Header { return a.header }

func (a *siteAnswer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}

func (a *siteAnswer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	if a.body.Len()+len(p) > maxSiteFile {
		a.status = http.StatusRequestEntityTooLarge
		return 0, http.ErrContentLength
	}
	return a.body.Write(p)
}
