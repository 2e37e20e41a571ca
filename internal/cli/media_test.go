package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/workspace"
)

func TestMediaStage(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	staged := []workspace.Staged{
		{Ref: "/in/a", Original: "a", Path: "/workspace/media/inbound/a", Size: 3, SHA256: "ab", MIME: "text/plain"},
		{Ref: "scp://host/b", Original: "b\x1b[2J", Path: "/workspace/media/inbound/\u202eb", Size: 4},
	}
	f := &fake{staged: staged}
	r := call(t, f, "--session", "chat", "--provider", "local", "media", "stage", "--", "scan.pdf", "/in/a", "scp://host/b", "-x")
	if want := []string{filepath.Join(here, "scan.pdf"), "/in/a", "scp://host/b", filepath.Join(here, "-x")}; r.status != 0 || !slices.Equal(f.refs, want) {
		t.Errorf("status %d %s, refs %q; want %q", r.status, r.stderr, f.refs, want)
	}
	if f.request.Who.Session != "chat" || f.request.Flags == nil || *f.request.Flags.Provider != "local" {
		t.Errorf("%+v", f.request)
	}
	if lines := strings.Split(r.stdout, "\n"); len(lines) != 3 || lines[0] != staged[0].Path || strings.ContainsRune(lines[1], '\u202e') {
		t.Errorf("stdout %q", r.stdout)
	}

	r = call(t, f, "-o", "json", "media", "stage", "/in/a")
	var view struct{ Items []workspace.Staged }
	if err := json.Unmarshal([]byte(r.stdout), &view); err != nil || len(view.Items) != 2 || view.Items[1] != staged[1] || strings.Contains(r.stdout, "\x1b") {
		t.Errorf("%v: %q", err, r.stdout)
	}
	for _, args := range [][]string{{}, {""}, {"/in/\x00"}} {
		f := &fake{}
		if r := call(t, f, append([]string{"media", "stage"}, args...)...); r.status != 2 || f.refs != nil || r.stdout != "" {
			t.Errorf("%q: status %d, %q", args, r.status, r.stderr)
		}
	}
	if r := call(t, &fake{}, "media"); r.status != 2 {
		t.Errorf("media alone: %d", r.status)
	}
	if r := call(t, &fake{}, "--host", "unix:/x", "media", "stage", "scan.pdf"); r.status != 2 || !strings.Contains(r.stderr, "not an absolute path") {
		t.Errorf("a relative path through a daemon: %d %s", r.status, r.stderr)
	}
	if r := call(t, &fake{}, "media", "stage", "--help"); r.status != 0 || !strings.Contains(r.stdout, "media.folders") {
		t.Errorf("help: %d %s", r.status, r.stdout)
	}
	if r := call(t, &fake{}, "completion", "bash"); !strings.Contains(r.stdout, "media") || !strings.Contains(r.stdout, "stage") {
		t.Error("the words are not completed")
	}
	for code, want := range map[sandbox.Code]int{
		sandbox.CodeCapabilityBlocked: 1, sandbox.CodeNotFound: 1, sandbox.CodeBudgetExceeded: 1, sandbox.CodeUnsupported: 1, sandbox.CodeUnavailable: 125, sandbox.CodeTimeout: 125,
	} {
		f := &fake{stageErr: &sandbox.Error{Code: code, Message: "no"}}
		if r := call(t, f, "media", "stage", "/in/a"); r.status != want || r.stdout != "" || !strings.Contains(r.stderr, string(code)) {
			t.Errorf("%s: status %d, %q", code, r.status, r.stderr)
		}
	}
}
