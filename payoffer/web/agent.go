package web

import (
	"net/http"
	"slices"
)

// agent is POST /mcp with the headers that every response has. The endpoint
// sets its own headers after them.
func (s *Server) agent() http.HandlerFunc {
	common := new(response)
	common.header(append(slices.Clip(s.common), header{"Cache-Control", cacheNever}))
	return func(w http.ResponseWriter, r *http.Request) {
		common.setHeaders(w.Header())
		s.Agent.ServeHTTP(w, r)
	}
}
