package sdk_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/sdk"
	"github.com/bulkhead-dev/sandbox/server/api"
)

const vectorsFolder = "../clients/vectors"

// A vectorFile is one file of clients/vectors, whose README.md has the format.
type vectorFile struct {
	About    string         `json:"about"`
	Requires []string       `json:"requires"`
	Sandbox  *vectorSandbox `json:"sandbox"`
	Cases    []vectorCase   `json:"cases"`
}

type vectorCase struct {
	Name     string         `json:"name"`
	Requires []string       `json:"requires"`
	Sandbox  *vectorSandbox `json:"sandbox"`
	Steps    []vectorStep   `json:"steps"`
}

type vectorStep struct {
	Op     string          `json:"op"`
	On     string          `json:"on"`
	Save   string          `json:"save"`
	With   vectorWith      `json:"with"`
	Result json.RawMessage `json:"result"`
	Events json.RawMessage `json:"events"`
	Error  *vectorError    `json:"error"`
}

type vectorError struct {
	Code   string  `json:"code"`
	Field  *string `json:"field"`
	Status int     `json:"status"`
}

// A vectorSandbox is what a sandbox is created with.
type vectorSandbox struct {
	Session    string            `json:"session"`
	Image      string            `json:"image"`
	Preset     string            `json:"preset"`
	Env        map[string]string `json:"env"`
	Labels     map[string]string `json:"labels"`
	Metadata   map[string]string `json:"metadata"`
	Network    *vectorNetwork    `json:"network"`
	Limits     *config.Resources `json:"limits"`
	Timeout    int64             `json:"timeout"`
	OnTimeout  string            `json:"on_timeout"`
	AutoResume *bool             `json:"auto_resume"`
	Keep       bool              `json:"keep"`
}

type vectorNetwork struct {
	AllowedDomains *[]string `json:"allowed_domains"`
	DeniedDomains  []string  `json:"denied_domains"`
}

func (n vectorNetwork) rules() config.NetworkRules {
	return config.NetworkRules{AllowedDomains: n.AllowedDomains, DeniedDomains: n.DeniedDomains}
}

// vectorWith has every argument of every operation.
type vectorWith struct {
	vectorSandbox
	Command   vectorCommand     `json:"command"`
	Line      string            `json:"line"`
	Cwd       string            `json:"cwd"`
	Stdin     vectorInput       `json:"stdin"`
	Tag       string            `json:"tag"`
	TTY       *api.TerminalSize `json:"tty"`
	Seconds   float64           `json:"seconds"`
	From      json.RawMessage   `json:"from"`
	To        string            `json:"to"`
	Data      vectorInput       `json:"data"`
	Signal    string            `json:"signal"`
	Ref       string            `json:"ref"`
	Path      string            `json:"path"`
	Target    string            `json:"target"`
	Exclusive bool              `json:"exclusive"`
	Parents   bool              `json:"parents"`
	Recursive *bool             `json:"recursive"`
	Overwrite bool              `json:"overwrite"`
	Pattern   string            `json:"pattern"`
	Files     map[string]string `json:"files"`
	Code      string            `json:"code"`
	Language  string            `json:"language"`
	Context   string            `json:"context"`
	Port      int               `json:"port"`
	TTL       float64           `json:"ttl"`
	Name      string            `json:"name"`
	Input     json.RawMessage   `json:"input"`
	Force     bool              `json:"force"`

	Checkpoint string   `json:"checkpoint"`
	Count      int      `json:"count"`
	Sessions   []string `json:"sessions"`
	As         []string `json:"as"`

	TimeoutSeconds float64 `json:"-"`
}

// UnmarshalJSON refuses arguments that no operation has.
func (w *vectorWith) UnmarshalJSON(b []byte) error {
	type plain vectorWith
	var all map[string]json.RawMessage
	if err := json.Unmarshal(b, &all); err != nil {
		return err
	}
	if t := all["timeout"]; t != nil { // of a command it may be a part of a second
		if err := json.Unmarshal(t, &w.TimeoutSeconds); err != nil {
			return err
		}
		if w.TimeoutSeconds != float64(int64(w.TimeoutSeconds)) {
			delete(all, "timeout")
		}
	}
	b, err := json.Marshal(all)
	if err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	return d.Decode((*plain)(w))
}

// A vectorCommand is a line, or a program with arguments.
type vectorCommand struct {
	line string
	args []string
}

func (c *vectorCommand) UnmarshalJSON(b []byte) error {
	if b[0] == '"' {
		return json.Unmarshal(b, &c.line)
	}
	return json.Unmarshal(b, &c.args)
}

