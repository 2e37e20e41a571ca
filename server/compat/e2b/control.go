package e2b

import (
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/server/api"
)

// routesControl registers the control plane, with the paths of older SDKs and of
// newer ones.
func (d *Translator) routesControl() {
	h := func(pattern string, do func(c *call) error) {
		d.control.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			c := callOf(r.Context())
			c.r = r
			if name := r.PathValue("id"); name != "" {
				if !goodName(name) {
					refuse(w, notFound(name))
					return
				}
				c.name = name
			}
			if err := do(c); err != nil {
				if gone(err, c) {
					err = notFound(c.name)
				}
				refuse(w, err)
			}
		})
	}
	for _, v := range []string{"", "/v2"} {
		h("POST "+v+"/sandboxes", d.create)
		h("GET "+v+"/sandboxes", d.list)
		h("POST "+v+"/sandboxes/{id}/connect", d.connect)
	}
	h("GET /sandboxes/{id}", d.info)
	h("DELETE /sandboxes/{id}", d.kill)
	h("POST /sandboxes/{id}/timeout", d.timeout)
	h("GET /sandboxes/{id}/metrics", d.metrics)
	h("POST /sandboxes/{id}/pause", d.pause)
	h("POST /sandboxes/{id}/resume", d.connect)
	h("PUT /sandboxes/{id}/network", d.network)
	d.routesSnapshots(h)
	// What this server does not have says so, and what is listed of it is nothing.
	for _, one := range []struct{ pattern, what string }{
		{"GET /sandboxes/{id}/logs", "the log of a sandbox"},
		{"POST /sandboxes/{id}/refreshes", "a refresh of a sandbox"},
		{"/snapshots", "a list of snapshots"}, {"/snapshots/", "a snapshot"},
		{"/secrets", "a list of secrets"}, {"/secrets/", "a secret"},
		{"/volumes", "a list of volumes"}, {"/volumes/", "a volume"},
		{"/templates", "the building of templates"}, {"/templates/", "the building of templates"},
		{"/v2/templates/", "the building of templates"}, {"/v3/templates", "the building of templates"}, {"/v3/templates/", "the building of templates"},
		{"/v2/templates", "the building of templates"}, {"/teams", "a list of teams"}, {"/teams/", "a team"},
	} {
		h(one.pattern, func(c *call) error { return unsupported(one.what) })
	}
}

func notFound(name string) *fault {
	return &fault{status: http.StatusNotFound, code: sandbox.CodeNotFound, message: "there is no sandbox " + strconv.Quote(name)}
}

// newSandbox is the body of create.
type newSandbox struct {
	TemplateID    string            `json:"templateID"`
	Metadata      map[string]string `json:"metadata"`
	EnvVars       map[string]string `json:"envVars"`
	Timeout       *int64            `json:"timeout"` // seconds
	Secure        *bool             `json:"secure"`
	AllowInternet *bool             `json:"allow_internet_access"`
	Network       *newNetwork       `json:"network"`
	IAM           any               `json:"iam"`
	AutoPause     *bool             `json:"autoPause"`
	AutoPauseMem  *bool             `json:"autoPauseMemory"`
	AutoResume    *newResume        `json:"autoResume"`
	MCP           any               `json:"mcp"`
	VolumeMounts  []any             `json:"volumeMounts"`
}

type newResume struct {
	Enabled bool   `json:"enabled"`
	Policy  string `json:"policy"`
}

// newNetwork is what create and the update of a network ask for.
type newNetwork struct {
	AllowOut           []string       `json:"allowOut"`
	DenyOut            []string       `json:"denyOut"`
	AllowInternet      *bool          `json:"allow_internet_access"`
	Rules              map[string]any `json:"rules"`
	EgressProxy        any            `json:"egressProxy"`
	HTTPSPorts         []any          `json:"httpsPorts"`
	AllowPublicTraffic *bool          `json:"allowPublicTraffic"`
	MaskRequestHost    string         `json:"maskRequestHost"`
}

