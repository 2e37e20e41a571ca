package cli

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/egress/proxy"
	"github.com/bulkhead-dev/sandbox/manager"
)

func TestParseService(t *testing.T) {
	for text, want := range map[string]manager.Service{
		"db=postgres:16": {Name: "db", Image: "postgres:16"},
		`db=,port=15432:5432,env=A=b=c,env=E=,"command=a, b",ready=true,within=90s`: {
			Name: "db", Port: 5432, Listen: 15432, Env: map[string]string{"A": "b=c", "E": ""},
			Command: []string{"/bin/sh", "-c", "a, b"}, Ready: []string{"/bin/sh", "-c", "true"}, Within: 90 * time.Second,
		},
		`db=,command=echo "$A" '"',port=1`: {Name: "db", Port: 1, Command: []string{"/bin/sh", "-c", `echo "$A" '"'`}},
	} {
		if got, err := parseService(text); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{
		"", "db", "=image", "db=x,", "db=x,port", "db=x,port=0", "db=x,port=65536", "db=x,port=a", "db=x,port=:1", "db=x,port=1:", "db=x,port=-1",
		"db=x,env=A", "db=x,env==b", "db=x,what=1", "db=x,within=0s", "db=x,within=soon", "db=x\ndb=y",
	} {
		if got, err := parseService(text); err == nil {
			t.Errorf("%q is the service %+v", text, got)
		}
	}
}

// TestSummaryHoldsNoMarkup has hostile texts wherever a summary shows what comes from
// inside.
func TestSummaryHoldsNoMarkup(t *testing.T) {
	evil := "</code><img src=x onerror=alert(1)>`|**b**[a](http://evil.example)\n# title\x1b[31m <!-- www.evil.example @user"
	r := commandReport{Command: []string{evil}, Error: &reportedFail{sandbox.Code(evil), evil}, Signal: evil, Report: &manager.Report{
		Sandbox: evil, Provider: evil, User: evil, Network: evil, Services: []string{evil}, Unknown: evil, Notes: []string{evil},
		Reached:   []proxy.Reached{{Host: evil, Port: 1}},
		Blocked:   []sandbox.Violation{{Operation: sandbox.Operation(evil), Resource: evil, Rule: evil}},
		Changed:   []manager.FileChange{{Path: evil, How: evil}},
		CopiedOut: &manager.CopiedOut{Left: []string{evil}},
	}}
	text := r.markdown()
	for _, bad := range []string{"<img", "**b**", "](", "\x1b", "<!--", "www.evil", "\n# title", "@user", "`"} {
		if strings.Contains(text, bad) {
			t.Errorf("the summary holds %q:\n%s", bad, text)
		}
	}
	if open, shut := strings.Count(text, "<code>"), strings.Count(text, "</code>"); open == 0 || open != shut {
		t.Errorf("%d <code> and %d </code>", open, shut)
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "| ") && strings.Count(line, "|") > 5 {
			t.Errorf("a row has more cells than its table: %s", line)
		}
	}
}

// TestReportFollowsNoLink holds that code which ran before cannot choose where the
// report is written.
func TestReportFollowsNoLink(t *testing.T) {
	dir := t.TempDir()
	target, link := filepath.Join(dir, "target"), filepath.Join(dir, "report.json")
	if err := os.WriteFile(target, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{link, dir, filepath.Join(dir, "none/x"), os.DevNull} {
		f := reportFlags{report: text{value: path, given: true}}
		if w, err := f.open(nil); err == nil {
			w.close()
			t.Errorf("a report was opened at %s", path)
		}
	}
	if b, err := os.ReadFile(target); string(b) != "kept" {
		t.Errorf("%q, %v", b, err)
	}
}
