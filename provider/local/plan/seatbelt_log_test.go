package plan

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/google/go-cmp/cmp"
)

func TestLogArgs(t *testing.T) {
	got, err := LogArgs("sbx.abc")
	want := []string{
		"/usr/bin/log", "stream", "--style", "ndjson", "--level", "debug", "--predicate",
		`((processID == 0 AND senderImagePath CONTAINS "/Sandbox") OR subsystem == "com.apple.sandbox.reporting") AND eventMessage CONTAINS "sbx.abc"`,
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v", got, err)
	}
	for _, prefix := range []string{"", `a" OR TRUEPREDICATE OR "`, "a b", "a\n", strings.Repeat("a", 65), "ä"} {
		if _, err := LogArgs(prefix); sandbox.CodeOf(err) != sandbox.CodeValidation {
			t.Errorf("%q: %v", prefix, err)
		}
	}
	if !LogReady([]byte(`Filtering the log data using "x"`)) || LogReady([]byte("log: Must be admin to run 'stream' command")) || LogReady(nil) {
		t.Error("the line that says that the log is followed is mistaken")
	}
}

// TestLogGolden reads testdata/log.ndjson. The lines were written by hand,
// following the fields of log(1) and the kernel's message; none was recorded on
// a Mac.
func TestLogGolden(t *testing.T) {
	in, err := os.ReadFile("testdata/log.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	type row struct {
		Refusal
		Kind, Op, Resource string `json:",omitempty"`
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	for line := range bytes.Lines(in) {
		r, ok := ParseRefusal(bytes.TrimSpace(line))
		if !ok {
			out.WriteString("null\n")
			continue
		}
		kind, op, resource, _ := r.Attempt()
		if err := enc.Encode(row{r, kind, string(op), resource}); err != nil {
			t.Fatal(err)
		}
	}
	const file = "testdata/log.golden.json"
	if *update {
		if err := os.WriteFile(file, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), out.String()); diff != "" {
		t.Error(diff)
	}
}

// FuzzRefusal verifies that parsing a line returns the values written into it:
// names that code inside the sandbox chooses change neither tag nor process.
func FuzzRefusal(f *testing.F) {
	f.Add("cat", 7, "file-read-data", "/a", "sbx.1", "")
	f.Add("a(1) deny(1) file-read-data /x\nsbx.2", 8, "file-write-create", "/b\nsbx.2", "sbx.1", "3 duplicate reports for ")
	f.Add("Gradle Worker", 9, "network-outbound", "remote:*:443", "t", "1 duplicate report for ")
	f.Fuzz(func(t *testing.T, program string, pid int, operation, target, tag, before string) {
		line, err := json.Marshal(map[string]any{
			"eventMessage": before + "Sandbox: " + program + "(" + itoa(pid) + ") deny(1) " + operation + " " + target + "\n" + tag,
			"timestamp":    "2026-03-04 05:06:07.123456+0100",
		})
		if err != nil {
			t.Fatal(err)
		}
		r, ok := ParseRefusal(line)
		if !ok {
			return
		}
		if r.PID <= 0 || r.Count < 1 || r.Operation == "" || strings.ContainsAny(r.Program, "\n\x1b\x00") {
			t.Errorf("%+v", r)
		}
		if !strings.Contains(tag, "\n") && r.Tag != strings.ToValidUTF8(tag, "\ufffd") {
			t.Errorf("the tag %q is read as %q", tag, r.Tag)
		}
		if strings.ContainsAny(r.Tag, "\n \"") {
			t.Errorf("a tag %q", r.Tag)
		}
		if _, _, resource, ok := r.Attempt(); ok && resource == "" {
			t.Errorf("%+v is about nothing", r)
		}
	})
}

// FuzzLog verifies that parsing does not crash on any line.
func FuzzLog(f *testing.F) {
	in, err := os.ReadFile("testdata/log.ndjson")
	if err != nil {
		f.Fatal(err)
	}
	for line := range bytes.Lines(in) {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		r, ok := ParseRefusal(line)
		if ok != (r != Refusal{}) {
			t.Errorf("%v with %+v", ok, r)
		}
		r.Attempt()
	})
}

func itoa(n int) string {
	b, _ := json.Marshal(n)
	return string(b)
}
