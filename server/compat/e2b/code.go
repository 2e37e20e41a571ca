package e2b

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/server/api"
)

const (
	// maxCodeBody is the most of a request of the code interpreter, in bytes.
	maxCodeBody = 8 << 20
	// codeHead is how long a run may take to begin before its answer does: SDKs
	// give up a request that has no answer within their request timeout, which is
	// 30 s or more, and a run can wait for others in its context.
	codeHead = 15 * time.Second
)

// Messages of the code interpreter.
type (
	executeRequest struct {
		Code      *string           `json:"code"`
		ContextID string            `json:"context_id"`
		Language  string            `json:"language"`
		EnvVars   map[string]string `json:"env_vars"`
	}

	contextRequest struct {
		Language string `json:"language"`
		Cwd      string `json:"cwd"`
	}

	codeContext struct {
		ID       string `json:"id"`
		Language string `json:"language"`
		Cwd      string `json:"cwd"`
	}

	codeOutput struct {
		Type      string `json:"type"` // stdout or stderr
		Text      string `json:"text"`
		Timestamp int64  `json:"timestamp"` // nanoseconds since 1970
	}

	codeFailure struct {
		Type      string `json:"type"`
		Name      string `json:"name"`
		Value     string `json:"value"`
		Traceback string `json:"traceback"`
	}

	codeCount struct {
		Type  string `json:"type"`
		Count int64  `json:"execution_count"`
	}

	codeEnd struct {
		Type string `json:"type"`
	}
)

// routesCode registers what a template with the code interpreter answers on
// [codePort].
func (d *Translator) routesCode() {
	h := func(pattern string, do func(c *call) error) {
		d.code.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			c := callOf(r.Context())
			c.r = r
			if err := do(c); err != nil {
				refuseEnvd(w, r, err)
			}
		})
	}
	h("GET /health", d.codeHealth)
	h("POST /execute", d.execute)
	h("GET /contexts", d.contexts)
	h("POST /contexts", d.createContext)
	h("POST /contexts/{id}/restart", d.restartContext)
	h("DELETE /contexts/{id}", d.deleteContext)
}

// serveCode answers a request for the port of the code interpreter.
func (d *Translator) serveCode(c *call, name string) {
	err := d.keys.admitCode(c, name)
	if err == nil {
		err = basicUser(c)
	}
	if err == nil {
		err = c.fileUser()
	}
	if err != nil {
		refuseEnvd(c.w, c.r, err)
		return
	}
	if _, pattern := d.code.Handler(c.r); pattern == "" {
		refuseEnvd(c.w, c.r, &fault{status: http.StatusNotFound, message: "the code interpreter has no such path"})
		return
	}
	if c.r.Body != nil {
		c.r.Body = http.MaxBytesReader(c.w, c.r.Body, maxCodeBody)
	}
	d.code.ServeHTTP(c.w, c.r)
}

// admitCode is admit for the port of the code interpreter. SDKs send the access token
// with code, and with requests for contexts the traffic access token alone.
func (k *keys) admitCode(c *call, name string) error {
	traffic := c.r.Header.Values(headerTraffic)
	if len(traffic) == 0 {
		return k.admit(c, name)
	}
	token, of, _, ok := k.openTraffic(traffic[0])
	switch {
	case len(traffic) > 1:
		return unauthorized("the header " + headerTraffic + " is there more than once")
	case !ok:
		return unauthorized("the traffic access token is not one of this server; connect to the sandbox for a new one")
	case name != "" && name != of:
		return unauthorized("the traffic access token is for another sandbox")
	case len(c.r.Header.Values(headerAccess)) > 0:
		return k.admit(c, of)
	case c.r.URL.Path != "/contexts" && !strings.HasPrefix(c.r.URL.Path, "/contexts/"):
		return unauthorized("the header " + headerAccess + " is missing: it holds the envdAccessToken of the sandbox")
	}
	c.token, c.name = token, of
	return nil
}

// codeHealth answers whether the sandbox is there.
func (d *Translator) codeHealth(c *call) error {
	if _, err := c.find(); err != nil {
		return err
	}
	write(c.w, http.StatusOK, "OK")
	return nil
}

// language returns a language by the name that /v1 has for it; SDKs pass on
// whatever their callers write.
func language(given string) string {
	l := strings.ToLower(strings.TrimSpace(given))
	if l == "js" {
		return "javascript"
	}
	return l
}

