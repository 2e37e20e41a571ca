package egress

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"maps"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

// maxRefused is how many refusals a Caller remembers: the last ones.
const maxRefused = 64

// A Caller is a command that may use the Way. Its credentials tell its
// requests from those of others and open nothing. It is safe for concurrent
// use.
type Caller struct {
	way   *Way
	id    string
	token string

	mu     sync.Mutex
	events []Event
	waited Waited
}

// Waited is what connections of a command waited for their turn, since
// limits.connections left no room.
type Waited struct {
	Connections int
	Time        time.Duration // of all together
}

// callers are the Callers of a Way by their id.
type callers struct {
	mu   sync.Mutex
	byID map[string]*Caller
}

// Caller registers a command. Of two with the same id the later one counts.
func (w *Way) Caller(id string) *Caller {
	c := &Caller{way: w, id: id, token: rand.Text()}
	w.callers.mu.Lock()
	defer w.callers.mu.Unlock()
	if w.callers.byID == nil {
		w.callers.byID = map[string]*Caller{}
	}
	w.callers.byID[id] = c
	return c
}

// Env returns the variables that lead a command's programs to the proxy. With
// secrets these are the stand-ins too, and what makes programs trust the
// authority.
func (c *Caller) Env() map[string]string {
	port := 0
	if a, ok := c.way.listener.Addr().(*net.TCPAddr); ok {
		port = a.Port
	}
	proxy := (&url.URL{Scheme: "http", User: url.UserPassword(c.id, c.token), Host: "127.0.0.1:" + strconv.Itoa(port)}).String()
	direct := c.way.o.Direct
	if direct == nil {
		direct = Loopback()
	}
	// git keeps the credentials back until it is asked for them, unless told so.
	env := map[string]string{"NODE_USE_ENV_PROXY": "1", "GIT_HTTP_PROXY_AUTHMETHOD": "basic", "JAVA_TOOL_OPTIONS": java(port, direct)}
	for name, value := range map[string]string{
		"HTTP_PROXY": proxy, "HTTPS_PROXY": proxy, "ALL_PROXY": proxy, "NO_PROXY": strings.Join(direct, ","),
	} {
		env[name], env[strings.ToLower(name)] = value, value
	}
	if secrets := c.way.o.Secrets; secrets != nil {
		maps.Copy(env, c.way.o.Authority.Env())
		maps.Copy(env, secrets.Env())
	}
	return env
}

// Loopback returns the names of the loopback interface inside that programs do
// not ask the proxy for.
func Loopback() []string { return []string{"localhost", "127.0.0.1", "::1"} }

// java are the options that lead a Java virtual machine to the proxy, which
// reads no variable for that. It sends no credentials.
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

// Refused returns what was refused to the command so far, oldest first: the
// last 64.
func (c *Caller) Refused() []Event {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Event(nil), c.events...)
}

// Waited returns what the command's connections have waited for their turn so far:
// those that have got it.
func (c *Caller) Waited() Waited {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.waited
}

// End forgets the credentials and returns Refused.
func (c *Caller) End() []Event {
	s := &c.way.callers
	s.mu.Lock()
	if s.byID[c.id] == c {
		delete(s.byID, c.id)
	}
	s.mu.Unlock()
	return c.Refused()
}

// known returns id when there is such a Caller and the token is its.
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
// field holds; empty when it is nobody's.
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

// only returns the id of the one Caller that there is; empty when there are
// none or several.
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

// waited notes with a Caller that a connection of its waited, and reports whether
// there is such a Caller.
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

// refused remembers a refusal with its Caller.
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