// A vectorInput is a text, bytes, one byte that is repeated, or true.
type vectorInput struct {
	set  bool
	data []byte
}

func (i *vectorInput) UnmarshalJSON(b []byte) error {
	i.set = true
	switch b[0] {
	case '"':
		var text string
		err := json.Unmarshal(b, &text)
		i.data = []byte(text)
		return err
	case '{':
		var v struct {
			Base64 []byte
			Repeat string
			Times  int
		}
		if err := json.Unmarshal(b, &v); err != nil {
			return err
		}
		i.data = append(v.Base64, strings.Repeat(v.Repeat, v.Times)...)
		return nil
	}
	return json.Unmarshal(b, &i.set)
}

// readVectors reads all files of the folder.
func readVectors(t *testing.T) map[string]vectorFile {
	t.Helper()
	all := map[string]vectorFile{}
	names, err := filepath.Glob(filepath.Join(vectorsFolder, "*.json"))
	if err != nil || len(names) == 0 {
		t.Fatalf("there are no vectors: %v", err)
	}
	for _, name := range names {
		if filepath.Base(name) == "daemon.json" {
			continue
		}
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var f vectorFile
		d := json.NewDecoder(bytes.NewReader(b))
		d.DisallowUnknownFields()
		if err := d.Decode(&f); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all[strings.TrimSuffix(filepath.Base(name), ".json")] = f
	}
	return all
}

// TestVectorsAreWhole holds that there are enough cases, that their names are
// unique, and that each step says what it comes to.
func TestVectorsAreWhole(t *testing.T) {
	cases, names := 0, map[string]bool{}
	for file, f := range readVectors(t) {
		if f.About == "" {
			t.Errorf("%s does not say what it is about", file)
		}
		cases += len(f.Cases)
		for _, c := range f.Cases {
			if names[file+"/"+c.Name] || c.Name == "" || len(c.Steps) == 0 {
				t.Errorf("%s: case %q has no name of its own, or no steps", file, c.Name)
			}
			names[file+"/"+c.Name] = true
			for n, s := range c.Steps {
				ends := 0
				for _, end := range []bool{s.Result != nil, s.Events != nil, s.Error != nil, s.Save != "" && s.Result == nil && s.Error == nil} {
					if end {
						ends++
					}
				}
				if ends != 1 {
					t.Errorf("%s: %s: step %d (%s) has %d ends", file, c.Name, n, s.Op, ends)
				}
			}
		}
	}
	if cases < 120 {
		t.Errorf("there are %d cases, want 120", cases)
	}
}

// TestVectors holds this package against clients/vectors, which the SDKs of other
// languages are held against too, with a daemon of the local provider. What a
// provider has a part in is held with a daemon of docker as well, and, with "make
// test-all", everything.
func TestVectors(t *testing.T) {
	for _, provider := range []string{"local", "docker"} {
		t.Run(provider, func(t *testing.T) {
			testenv.Require(t, provider)
			c := vectorClient(t, provider)
			for name, f := range readVectors(t) {
				t.Run(name, func(t *testing.T) {
					if provider == "docker" && !slices.Contains([]string{"code", "network", "run"}, name) {
						testenv.Exhaustive(t, "the same calls over another provider")
					}
					runVectors(t, c, provider, f)
				})
			}
		})
	}
}

// vectorClient is a client of a daemon with the settings of the vectors.
func vectorClient(t *testing.T, provider string) *sdk.Client {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(vectorsFolder, "daemon.json"))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "daemon.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := sdk.Dial(t.Context(), daemon(t, "--config", file, "--provider", provider))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// vectorFits reports whether what is required can be there with a provider. The test
// is skipped where the machine lacks it.
func vectorFits(t *testing.T, provider string, requires []string) bool {
	t.Helper()
	for _, r := range requires {
		switch r {
		case "local", "docker":
			if r != provider {
				return false
			}
		case "code":
			if provider != "docker" {
				return false
			}
			testenv.Require(t, r)
		default:
			t.Fatalf("nothing is known that is called %q", r)
		}
	}
	return true
}

func runVectors(t *testing.T, c *sdk.Client, provider string, f vectorFile) {
	if !vectorFits(t, provider, f.Requires) {
		return
	}
	open := func(t *testing.T, o *vectorSandbox, session string) *sdk.Sandbox {
		t.Helper()
		if o == nil {
			o = &vectorSandbox{}
		}
		sb, err := c.Sandbox(t.Context(), session, o.options())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := sb.Remove(context.Background()); err != nil {
				t.Error(err)
			}
		})
		return sb
	}
	shared := open(t, f.Sandbox, strings.ReplaceAll(t.Name(), "/", "-"))
	for n, k := range f.Cases {
		t.Run(k.Name, func(t *testing.T) {
			if !vectorFits(t, provider, k.Requires) {
				return
			}
			r := &vectorRun{T: t, c: c, sb: shared, session: fmt.Sprintf("%s-%d", strings.ReplaceAll(t.Name(), "/", "-"), n), saved: map[string]any{}}
			if k.Sandbox != nil {
				r.sb = open(t, k.Sandbox, r.session)
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			for n, s := range k.Steps {
				if !r.step(ctx, fmt.Sprintf("step %d, %s", n+1, s.Op), s) {
					return
				}
			}
		})
	}
}

