// Package resource has the resources of the daemon, and what they are made of: a
// [Route] is one method on one path, with its parameters, its answer, and the
// function that carries it out. The same table serves the requests and describes
// them, so that the two cannot differ.
//
// A resource is a type with a method Routes, and is passed to server.New:
//
//	func (s *Shells) Routes() []Route {
//		return []Route{{
//			ID: "listShells", Method: "GET", Path: "/v1/sandboxes/{name}/shells",
//			Summary: "List the shells of the session", Tag: "shells", Role: token.Session,
//			Response: api.ShellList{}, Do: s.list,
//		}}
//	}
//
//	func (s *Shells) list(c *Call) (any, error) {
//		row, err := s.manager.Find(c.Context(), c.Who.Tenant, c.Path("name"))
//		…
//		return api.ShellList{Items: items}, nil
//	}
//
// Before the daemon calls Do it has identified the caller and the names on whose
// behalf it calls, counted the request against the quota, checked the query
// against the table, and set a deadline. Do returns a value that is written as
// JSON, a [Reply] where the status or headers differ, or [Sent] when it has
// answered by itself. An error becomes a problem+json by its code; no handler
// writes errors.
package resource

import (
	"net/http"
	"time"

	"github.com/bulkhead-dev/sandbox/tenant/token"
)

// A Route is one method on one path.
type Route struct {
	ID      string // operationId: a unique name in camelCase
	Method  string // GET serves HEAD too, unless HEAD has a route of its own
	Path    string // a pattern of [http.ServeMux]: {name} is one segment, {path...} the rest
	Summary string // one line, as an order: "Run a command"
	Doc     string // more, where there is more to say
	Tag     string // the group it is listed in

	// Role is the least role that the caller needs; empty admits every caller,
	// also without a token.
	Role token.Role

	Request  any // zero value of the type of the body; nil is no body, or one that is not JSON
	Response any // zero value of the type of the answer; nil is no body, or one that is not JSON

	RequestContent  string   // of a body that is no JSON, such as application/octet-stream
	ResponseContent []string // of answers that are no JSON, beside or instead of Response

	Query  []Param
	Header []Param // that this route reads, beside those of every route

	// Safe marks a route with another method than GET that changes nothing, and one
	// that ends only the caller's own access. Callers that may only read have it,
	// and of the others those with GET that are no WebSockets.
	Safe bool

	// Settings lets admins send the header [api.HeaderSettings]; [Call].Settings
	// has what it says. Other routes refuse the header.
	Settings bool

	Status  int   // of success; 0 is 200, or 204 for an answer without a body
	Also    []int // other statuses of success that have the same body, such as 200 beside 201
	Errors  []int // statuses of problems, beside those that every route may have
	Replies []int // statuses below 400 without a body, such as 304

	// Events are the events of an answer with text/event-stream, which a route
	// with Stream sends: always, or where the request accepts it and Response is
	// set.
	Events []Event
	// Stream lets the answer go on for as long as the client reads.
	Stream bool
	// Follows marks a stream that only reports what other requests do: cutting
	// it off loses nothing, so a server that shuts down does not wait for it.
	Follows bool
	// Socket makes it a WebSocket: Do takes over the connection.
	Socket bool

	Body    int64         // the most bytes of a body; 0 is the daemon's own, [Endless] no bound
	Timeout time.Duration // 0 is the daemon's own; [Endless] leaves it to Do

	// Exempt routes are served while the daemon drains, and are not counted
	// against the quota of requests.
	Exempt bool

	Do func(*Call) (any, error)
}

// Endless disables a bound.
const Endless = -1

// A Resource has routes.
type Resource interface{ Routes() []Route }

// An Event describes an event of a stream.
type Event struct {
	Name string
	Data any // zero value
	Doc  string
}

// A Type is the type of a parameter's value.
type Type string

// The types of parameters.
const (
	Text    Type = "string"
	Integer Type = "integer"
	Boolean Type = "boolean" // true or false; an empty value is true
)

// A Param is one parameter of the query or one header. The server refuses a
// query with a parameter that is not in the table, or that appears twice and may
// not repeat.
type Param struct {
	Name     string
	Type     Type // Text without
	Doc      string
	Enum     []string
	Min, Max int64 // of integers; both 0 is no bound
	Length   int   // the most bytes of a text; 0 is 4096
	Required bool
	Repeat   bool
}

// A Reply is an answer with its own status or headers.
type Reply struct {
	Status int // 0 is that of the route
	Header http.Header
	Body   any // nil is no body
}

// Sent is what Do returns when it has answered by itself.
type Sent struct{}
