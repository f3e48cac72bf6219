package web

import "net/http"

// securityTxt is the current security.txt; Renew replaces it.
func (s *Server) securityTxt(w http.ResponseWriter, r *http.Request) {
	s.security.Load().ServeHTTP(w, r)
}