func (o *vectorSandbox) options() sdk.SandboxOption {
	made := config.Creation{
		Image: o.Image, Preset: o.Preset, Env: o.Env, Labels: o.Labels, Metadata: o.Metadata, Resources: o.Limits,
		Timeout: o.Timeout, OnTimeout: o.OnTimeout, AutoResume: o.AutoResume,
	}
	if o.Network != nil {
		rules := o.Network.rules()
		made.Network = &rules
	}
	return sdk.Created(made)
}

// A vectorRun runs the steps of one case.
type vectorRun struct {
	*testing.T
	c       *sdk.Client
	sb      *sdk.Sandbox
	session string
	saved   map[string]any
}

// step runs a step and reports whether it came to what was expected.
func (r *vectorRun) step(ctx context.Context, at string, s vectorStep) bool {
	got, err := r.do(ctx, s)
	if s.Error != nil {
		var problem *sandbox.Error
		switch {
		case !errors.As(err, &problem):
			r.Errorf("%s: %v, want the error %s", at, err, s.Error.Code)
		case string(problem.Code) != s.Error.Code:
			r.Errorf("%s: %v, want the code %s", at, err, s.Error.Code)
		case s.Error.Field != nil && problem.Field != *s.Error.Field:
			r.Errorf("%s: %v, with the field %q, want %q", at, err, problem.Field, *s.Error.Field)
		case s.Error.Status != 0 && problem.Code.HTTPStatus() != s.Error.Status:
			r.Errorf("%s: %v, want the status %d", at, err, s.Error.Status)
		default:
			return true
		}
		return false
	}
	if err != nil {
		r.Errorf("%s: %v", at, err)
		return false
	}
	want := s.Result
	if want == nil {
		want = s.Events
	}
	if s.Save != "" {
		r.saved[s.Save] = got
		if h, ok := got.(vectorHandle); ok {
			got = h.shown()
		}
	}
	if want == nil {
		return true
	}
	var expected any
	if err := json.Unmarshal(want, &expected); err != nil {
		r.Fatal(err)
	}
	if why := vectorDiffers(got, expected); why != "" {
		r.Errorf("%s: %s\n got %s\nwant %s", at, why, vectorText(got), want)
		return false
	}
	return true
}

func vectorText(v any) string {
	var text func(any) any
	text = func(v any) any {
		switch v := v.(type) {
		case []byte:
			return string(v)
		case []any:
			out := []any{}
			for _, e := range v {
				out = append(out, text(e))
			}
			return out
		case map[string]any:
			out := map[string]any{}
			for k, e := range v {
				out[k] = text(e)
			}
			return out
		}
		return v
	}
	b, err := json.Marshal(text(v))
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}

// vectorDiffers compares as README.md says, and reports the first difference.
func vectorDiffers(got, want any) string {
	switch w := want.(type) {
	case map[string]any:
		if len(w) == 1 {
			for form, value := range w {
				switch form {
				case "match":
					text, ok := vectorString(got)
					if !ok || !regexp.MustCompile(value.(string)).MatchString(text) {
						return fmt.Sprintf("%q does not match %q", text, value)
					}
					return ""
				case "base64":
					b, err := base64.StdEncoding.DecodeString(value.(string))
					text, ok := vectorString(got)
					if err != nil || !ok || text != string(b) {
						return fmt.Sprintf("the bytes are %q, want %q", text, b)
					}
					return ""
				case "contains":
					list, ok := got.([]any)
					for _, one := range value.([]any) {
						if !ok || !slices.ContainsFunc(list, func(e any) bool { return vectorDiffers(e, one) == "" }) {
							return fmt.Sprintf("%v is not there", one)
						}
					}
					return ""
				}
			}
		}
		m, ok := got.(map[string]any)
		if !ok {
			return fmt.Sprintf("%v is no object", got)
		}
		for key, one := range w {
			if why := vectorDiffers(m[key], one); why != "" {
				return key + ": " + why
			}
		}
		return ""
	case []any:
		list, ok := got.([]any)
		if !ok || len(list) != len(w) {
			return fmt.Sprintf("there are %d, want %d", len(list), len(w))
		}
		for n := range w {
			if why := vectorDiffers(list[n], w[n]); why != "" {
				return fmt.Sprintf("%d: %s", n, why)
			}
		}
		return ""
	case string:
		if text, ok := vectorString(got); !ok || text != w {
			return fmt.Sprintf("%q, want %q", text, w)
		}
		return ""
	}
	if !reflect.DeepEqual(got, want) {
		return fmt.Sprintf("%v, want %v", got, want)
	}
	return ""
}

