package config

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	sandbox "github.com/bulkhead-dev/sandbox"
)

// Names that hold when a call gives none.
const (
	DefaultAgent   = sandbox.DefaultAgent
	DefaultSession = "default"
	// DefaultMainSession is the session that counts as an agent's main one.
	DefaultMainSession = "main"
)

// Who says on whose behalf something runs. The tenant may be empty.
type Who struct {
	Tenant  string `json:"tenant"`
	Agent   string `json:"agent"`
	Session string `json:"session"`
}

// maxSession is the most bytes of a session key.
const maxSession = 256

// Validate refuses names that could be mistaken for something else in a path,
// a label or a terminal: agent and tenant hold at most 64 of the characters
// A-Z a-z 0-9 . _ - and start with none of . and -; a session is 1 to 256
// bytes of valid UTF-8 that can be seen.
func (w Who) Validate() error {
	bad := func(field, why string) error {
		return &sandbox.Error{Code: sandbox.CodeValidation, Op: "resolve", Field: field, Message: why}
	}
	const form = " is not valid; use up to 64 of A-Z a-z 0-9 . _ - and start with none of . and -"
	if w.Tenant != "" && !isName(w.Tenant) {
		return bad("tenant", quoted(w.Tenant)+form)
	}
	if !isName(w.Agent) {
		return bad("agent", quoted(w.Agent)+form)
	}
	if why := badSession(w.Session); why != "" {
		return bad("session", why)
	}
	return nil
}

// badSession says what is wrong with a session key, or nothing.
func badSession(s string) string {
	switch {
	case s == "":
		return "the session is empty"
	case len(s) > maxSession:
		return fmt.Sprintf("the session has %d bytes; %d are allowed", len(s), maxSession)
	case !utf8.ValidString(s):
		return quoted(s) + " is not valid UTF-8"
	case strings.ContainsFunc(s, func(r rune) bool { return hidden(r) || !unicode.IsPrint(r) }):
		return quoted(s) + " holds a control or invisible character"
	}
	return ""
}

func quoted(s string) string {
	if len(s) > 2*maxSession {
		s = s[:2*maxSession]
	}
	return strconv.Quote(s)
}

// scopeKey returns the key under which w shares a sandbox.
func (w Who) scopeKey(s sandbox.Scope) string {
	switch s {
	case sandbox.ScopeAgent:
		return "agent:" + w.Agent
	case sandbox.ScopeShared:
		return "shared"
	}
	return sandbox.SessionKey(w.Agent, w.Session)
}
