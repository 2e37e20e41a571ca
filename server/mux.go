package server

import (
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/server/resource"
)

// methods are the routes of one path.
type methods struct {
	pattern string
	of      map[string]*resource.Route
	mount   *Mount
}

// ServeHTTP is never called: the server only asks the mux for the pattern.
func (*methods) ServeHTTP(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) }

// mount registers the routes with the mux.
func (s *Server) mount() error {
	paths, ids := map[string]*methods{}, map[string]bool{}
	for i := range s.routes {
		r := &s.routes[i]
		if err := faultOf(r); err != "" || ids[r.ID] {
			return wrongTable(r, err)
		}
		ids[r.ID] = true
		m := paths[r.Path]
		if m == nil {
			m = &methods{pattern: r.Path, of: map[string]*resource.Route{}}
			paths[r.Path] = m
			s.mux.Handle(r.Path, m)
		}
		if m.of[r.Method] != nil {
			return wrongTable(r, "the method has a route already")
		}
		m.of[r.Method] = r
	}
	for i := range s.o.Mounts {
		m := &s.o.Mounts[i]
		s.mux.Handle(m.Pattern, &methods{pattern: m.Pattern, mount: m})
	}
	return nil
}

// faultOf returns what is wrong with a route, or "".
func faultOf(r *resource.Route) string {
	switch {
	case r.ID == "" || r.Summary == "" || r.Tag == "":
		return "it has no id, summary or tag"
	case r.Do == nil:
		return "it does nothing"
	case !strings.HasPrefix(r.Path, "/"):
		return "its path begins with no slash"
	case r.Stream && len(r.Events) == 0 && len(r.ResponseContent) == 0:
		return "it streams nothing"
	}
	return ""
}

func wrongTable(r *resource.Route, why string) error {
	if why == "" {
		why = "the id is that of another route"
	}
	return &sandbox.Error{Code: sandbox.CodeInternal, Op: "serve", Resource: r.ID, Message: fmt.Sprintf("the route %s %s: %s", r.Method, r.Path, why)}
}

// find returns the route of a request, and the request with the values of its
// path. A path that is not in canonical form has no route: otherwise one part of
// the server could check one meaning of it and another part act on another.
func (s *Server) find(r *http.Request) (*methods, *resource.Route, error) {
	if !canonical(r.URL.EscapedPath()) {
		return nil, nil, noRoute()
	}
	h, pattern := s.mux.Handler(r)
	m, ok := h.(*methods)
	if !ok || pattern != m.pattern {
		return nil, nil, noRoute()
	}
	if m.mount != nil {
		return m, nil, nil
	}
	method := r.Method
	if method == http.MethodHead && m.of[method] == nil {
		method = http.MethodGet
	}
	at := m.of[method]
	if at == nil {
		return m, nil, m.notAllowed()
	}
	return m, at, nil
}

// canonical reports whether a path is escaped as the table would escape it.
func canonical(escaped string) bool {
	if !strings.HasPrefix(escaped, "/") || strings.Contains(escaped, "//") {
		return false
	}
	for segment := range strings.SplitSeq(escaped[1:], "/") {
		switch strings.ToLower(segment) {
		case ".", "..", "%2e", "%2e%2e", ".%2e", "%2e.":
			return false
		}
	}
	return path.Clean(escaped) == strings.TrimSuffix(escaped, "/") || escaped == "/"
}

func noRoute() error {
	return &sandbox.Error{Code: sandbox.CodeNotFound, Op: "serve", Message: "there is nothing at this path", Hint: "see /openapi.json"}
}

func (m *methods) notAllowed() error {
	allow := []string{}
	for method := range m.of {
		allow = append(allow, method)
		if method == http.MethodGet && m.of[http.MethodHead] == nil {
			allow = append(allow, http.MethodHead)
		}
	}
	slices.Sort(allow)
	return &resource.Fault{
		Status: http.StatusMethodNotAllowed, Header: http.Header{"Allow": {strings.Join(allow, ", ")}},
		Err: &sandbox.Error{Code: sandbox.CodeUnsupported, Op: "serve", Message: "this path has no such method", Hint: "it has " + strings.Join(allow, ", ")},
	}
}

// setPath sets the path values of the request, as the mux would.
func (s *Server) setPath(r *http.Request, pattern string) error {
	wild := strings.Split(pattern[1:], "/")
	have := strings.Split(r.URL.EscapedPath()[1:], "/")
	for i, w := range wild {
		name, isWild := strings.CutPrefix(w, "{")
		if !isWild || name == "$}" {
			continue
		}
		name = strings.TrimSuffix(name, "}")
		if rest, ok := strings.CutSuffix(name, "..."); ok {
			value, err := unescape(strings.Join(have[min(i, len(have)):], "/"))
			if err != nil {
				return noRoute()
			}
			r.SetPathValue(rest, value)
			continue
		}
		value, err := unescape(have[i])
		if err != nil || !isID(value) {
			return resource.Hide("resource", "")
		}
		r.SetPathValue(name, value)
	}
	return nil
}

// isID reports whether a value can be the name of a resource.
func isID(s string) bool {
	if s == "" || len(s) > 128 || s[0] == '.' || s[0] == '-' {
		return false
	}
	for i := range len(s) {
		c := s[i]
		ok := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-'
		if !ok {
			return false
		}
	}
	return true
}