// madeSandbox is the answer of create and connect.
type madeSandbox struct {
	TemplateID         string `json:"templateID"`
	SandboxID          string `json:"sandboxID"`
	ClientID           string `json:"clientID"`
	EnvdVersion        string `json:"envdVersion"`
	EnvdAccessToken    string `json:"envdAccessToken"`
	TrafficAccessToken string `json:"trafficAccessToken"`
	Domain             string `json:"domain,omitempty"`
}

// defaultTimeouts are those of the protocol, in seconds.
const (
	defaultTimeout1 = 15
	defaultTimeout2 = 300
	maxTimeout      = 31536000
)

// body reads the body of a request of the control plane.
func (c *call) body(v any) error {
	data, err := io.ReadAll(c.r.Body)
	if err != nil {
		return err
	}
	if len(data) == 0 {
		return nil // of requests whose fields are all optional
	}
	if err := decode(data, v); err != nil {
		return bad("", "the body is not as the protocol has it: "+err.Error())
	}
	return nil
}

func (d *Translator) create(c *call) error {
	var in newSandbox
	if err := c.body(&in); err != nil {
		return err
	}
	out, err := createBody(in, strings.HasPrefix(c.r.URL.Path, "/v2/"))
	if err != nil {
		return err
	}
	if err := d.begin(c, out, in.TemplateID); err != nil {
		return err
	}
	out["session"] = freshSession()
	var made api.Sandbox
	err = c.do(c.r.Context(), http.MethodPost, api.Prefix+"/sandboxes", nil, out, &made)
	if isBound(err) { // the token is for one session, so the sandbox is that session's
		delete(out, "session")
		err = c.do(c.r.Context(), http.MethodPost, api.Prefix+"/sandboxes", nil, out, &made)
	}
	if err != nil {
		return err
	}
	public := in.Network == nil || in.Network.AllowPublicTraffic == nil || *in.Network.AllowPublicTraffic
	write(c.w, http.StatusCreated, d.made(c, made, &public))
	return nil
}

// isBound reports whether err says that the token is for one session.
func isBound(err error) bool {
	f, ok := err.(*fault)
	return ok && f.code == sandbox.CodePermissionDeny && f.field == api.HeaderSession
}

// made returns a sandbox as create and connect answer it. public says whether its
// ports need a token; see [Translator.expose]. Where they cannot be exposed the sandbox is
// of use all the same, and requests for them are refused.
func (d *Translator) made(c *call, s api.Sandbox, public *bool) madeSandbox {
	traffic, err := d.expose(c, s.Name, public)
	if err != nil {
		d.o.Log.WithError(err).WithField("sandbox", s.Name).Warn("the ports of a sandbox cannot be reached by its host names")
	}
	return madeSandbox{
		TemplateID: template(s), SandboxID: s.Name, ClientID: "sandbox", EnvdVersion: envdVersion,
		EnvdAccessToken: d.keys.seal(c.token, s.Name), TrafficAccessToken: d.keys.sealTraffic(c.token, s.Name, traffic), Domain: d.domain(c),
	}
}

// createBody returns the body of POST /v1/sandboxes.
func createBody(in newSandbox, v2 bool) (map[string]any, error) {
	switch {
	case given(in.IAM):
		return nil, unsupported("iam")
	case given(in.MCP):
		return nil, unsupported("mcp")
	case len(in.VolumeMounts) > 0:
		return nil, unsupported("volumeMounts")
	case in.AutoPauseMem != nil && !*in.AutoPauseMem:
		return nil, unsupported("autoPauseMemory: false")
	}
	out := map[string]any{}
	seconds := int64(defaultTimeout1)
	if v2 {
		seconds = defaultTimeout2
	}
	if in.Timeout != nil {
		seconds = *in.Timeout
	}
	if seconds < 1 || seconds > maxTimeout {
		return nil, bad("timeout", "must be from 1 to "+strconv.Itoa(maxTimeout)+" seconds")
	}
	out["timeout"] = seconds
	ask(out, in.TemplateID)
	if len(in.EnvVars) > 0 {
		out["env"] = in.EnvVars
	}
	if len(in.Metadata) > 0 {
		out["metadata"] = in.Metadata
	}
	network, err := networkBody(in.Network, in.AllowInternet)
	if err != nil {
		return nil, err
	}
	if network != nil {
		out["network"] = network
	}
	if in.AutoPause != nil && *in.AutoPause {
		out["onTimeout"] = "pause"
	}
	if in.AutoResume != nil {
		out["autoResume"] = in.AutoResume.Enabled
	}
	return out, nil
}

