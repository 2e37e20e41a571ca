package console

import (
	"context"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/server/api"
)

// A Relay lets browsers of this machine reach the console of a daemon that listens
// at a unix socket. It has no rights: what it passes on says that it was passed on,
// so that the daemon takes it for no user of the socket, and it passes on no token.
// A request needs a login of the console, as over TCP.
type Relay struct {
	listener net.Listener
	host     []string // with the port, as browsers may call it
	proxy    *httputil.ReverseProxy
}

// NewRelay listens at a port of the loopback interface, 0 is any free one. dial
// connects to the daemon. The caller calls Serve, or Close.
func NewRelay(ctx context.Context, port int, dial func(context.Context, string, string) (net.Conn, error)) (*Relay, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return nil, &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "ui", Field: "port", Message: "this machine does not let the program listen there", Hint: "name another port, or none", Err: err}
	}
	_, number, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		_ = l.Close()
		return nil, err
	}
	r := &Relay{listener: l, host: []string{"127.0.0.1:" + number, "localhost:" + number}}
	r.proxy = &httputil.ReverseProxy{
		Transport:     &http.Transport{DialContext: dial, DisableCompression: true, MaxIdleConnsPerHost: 16, IdleConnTimeout: time.Minute},
		FlushInterval: -1, ErrorLog: log.New(discard{}, "", 0),
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(&url.URL{Scheme: "http", Host: "localhost"})
			p.SetXForwarded() // after the headers of one hop have gone: no client can take it away
			p.Out.Host = p.In.Host
			if r.preview(p.In.Host) {
				return
			}
			p.Out.Header.Del("Authorization")
			if p.Out.Header.Get("Origin") != "" { // serve has checked it
				p.Out.Header.Del("Origin")
				p.Out.Header.Set("Sec-Fetch-Site", "same-origin")
			}
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			api.Write(w, &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "ui", Message: "the daemon does not answer", Retryable: true, Hint: "see whether it runs: sandbox serve", Err: err})
		},
	}
	return r, nil
}

// discard drops what a log says.
type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// Address is the host and port by which browsers call it.
func (r *Relay) Address() string { return r.host[0] }

// Close lets the port go where Serve was not called.
func (r *Relay) Close() error { return r.listener.Close() }

// Serve passes requests on until ctx ends, and cuts those off that run then.
func (r *Relay) Serve(ctx context.Context) error {
	srv := &http.Server{Handler: r, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 32 << 10, ErrorLog: log.New(discard{}, "", 0)}
	defer context.AfterFunc(ctx, func() { _ = srv.Close() })()
	err := srv.Serve(r.listener)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// ServeHTTP implements [http.Handler].
func (r *Relay) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	if err := r.admit(q); err != nil {
		secure(w.Header())
		api.Write(w, err)
		return
	}
	r.proxy.ServeHTTP(w, q)
}

// preview reports whether a host is that of a port of a sandbox, see docs/ports.md.
// Its pages are of an origin of their own.
func (r *Relay) preview(host string) bool {
	_, number, _ := strings.Cut(r.host[1], ":")
	first, ok := strings.CutSuffix(host, ".localhost:"+number)
	port, label, cut := strings.Cut(first, "-")
	return ok && cut && port != "" && len(port) <= 5 && strings.Trim(port, "0123456789") == "" &&
		len(label) >= 16 && len(label) <= 40 && strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789") == ""
}

// admit refuses what no page of the console sends: requests for another host, which
// a page whose name resolves to this machine sends, those of other origins, and
// paths that are not the console's.
func (r *Relay) admit(q *http.Request) error {
	refused := func(field, message string) error {
		return &sandbox.Error{Code: sandbox.CodePermissionDeny, Op: "ui", Field: field, Message: message, Hint: "open the link that sandbox ui prints"}
	}
	if r.preview(q.Host) && q.URL.Host == "" {
		return nil // the daemon judges it by the secret of its link
	}
	if q.Host != r.host[0] && q.Host != r.host[1] || q.URL.Host != "" {
		return refused("Host", "the request is for a host that is not this program")
	}
	for _, origin := range q.Header.Values("Origin") {
		if origin != "http://"+q.Host || len(q.Header.Values("Origin")) > 1 {
			return refused("Origin", "pages of other origins have no access")
		}
	}
	if path := q.URL.EscapedPath(); path != "/ui" && !strings.HasPrefix(path, Path) && !strings.HasPrefix(path, api.Prefix+"/") {
		return refused("path", "this program serves the console alone")
	}
	return nil
}
