package egress

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/egress/proxy"
)

// maxReached is how many hosts a Caller keeps: the first ones.
const maxReached = 256

// maxRefused is how many refusals a Caller keeps: the last ones.
const maxRefused = 64

// A Caller is a command that may use the Session. Its credentials attribute
// requests to it; they grant no access. It is safe for concurrent use.
type Caller struct {
	session *Session
	id      string
	token   string
	span    func() *sandbox.Span // or nil

	mu      sync.Mutex
	events  []Event
	reached []proxy.Reached
	waited  Waited
}

// Waited counts connections of a command that were queued because
// limits.connections left no room.
type Waited struct {
	Connections int
	Time        time.Duration // total
}

// callers holds the Callers of a Session by their id.
type callers struct {
	mu   sync.Mutex
	byID map[string]*Caller
}

// Caller registers a command. A later one with the same id replaces the
// earlier one.
func (s *Session) Caller(id string) *Caller {
	c := &Caller{session: s, id: id, token: rand.Text()}
	s.callers.mu.Lock()
	defer s.callers.mu.Unlock()
	if s.callers.byID == nil {
		s.callers.byID = map[string]*Caller{}
	}
	s.callers.byID[id] = c
	return c
}

// Env returns the variables that point a command's programs to the proxy. With
// secrets they include the stand-ins and the variables that make programs
// trust the authority.
func (c *Caller) Env() map[string]string {
	port := 0
	if a, ok := c.session.listener.Addr().(*net.TCPAddr); ok {
		port = a.Port
	}
	address := (&url.URL{Scheme: "http", User: url.UserPassword(c.id, c.token), Host: "127.0.0.1:" + strconv.Itoa(port)}).String()
	direct := c.session.o.Direct
	if direct == nil {
		direct = Loopback()
	}
	// Git sends credentials only when asked for them, unless this variable is
	// set.
	env := map[string]string{"NODE_USE_ENV_PROXY": "1", "GIT_HTTP_PROXY_AUTHMETHOD": "basic", "JAVA_TOOL_OPTIONS": java(port, direct)}
	for name, value := range map[string]string{
		"HTTP_PROXY": address, "HTTPS_PROXY": address, "ALL_PROXY": address, "NO_PROXY": strings.Join(direct, ","),
	} {
		env[name], env[strings.ToLower(name)] = value, value
	}
	if secrets := c.session.o.Secrets; secrets != nil {
		maps.Copy(env, c.session.o.Authority.Env())
		maps.Copy(env, secrets.Env())
	}
	return env
}

// Loopback returns the names of the loopback interface inside for which
// programs bypass the proxy.
func Loopback() []string { return []string{"localhost", "127.0.0.1", "::1"} }

// java returns the options that point a Java virtual machine to the proxy, as
// it reads no variable for that. They contain no credentials.
func java(port int, direct []string) string {
	var hosts []string
	for _, h := range direct {
		if h == "::1" {
			h = "[::1]"
		}
		hosts = append(hosts, h)
	}
	p := strconv.Itoa(port)
	return "-Dhttp.proxyHost=127.0.0.1 -Dhttp.proxyPort=" + p + " -Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=" + p +
		" -Dhttp.nonProxyHosts=" + strings.Join(hosts, "|")
}

// Refused returns the refusals of the command so far, oldest first: the last
// 64.
func (c *Caller) Refused() []Event {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Event(nil), c.events...)
}

// Reached returns the hosts that the command was let through to so far: the first
// 256.
func (c *Caller) Reached() []proxy.Reached {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.reached)
}

// Waited returns the queueing of the command's connections so far, of those
// that were admitted.
func (c *Caller) Waited() Waited {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.waited
}

// Traced has the connections of the command traced below the span that span
// returns when they begin. It is called before the command runs.
func (c *Caller) Traced(span func() *sandbox.Span) {
	c.session.callers.mu.Lock()
	defer c.session.callers.mu.Unlock()
	c.span = span
}

// End invalidates the credentials and returns Refused.
func (c *Caller) End() []Event {
	s := &c.session.callers
	s.mu.Lock()
	if s.byID[c.id] == c {
		delete(s.byID, c.id)
	}
	s.mu.Unlock()
	return c.Refused()
}

// known returns id if there is such a Caller with that token, otherwise "".
func (s *callers) known(id, token string) string {
	s.mu.Lock()
	c := s.byID[id]
	s.mu.Unlock()
	if c == nil || subtle.ConstantTimeCompare([]byte(c.token), []byte(token)) != 1 {
		return ""
	}
	return id
}

// basic returns the id of the Caller whose credentials a Proxy-Authorization
// field holds; empty if they match no Caller.
func (s *callers) basic(field string) string {
	scheme, text, _ := strings.Cut(field, " ")
	if !strings.EqualFold(scheme, "Basic") || len(text) > 1024 {
		return ""
	}
	b, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
	if err != nil {
		return ""
	}
	id, token, _ := strings.Cut(string(b), ":")
	return s.known(id, token)
}

// only returns the id of the only Caller; empty if there are none or several.
func (s *callers) only() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.byID) != 1 {
		return ""
	}
	for id := range s.byID {
		return id
	}
	return ""
}

// spanOf returns the span of the command with that id, or of the only command
// where a connection names none; nil if it is not known or not traced.
func (s *callers) spanOf(id string) *sandbox.Span {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.byID[id]
	if id == "" && len(s.byID) == 1 {
		for _, c = range s.byID {
		}
	}
	if c == nil || c.span == nil {
		return nil
	}
	return c.span()
}

// waited adds a wait to a Caller, and reports whether there is such a Caller.
func (s *callers) waited(id string, d time.Duration) bool {
	s.mu.Lock()
	c := s.byID[id]
	s.mu.Unlock()
	if c == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waited.Connections++
	c.waited.Time += d
	return true
}

// passed adds an event that was allowed to its Caller.
func (s *callers) passed(e Event) {
	s.mu.Lock()
	c := s.byID[e.Caller]
	s.mu.Unlock()
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.reached, func(r proxy.Reached) bool { return r.Host == e.Host && r.Port == e.Port })
	if i < 0 {
		if len(c.reached) == maxReached {
			return
		}
		i = len(c.reached)
		c.reached = append(c.reached, proxy.Reached{Host: e.Host, Port: e.Port})
	}
	if e.Phase == PhaseDecision {
		c.reached[i].Connections++
	}
	c.reached[i].BytesIn += e.BytesIn
	c.reached[i].BytesOut += e.BytesOut
}

// refused adds a refusal to its Caller.
func (s *callers) refused(e Event) {
	s.mu.Lock()
	c := s.byID[e.Caller]
	s.mu.Unlock()
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.events) == maxRefused {
		c.events = append(c.events[:0], c.events[1:]...)
	}
	c.events = append(c.events, e)
}