// TestVectorDiffers holds that a difference is seen in each form of an expectation.
func TestVectorDiffers(t *testing.T) {
	got := map[string]any{"a": "x", "n": float64(1), "b": []byte("\xff\x00"), "l": []any{"one", map[string]any{"k": "v", "more": true}}}
	for text, same := range map[string]bool{
		`{}`: true, `{"a": "x"}`: true, `{"a": "y"}`: false, `{"a": ""}`: false, `{"missing": ""}`: true, `{"missing": 0}`: false, `{"missing": false}`: false,
		`{"n": 1}`: true, `{"n": 2}`: false, `{"n": "1"}`: false, `{"b": {"base64": "/wA="}}`: true, `{"b": {"base64": "/w=="}}`: false,
		`{"a": {"match": "^x$"}}`: true, `{"a": {"match": "^y"}}`: false, `{"n": {"match": "1"}}`: false,
		`{"l": {"contains": [{"k": "v"}]}}`: true, `{"l": {"contains": ["two"]}}`: false, `{"a": {"contains": ["x"]}}`: false,
		`{"l": ["one", {"k": "v"}]}`: true, `{"l": ["one"]}`: false, `{"l": [{"k": "v"}, "one"]}`: false, `[]`: false, `"x"`: false,
	} {
		var want any
		if err := json.Unmarshal([]byte(text), &want); err != nil {
			t.Fatal(err)
		}
		if why := vectorDiffers(got, want); (why == "") != same {
			t.Errorf("%s: %q", text, why)
		}
	}
}

// vectorString is the text of a text or of bytes.
func vectorString(v any) (string, bool) {
	switch v := v.(type) {
	case nil:
		return "", true // a field without a value is left out
	case string:
		return v, true
	case []byte:
		return string(v), true
	}
	return "", false
}

// plain turns an answer of the API into what a vector compares: names of fields
// become snake_case.
func plain(v any) any {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	var out any
	if err := json.Unmarshal(b, &out); err != nil {
		return err.Error()
	}
	return snake(out)
}

func snake(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, e := range v {
			var name strings.Builder
			for i, c := range k {
				if unicode.IsUpper(c) && i > 0 {
					name.WriteByte('_')
				}
				name.WriteRune(unicode.ToLower(c))
			}
			out[name.String()] = snake(e)
		}
		return out
	case []any:
		for i := range v {
			v[i] = snake(v[i])
		}
	}
	return v
}

// ended is how a command ended, with what it wrote.
func ended(res sdk.Result) map[string]any {
	return map[string]any{
		"exit_code": float64(res.ExitCode), "stdout": res.Stdout, "stderr": res.Stderr, "timed_out": res.TimedOut, "truncated": res.Truncated,
		"signal": res.Signal, "restarted": res.Restarted, "blocked": res.Blocked,
	}
}

// A vectorHandle is what a step saves that has more than fields.
type vectorHandle interface{ shown() any }

type boxHandle struct {
	*sdk.Sandbox
	info api.Sandbox
}

func (h boxHandle) shown() any { return plain(h.info) }

type processHandle struct{ sdk.ProcessInfo }

func (h processHandle) shown() any { return plain(h.ProcessInfo) }

type shellHandle struct{ *sdk.Shell }

func (h shellHandle) shown() any { return map[string]any{} }

type contextHandle struct{ sdk.CodeContext }

func (h contextHandle) shown() any { return plain(h.CodeContext) }

// An eventStream has events that come while steps run.
type eventStream struct {
	events chan map[string]any
	cancel context.CancelFunc
}

func (h *eventStream) shown() any { return map[string]any{} }

func (h *eventStream) writer(name string) io.Writer { return streamWriter{h, name} }

type streamWriter struct {
	h    *eventStream
	name string
}

func (w streamWriter) Write(b []byte) (int, error) {
	w.h.events <- map[string]any{w.name: bytes.Clone(b)}
	return len(b), nil
}

