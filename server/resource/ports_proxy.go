// This file passes requests of HTTP and tunnels on to programs that listen inside
// a sandbox. net/http/httputil does that; what is here says which bytes of a
// request may get inside, and which of an answer may get out.

package resource

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/server/auth"
	"github.com/bulkhead-dev/sandbox/tenant/token"
)

// shareParam is the parameter of the query and the cookie with the secret of a
// share.
const shareParam = "sandbox-share"

// consoleCookie begins the names of cookies of the console, which go to no program.
const consoleCookie = "sandbox-console"

// PortsPattern is where [Ports.Handler] is mounted.
const PortsPattern = api.Prefix + "/sandboxes/{name}/ports/{port}/"

// A portTarget is the port that a request is for.
type portTarget struct {
	name   string
	who    config.Who
	tool   string
	port   int
	path   string // escaped
	prefix string // of the path outside; "" for requests by host name
	share  *share // nil for callers with a token of the server
	cookie string // that makes a browser send the secret again; "" sets none
}

type shareKey struct{}

type shownHostKey struct{}

// WithShownHost returns a context for a request by host name whose client has used
// another one: programs inside see that.
func WithShownHost(ctx context.Context, host string) context.Context {
	return context.WithValue(ctx, shownHostKey{}, host)
}

// Named returns the label and the port that a host name of the form
// PORT-LABEL.DOMAIN has. ok is false for every other host name.
func (x *Ports) Named(host string) (port, label string, ok bool) {
	if x.o.Domain == "" {
		return "", "", false
	}
	if name, number, found := strings.Cut(host, ":"); found {
		if _, err := portNumber(number); err != nil {
			return "", "", false
		}
		host = name
	}
	first, rest, _ := strings.Cut(strings.ToLower(host), ".")
	port, label, ok = strings.Cut(first, "-")
	return port, label, ok && isLabel(label) && strings.TrimSuffix(rest, ".") == strings.ToLower(x.o.Domain)
}

// Admit returns the caller on whose behalf a request by host name is carried
// out, and the request without its secret. Whatever is wrong with the host name
// or the secret has one error, which says nothing of what there is.
func (x *Ports) Admit(r *http.Request) (auth.Caller, *http.Request, error) {
	refused := &Fault{Status: http.StatusUnauthorized, Err: &sandbox.Error{
		Code: sandbox.CodePermissionDeny, Op: "share", Field: "share", Message: "there is no link to a port in force with this address and secret",
		Hint: "ask its owner for a new one: sandbox port share PORT, or POST /v1/sandboxes/NAME/shares",
	}}
	number, label, ok := x.Named(r.Host)
	port, err := portNumber(number)
	if !ok || err != nil {
		return auth.Caller{}, nil, refused
	}
	r, secret, ambient := takeSecret(r)
	if ambient { // any other secret is none that a page makes a browser send
		if err := auth.SameSite(r); err != nil {
			return auth.Caller{}, nil, err
		}
	}
	sh := x.shares.find(label, port, secret)
	if sh == nil {
		return auth.Caller{}, nil, refused
	}
	caller, err := auth.OnBehalf(x.o.Tokens, sh.TokenID, sh.Who)
	if err != nil {
		return auth.Caller{}, nil, refused
	}
	t := portTarget{name: sh.Sandbox, who: sh.Who, tool: "exec", port: port, path: r.URL.EscapedPath(), share: sh}
	if r.URL.Query().Has(shareParam) && secret != "" {
		t.cookie = secret
	}
	return caller, r.WithContext(context.WithValue(r.Context(), shareKey{}, t)), nil
}

// takeSecret returns r without the secret of a share, the secret, and whether a
// browser may have sent it by itself, as it sends cookies.
func takeSecret(r *http.Request) (without *http.Request, secret string, ambient bool) {
	without = r.Clone(r.Context())
	h := without.Header
	cookies := r.Cookies()
	secret = h.Get(api.HeaderShare)
	if scheme, value, ok := strings.Cut(h.Get("Proxy-Authorization"), " "); secret == "" && ok && strings.EqualFold(scheme, "Bearer") {
		secret = value
	}
	if secret == "" {
		secret = r.URL.Query().Get(shareParam)
	}
	if secret == "" {
		for _, c := range cookies {
			if c.Name == shareParam {
				secret, ambient = c.Value, true
			}
		}
	}
	return without, secret, ambient
}

