// This file holds the resource that connects clients to programs that listen
// inside a sandbox.

package resource

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/coder/websocket"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/server/stream"
	"github.com/bulkhead-dev/sandbox/tenant/token"
)

const (
	// portsMost is how many connections to one sandbox may be open at a time; its
	// guest forwards few more. portsAll is how many to all sandboxes together.
	portsMost, portsAll = 1000, 16384
)

// A portsManager gives access to running sandboxes; *manager.Manager is one.
type portsManager interface {
	Finder
	WithSandbox(ctx context.Context, req manager.Request, fn func(sandbox.Sandbox, sandbox.Spec) error) error
}

// PortOptions configure [NewPorts].
type PortOptions struct {
	File   string       // where shares are kept; empty forgets them with the process
	Domain string       // below which the host names of ports are; empty has none, and shares nothing
	Tokens *token.Store // by which callers are identified; nil has none
	AtOnce int          // connections to one sandbox that are open at a time; 0 is 1000
}

// Ports connect clients to programs that listen inside sandboxes.
type Ports struct {
	manager portsManager
	o       PortOptions
	seats   *watchSeats
	all     *watchSeats
	shares  *shares

	upstreams upstreams
}

// NewPorts returns the resource.
func NewPorts(l portsManager, o PortOptions) *Ports {
	if o.AtOnce <= 0 {
		o.AtOnce = portsMost
	}
	return &Ports{
		manager: l, o: o, shares: openShares(o.File),
		seats: newSeats(o.AtOnce, "dial", "connections to", "close one of them"),
		all:   newSeats(portsAll, "dial", "connections to ports of all sandboxes, and so to", "close one of them"),
	}
}

// Routes implements [Resource].
func (x *Ports) Routes() []Route {
	const base = api.Prefix + "/sandboxes/{name}"
	return takingSettings([]Route{{
		ID: "listPorts", Method: http.MethodGet, Path: base + "/ports", Tag: "ports", Role: token.Session,
		Summary: "List the TCP ports at which programs inside listen", Response: api.PortList{}, Errors: []int{404, 409, 429, 501, 503, 504}, Do: x.list,
	}, {
		ID: "dialPort", Method: http.MethodGet, Path: base + "/ports/{port}", Tag: "ports", Role: token.Session,
		Summary: "Connect to a TCP port inside over a WebSocket", Socket: true, Timeout: Endless,
		Doc: "The port is one of the loopback interface inside the sandbox: nothing outside is reached. Binary frames are the bytes of the connection, " +
			`and the text frame {"type":"eof"} ends one direction. The sandbox is in use until the connection ends. Where nothing listens the answer is 503. ` +
			"Every method at a path below, which begins with a slash behind the number, is a request of HTTP to that path of the program inside: its bodies are passed on as they come, " +
			"and it may be a WebSocket or a stream of events. The header Authorization and those of this server do not get inside.",
		Errors: []int{404, 409, 429, 501, 503, 504}, Do: x.dial,
	}, {
		ID: "sharePort", Method: http.MethodPost, Path: base + "/shares", Tag: "ports", Role: token.Session,
		Summary: "Make a link to a port inside", Doc: "A program that has the link may connect to that port of that sandbox, until it expires, is revoked, or the token that made it is not good any more. The secret is in this answer and never again.",
		Request: api.SharePort{}, Response: api.NewShare{}, Status: http.StatusCreated, Errors: []int{404, 409, 429, 501, 503}, Do: x.share,
	}, {
		ID: "listShares", Method: http.MethodGet, Path: base + "/shares", Tag: "ports", Role: token.Session,
		Summary: "List the links to ports inside", Doc: "The oldest first, without secrets.", Response: api.ShareList{}, Errors: []int{404, 503}, Do: x.listShares,
	}, {
		ID: "revokeShare", Method: http.MethodDelete, Path: base + "/shares/{id}", Tag: "ports", Role: token.Session,
		Summary: "Revoke a link to a port inside", Doc: "Its open connections are cut.", Errors: []int{404, 503}, Do: x.revokeShare,
	}})
}

// portNumber reads a port as it is written in paths and host names: in decimal,
// without a sign and without zeros in front.
func portNumber(s string) (int, error) {
	port, err := strconv.ParseUint(s, 10, 16)
	if err != nil || port == 0 || s != strconv.FormatUint(port, 10) {
		return 0, Invalid("port", "is no number from 1 to 65535")
	}
	return int(port), nil
}

// seat takes a seat for a connection to the sandbox.
func (x *Ports) seat(name string) (leave func(), err error) {
	one, err := x.seats.Take(name)
	if err != nil {
		return nil, err
	}
	all, err := x.all.Take("")
	if err != nil {
		one()
		return nil, err
	}
	return func() { all(); one() }, nil
}

func (x *Ports) dial(c *Call) (any, error) {
	port, err := portNumber(c.Path("port"))
	if err != nil {
		return nil, err
	}
	at, err := Sandboxed(c, x.manager)
	if err != nil {
		return nil, err
	}
	leave, err := x.seat(at.Name)
	if err != nil {
		return nil, err
	}
	defer leave()
	sent := false
	req := manager.Request{Who: at.Who, Flags: c.Settings, MustExist: true, Tool: c.Tool("exec")}
	err = x.manager.WithSandbox(c.Context(), req, func(sb sandbox.Sandbox, _ sandbox.Spec) error {
		far, err := manager.DialPortOf(c.Context(), sb, port)
		if err != nil {
			return err
		}
		conn, err := websocket.Accept(c.Writer, c.Request, nil)
		sent = true
		if err != nil {
			_ = far.Close() // the handshake has failed, and Accept has answered
			return nil
		}
		stream.Relay(c.Context(), conn, far)
		return nil
	})
	if sent { // an error after that has no receiver: the connection was the client's
		return Sent{}, nil
	}
	return nil, err
}

