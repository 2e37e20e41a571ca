package running

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/manager"
)

// TestCodeLines holds which lines of a kernel host are taken. Code in a kernel
// can forge all of them.
func TestCodeLines(t *testing.T) {
	for _, line := range []string{
		`{"type":"stdout","text":"a"}`, `{"type":"stderr","text":""}`, `{"type":"result","result":{"text":"1","png":"aGk=","chart":{"type":"line"},"extra":{"a/b":1},"main":true}}`,
		`{"type":"error","error":{"name":"E","value":"v","traceback":"t"}}`, `{"type":"count","executionCount":3}`, `{"type":"timeout"}`, `{"type":"truncated","dropped":9}`,
		`{"type":"context","context":{"id":"a","language":"python","dir":"/"}}`, `{"type":"fault","code":"busy","message":"m"}`, `{"type":"end"}`,
	} {
		if _, err := decodeCodeLine([]byte(line)); err != nil {
			t.Errorf("%s is refused", line)
		}
	}
	for name, line := range map[string]string{
		"nothing": ``, "no object": `[]`, "null": `null`, "no type": `{}`, "an unknown type": `{"type":"exec"}`, "an unknown field": `{"type":"end","exit":0}`,
		"a field of another type": `{"type":"stdout","text":"a","executionCount":1}`, "no result": `{"type":"result"}`, "no error": `{"type":"error"}`,
		"two values": `{"type":"end"} {"type":"end"}`, "rubbish behind": `{"type":"end"}x`, "no base64": `{"type":"result","result":{"png":"!"}}`,
		"a negative count": `{"type":"count","executionCount":-1}`, "a negative number of characters": `{"type":"truncated","dropped":-1}`,
		"no UTF-8": "{\"type\":\"stdout\",\"text\":\"\xff\"}", "a result of stdout": `{"type":"stdout","result":{}}`, "a fault with an output": `{"type":"fault","code":"busy","text":"x"}`,
		"an unknown field of a result": `{"type":"result","result":{"exe":"x"}}`,
	} {
		if l, err := decodeCodeLine([]byte(line)); err == nil {
			t.Errorf("%s: %s is taken as %+v", name, line, l)
		}
	}
}

func FuzzCodeLine(f *testing.F) {
	f.Add([]byte(`{"type":"result","result":{"text":"1","png":"aGk=","chart":{"type":"line"}}}`))
	f.Add([]byte(`{"type":"error","error":{"name":"E","value":"v","traceback":"t"}}`))
	f.Add([]byte(`{"type":"context","context":{"id":"a","language":"python","dir":"/"}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := decodeCodeLine(b)
		if err != nil {
			return
		}
		if !utf8.Valid(b) || l.ExecutionCount < 0 || (l.Type == sandbox.CodeEventResult) != (l.Result != nil) || (l.Type == sandbox.CodeEventError) != (l.Error != nil) || (l.Type == codeContext) != (l.Context != nil) {
			t.Fatalf("%q is taken as %+v", b, l)
		}
		again, err := json.Marshal(l)
		if err != nil {
			t.Fatalf("%q cannot be passed on: %v", b, err)
		}
		if _, err := decodeCodeLine(again); err != nil {
			t.Fatalf("%q was taken, and %s is not", b, again)
		}
	})
}

// TestCodeReaderIsBounded holds that a host that breaks its protocol ends the
// run, and that little is kept of what it says.
func TestCodeReaderIsBounded(t *testing.T) {
	for name, tt := range map[string]struct {
		say  []string
		most int
	}{
		"a line without an end": {[]string{strings.Repeat("x", 1<<20)}, 1000},
		"output without an end": {[]string{`{"type":"stdout","text":"` + strings.Repeat("x", 1<<20) + "\"}\n"}, 1000},
		"talk behind the end":   {[]string{"{\"type\":\"end\"}\n", "{\"type\":\"timeout\"}\n"}, 2},
		"a broken line":         {[]string{"{\"type\":\"end\"\n"}, 1},
		"two ends":              {[]string{"{\"type\":\"end\"}\n{\"type\":\"end\"}\n"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, stop := context.WithCancelCause(context.Background())
			r := &codeReader{fn: func(codeLine) error { return nil }, stop: stop}
			for i := range tt.most {
				if n, err := r.Write([]byte(tt.say[i%len(tt.say)])); err != nil || n == 0 {
					t.Fatal(n, err)
				}
			}
			if !errors.Is(r.end(), errCodeLine) || !errors.Is(context.Cause(ctx), errCodeLine) {
				t.Errorf("it goes on: %v, %v", r.end(), context.Cause(ctx))
			}
			if len(r.pending) > maxCodeLine {
				t.Errorf("%d bytes are kept", len(r.pending))
			}
		})
	}
}