// strip removes from a request that goes inside whatever belongs to this server:
// its secrets, its headers, and those that tell it who asks.
func strip(out *http.Request, byPath bool) {
	h := out.Header
	for name := range h {
		if strings.HasPrefix(name, "Sandbox-") {
			h.Del(name)
		}
	}
	h.Del("Proxy-Authorization")
	if byPath || token.Mentioned(h.Get("Authorization")) {
		h.Del("Authorization")
	}
	kept := []string{}
	for _, line := range h.Values("Cookie") {
		for part := range strings.SplitSeq(line, ";") {
			part = strings.TrimSpace(part)
			name, _, _ := strings.Cut(part, "=")
			if part != "" && strings.TrimSpace(name) != shareParam && !strings.HasPrefix(strings.TrimPrefix(strings.TrimSpace(name), "__Host-"), consoleCookie) && !token.Mentioned(part) {
				kept = append(kept, part)
			}
		}
	}
	h.Del("Cookie")
	if len(kept) > 0 {
		h.Set("Cookie", strings.Join(kept, "; "))
	}
	out.URL.RawQuery = withoutSecret(out.URL.RawQuery)
	if strings.Contains(h.Get("Referer"), shareParam) {
		h.Del("Referer")
	}
}

// withoutSecret returns a query without the secret of a share, and else as it
// is, in its order.
func withoutSecret(query string) string {
	kept := []string{}
	for part := range strings.SplitSeq(query, "&") {
		name, _, _ := strings.Cut(part, "=")
		if plain, err := url.QueryUnescape(name); err != nil || plain != shareParam {
			kept = append(kept, part)
		}
	}
	return strings.Join(kept, "&")
}

// Handler serves requests for ports: by path, to be mounted at [PortsPattern],
// and those that [Ports.Admit] has returned.
func (x *Ports) Handler() http.Handler { return http.HandlerFunc(x.serve) }

func (x *Ports) serve(w http.ResponseWriter, r *http.Request) {
	c := CallOf(r.Context())
	if err := x.pass(c, w, r); err != nil {
		api.Write(w, c.Why(reportedTo(c, err)))
	}
}

// target returns what the request is for, of those that the caller may reach.
func (x *Ports) target(c *Call, r *http.Request) (portTarget, error) {
	if t, ok := r.Context().Value(shareKey{}).(portTarget); ok {
		rec, err := x.manager.Recorded(r.Context(), t.who.Tenant, t.name, t.share.Provider)
		if err != nil || !t.share.about(rec) {
			return t, notFound(t.name)
		}
		_, err = InsideWith(x.manager, t.who, nil)
		return t, err
	}
	part := strings.SplitN(r.URL.EscapedPath(), "/", 7) // "", v1, sandboxes, NAME, ports, PORT, the rest
	if len(part) != 7 {
		return portTarget{}, Hide("resource", "")
	}
	port, err := portNumber(part[5])
	if err != nil {
		return portTarget{}, err
	}
	c.Request.SetPathValue("name", part[3])
	at, err := Sandboxed(c, x.manager)
	if err != nil {
		return portTarget{}, err
	}
	return portTarget{name: at.Name, who: at.Who, tool: c.Tool("exec"), port: port, path: "/" + part[6], prefix: strings.Join(part[:6], "/")}, nil
}

// pass carries the request out. It returns an error where nothing was answered.
func (x *Ports) pass(c *Call, w http.ResponseWriter, r *http.Request) error {
	t, err := x.target(c, r)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	if t.share != nil {
		defer context.AfterFunc(t.share.life, func() { cancel(context.Cause(t.share.life)) })()
	}
	if t.cookie != "" {
		http.SetCookie(w, &http.Cookie{Name: shareParam, Value: t.cookie, Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode, Expires: t.share.Expires})
		if r.Method == http.MethodGet && strings.Contains(r.Header.Get("Accept"), "text/html") {
			again := url.URL{Path: r.URL.Path, RawPath: r.URL.RawPath, RawQuery: withoutSecret(r.URL.RawQuery)}
			w.Header().Set("Location", "/"+strings.TrimLeft(again.String(), "/"))
			w.Header().Set("Referrer-Policy", "no-referrer")
			w.WriteHeader(http.StatusSeeOther)
			return nil
		}
	}
	leave, err := x.seat(t.name)
	if err != nil {
		return err
	}
	defer leave()
	begun := false
	req := manager.Request{Who: t.who, Flags: c.Settings, MustExist: true, Tool: t.tool}
	err = x.manager.WithSandbox(ctx, req, func(sb sandbox.Sandbox, _ sandbox.Spec) error {
		var kept *upstream
		key := upstreamKey{sandbox: sb.Info().ID, made: sb.Info().CreatedAt.UnixNano(), who: t.who, tool: t.tool, token: ownID(c), port: t.port}
		again := t.share == nil && c.Settings == nil && repeatable(r)
		if again {
			kept = x.upstreams.take(key)
		}
		if kept == nil {
			far, err := manager.DialPortOf(ctx, sb, t.port)
			if err != nil {
				return err
			}
			if !again {
				defer far.Close()
				begun = true
				if r.Method == http.MethodConnect {
					return tunnel(ctx, w, far)
				}
				forward(c, w, r.WithContext(ctx), t, once(far))
				return nil
			}
			kept = x.upstreams.start(key, far)
		}
		begun = true
		defer x.upstreams.put(kept) // after the end of begin, so that the next request has it for itself
		defer kept.begin(ctx, sb, t.port)()
		forward(c, w, r.WithContext(ctx), t, kept.transport)
		return nil
	})
	if begun {
		return nil // the answer has begun, or has failed as the proxy says
	}
	return err
}