// given reports whether a field has a value beside null and nothing.
func given(v any) bool {
	switch v := v.(type) {
	case nil:
		return false
	case map[string]any:
		return len(v) > 0
	}
	return true
}

// Names of everything in the lists of E2B.
const (
	everyAddress = "0.0.0.0/0"
	everyHost    = "*"
)

// networkBody returns the network rules of /v1; nil leaves the settings'.
func networkBody(in *newNetwork, internet *bool) (map[string]any, error) {
	if in == nil {
		in = &newNetwork{}
	}
	switch {
	case len(in.Rules) > 0:
		return nil, unsupported("network.rules")
	case given(in.EgressProxy):
		return nil, unsupported("network.egressProxy")
	case len(in.HTTPSPorts) > 0:
		return nil, unsupported("network.httpsPorts")
	case in.MaskRequestHost != "":
		return nil, unsupported("network.maskRequestHost")
	}
	if in.AllowInternet != nil {
		internet = in.AllowInternet
	}
	out := map[string]any{}
	denied := []string{}
	closed := internet != nil && !*internet
	for _, host := range in.DenyOut {
		if host == everyAddress || host == "::/0" || host == everyHost {
			closed = true
			continue
		}
		denied = append(denied, host)
	}
	switch {
	case len(in.AllowOut) > 0:
		out["allowedDomains"] = in.AllowOut
	case closed:
		out["allowedDomains"] = []string{}
	}
	if len(denied) > 0 {
		out["deniedDomains"] = denied
	}
	if len(out) == 0 {
		return nil, nil
	}
	return out, nil
}

// find returns the sandbox of the path.
func (c *call) find() (s api.Sandbox, err error) {
	err = c.do(c.r.Context(), http.MethodGet, box(c.name), nil, nil, &s)
	return s, err
}

func (d *Translator) connect(c *call) error {
	var in struct {
		Timeout   *int64 `json:"timeout"`
		Memory    *bool  `json:"memory"`
		AutoPause *bool  `json:"autoPause"`
	}
	if err := c.body(&in); err != nil {
		return err
	}
	if in.Memory != nil && !*in.Memory {
		return unsupported("memory: false")
	}
	s, err := c.find()
	if err != nil {
		return err
	}
	status := http.StatusOK
	if s.Status == sandbox.StatusPaused {
		if err := c.do(c.r.Context(), http.MethodPost, box(c.name, "/resume"), nil, nil, nil); err != nil {
			return err
		}
		status = http.StatusCreated
	}
	seconds := int64(0)
	if in.Timeout != nil {
		seconds = *in.Timeout
	}
	// Connect only makes the time longer.
	if seconds > 0 && (s.ExpiresAt.IsZero() || time.Until(s.ExpiresAt) < time.Duration(seconds)*time.Second) {
		if err := c.keep(seconds); err != nil {
			return err
		}
	}
	write(c.w, status, d.made(c, s, nil))
	return nil
}

// keep sets when the sandbox ends, in seconds from now.
func (c *call) keep(seconds int64) error {
	if seconds < 1 || seconds > maxTimeout {
		return bad("timeout", "must be from 1 to "+strconv.Itoa(maxTimeout)+" seconds")
	}
	return c.do(c.r.Context(), http.MethodPost, box(c.name, "/timeout"), nil, api.SetTimeout{Timeout: seconds}, nil)
}