// joined adds an event to a list, and joins output with that of the same stream
// before it.
func joined(list []any, e map[string]any) []any {
	if len(list) > 0 {
		last := list[len(list)-1].(map[string]any)
		for _, name := range []string{"stdout", "stderr"} {
			before, a := last[name].([]byte)
			now, b := e[name].([]byte)
			if a && b {
				last[name] = append(before, now...)
				return list
			}
		}
	}
	return append(list, e)
}

// next reads events until they are as many as want has and the last is whole.
func (h *eventStream) next(ctx context.Context, want []any) (any, error) {
	list := []any{}
	for {
		if len(list) >= len(want) && len(want) > 0 && vectorDiffers(list[len(want)-1], want[len(want)-1]) == "" {
			return list, nil
		}
		if len(list) > len(want) {
			return list, nil
		}
		select {
		case e, more := <-h.events:
			if !more {
				return list, nil
			}
			list = joined(list, e)
		case <-ctx.Done():
			return list, fmt.Errorf("%w after %s", ctx.Err(), vectorText(list))
		}
	}
}

// collect records events in the order in which they come.
type collect struct {
	name string
	all  *[]any
}

func (c collect) Write(b []byte) (int, error) {
	*c.all = joined(*c.all, map[string]any{c.name: bytes.Clone(b)})
	return len(b), nil
}

// on returns the handle that a step is about.
func on[T any](r *vectorRun, s vectorStep) T {
	r.Helper()
	h, ok := r.saved[s.On].(T)
	if !ok {
		r.Fatalf("%s: nothing of that kind was saved as %q", s.Op, s.On)
	}
	return h
}