// tunnel passes bytes between the client and far until both directions end.
func tunnel(ctx context.Context, w http.ResponseWriter, far net.Conn) error {
	near, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return err
	}
	defer near.Close()
	stop := context.AfterFunc(ctx, func() {
		_ = near.Close()
		_ = far.Close()
	})
	defer stop()
	if _, err := io.WriteString(near, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return nil // the client has gone
	}
	var both sync.WaitGroup
	both.Go(func() { oneWay(far, buffered.Reader) })
	both.Go(func() { oneWay(near, far) })
	both.Wait()
	return nil
}

// oneWay copies one direction and passes its end on. A direction that fails ends
// the connection.
func oneWay(to net.Conn, from io.Reader) {
	err := manager.CopyDirection(to, from)
	for c := net.Conn(to); err == nil; {
		if half, ok := c.(interface{ CloseWrite() error }); ok {
			if half.CloseWrite() == nil {
				return
			}
			break
		}
		below, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			break
		}
		c = below.NetConn()
	}
	_ = to.Close()
}

// once returns a transport of one request, over the connection far.
func once(far net.Conn) *http.Transport {
	used := false
	return &http.Transport{
		DisableKeepAlives: true, DisableCompression: true,
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			if used {
				return nil, errors.New("the connection is used up")
			}
			used = true
			return far, nil
		},
	}
}

// forward passes one request on.
func forward(c *Call, w http.ResponseWriter, r *http.Request, t portTarget, transport *http.Transport) {
	inner := "localhost:" + strconv.Itoa(t.port)
	proxy := httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0),
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetXForwarded()
			strip(p.Out, t.prefix != "")
			p.Out.URL.Scheme, p.Out.URL.Host = "http", inner
			plain, err := url.PathUnescape(t.path)
			if err == nil {
				p.Out.URL.Path, p.Out.URL.RawPath = plain, t.path
			}
			p.Out.Host = p.In.Host
			if shown, ok := p.In.Context().Value(shownHostKey{}).(string); ok {
				p.Out.Host = shown
				p.Out.Header.Set("X-Forwarded-Host", shown)
			}
			if t.prefix != "" {
				p.Out.Host = inner
				p.Out.Header.Set("X-Forwarded-Prefix", t.prefix)
			}
		},
		ModifyResponse: func(a *http.Response) error {
			contain(a, t.prefix != "")
			if a.StatusCode == http.StatusSwitchingProtocols {
				w.Header().Del("Connection") // that of the server is close, and the program's is Upgrade
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			var refused *sandbox.Error // of a connection that was dialled anew
			if errors.As(err, &refused) {
				api.Write(w, c.Why(reportedTo(c, err)))
				return
			}
			api.Write(w, &sandbox.Error{
				Code: sandbox.CodeUnavailable, Op: "forward", Field: "port", Resource: strconv.Itoa(t.port), Retryable: true,
				Message: "the program in the sandbox has not answered as one of HTTP does", Err: err,
			})
		},
	}
	proxy.ServeHTTP(w, r)
}

// contain changes an answer from inside so that it has no effect beyond its host
// name. By path it has the host name of this server itself: it sets no cookies
// there, and a page runs as of another origin.
func contain(a *http.Response, byPath bool) {
	cookies := a.Cookies()
	a.Header.Del("Set-Cookie")
	if byPath {
		a.Header.Add("Content-Security-Policy", "sandbox")
		return
	}
	for _, c := range cookies {
		if c.Name != shareParam {
			c.Domain = ""
			a.Header.Add("Set-Cookie", c.String())
		}
	}
}