// TestCodeReaderTakesPieces holds that lines are read however they are cut.
func TestCodeReaderTakesPieces(t *testing.T) {
	const all = "{\"type\":\"count\",\"executionCount\":1}\n{\"type\":\"stdout\",\"text\":\"ä\"}\n{\"type\":\"end\"}\n"
	for size := 1; size <= len(all); size++ {
		var got []string
		r := &codeReader{stop: func(error) {}, fn: func(l codeLine) error {
			got = append(got, l.Type+l.Text)
			return nil
		}}
		for rest := all; rest != ""; {
			n := min(size, len(rest))
			r.Write([]byte(rest[:n]))
			rest = rest[n:]
		}
		if strings.Join(got, " ") != "count stdoutä" || !r.ended || r.end() != nil {
			t.Errorf("in pieces of %d: %q, %v", size, got, r.end())
		}
	}
}

// TestCodeParts holds that code of any length is given in arguments that Linux
// takes, and is the same when they are joined.
func TestCodeParts(t *testing.T) {
	for _, text := range []string{"", "x", strings.Repeat("ä", 500_000), strings.Repeat("x", MaxCode)} {
		parts := codeParts(text)
		if parts[0] != "--" || strings.Join(parts[1:], "") != text {
			t.Errorf("code of %d bytes is changed", len(text))
		}
		for _, p := range parts {
			if len(p) > codePart || !utf8.ValidString(p) {
				t.Errorf("a part of %d bytes", len(p))
			}
		}
	}
}

// TestCodeIsChecked holds what is refused before anything is run.
func TestCodeIsChecked(t *testing.T) {
	h := New(Options{Manager: unusable{}})
	defer h.Close(context.Background())
	for name, tt := range map[string]struct {
		code  Code
		field string
	}{
		"a language that is not there": {Code{Text: "x", Language: "cobol"}, "language"},
		"a context with a path":        {Code{Text: "x", Context: "../x"}, "context"},
		"both":                         {Code{Text: "x", Context: "a", Language: "bash"}, "language"},
		"too much":                     {Code{Text: strings.Repeat("x", MaxCode+1)}, "code"},
		"no UTF-8":                     {Code{Text: "\xff"}, "code"},
		"a NUL":                        {Code{Text: "a\x00b"}, "code"},
		"a name of a variable":         {Code{Text: "x", Env: map[string]string{"A=B": ""}}, "env"},
	} {
		_, err := h.RunCode(context.Background(), manager.Request{}, tt.code, nil)
		var e *sandbox.Error
		if !errors.As(err, &e) || e.Code != sandbox.CodeValidation || !strings.HasPrefix(e.Field, tt.field) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, id := range []string{"", "a/b", "a b", strings.Repeat("x", 65)} {
		if id == "" {
			continue
		}
		if err := h.DeleteCodeContext(context.Background(), manager.Request{}, id); sandbox.CodeOf(err) != sandbox.CodeValidation {
			t.Errorf("the context %q: %v", id, err)
		}
	}
}

// unusable fails a test that runs something.
type unusable struct{ Manager }
