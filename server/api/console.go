package api

import "time"

// HeaderConsole is the header with the key of a login of the console. Its cookie
// alone opens nothing.
const HeaderConsole = "Sandbox-Console"

// HeaderBackground marks a request that the console makes by itself, which does not
// keep its login from expiring. Its value is 1.
const HeaderBackground = "Sandbox-Background"

// CreateConsoleLink asks for a link that logs one browser in to the console.
type CreateConsoleLink struct {
	ReadOnly bool `json:"readOnly,omitempty" doc:"The login may change nothing"`
}

// A ConsoleLink logs one browser in, once.
type ConsoleLink struct {
	Path    string    `json:"path" doc:"Of the address, below the daemon's own; the secret is behind the #, which browsers do not send"`
	Expires time.Time `json:"expires"`
}

// A Console says who uses the console, and for how long.
type Console struct {
	Role     string    `json:"role" enum:"admin,tenant,session"`
	Tenant   string    `json:"tenant,omitempty"`
	Agent    string    `json:"agent,omitempty"`
	Session  string    `json:"session,omitempty"`
	ReadOnly bool      `json:"readOnly"`
	Login    bool      `json:"login" doc:"The request has come with a login of the console, not with a token"`
	Expires  time.Time `json:"expires,omitzero" doc:"When the login ends in any case"`
	Idle     int64     `json:"idleSeconds,omitempty" doc:"After so long without a request of its user the login ends"`
	Version  string    `json:"version" doc:"Of the daemon"`
}
