package sandbox_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/bulkhead-dev/sandbox"
)

// A kept is a recorder that keeps what it is given.
type kept struct {
	name     string
	strings  map[string]string
	failed   string
	ends     int
	children []*kept
}

func (k *kept) Start(name string, _ sandbox.SpanKind) sandbox.SpanRecorder {
	c := &kept{name: name, strings: map[string]string{}}
	k.children = append(k.children, c)
	return c
}
func (k *kept) String(key, value string) { k.strings[key] = value }
func (k *kept) Int(key string, _ int64)  { k.strings[key] = "int" }
func (k *kept) Bool(key string, _ bool)  { k.strings[key] = "bool" }
func (k *kept) Event(name string)        { k.strings["event"] = name }
func (k *kept) Fail(code string)         { k.failed = code }
func (k *kept) End()                     { k.ends++ }
func (k *kept) TraceParent() string      { return "parent of " + k.name }

// TestSpan holds that texts are bounded and printable, that nothing follows the end of
// a span, and that an error is recorded by its code alone.
func TestSpan(t *testing.T) {
	k := &kept{name: "root", strings: map[string]string{}}
	ctx, s := sandbox.StartSpan(sandbox.WithSpan(t.Context(), sandbox.NewSpan(k)), "step")
	if sandbox.SpanOf(ctx) != s || len(k.children) != 1 || s.TraceParent() != "parent of step" {
		t.Fatalf("%+v", k)
	}
	step := k.children[0]
	for in, want := range map[string]string{
		"plain": "plain", "": "", "a\x1b[31m\nb\x00": "a [31m b ", "\xff\xfe": "\ufffd\ufffd", "a\u202eb\u2028c\u0085": "a b c ",
		strings.Repeat("a", 300): strings.Repeat("a", 256), "x" + strings.Repeat("日", 200): "x" + strings.Repeat("日", 85),
	} {
		delete(step.strings, "k")
		s.String("k", in)
		if got := step.strings["k"]; got != want || !utf8.ValidString(got) {
			t.Errorf("%q is recorded as %q, want %q", in, got, want)
		}
	}
	s.Fail(nil)
	if step.failed != "" {
		t.Errorf("no error is recorded as %q", step.failed)
	}
	s.EndWith(&sandbox.Error{Code: sandbox.CodeBusy, Message: "a secret", Err: errors.New("another")})
	s.String("k", "late")
	s.Event("late")
	s.Fail(errors.New("late"))
	s.End()
	if step.ends != 1 || step.failed != string(sandbox.CodeBusy) || step.strings["k"] == "late" || step.strings["event"] != "" {
		t.Errorf("%+v", step)
	}
	if without := sandbox.WithSpan(ctx, nil); sandbox.SpanOf(without) != nil {
		t.Error("a context keeps a span that was taken from it")
	}
}

// TestNoSpan holds that code which makes spans allocates nothing while no trace is
// recorded.
func TestNoSpan(t *testing.T) {
	ctx := context.WithValue(t.Context(), &struct{ int }{}, 1)
	err := errors.New("failed")
	text := strings.Repeat("x", 10)
	n := testing.AllocsPerRun(100, func() {
		in, s := sandbox.StartSpan(ctx, "step")
		c := s.Child("child", sandbox.SpanClient)
		c.String(text, text)
		c.Int(text, 1)
		c.Bool(text, true)
		c.Event(text)
		c.EndWith(err)
		s.EndWith(nil)
		if in != ctx || s.TraceParent() != "" || s.Recorder() != nil || sandbox.WithSpan(ctx, nil) != ctx {
			t.Error("there is a span")
		}
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}