// Expose makes a share. It decides nothing: its caller has found that who it acts
// for may use the sandbox.
func (x *Ports) Expose(e Exposure) (made api.Share, secret string, err error) {
	if x.o.Domain == "" {
		return api.Share{}, "", &sandbox.Error{Code: sandbox.CodeUnsupported, Op: "share", Message: "no server has host names for the ports of this sandbox", Hint: "use the sandbox through a daemon (sandbox serve, and --server or $SANDBOX_SERVER)"}
	}
	x.shares.gone(func(sh share) bool {
		rec, err := x.manager.Recorded(context.Background(), sh.Who.Tenant, sh.Sandbox, sh.Provider)
		return err == nil && sh.about(rec) || err != nil && !sandbox.IsNotFound(err)
	})
	sh, secret, err := x.shares.add(e)
	if err != nil {
		return api.Share{}, "", err
	}
	return sh.form(x.o.Domain), secret, nil
}

// Retract ends a share and cuts its connections. It reports whether there was one.
func (x *Ports) Retract(id string) (bool, error) {
	return x.shares.revoke(id, func(share) bool { return true })
}

// A Label asks for a share of every port of a sandbox, whose host names have the
// label. Other protocols name sandboxes in host names by it. A request that makes a
// share asks for it with [WithLabel].
type Label struct {
	Text string // 16 to 40 of a-z and 0-9
	// Keep has a share of the label stay as it is, public or not, and returns it.
	// Without, shares that are not as the request says are revoked.
	Keep bool
}

type labelKey struct{}

// WithLabel returns a context for a request in this process that makes a share.
func WithLabel(ctx context.Context, l Label) context.Context {
	return context.WithValue(ctx, labelKey{}, l)
}

// LabelOf returns what [WithLabel] has put into a context; the zero value is none.
func LabelOf(ctx context.Context) Label {
	l, _ := ctx.Value(labelKey{}).(Label)
	return l
}

// labelledLeft is how long a share of a label has to stay in force to be returned
// once more.
const labelledLeft = shareLongest / 2

// shareLabelled makes a share of every port, or returns the one that there is.
func (x *Ports) shareLabelled(c *Call, l Label, public bool) (any, error) {
	at, err := Sandboxed(c, x.manager)
	if err != nil {
		return nil, err
	}
	if sh, secret, ok := x.shares.labelled(at.Record, l.Text, labelledLeft); ok && (l.Keep || sh.Public == public) {
		return api.NewShare{Share: sh.form(x.o.Domain), Secret: secret}, nil
	}
	if !l.Keep {
		found, err := x.shares.of(at.Record)
		if err != nil {
			return nil, err
		}
		for _, sh := range found {
			if sh.Label == l.Text && sh.Public != public {
				if _, err := x.Retract(sh.ID); err != nil {
					return nil, err
				}
			}
		}
	}
	made, secret, err := x.Expose(Exposure{Record: at.Record, Who: at.Who, TokenID: ownID(c), Label: l.Text, Public: public, Until: x.shares.now().Add(shareLongest)})
	return api.NewShare{Share: made, Secret: secret}, err
}

func (x *Ports) share(c *Call) (any, error) {
	in, err := Body[api.SharePort](c)
	if err != nil {
		return nil, err
	}
	if l := LabelOf(c.Context()); l.Text != "" {
		return x.shareLabelled(c, l, in.Public)
	}
	if in.Port < 1 || in.Port > 65535 {
		return nil, Invalid("port", "is no number from 1 to 65535")
	}
	ttl := shareUsual
	if in.TTLSeconds != 0 {
		ttl = time.Duration(in.TTLSeconds) * time.Second
	}
	if in.TTLSeconds < 0 || in.TTLSeconds > int64(shareLongest/time.Second) {
		return nil, Invalid("ttlSeconds", "is not from 1 to 2592000")
	}
	at, err := Sandboxed(c, x.manager)
	if err != nil {
		return nil, err
	}
	e := Exposure{Record: at.Record, Who: at.Who, TokenID: ownID(c), Port: in.Port, Public: in.Public, Until: x.shares.now().Add(ttl)}
	made, secret, err := x.Expose(e)
	if err != nil {
		return nil, err
	}
	link := url.URL{Scheme: "http", Host: made.Host, Path: "/"}
	if _, port, err := net.SplitHostPort(c.Request.Host); err == nil {
		link.Host = net.JoinHostPort(made.Host, port)
	}
	if secret != "" {
		link.RawQuery = url.Values{shareParam: {secret}}.Encode()
	}
	return api.NewShare{Share: made, Secret: secret, URL: link.String()}, nil
}

func (x *Ports) listShares(c *Call) (any, error) {
	at, err := Find(c, x.manager)
	if err != nil {
		return nil, err
	}
	found, err := x.shares.of(at.Record)
	if err != nil {
		return nil, err
	}
	out := api.ShareList{Items: []api.Share{}}
	for _, sh := range found {
		out.Items = append(out.Items, sh.form(x.o.Domain))
	}
	return out, nil
}

func (x *Ports) revokeShare(c *Call) (any, error) {
	at, err := Find(c, x.manager)
	if err != nil {
		return nil, err
	}
	id := c.Path("id")
	was, err := x.shares.revoke(id, func(sh share) bool { return sh.about(at.Record) })
	if err == nil && !was {
		err = Hide("share", id)
	}
	return nil, err
}