// do carries out an operation.
func (r *vectorRun) do(ctx context.Context, s vectorStep) (any, error) {
	w, sb := s.With, r.sb
	if h, ok := r.saved[s.On].(boxHandle); ok {
		sb = h.Sandbox
	}
	a, name := sb.API(), sb.Name()
	if prefix, rest, ok := strings.Cut(s.Op, "."); ok {
		switch prefix {
		case "files":
			return r.files(ctx, sb, rest, w)
		case "watch", "stream":
			h := on[*eventStream](r, s)
			if rest == "close" {
				h.cancel()
				for range h.events {
				}
				return map[string]any{}, nil
			}
			var want []any
			if err := json.Unmarshal(s.Events, &want); err != nil {
				return nil, err
			}
			return h.next(ctx, want)
		case "process":
			return r.process(ctx, sb, rest, on[processHandle](r, s).ID, w)
		case "shell":
			sh := on[shellHandle](r, s)
			if rest == "close" {
				return map[string]any{}, sh.Close()
			}
			res, err := sh.Run(ctx, w.Line)
			return ended(res), err
		case "contexts":
			return r.contexts(ctx, sb, rest, s)
		}
	}
	cmd := sdk.Command{Args: w.Command.args, Line: w.Command.line, Dir: w.Cwd, Env: w.Env, Timeout: time.Duration(w.TimeoutSeconds * float64(time.Second)), Tag: w.Tag}
	if w.Stdin.data != nil {
		cmd.Stdin = bytes.NewReader(w.Stdin.data)
	}
	switch s.Op {
	case "run":
		res, err := sb.Exec(ctx, cmd)
		return ended(res), err
	case "stream":
		var all []any
		exit, err := a.ExecStream(ctx, name, api.Exec{
			Args: cmd.Args, Line: cmd.Line, Dir: cmd.Dir, Env: cmd.Env, TimeoutSeconds: w.TimeoutSeconds, StdinBase64: w.Stdin.data,
		}, sdk.Sinks{Stdout: collect{name: "stdout", all: &all}, Stderr: collect{name: "stderr", all: &all}})
		if err != nil {
			return nil, err
		}
		last := plain(exit).(map[string]any)
		if s.Events != nil {
			return joined(all, last), nil
		}
		out := map[string][]byte{}
		for _, e := range all {
			for name, b := range e.(map[string]any) {
				out[name] = append(out[name], b.([]byte)...)
			}
		}
		last["stdout"], last["stderr"] = out["stdout"], out["stderr"]
		return last, nil
	case "start":
		cmd.StdinOpen, cmd.TTY = w.Stdin.set && w.Stdin.data == nil, nil
		if w.TTY != nil {
			cmd.TTY = &sandbox.TTY{Rows: uint16(w.TTY.Rows), Cols: uint16(w.TTY.Cols)}
		}
		p, err := sb.StartProcess(ctx, cmd)
		return processHandle{p}, err
	case "processes":
		l, err := sb.Processes(ctx)
		return plain(l), err
	case "process":
		p, err := sb.FindProcess(ctx, w.Ref)
		return processHandle{p}, err
	case "shell":
		sh, err := sb.Shell(ctx)
		return shellHandle{sh}, err
	case "run_code":
		return r.code(ctx, sb, w)
	case "network.set":
		return r.info(a.SetSandboxNetwork(ctx, name, w.Network.rules()))
	case "ports.list":
		l, err := sb.Ports(ctx)
		return plain(l), err
	case "ports.connect":
		conn, err := sb.Dial(ctx, "tcp", fmt.Sprintf("localhost:%d", w.Port))
		if err != nil {
			return nil, err
		}
		defer conn.Close()
		if _, err := conn.Write(w.Data.data); err != nil {
			return nil, err
		}
		if half, ok := conn.(interface{ CloseWrite() error }); ok {
			if err := half.CloseWrite(); err != nil {
				return nil, err
			}
		}
		b, err := io.ReadAll(conn)
		return map[string]any{"received": b}, err
	case "ports.share":
		made, err := sb.SharePort(ctx, w.Port, time.Duration(w.TTL*float64(time.Second)))
		share := plain(made.Share).(map[string]any)
		share["url"], share["secret"] = made.URL, made.Secret
		return share, err
	case "ports.shares":
		l, err := sb.Shares(ctx)
		return plain(l), err
	case "ports.revoke":
		share, _ := r.saved[s.On].(map[string]any)
		id, _ := share["id"].(string)
		if share == nil {
			id = w.Ref
		}
		return map[string]any{}, sb.RevokeShare(ctx, id)
	case "tools.list":
		l, err := sb.Tools(ctx)
		return plain(l), err
	case "tools.call":
		answer, err := sb.CallTool(ctx, w.Name, w.Input)
		return plain(answer), err
	case "info":
		return r.info(a.Sandbox(ctx, name))
	case "pause":
		return r.info(a.PauseSandbox(ctx, name))
	case "resume":
		return r.info(a.ResumeSandbox(ctx, name))
	case "extend":
		return r.info(a.ExtendSandbox(ctx, name, int64(w.Seconds)))
	case "set_timeout":
		return r.info(a.SetSandboxTimeout(ctx, name, int64(w.Seconds)))
	case "recreate":
		return r.info(a.RecreateSandbox(ctx, name, api.Recreate{Force: w.Force}))
	case "usage":
		u, err := a.Usage(ctx, name)
		return plain(u), err
	case "remove":
		return map[string]any{}, sb.Remove(ctx)
	case "checkpoint":
		if w.Name != "" {
			sum := sha256.Sum256([]byte(r.session))
			w.Name += "-" + hex.EncodeToString(sum[:6])
		}
		made, err := sb.Checkpoint(ctx, w.Name)
		return plain(made), err
	case "checkpoints":
		list, err := sb.Checkpoints(ctx)
		return plain(list), err
	case "checkpoint.get":
		one, err := r.c.Checkpoint(ctx, r.checkpoint(s.On))
		return plain(one), err
	case "checkpoint.remove":
		return map[string]any{}, r.c.RemoveCheckpoint(ctx, r.checkpoint(s.On))
	case "rollback":
		out, err := sb.Rollback(ctx, r.checkpoint(w.Checkpoint))
		return plain(out), err
	case "fork":
		return r.fork(ctx, sb, w)
	case "open":
		session := r.session + "-" + w.Session
		with := []sdk.SandboxOption{w.options()}
		if w.Checkpoint != "" {
			with = append(with, sdk.From(r.checkpoint(w.Checkpoint)))
		}
		made, err := r.c.Sandbox(ctx, session, with...)
		if err != nil {
			return nil, err
		}
		r.Cleanup(func() {
			if err := made.Remove(context.Background()); err != nil {
				r.Error(err)
			}
		})
		info, err := made.API().Sandbox(ctx, made.Name())
		return boxHandle{made, info}, err
	case "connect":
		which := w.Name
		if s.On != "" {
			which = name
		}
		info, err := r.c.API().Sandbox(ctx, which)
		if err != nil {
			return nil, err
		}
		found, err := r.c.Sandbox(ctx, info.Session, sdk.Agent(info.Agent))
		return boxHandle{found, info}, err
	case "close": // a sandbox of this package has nothing to close
		return map[string]any{}, nil
	case "sandboxes":
		list := []any{}
		for info, err := range r.c.API().Sandboxes(ctx, sdk.ListOptions{Labels: w.Labels}) {
			if err != nil {
				return nil, err
			}
			list = append(list, plain(info))
		}
		return list, nil
	case "health":
		h, err := r.c.API().Health(ctx)
		return plain(h), err
	}
	r.Fatalf("there is no operation %q", s.Op)
	return nil, nil
}

