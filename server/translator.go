package server

import (
	"net/http"

	"github.com/bulkhead-dev/sandbox/server/api"
)

// A Translator serves another protocol by translating its requests into requests of this
// server. It decides nothing: the requests that it makes pass every check of this
// server, with the caller's own token.
type Translator interface {
	// Claims reports whether a request is one of the protocol.
	Claims(r *http.Request) bool
	// Translate answers a request. api is this server. Reads and writes have the
	// deadlines of all requests.
	Translate(w http.ResponseWriter, r *http.Request, api http.Handler)
}

// translatorOf returns the translator that claims a request, or nil.
func (s *Server) translatorOf(r *http.Request) Translator {
	for _, d := range s.o.Translators {
		if d.Claims(r) {
			return d
		}
	}
	return nil
}

// pass passes the request to a translator.
func (q *request) pass(d Translator) {
	r := q.r.Clone(q.r.Context())
	r.Header.Set(api.HeaderTraceparent, q.trace) // the requests that the translator makes are in the same trace
	r.Body = q.patient(nil, r.Body, false)
	d.Translate(q.w, r, q.s)
}
