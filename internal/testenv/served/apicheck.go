// Apicheck: this part of the package holds every request and answer of a test against the
// daemon's own OpenAPI document, so that the document says what handlers do.

package served

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

const root = "https://sandbox.test/openapi.json"

// A Checker knows the document.
type Checker struct {
	t        testing.TB
	ops      []operation
	mu       sync.Mutex // guards compiler
	compiler *jsonschema.Compiler
}

type operation struct {
	id      string
	method  string
	at      *regexp.Regexp
	pointer string // of the operation in the document
	def     map[string]any
	doc     map[string]any
}

// New reads the document. Objects in answers may have no properties in tests
// that the document does not name.
func NewAPICheck(t testing.TB, document []byte) *Checker {
	t.Helper()
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(document))
	if err != nil {
		t.Fatal(err)
	}
	doc := parsed.(map[string]any)
	components := doc["components"].(map[string]any)
	for _, s := range components["schemas"].(map[string]any) {
		if s := s.(map[string]any); s["properties"] != nil && s["additionalProperties"] == nil {
			s["additionalProperties"] = false
		}
	}
	c := &Checker{t: t, compiler: jsonschema.NewCompiler()}
	c.compiler.DefaultDraft(jsonschema.Draft2020)
	c.compiler.AssertFormat()
	if err := c.compiler.AddResource(root, doc); err != nil {
		t.Fatal(err)
	}
	for path, methods := range doc["paths"].(map[string]any) {
		pattern := regexp.MustCompile(`\\\{[^}]*\\\}`).ReplaceAllString(regexp.QuoteMeta(path), "[^/]+")
		if strings.HasSuffix(path, "/files/{path}") {
			pattern = strings.TrimSuffix(pattern, "[^/]+") + ".+"
		}
		for method, def := range methods.(map[string]any) {
			c.ops = append(c.ops, operation{
				id: def.(map[string]any)["operationId"].(string), method: strings.ToUpper(method), at: regexp.MustCompile("^" + pattern + "$"),
				pointer: "/paths/" + escape(path) + "/" + method, def: def.(map[string]any), doc: doc,
			})
		}
	}
	return c
}

// escape writes a key for a JSON pointer within a URL.
func escape(key string) string {
	return url.PathEscape(strings.ReplaceAll(strings.ReplaceAll(key, "~", "~0"), "/", "~1"))
}

// Wrap is inner with everything that goes through it held against the document.
func (c *Checker) Wrap(inner http.RoundTripper) http.RoundTripper { return transport{c, inner} }

type transport struct {
	c     *Checker
	inner http.RoundTripper
}

// RoundTrip implements [http.RoundTripper].
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	var sent []byte
	if r.Body != nil && r.ContentLength > 0 && r.ContentLength < 1<<20 {
		sent, _ = io.ReadAll(r.Body)
		r.Body.Close()
		r.Body = io.NopCloser(bytes.NewReader(sent))
	}
	res, err := t.inner.RoundTrip(r)
	if err != nil {
		return res, err
	}
	return res, t.c.check(r, sent, res)
}

func (c *Checker) check(r *http.Request, sent []byte, res *http.Response) error {
	c.t.Helper()
	op := c.find(r)
	where := fmt.Sprintf("%s %s: %d", r.Method, r.URL.Path, res.StatusCode)
	media, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	for _, mount := range []string{"/mcp", "/v1/walls/", "/v1/lent/"} {
		if strings.HasPrefix(r.URL.Path, mount) {
			return nil // protocols of their own
		}
	}
	if op == nil || res.StatusCode == http.StatusMethodNotAllowed {
		if media != "application/problem+json" || res.StatusCode < 400 {
			c.t.Errorf("%s: an answer to what is not in the document, and no problem (%s)", where, media)
		}
		return nil
	}
	pointer := op.pointer + "/responses/" + strconv.Itoa(res.StatusCode)
	answer, ok := op.def["responses"].(map[string]any)[strconv.Itoa(res.StatusCode)].(map[string]any)
	if !ok {
		c.t.Errorf("%s: %s has no such status", where, op.id)
		return nil
	}
	if ref, ok := answer["$ref"].(string); ok {
		pointer = strings.TrimPrefix(ref, "#")
		answer = op.doc["components"].(map[string]any)["responses"].(map[string]any)[ref[strings.LastIndex(ref, "/")+1:]].(map[string]any)
	}
	if res.StatusCode < 300 {
		c.request(where, op, r, sent)
	}
	content, _ := answer["content"].(map[string]any)
	if r.Method == http.MethodHead || res.StatusCode == http.StatusSwitchingProtocols || res.StatusCode < 400 && content == nil && media == "" {
		return nil
	}
	if content[media] == nil {
		c.t.Errorf("%s: %s does not answer with %q", where, op.id, media)
		return nil
	}
	if !strings.HasSuffix(media, "json") {
		return nil
	}
	body, err := io.ReadAll(res.Body)
	res.Body.Close()
	res.Body = io.NopCloser(bytes.NewReader(body))
	if err != nil {
		return err
	}
	c.validate(where, pointer+"/content/"+escape(media)+"/schema", body)
	return nil
}

// request holds a body that was taken against what the document says is taken.
func (c *Checker) request(where string, op *operation, r *http.Request, sent []byte) {
	if media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); len(sent) > 0 && media == "application/json" {
		c.validate(where+": request", op.pointer+"/requestBody/content/application~1json/schema", sent)
	}
	named := map[string]bool{}
	for _, p := range op.def["parameters"].([]any) {
		if p := p.(map[string]any); p["in"] == "query" {
			named[p["name"].(string)] = true
		}
	}
	for name := range r.URL.Query() {
		if !named[name] {
			c.t.Errorf("%s: %s takes the parameter %s, which is not in the document", where, op.id, name)
		}
	}
}

func (c *Checker) validate(where, pointer string, body []byte) {
	c.t.Helper()
	c.mu.Lock()
	s, err := c.compiler.Compile(root + "#" + pointer)
	c.mu.Unlock()
	if err != nil {
		c.t.Errorf("%s: %v", where, err)
		return
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err == nil {
		err = s.Validate(v)
	}
	if err != nil {
		c.t.Errorf("%s: the document says something else: %v\n%s", where, err, body)
	}
}

// find is the operation of a request, nil when there is none.
func (c *Checker) find(r *http.Request) *operation {
	var found *operation
	for i := range c.ops {
		op := &c.ops[i]
		if op.at.MatchString(r.URL.EscapedPath()) && (op.method == r.Method || op.method == http.MethodGet && r.Method == http.MethodHead) {
			if found == nil || len(op.pointer) > len(found.pointer) {
				found = op
			}
		}
	}
	return found
}

// Operations are the method and path of everything in the document, and its id.
func Operations(t testing.TB, document []byte) map[string]string {
	t.Helper()
	var doc struct {
		Paths map[string]map[string]struct {
			OperationID string `json:"operationId"`
		} `json:"paths"`
	}
	if err := json.Unmarshal(document, &doc); err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for path, methods := range doc.Paths {
		for method, op := range methods {
			out[strings.ToUpper(method)+" "+path] = op.OperationID
		}
	}
	return out
}