// checkpoint returns the id of a checkpoint that was saved, or else the reference.
func (r *vectorRun) checkpoint(ref string) string {
	if saved, ok := r.saved[ref].(map[string]any); ok {
		return saved["id"].(string)
	}
	return ref
}

// fork makes forks, and saves the sandboxes of those that were made.
func (r *vectorRun) fork(ctx context.Context, sb *sdk.Sandbox, w vectorWith) (any, error) {
	o := sdk.ForkOptions{Count: w.Count, From: r.checkpoint(w.Checkpoint)}
	for _, session := range w.Sessions {
		o.Sessions = append(o.Sessions, r.session+"-"+session)
	}
	made, err := sb.Fork(ctx, o)
	if err != nil {
		return nil, err
	}
	for i, f := range made {
		if f.Problem != nil {
			continue
		}
		info, err := r.c.API().Sandbox(ctx, f.Name)
		if err != nil {
			return nil, err
		}
		box, err := r.c.Sandbox(ctx, info.Session, sdk.Agent(info.Agent))
		if err != nil {
			return nil, err
		}
		r.Cleanup(func() {
			if err := box.Remove(context.Background()); err != nil {
				r.Error(err)
			}
		})
		if i < len(w.As) {
			r.saved[w.As[i]] = boxHandle{box, info}
		}
	}
	return plain(made), nil
}

func (r *vectorRun) info(s api.Sandbox, err error) (any, error) { return plain(s), err }

// process carries out an operation of a process in the background.
func (r *vectorRun) process(ctx context.Context, sb *sdk.Sandbox, op, id string, w vectorWith) (any, error) {
	a, name, none := sb.API(), sb.Name(), map[string]any{}
	switch op {
	case "write":
		return none, a.WriteProcess(ctx, name, id, api.ProcessInput{DataBase64: w.Data.data})
	case "close_stdin":
		return none, a.WriteProcess(ctx, name, id, api.ProcessInput{EOF: true})
	case "signal":
		return none, a.SignalProcess(ctx, name, id, w.Signal)
	case "resize":
		return none, a.ResizeProcess(ctx, name, id, sandbox.TTY{Rows: uint16(w.TTY.Rows), Cols: uint16(w.TTY.Cols)})
	case "kill":
		p, err := a.KillProcess(ctx, name, id)
		return plain(p), err
	case "info":
		p, err := a.Process(ctx, name, id)
		return plain(p), err
	case "wait":
		p, err := sb.Attach(ctx, id, sdk.Attachment{})
		if err != nil {
			return nil, err
		}
		res, err := p.Wait()
		return ended(res), err
	case "stream":
		ctx, cancel := context.WithCancel(ctx)
		h := &eventStream{events: make(chan map[string]any, 64), cancel: cancel}
		r.Cleanup(cancel)
		from := int64(0)
		if w.From != nil {
			if err := json.Unmarshal(w.From, &from); err != nil {
				return nil, err
			}
		}
		p, err := sb.Attach(ctx, id, sdk.Attachment{
			From: from, Stdout: h.writer("stdout"), Stderr: h.writer("stderr"),
			Dropped: func(n int64) { h.events <- map[string]any{"dropped": float64(n)} },
		})
		if err != nil {
			return nil, err
		}
		go func() {
			defer close(h.events)
			if res, err := p.Wait(); err == nil {
				exit := ended(res)
				delete(exit, "stdout")
				delete(exit, "stderr")
				h.events <- exit
			}
		}()
		return h, nil
	}
	r.Fatalf("there is no operation process.%s", op)
	return nil, nil
}

// files carries out an operation of files.
func (r *vectorRun) files(ctx context.Context, sb *sdk.Sandbox, op string, w vectorWith) (any, error) {
	a, name, none := sb.API(), sb.Name(), map[string]any{}
	switch op {
	case "read", "read_text":
		return sb.ReadFile(ctx, w.Path)
	case "write":
		out, err := a.WriteFile(ctx, name, w.Path, bytes.NewReader(w.Data.data), w.Exclusive)
		return plain(out), err
	case "list":
		list, cursor := []any{}, ""
		for {
			page, err := a.ListFiles(ctx, name, w.Path, cursor)
			if err != nil {
				return nil, err
			}
			for _, f := range page.Items {
				list = append(list, plain(f))
			}
			if cursor = page.Next; cursor == "" {
				return list, nil
			}
		}
	case "stat":
		f, err := a.StatFile(ctx, name, w.Path)
		return plain(f), err
	case "exists":
		_, err := a.StatFile(ctx, name, w.Path)
		if sandbox.IsNotFound(err) {
			return false, nil
		}
		return err == nil, err
	case "remove":
		return none, a.RemoveFile(ctx, name, w.Path, w.Recursive != nil && *w.Recursive)
	case "move":
		var from string
		if err := json.Unmarshal(w.From, &from); err != nil {
			return nil, err
		}
		f, err := a.MoveFile(ctx, name, api.MoveFile{From: from, To: w.To, Overwrite: w.Overwrite})
		return plain(f), err
	case "mkdir":
		f, err := a.MakeFolder(ctx, name, api.MakeFolder{Path: w.Path, Parents: w.Parents})
		return plain(f), err
	case "symlink":
		f, err := a.MakeLink(ctx, name, api.MakeLink{Path: w.Path, Target: w.Target})
		return plain(f), err
	case "glob":
		g, err := a.Glob(ctx, name, api.Glob{Pattern: w.Pattern, Path: w.Path})
		return plain(g.Paths), err
	case "upload":
		return r.upload(ctx, sb, w)
	case "download":
		return r.download(ctx, sb, w)
	case "watch":
		return r.watch(ctx, sb, w)
	}
	r.Fatalf("there is no operation files.%s", op)
	return nil, nil
}

