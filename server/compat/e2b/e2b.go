// Package e2b lets the SDKs of E2B use this server unmodified. It translates:
// every request of that protocol becomes requests of /v1, which it sends to the
// server in the same process with the caller's own token. So tenants, quotas,
// policy, egress, evidence and budgets are those of /v1, and this package decides
// nothing.
//
// The protocol has two parts. The control plane is JSON over HTTP below
// /sandboxes and /v2/sandboxes, with a token in the header X-API-KEY. The data
// plane is what programs inside of each sandbox answer in E2B's cloud: files over
// HTTP, processes and the file system over Connect RPC with JSON, and on a port of
// its own the code interpreter over HTTP. A request of the data plane names its
// sandbox by the header E2b-Sandbox-Id or by its host PORT-ID.DOMAIN, and has the
// header X-Access-Token with what create returned; see [keys].
package e2b

import (
	"context"
	"net/http"
	"path"
	"strings"
	"sync"

	"connectrpc.com/connect"
	"github.com/sirupsen/logrus"

	"github.com/bulkhead-dev/sandbox/server/compat"
)

// Ports of the services that E2B's templates have.
const (
	envdPort = "49983" // files, processes, metrics
	codePort = "49999" // the code interpreter
)

// envdVersion is the version of E2B's daemon whose protocol is spoken here. SDKs
// refuse features that need a newer one.
const envdVersion = "0.6.4"

// Bounds of one message of the protocol.
const (
	maxMessage = 4 << 20 // bytes of one RPC message
	maxJSON    = 1 << 20 // bytes of one body of the control plane
)

// Options configure a [Translator]. Log is required.
type Options struct {
	Log logrus.FieldLogger
	// Key seals access tokens: 32 bytes that stay the same while clients hold
	// access tokens.
	Key []byte
	// Enabled reports whether the protocol is served; nil is always.
	Enabled func() bool
	// Domains returns the names below which hosts PORT-ID.DOMAIN are served,
	// beside localhost; nil is none.
	Domains func() []string
	// PortDomain is that of [resource.PortOptions]; empty reaches no ports inside.
	PortDomain string
}

// A Translator serves the protocol. It is safe for concurrent use.
type Translator struct {
	o        Options
	keys     *keys
	control  *http.ServeMux
	envd     *http.ServeMux
	code     *http.ServeMux
	watchers watchers
	life     context.Context // of watchers that clients poll
	stop     func()
	going    sync.WaitGroup // of them
}

// New returns a Translator. It returns an error for a key that is no key.
func New(o Options) (*Translator, error) {
	k, err := newKeys(o.Key)
	if err != nil {
		return nil, err
	}
	d := &Translator{o: o, keys: k, control: http.NewServeMux(), envd: http.NewServeMux(), code: http.NewServeMux()}
	d.life, d.stop = context.WithCancel(context.Background())
	d.routes()
	return d, nil
}

// Close ends what outlives requests.
func (d *Translator) Close() {
	d.stop()
	d.going.Wait()
}

func (d *Translator) enabled() bool { return d.o.Enabled == nil || d.o.Enabled() }

// Claims reports whether a request is one of this protocol.
func (d *Translator) Claims(r *http.Request) bool {
	if !d.enabled() {
		return false
	}
	if r.Header.Get(headerSandbox) != "" {
		return true
	}
	if _, _, ok := d.hostOf(r); ok {
		return true
	}
	first, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	switch first {
	case "sandboxes", "snapshots", "templates", "secrets", "volumes", "files", "teams", "process.Process", "filesystem.Filesystem":
		return true
	case "v2", "v3":
		second, _, _ := strings.Cut(rest, "/")
		return second == "sandboxes" || second == "templates"
	}
	return false
}

// Translate answers a request that the translator claims. api is the server of /v1.
func (d *Translator) Translate(w http.ResponseWriter, r *http.Request, api http.Handler) {
	c := &call{translator: d, r: r, w: w, api: api, host: r.Host}
	r = r.WithContext(context.WithValue(r.Context(), callKey{}, c))
	c.r, c.base = r, compat.New(w, r, api)
	port, name, byHost := d.hostOf(r)
	if byHost {
		_, c.host, _ = strings.Cut(r.Host, ".")
	}
	if given := r.Header.Get(headerSandbox); given != "" {
		if byHost && given != name {
			refuse(w, &fault{status: http.StatusBadRequest, message: "the header " + headerSandbox + " and the host name two sandboxes"})
			return
		}
		name = given
		if port == "" {
			port = r.Header.Get(headerPort)
		}
	}
	if name != "" && port != "" && port != envdPort && port != codePort {
		d.forward(c, name, port)
		return
	}
	if clean := path.Clean(r.URL.Path); clean != r.URL.Path && clean+"/" != r.URL.Path {
		refuse(w, &fault{status: http.StatusBadRequest, message: "the path of the address is not in its shortest form"})
		return
	}
	if name != "" && port == codePort {
		d.serveCode(c, name)
		return
	}
	if name != "" || isEnvd(r.URL.Path) {
		d.serveEnvd(c, name)
		return
	}
	d.serveControl(c)
}

// isEnvd reports whether a path without the name of a sandbox is one of the data
// plane: signed addresses of files, and clients that forget the header.
func isEnvd(p string) bool {
	return p == "/files" || strings.HasPrefix(p, "/process.Process/") || strings.HasPrefix(p, "/filesystem.Filesystem/")
}

func (d *Translator) serveControl(c *call) {
	token, err := bearerOf(c.r)
	if err != nil {
		refuse(c.w, err)
		return
	}
	c.token = token
	if c.r.Body != nil {
		c.r.Body = http.MaxBytesReader(c.w, c.r.Body, maxJSON)
	}
	h, pattern := d.control.Handler(c.r)
	if pattern == "" {
		refuse(c.w, &fault{status: http.StatusNotFound, message: "this server has no such path of the E2B protocol"})
		return
	}
	_ = h
	d.control.ServeHTTP(c.w, c.r)
}

func (d *Translator) serveEnvd(c *call, name string) {
	if err := d.keys.admit(c, name); err != nil {
		refuseEnvd(c.w, c.r, err)
		return
	}
	if user := c.r.URL.Query().Get("username"); user != "" {
		c.user = user
	}
	if err := basicUser(c); err != nil {
		refuseEnvd(c.w, c.r, err)
		return
	}
	if _, pattern := d.envd.Handler(c.r); pattern == "" {
		refuseEnvd(c.w, c.r, &fault{status: http.StatusNotFound, message: "this server has no such path of the E2B protocol"})
		return
	}
	d.envd.ServeHTTP(c.w, c.r)
}

// routes registers what is served.
func (d *Translator) routes() {
	d.routesControl()
	d.routesCode()
	d.envd.HandleFunc("GET /health", d.health)
	d.envd.HandleFunc("GET /files", d.readFile)
	d.envd.HandleFunc("POST /files", d.writeFiles)
	d.envd.HandleFunc("GET /metrics", d.envdMetrics)
	d.envd.HandleFunc("GET /envs", d.envs)
	o := []connect.HandlerOption{
		connect.WithCodec(codec{}), connect.WithReadMaxBytes(maxMessage), connect.WithSendMaxBytes(maxMessage),
		connect.WithCompressMinBytes(64 << 10),
	}
	d.routesProcess(o)
	d.routesFilesystem(o)
}
