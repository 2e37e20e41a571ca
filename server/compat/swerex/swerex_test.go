package swerex

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestBackslashes(t *testing.T) {
	for in, want := range map[string]string{"": "", "ü": "ü", "a\xff\x00b": `a\xff` + "\x00b", "\xe2\x82": `\xe2\x82`, "\ufffd": "\ufffd"} {
		if got := backslashes([]byte(in)); got != want {
			t.Errorf("%q is %q, want %q", in, got, want)
		}
	}
	for how, want := range map[string]string{"replace": "a\ufffd", "ignore": "a", "backslashreplace": `a\xff`} {
		if got, err := decode([]byte("a\xff"), how); got != want || err != nil {
			t.Errorf("%s: %q, %v", how, got, err)
		}
	}
	if _, err := decode([]byte("a\xff"), "strict"); err == nil {
		t.Error("bytes that are no text are a text")
	}
}

func TestExpecting(t *testing.T) {
	e, err := expecting([]string{"(gdb) ", "[", "b+"})
	if err != nil {
		t.Fatal(err)
	}
	for in, want := range map[string]string{"": "", "none": "", "x(gdb) y": "b+", "gdb [": "(gdb) ", "x[": "[", "bb": "b+"} {
		if text, _, _, _ := e.find([]byte(in)); text != want {
			t.Errorf("%q has %q, want %q", in, text, want)
		}
	}
	if _, err := expecting(make([]string, maxExpected+1)); err == nil {
		t.Error("there is no bound of patterns")
	}
	if _, err := expecting([]string{strings.Repeat("a", maxPattern+1)}); err == nil {
		t.Error("there is no bound of a pattern")
	}
}

func TestOutputIsBounded(t *testing.T) {
	var o output
	for range 3 {
		if err := o.take(false, make([]byte, maxOutput/2)); err != nil {
			t.Fatal(err)
		}
	}
	if len(o.out) != maxOutput || o.lost != maxOutput/2 {
		t.Errorf("%d bytes are kept and %d lost", len(o.out), o.lost)
	}
}

func TestAsTar(t *testing.T) {
	var z bytes.Buffer
	w := zip.NewWriter(&z)
	for name, content := range map[string]string{"d/": "", "d/ü": "x"} {
		f, err := w.Create(name)
		if err == nil {
			_, err = io.WriteString(f, content)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := zip.NewReader(bytes.NewReader(z.Bytes()), int64(z.Len()))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := asTar(&out, r); err != nil {
		t.Fatal(err)
	}
	names := map[string]string{}
	for tr := tar.NewReader(&out); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(tr)
		if err != nil {
			t.Fatal(err)
		}
		names[h.Name] = string(b)
	}
	if len(names) != 2 || names["d/ü"] != "x" {
		t.Errorf("the archive has %v", names)
	}
}

// FuzzRequests sends anything to every operation, with a server of /v1 that knows
// nothing: the answer is JSON, and nothing breaks.
func FuzzRequests(f *testing.F) {
	for _, body := range []string{
		`{}`, `{"command":"true"}`, `{"command":["a"],"timeout":1e400}`, `{"command":{}}`, `{"expect":["(", "a*"]}`, `{"path":"/\u0000"}`, "--x\r\n\r\n", `null`, `[`,
	} {
		for path := range operations {
			f.Add(path, body)
		}
	}
	f.Fuzz(func(t *testing.T, path, body string) {
		method, path, _ := strings.Cut(path, " ")
		r, err := http.NewRequest(method, "http://x/swerex/s", strings.NewReader(body))
		if err != nil {
			return
		}
		r.URL.Path, r.URL.RawPath = "/swerex/s"+path, ""
		r.Header.Set("Content-Type", "multipart/form-data; boundary=x")
		v1 := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusOK)
			_, _ = io.WriteString(w, `{"name":"sbx-x"}`)
		})
		w := httptest.NewRecorder()
		d := New(Options{})
		if !d.Claims(r) {
			return
		}
		d.Translate(w, r, v1)
		if b := w.Body.Bytes(); !json.Valid(b) || !utf8.Valid(b) {
			t.Errorf("%s is answered with %q", path, b)
		}
	})
}