func (d *Translator) timeout(c *call) error {
	var in struct {
		Timeout *int64 `json:"timeout"`
	}
	if err := c.body(&in); err != nil {
		return err
	}
	if in.Timeout == nil {
		return bad("timeout", "is missing")
	}
	if *in.Timeout == 0 {
		return d.kill(c) // its time is over
	}
	if err := c.keep(*in.Timeout); err != nil {
		return err
	}
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

func (d *Translator) kill(c *call) error {
	q := url.Values{"force": {"true"}, "workspace": {"true"}}
	if err := c.do(c.r.Context(), http.MethodDelete, box(c.name), q, nil, nil); err != nil {
		return err
	}
	d.keys.forget(c.name)
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

func (d *Translator) pause(c *call) error {
	var in struct {
		Memory *bool `json:"memory"`
	}
	if err := c.body(&in); err != nil {
		return err
	}
	if in.Memory != nil && !*in.Memory {
		return unsupported("memory: false")
	}
	s, err := c.find()
	if err != nil {
		return err
	}
	if s.Status == sandbox.StatusPaused {
		return &fault{status: http.StatusConflict, message: "the sandbox is paused already"}
	}
	if err := c.do(c.r.Context(), http.MethodPost, box(c.name, "/pause"), url.Values{"force": {"true"}}, nil, nil); err != nil {
		return err
	}
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

func (d *Translator) network(c *call) error {
	var in newNetwork
	if err := c.body(&in); err != nil {
		return err
	}
	body, err := networkBody(&in, nil)
	if err != nil {
		return err
	}
	if _, err := c.find(); err != nil {
		return err
	}
	if in.AllowPublicTraffic != nil {
		if _, err := d.expose(c, c.name, in.AllowPublicTraffic); err != nil || body == nil {
			if err == nil {
				c.w.WriteHeader(http.StatusNoContent)
			}
			return err
		}
	}
	if body == nil {
		body = map[string]any{}
	}
	err = c.do(c.r.Context(), http.MethodPut, box(c.name, "/network"), nil, body, nil)
	if f, ok := err.(*fault); ok && (f.status == http.StatusMethodNotAllowed || f.status == http.StatusNotFound && !gone(err, c)) {
		return unsupported("the change of a sandbox's network")
	}
	if err != nil {
		return err
	}
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

// shownSandbox is a sandbox as getInfo and list answer it.
type shownSandbox struct {
	SandboxID   string            `json:"sandboxID"`
	TemplateID  string            `json:"templateID"`
	ClientID    string            `json:"clientID"`
	StartedAt   time.Time         `json:"startedAt"`
	EndAt       time.Time         `json:"endAt"`
	CPUCount    int               `json:"cpuCount"`
	MemoryMB    int64             `json:"memoryMB"`
	DiskSizeMB  int64             `json:"diskSizeMB"`
	State       string            `json:"state"`
	EnvdVersion string            `json:"envdVersion"`
	Metadata    map[string]string `json:"metadata"`
	Domain      string            `json:"domain,omitempty"`
	Access      string            `json:"envdAccessToken,omitempty"`
}

// listed reports whether a sandbox is one that the protocol can show, and its state.
func listed(s api.Sandbox) (state string, ok bool) {
	switch s.Status {
	case sandbox.StatusRunning:
		state = "running"
	case sandbox.StatusPaused:
		state = "paused"
	case sandbox.StatusStopped: // it comes up with its next use
		state = "running"
	default:
		return "", false
	}
	return state, s.Kind == sandbox.KindSandbox
}

func (d *Translator) shown(s api.Sandbox, u api.Usage) shownSandbox {
	state, _ := listed(s)
	end := s.ExpiresAt
	if end.IsZero() {
		end = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC) // SDKs read a time in any case
	}
	return shownSandbox{
		SandboxID: s.Name, TemplateID: template(s), ClientID: "sandbox", StartedAt: s.CreatedAt.UTC(), EndAt: end.UTC(), State: state,
		EnvdVersion: envdVersion, Metadata: metadata(s), MemoryMB: u.MemoryLimit >> 20,
	}
}

// metadata returns what a sandbox was made with.
func metadata(s api.Sandbox) map[string]string {
	if s.Metadata == nil {
		return map[string]string{}
	}
	return s.Metadata
}

func (d *Translator) info(c *call) error {
	s, err := c.find()
	if err != nil {
		return err
	}
	if _, ok := listed(s); !ok {
		return notFound(c.name)
	}
	var u api.Usage
	if err := c.do(c.r.Context(), http.MethodGet, box(c.name, "/usage"), nil, nil, &u); err != nil {
		return err
	}
	out := d.shown(s, u)
	out.Domain, out.Access = d.domain(c), d.keys.seal(c.token, s.Name)
	write(c.w, http.StatusOK, out)
	return nil
}

// maxPage is how many items one page of a list has at most.
const maxPage = 100

// limitOf returns how many items a page is to have.
func limitOf(q url.Values) (int, error) {
	text := q.Get("limit")
	if text == "" {
		return maxPage, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxPage {
		return 0, bad("limit", "must be a number from 1 to "+strconv.Itoa(maxPage))
	}
	return n, nil
}

func (d *Translator) list(c *call) error {
	q := c.r.URL.Query()
	limit, err := limitOf(q)
	if err != nil {
		return err
	}
	match, err := filterOf(q)
	if err != nil {
		return err
	}
	out := []shownSandbox{}
	cursor := q.Get("nextToken")
	for {
		var page api.SandboxPage
		args := url.Values{"limit": {strconv.Itoa(limit - len(out))}}
		if cursor != "" {
			args.Set("cursor", cursor)
		}
		if err := c.do(c.r.Context(), http.MethodGet, api.Prefix+"/sandboxes", args, nil, &page); err != nil {
			return err
		}
		for _, s := range page.Items {
			if match(s) {
				out = append(out, d.shown(s, api.Usage{}))
			}
		}
		cursor = page.Next
		if cursor == "" || len(out) >= limit {
			break
		}
	}
	if cursor != "" {
		c.w.Header().Set(headerNext, cursor)
	}
	write(c.w, http.StatusOK, out)
	return nil
}

// filterOf returns which sandboxes a list asks for.
func filterOf(q url.Values) (func(api.Sandbox) bool, error) {
	want, err := url.ParseQuery(q.Get("metadata"))
	if err != nil {
		return nil, bad("metadata", "is no list of names and values in the form of a query")
	}
	// Names and values are escaped twice.
	pairs := map[string]string{}
	for name, values := range want {
		for _, v := range values {
			n, err1 := url.QueryUnescape(name)
			v, err2 := url.QueryUnescape(v)
			if err1 != nil || err2 != nil {
				return nil, bad("metadata", "is no list of names and values in the form of a query")
			}
			if old, twice := pairs[n]; twice && old != v {
				return nil, bad("metadata", "names "+strconv.Quote(n)+" with two values")
			}
			pairs[n] = v
		}
	}
	states := []string{}
	for _, v := range q["state"] {
		for s := range strings.SplitSeq(v, ",") {
			if s != "running" && s != "paused" {
				return nil, bad("state", "is neither running nor paused")
			}
			states = append(states, s)
		}
	}
	var after time.Time
	if text := q.Get("startedAfter"); text != "" {
		if after, err = time.Parse(time.RFC3339, text); err != nil {
			return nil, bad("startedAfter", "is no time in the form of RFC 3339")
		}
	}
	if o := q.Get("order"); o != "" && o != "asc" && o != "desc" {
		return nil, bad("order", "is neither asc nor desc")
	}
	of := q.Get("template")
	return func(s api.Sandbox) bool {
		state, ok := listed(s)
		if !ok || len(states) > 0 && !slices.Contains(states, state) || s.CreatedAt.Before(after) || of != "" && !isFrom(s, of) {
			return false
		}
		have := metadata(s)
		for name, value := range pairs {
			if got, ok := have[name]; !ok || got != value {
				return false
			}
		}
		return true
	}, nil
}