// contextPath returns the path of the context of the request in /v1.
func (c *call) contextPath(rest string) (string, error) {
	id := c.r.PathValue("id")
	if !goodName(id) {
		return "", noContext(id)
	}
	return box(c.name, "/code/contexts/", id, rest), nil
}

func noContext(id string) *fault {
	return &fault{status: http.StatusNotFound, code: sandbox.CodeNotFound, message: "there is no context " + strconv.Quote(id)}
}

func shownContext(v sandbox.CodeContext) codeContext {
	return codeContext{ID: v.ID, Language: v.Language, Cwd: v.Dir}
}

func (d *Translator) contexts(c *call) error {
	var have api.CodeContextList
	if err := c.do(c.r.Context(), http.MethodGet, box(c.name, "/code/contexts"), nil, nil, &have); err != nil {
		return err
	}
	out := []codeContext{}
	for _, v := range have.Items {
		out = append(out, shownContext(v))
	}
	write(c.w, http.StatusOK, out)
	return nil
}

func (d *Translator) createContext(c *call) error {
	var in contextRequest
	if err := c.body(&in); err != nil {
		return err
	}
	body := api.CreateCodeContext{Language: language(in.Language)}
	if in.Cwd != "" {
		dir, err := inside(in.Cwd)
		if err != nil {
			return err
		}
		body.Dir = dir
	}
	var made sandbox.CodeContext
	if err := c.do(c.r.Context(), http.MethodPost, box(c.name, "/code/contexts"), nil, body, &made); err != nil {
		return err
	}
	write(c.w, http.StatusOK, shownContext(made))
	return nil
}

func (d *Translator) restartContext(c *call) error {
	p, err := c.contextPath("/restart")
	if err != nil {
		return err
	}
	if err := c.do(c.r.Context(), http.MethodPost, p, url.Values{}, nil, nil); err != nil {
		return err
	}
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

func (d *Translator) deleteContext(c *call) error {
	p, err := c.contextPath("")
	if err != nil {
		return err
	}
	if err := c.do(c.r.Context(), http.MethodDelete, p, url.Values{}, nil, nil); err != nil {
		return err
	}
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

// execute runs code. The answer is one JSON object a line. The end of the request
// interrupts the code: SDKs hold their time limits by closing the connection.
func (d *Translator) execute(c *call) error {
	var in executeRequest
	if err := c.body(&in); err != nil {
		return err
	}
	switch {
	case in.Code == nil:
		return bad("code", "is missing")
	case in.ContextID != "" && in.Language != "":
		return bad("language", "a context has its language already; give only one of context_id and language")
	case in.ContextID != "" && !goodName(in.ContextID):
		return noContext(in.ContextID)
	}
	body := api.RunCode{Code: *in.Code, Context: in.ContextID, Language: language(in.Language), Env: in.EnvVars}
	ctx := c.r.Context()
	r, err := c.json(ctx, http.MethodPost, box(c.name, "/code"), body)
	if err != nil {
		return err
	}
	r.Header.Set("Accept", api.ContentEvents)
	s := &codeStream{to: c.w}
	early := time.AfterFunc(codeHead, s.beginEarly)
	defer early.Stop()
	return s.close(c.follow(ctx, r, s.take), ctx)
}

// A codeStream translates the events of a run of /v1 into lines.
type codeStream struct {
	mu     sync.Mutex
	to     http.ResponseWriter
	begun  bool
	closed bool
	ended  bool // how the run ended is known
}

// begin sends the head. The lock is held.
func (s *codeStream) begin() error {
	if s.begun {
		return nil
	}
	s.begun = true
	h := s.to.Header()
	h.Set("Content-Type", "application/x-ndjson")
	h.Set("Cache-Control", "no-store")
	s.to.WriteHeader(http.StatusOK)
	return http.NewResponseController(s.to).Flush()
}

// beginEarly sends the head before anything has come of the run.
func (s *codeStream) beginEarly() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		_ = s.begin() // the next line gets the error
	}
}

// send sends a line.
func (s *codeStream) send(v any) error {
	line, err := codeLine(v)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.begin(); err != nil {
		return err
	}
	if _, err := s.to.Write(line); err != nil {
		return err
	}
	return http.NewResponseController(s.to).Flush()
}

// codeLine returns a line. Python's SDK ends lines wherever Unicode does, so no
// character that ends one may be in it as it is: JSON escapes all but U+0085.
func codeLine(v any) ([]byte, error) {
	line, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return append(bytes.ReplaceAll(line, []byte("\u0085"), []byte(`\u0085`)), '\n'), nil
}

