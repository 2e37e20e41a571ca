package sdk

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/server/stream"
)

// APIOptions are who asks and how long is waited. The zero value asks without a
// token, as a unix socket lets the daemon's own user do.
type APIOptions struct {
	Token string // a bearer token; never in the address

	// Tenant, Agent and Session go with every request that does not say
	// otherwise.
	Tenant, Agent, Session string

	Timeout time.Duration // of one request that does not stream, and until one that does begins to; zero is two minutes
	Retries int           // of requests that may be made again; zero is 2, negative none
	Silence time.Duration // after which a stream of events counts as cut off; zero is a minute, of which daemons use a quarter

	Stream stream.Options

	// settings is the value of the header [api.HeaderSettings]; empty is none.
	settings string
	// dial connects to the daemon in place of its address; nil is none.
	dial func(context.Context, string, string) (net.Conn, error)
}

// An API speaks to one daemon. It is safe for concurrent use.
type API struct {
	o         APIOptions
	host      string // as it was given
	base      url.URL
	http      *http.Client
	transport *http.Transport
}

// NewAPI returns a client of the daemon at host: unix:PATH, tcp:HOST:PORT,
// http://HOST[:PORT] or https://HOST[:PORT]. Nothing is asked yet. A token
// goes over plain TCP to loopback addresses only, because everybody on the way
// could read it.
func NewAPI(host string, o APIOptions) (*API, error) {
	if o.Timeout <= 0 {
		o.Timeout = 2 * time.Minute
	}
	if o.Silence <= 0 {
		o.Silence = time.Minute
	}
	if o.Retries == 0 {
		o.Retries = 2
	}
	c := &API{o: o, host: host}
	base, socket, err := place(host)
	if err != nil {
		return nil, err
	}
	if o.Token != "" && base.Scheme == "http" && socket == "" && !loopback(base.Hostname()) {
		return nil, wrongHost(host, "a token would go over the network for everybody to read", "use https, or a tunnel to a loopback address")
	}
	if strings.ContainsAny(o.Token, "\r\n\x00 ") {
		return nil, wrongHost(host, "the token holds characters that no token has", "")
	}
	c.base = base
	if o.dial == nil {
		o.dial = dialer(socket)
	}
	c.transport = &http.Transport{
		DialContext:           o.dial,
		MaxIdleConns:          64,
		MaxIdleConnsPerHost:   64,
		IdleConnTimeout:       time.Minute,
		TLSHandshakeTimeout:   10 * time.Second,
		ResponseHeaderTimeout: o.Timeout + time.Second, // later than those of calls, which tell it better
		ExpectContinueTimeout: time.Second,
		DisableCompression:    true,
	}
	c.http = &http.Client{
		Transport: c.transport,
		// A daemon sends no redirect, and a token is for the daemon alone.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c, nil
}

// Close closes the connections that are not in use.
func (c *API) Close() error {
	c.transport.CloseIdleConnections()
	return nil
}

// Host is the address that NewAPI was given.
func (c *API) Host() string { return c.host }

// For returns a client of the same daemon, over the same connections, that
// asks on behalf of others.
func (c *API) For(tenant, agent, session string) *API {
	d := *c
	d.o.Tenant, d.o.Agent, d.o.Session = tenant, agent, session
	return &d
}

func dialer(socket string) func(context.Context, string, string) (net.Conn, error) {
	d := &net.Dialer{Timeout: 10 * time.Second}
	if socket == "" {
		return d.DialContext
	}
	return func(ctx context.Context, _, _ string) (net.Conn, error) { return d.DialContext(ctx, "unix", socket) }
}

// place reads an address: the base of requests, and the socket where it is one.
func place(host string) (base url.URL, socket string, err error) {
	kind, rest, ok := strings.Cut(host, ":")
	if !ok || rest == "" {
		return base, "", wrongHost(host, "it is no address of a daemon", "write unix:PATH, tcp:HOST:PORT, http://HOST:PORT or https://HOST")
	}
	switch kind {
	case "unix":
		socket = strings.TrimPrefix(rest, "//")
		if !strings.HasPrefix(socket, string(os.PathSeparator)) {
			return base, "", wrongHost(host, "the path of the socket is not absolute", "write unix:/PATH")
		}
		return url.URL{Scheme: "http", Host: "localhost"}, socket, nil
	case "tcp":
		at := strings.TrimPrefix(rest, "//")
		if _, port, err := net.SplitHostPort(at); err != nil || port == "" {
			return base, "", wrongHost(host, "it has no port", "write tcp:HOST:PORT")
		}
		return url.URL{Scheme: "http", Host: at}, "", nil
	case "http", "https":
		u, err := url.Parse(host)
		if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || strings.Trim(u.Path, "/") != "" {
			return base, "", wrongHost(host, "it is no address of a daemon", "write http://HOST:PORT or https://HOST, with nothing behind it")
		}
		return url.URL{Scheme: u.Scheme, Host: u.Host}, "", nil
	}
	return base, "", wrongHost(host, "nothing is known of "+kind, "write unix:PATH, tcp:HOST:PORT, http://HOST:PORT or https://HOST")
}

func loopback(name string) bool {
	ip := net.ParseIP(name)
	return name == "localhost" || ip != nil && ip.IsLoopback()
}

// wrongHost leaves out what was given: it may hold a secret.
func wrongHost(_, message, hint string) error {
	return &sandbox.Error{Code: sandbox.CodeValidation, Op: "reach daemon", Field: "address", Message: message, Hint: hint}
}