func (r *vectorRun) watch(ctx context.Context, sb *sdk.Sandbox, w vectorWith) (any, error) {
	ctx, cancel := context.WithCancel(ctx)
	r.Cleanup(cancel)
	h := &eventStream{events: make(chan map[string]any, 64), cancel: cancel}
	ready, failed := make(chan struct{}), make(chan error, 1)
	go func() {
		defer close(h.events)
		for e, err := range sb.API().WatchFiles(ctx, sb.Name(), sdk.Watch{Path: w.Path, Flat: w.Recursive != nil && !*w.Recursive}) {
			switch {
			case err != nil:
				failed <- err
			case e.Ready != nil:
				close(ready)
			case e.Change != nil:
				h.events <- plain(e.Change).(map[string]any)
			}
		}
	}()
	select {
	case <-ready:
		return h, nil
	case err := <-failed:
		return nil, err
	}
}

// contexts carries out an operation of contexts of code.
func (r *vectorRun) contexts(ctx context.Context, sb *sdk.Sandbox, op string, s vectorStep) (any, error) {
	switch op {
	case "create":
		c, err := sb.CreateCodeContext(ctx, s.With.Language, s.With.Cwd)
		return contextHandle{c}, err
	case "list":
		l, err := sb.CodeContexts(ctx)
		return plain(l), err
	}
	id := s.With.Ref
	if s.On != "" {
		id = on[contextHandle](r, s).ID
	}
	switch op {
	case "restart":
		c, err := sb.RestartCodeContext(ctx, id)
		return plain(c), err
	case "delete":
		return map[string]any{}, sb.DeleteCodeContext(ctx, id)
	}
	r.Fatalf("there is no operation contexts.%s", op)
	return nil, nil
}

func (r *vectorRun) code(ctx context.Context, sb *sdk.Sandbox, w vectorWith) (any, error) {
	in := api.RunCode{Code: w.Code, Language: w.Language, Context: w.Context, TimeoutSeconds: w.TimeoutSeconds}
	if h, ok := r.saved[w.Context].(contextHandle); ok {
		in.Context = h.ID
	}
	out, err := sb.API().RunCode(ctx, sb.Name(), in)
	return plain(out), err
}

// upload makes the files of the step in a folder of the host, and copies them into
// the folder path of the sandbox.
func (r *vectorRun) upload(ctx context.Context, sb *sdk.Sandbox, w vectorWith) (any, error) {
	var all bytes.Buffer
	tw := tar.NewWriter(&all)
	for _, name := range slices.Sorted(maps.Keys(w.Files)) {
		text := w.Files[name]
		if err := tw.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text)), Typeflag: tar.TypeReg}); err != nil {
			return nil, err
		}
		if _, err := io.WriteString(tw, text); err != nil {
			return nil, err
		}
	}
	if err := tw.Close(); err != nil {
		return nil, err
	}
	_, err := sb.API().UnpackArchive(ctx, sb.Name(), w.Path, &all)
	return map[string]any{}, err
}

// download copies a folder of the sandbox out, and returns its files.
func (r *vectorRun) download(ctx context.Context, sb *sdk.Sandbox, w vectorWith) (any, error) {
	body, err := sb.API().PackArchive(ctx, sb.Name(), w.Path)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	files := map[string]any{}
	for tr := tar.NewReader(body); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return map[string]any{"files": files}, nil
		}
		if err != nil {
			return nil, err
		}
		if h.Typeflag == tar.TypeReg {
			b, err := io.ReadAll(tr)
			if err != nil {
				return nil, err
			}
			files[path.Clean(h.Name)] = b
		}
	}
}
