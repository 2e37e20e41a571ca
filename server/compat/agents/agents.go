// Package agents lets the sandbox clients of the OpenAI Agents SDK that take a URL
// use this server unmodified: CloudflareSandboxClient for JavaScript and Python, with
// this server as its worker. It translates: every request of that protocol becomes
// requests of /v1, which it sends to the server in the same process with the caller's
// own token. So tenants, quotas, policy, egress, evidence and budgets are those of
// /v1, and this package decides nothing.
//
// The protocol is HTTP below /v1/sandbox, beside /v1/sandboxes of this server, with a
// token as its bearer:
//
//	POST   /v1/sandbox                 create; the answer has the id
//	DELETE /v1/sandbox/{id}            remove, with the workspace
//	POST   /v1/sandbox/{id}/exec       run a command; server-sent events
//	GET    /v1/sandbox/{id}/file/…     read a file of the workspace
//	PUT    /v1/sandbox/{id}/file/…     write one
//	GET    /v1/sandbox/{id}/running    whether it can be used
//	GET    /v1/sandbox/{id}/pty        a shell on a terminal; a WebSocket
//	POST   /v1/sandbox/{id}/persist    the workspace as a tar archive
//	POST   /v1/sandbox/{id}/hydrate    extract a tar archive into the workspace
//
// An error is {"error": text, "code": code}. The other operations of the protocol, of
// which the clients use mount and unmount, are answered with 501 and not_supported.
package agents

import (
	"encoding/hex"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/server/compat"
)

// prefix is that of all paths of the protocol.
const prefix = api.Prefix + "/sandbox"

// maxJSON bounds the body of a request that is JSON, in bytes.
const maxJSON = 1 << 20

// Options configure a [Translator].
type Options struct {
	// Enabled reports whether the protocol is served; nil is always.
	Enabled func() bool
}

// A Translator serves the protocol. It is safe for concurrent use.
type Translator struct{ o Options }

// New returns a Translator.
func New(o Options) *Translator { return &Translator{o: o} }

// Claims reports whether a request is one of this protocol.
func (d *Translator) Claims(r *http.Request) bool {
	rest, ok := strings.CutPrefix(r.URL.Path, prefix)
	return ok && (rest == "" || rest[0] == '/') && (d.o.Enabled == nil || d.o.Enabled())
}

// A call is one request of the protocol.
type call struct {
	compat.Call
	name string // of the sandbox; empty for create
	file string // of a request for a file: its path as it was sent, without the first slash
}

// An operation is one of the protocol.
type operation struct {
	do    func(c *call) error
	query []string // names that the address may have
}

// operations are those of one sandbox, by method and the first element of the path
// behind its id.
var operations = map[string]operation{
	"DELETE ":        {do: remove},
	"POST exec":      {do: run},
	"GET file":       {do: readFile},
	"PUT file":       {do: writeFile},
	"GET running":    {do: running},
	"GET pty":        {do: pty, query: []string{"cols", "rows", "shell", "session", queryAuthorization}},
	"POST persist":   {do: persist, query: []string{"excludes"}},
	"POST hydrate":   {do: hydrate},
	"POST mount":     {do: without("mounting a bucket")},
	"POST unmount":   {do: without("unmounting a bucket")},
	"POST session":   {do: without(sessions)},
	"DELETE session": {do: without(sessions)},
	"POST tunnel":    {do: without(tunnels)},
	"DELETE tunnel":  {do: without(tunnels)},
}

// What is not supported, in the words of errors.
const (
	sessions = "a session inside of a sandbox"
	tunnels  = "a tunnel to a port; POST /v1/sandboxes/{name}/ports/{port}/shares makes a link to one"
)

// inside are the operations that have more than one element of a path.
var inside = []string{"file", "session", "tunnel"}

func without(what string) func(*call) error {
	return func(*call) error { return unsupported(what) }
}

// Translate answers a request that the translator claims. v1 is the server of /v1.
func (d *Translator) Translate(w http.ResponseWriter, r *http.Request, v1 http.Handler) {
	c := &call{Call: compat.New(w, r, v1, r.Header.Values("Authorization")...)}
	if err := c.serve(); err != nil {
		refuse(c, err)
	}
}

func (c *call) serve() error {
	rest := strings.TrimPrefix(c.R.URL.Path, prefix)
	op, allowed := operation{do: create}, []string{http.MethodPost}
	if rest != "" {
		id, rest, _ := strings.Cut(rest[1:], "/")
		first, more, deeper := strings.Cut(rest, "/")
		if deeper && !slices.Contains(inside, first) {
			return noPath()
		}
		var ok bool
		if c.name, ok = nameOf(id); !ok {
			return bad("id", "is not the id of a sandbox")
		}
		c.file = more
		op, allowed = operations[c.R.Method+" "+first], nil
		for _, m := range []string{http.MethodGet, http.MethodPut, http.MethodPost, http.MethodDelete} {
			if _, ok := operations[m+" "+first]; ok {
				allowed = append(allowed, m)
			}
		}
	}
	switch {
	case len(allowed) == 0:
		return noPath()
	case op.do == nil || !slices.Contains(allowed, c.R.Method):
		return &compat.Fault{
			Status: http.StatusMethodNotAllowed, Message: "this path has no method " + c.R.Method,
			Header: http.Header{"Allow": {strings.Join(allowed, ", ")}},
		}
	case len(c.R.Header.Values("Session-Id")) > 0:
		return unsupported(sessions)
	}
	q, err := url.ParseQuery(c.R.URL.RawQuery)
	if err != nil {
		return bad("", "the parameters of the address cannot be read: "+err.Error())
	}
	for name, values := range q {
		if !slices.Contains(op.query, name) {
			return bad(name, "the operation has no such parameter")
		}
		if len(values) > 1 {
			return bad(name, "is there more than once")
		}
	}
	return op.do(c)
}

// idOf returns the id of a sandbox in the protocol: its name or, because an id has
// letters, digits, - and _ only, the hexadecimal digits of a name that has others.
// No name begins with _.
func idOf(name string) string {
	if strings.Contains(name, ".") {
		return "_" + hex.EncodeToString([]byte(name))
	}
	return name
}

// nameOf is the inverse of [idOf].
func nameOf(id string) (string, bool) {
	if digits, ok := strings.CutPrefix(id, "_"); ok {
		data, err := hex.DecodeString(digits)
		name := string(data)
		return name, err == nil && compat.GoodName(name) && idOf(name) == id
	}
	return id, compat.GoodName(id) && !strings.Contains(id, ".")
}