// take translates one event.
func (s *codeStream) take(event string, data []byte) error {
	switch event {
	case api.EventCode:
		var e sandbox.CodeEvent
		if err := json.Unmarshal(data, &e); err != nil {
			return err
		}
		return s.event(e)
	case api.EventDone:
		s.ended = true
		return s.send(codeEnd{"end_of_execution"})
	case api.EventError:
		var p api.Problem
		if err := json.Unmarshal(data, &p); err != nil {
			return err
		}
		return &fault{status: cmp.Or(p.Status, http.StatusInternalServerError), code: p.Code, message: text(p), field: p.Field, about: p.Resource}
	}
	return nil
}

func (s *codeStream) event(e sandbox.CodeEvent) error {
	if e.Type == sandbox.CodeEventResult && e.Result == nil || e.Type == sandbox.CodeEventError && e.Error == nil {
		return &fault{status: http.StatusInternalServerError, message: "an event of the run has no content"}
	}
	switch e.Type {
	case sandbox.CodeEventStdout, sandbox.CodeEventStderr:
		return s.send(codeOutput{e.Type, e.Text, time.Now().UnixNano()})
	case sandbox.CodeEventResult:
		if len(e.Result.Omitted) > 0 {
			if err := s.notice("a value is too large in these forms, which were left out: " + strings.Join(e.Result.Omitted, ", ")); err != nil {
				return err
			}
		}
		return s.send(codeResult(e.Result))
	case sandbox.CodeEventError:
		return s.send(codeFailure{e.Type, e.Error.Name, e.Error.Value, e.Error.Traceback})
	case sandbox.CodeEventCount:
		return s.send(codeCount{"number_of_executions", e.ExecutionCount})
	case sandbox.CodeEventTimeout:
		return s.notice("the code is interrupted at its time limit")
	case sandbox.CodeEventTruncated:
		return s.notice(strconv.FormatInt(e.Dropped, 10) + " characters of output were left out, because there were too many")
	}
	return nil
}

// notice sends what the protocol has no message for as a line of standard error, so
// that its caller learns of it.
func (s *codeStream) notice(what string) error {
	return s.send(codeOutput{sandbox.CodeEventStderr, "sandbox: " + what + "\n", time.Now().UnixNano()})
}

// codeResult returns a value in the forms that it has.
func codeResult(v *sandbox.CodeDisplay) map[string]any {
	out := map[string]any{"type": "result", "is_main_result": v.Main}
	for name, text := range map[string]string{
		"text": v.Text, "html": v.HTML, "markdown": v.Markdown, "svg": v.SVG, "latex": v.LaTeX, "javascript": v.JavaScript,
	} {
		if text != "" {
			out[name] = text
		}
	}
	for name, data := range map[string][]byte{"png": v.PNG, "jpeg": v.JPEG, "pdf": v.PDF} {
		if len(data) > 0 {
			out[name] = data // in base64
		}
	}
	for name, data := range map[string]json.RawMessage{"json": v.JSON, "chart": v.Chart} {
		if len(data) > 0 {
			out[name] = data
		}
	}
	var table struct {
		Data json.RawMessage `json:"data"`
	}
	if len(v.Data) > 0 && json.Unmarshal(v.Data, &table) == nil && len(table.Data) > 0 {
		out["data"] = table.Data
	}
	// The SDK for Python takes other forms from extra, that for JavaScript from the
	// result itself. A name without a slash is no media type, and could be that of
	// another field.
	for kind, data := range v.Extra {
		if strings.Contains(kind, "/") {
			out[kind] = data
		}
	}
	if len(v.Extra) > 0 {
		out["extra"] = v.Extra
	}
	return out
}

// close ends the answer with how the run ended. It returns an error where nothing of
// the answer was sent; after that the error is its last line.
func (s *codeStream) close(err error, ctx context.Context) error {
	if err == nil && !s.ended && ctx.Err() == nil {
		err = &fault{status: http.StatusServiceUnavailable, message: "the stream of the run has ended before the run; it is not known how that ended"}
	}
	s.mu.Lock()
	s.closed = true
	begun := s.begun
	s.mu.Unlock()
	if err == nil || !begun {
		return err
	}
	f := asFault(err)
	_ = s.send(codeFailure{sandbox.CodeEventError, cmp.Or(string(f.code), "SandboxError"), f.message, ""}) // or the caller has gone
	return nil
}
