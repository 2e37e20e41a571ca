package toolpolicy_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/policy"
	"github.com/bulkhead-dev/sandbox/toolpolicy"
)

func list(entries ...string) *toolpolicy.List {
	return &toolpolicy.List{Entries: entries, Layer: "agents.defaults"}
}

func TestJudge(t *testing.T) {
	none := toolpolicy.Options{}
	tests := []struct {
		name    string
		options toolpolicy.Options
		tool    string
		allowed bool
		rule    string
		layer   string
	}{
		{"built-in allow", none, "exec", true, `tools.allow "exec"`, "default"},
		{"alias of it", none, "bash", true, `tools.allow "exec"`, "default"},
		{"another spelling", none, " Apply-Patch ", true, `tools.allow "apply_patch"`, "default"},
		{"built-in pattern", none, "sessions_spawn", true, `tools.allow "sessions_*"`, "default"},
		{"built-in deny", none, "browser", false, `tools.deny "browser"`, "default"},
		{"a channel", none, "Telegram", false, `tools.deny "telegram"`, "default"},
		{"a channel that was told of", toolpolicy.Options{Channels: []string{"pager"}, Allow: list()}, "pager", false, `tools.deny "pager"`, "default"},
		{"in no list", none, "web_fetch", false, "tools.allow", "default"},

		{"empty allow is all", toolpolicy.Options{Allow: list()}, "web_fetch", true, "tools.allow", "agents.defaults"},
		{"empty allow lifts no built-in deny", toolpolicy.Options{Allow: list()}, "cron", false, `tools.deny "cron"`, "default"},
		{"star lifts no built-in deny", toolpolicy.Options{Allow: list("*")}, "cron", false, `tools.deny "cron"`, "default"},
		{"star allows the rest", toolpolicy.Options{Allow: list("*")}, "web_fetch", true, `tools.allow "*"`, "agents.defaults"},
		{"an explicit allow lifts it", toolpolicy.Options{Allow: list("browser")}, "browser", true, `tools.allow "browser"`, "agents.defaults"},
		{"an explicit pattern lifts it", toolpolicy.Options{Allow: list("brow*")}, "browser", true, `tools.allow "brow*"`, "agents.defaults"},
		{"a group lifts it", toolpolicy.Options{AlsoAllow: list("group:ui")}, "canvas", true, `tools.alsoAllow "group:ui"`, "agents.defaults"},
		{"an allow takes the place of the built-in one", toolpolicy.Options{Allow: list("read")}, "exec", false, "tools.allow", "agents.defaults"},
		{"alsoAllow adds to it", toolpolicy.Options{AlsoAllow: list("web_fetch")}, "exec", true, `tools.allow "exec"`, "default"},
		{"what alsoAllow adds", toolpolicy.Options{AlsoAllow: list("web_fetch")}, "web_fetch", true, `tools.alsoAllow "web_fetch"`, "agents.defaults"},
		{"alsoAllow lifts", toolpolicy.Options{AlsoAllow: list("browser")}, "browser", true, `tools.alsoAllow "browser"`, "agents.defaults"},

		{"deny is first", toolpolicy.Options{Allow: list("exec"), AlsoAllow: list("exec"), Deny: list("exec")}, "exec", false, `tools.deny "exec"`, "agents.defaults"},
		{"deny by alias", toolpolicy.Options{Deny: list("bash")}, "exec", false, `tools.deny "bash"`, "agents.defaults"},
		{"deny by pattern of an alias", toolpolicy.Options{Deny: list("ba*")}, "exec", false, `tools.deny "ba*"`, "agents.defaults"},
		{"deny without case", toolpolicy.Options{Deny: list("EXEC")}, "eXec", false, `tools.deny "EXEC"`, "agents.defaults"},
		{"deny by group", toolpolicy.Options{Deny: list("group:fs")}, "edit", false, `tools.deny "group:fs"`, "agents.defaults"},
		{"deny of other things keeps the built-in one", toolpolicy.Options{Deny: list("read")}, "browser", false, `tools.deny "browser"`, "default"},
		{"deny of all", toolpolicy.Options{Deny: list("*")}, "image", false, `tools.deny "*"`, "agents.defaults"},

		{"ways to read go with read", none, "grep", true, `tools.allow "read"`, "default"},
		{"and go with it when it is denied", toolpolicy.Options{Deny: list("read")}, "glob", false, `tools.deny "read"`, "agents.defaults"},
		{"one of them is denied alone", toolpolicy.Options{Deny: list("grep")}, "grep", false, `tools.deny "grep"`, "agents.defaults"},
		{"which leaves read", toolpolicy.Options{Deny: list("grep")}, "read", true, `tools.allow "read"`, "default"},
		{"one of them is allowed alone", toolpolicy.Options{Allow: list("ls")}, "read", false, "tools.allow", "agents.defaults"},

		{"image is added", toolpolicy.Options{Allow: list("read")}, "image", true, "image", "default"},
		{"image is denied", toolpolicy.Options{Allow: list("read"), Deny: list("image")}, "image", false, `tools.deny "image"`, "agents.defaults"},

		{"read-only keeps read", toolpolicy.Options{ReadOnly: true, ReadOnlyLayer: "flag"}, "read", true, `tools.allow "read"`, "default"},
		{"read-only takes write", toolpolicy.Options{ReadOnly: true, ReadOnlyLayer: "flag"}, "write", false, `workspaceAccess "ro"`, "flag"},
		{"read-only takes patches under another name", toolpolicy.Options{ReadOnly: true, ReadOnlyLayer: "flag", Allow: list("apply-patch")}, "apply-patch", false, `workspaceAccess "ro"`, "flag"},

		{"no name", toolpolicy.Options{Allow: list()}, "", false, "name", "default"},
		{"a name with a blank", toolpolicy.Options{Allow: list()}, "ex ec", false, "name", "default"},
		{"a name with a control character", toolpolicy.Options{Allow: list()}, "exec\x00", false, "name", "default"},
		{"a name with a letter that looks alike", toolpolicy.Options{Allow: list()}, "еxec", false, "name", "default"},
		{"a group is no tool", toolpolicy.Options{Allow: list()}, "group:fs", false, "name", "default"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, err := toolpolicy.New(tt.options)
			if err != nil {
				t.Fatal(err)
			}
			d := p.Judge(tt.tool)
			if (d.Verdict == policy.Allow) != tt.allowed || d.Rule != tt.rule || d.Layer != tt.layer {
				t.Errorf("%+v", d)
			}
			err = d.Err()
			switch {
			case tt.allowed && (err != nil || d.Reason == ""):
				t.Errorf("allowed: %+v, %v", d, err)
			case !tt.allowed && (sandbox.CodeOf(err) != sandbox.CodeDenyTool || d.Hint == "" || !strings.Contains(err.Error(), d.Hint)):
				t.Errorf("refused: %+v, %v", d, err)
			}
		})
	}
}

// TestMalformed holds that an entry which can match nothing is an error with
// its place.
func TestMalformed(t *testing.T) {
	for field, o := range map[string]toolpolicy.Options{
		"tools.deny[1]":      {Deny: list("exec", "group:nothing")},
		"tools.allow[0]":     {Allow: list("a b")},
		"tools.alsoAllow[0]": {AlsoAllow: list("")},
	} {
		_, err := toolpolicy.New(o)
		if e, ok := err.(*sandbox.Error); !ok || e.Code != sandbox.CodeValidation || e.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}

func TestFilter(t *testing.T) {
	p, err := toolpolicy.New(toolpolicy.Options{Deny: list("process")})
	if err != nil {
		t.Fatal(err)
	}
	got := p.Filter([]string{"Bash", "process", "browser", "read", "web_fetch"})
	if want := []string{"Bash", "read"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// FuzzJudge holds that deny beats allow whatever a tool is called, and that
// no name brings the package down.
func FuzzJudge(f *testing.F) {
	for _, s := range []string{"exec", "ex*", "*", "group:fs", "**a**b*", "ſ", "İ", "apply-patch"} {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, entry, tool string) {
		p, err := toolpolicy.New(toolpolicy.Options{Allow: list(), AlsoAllow: list("exec"), Deny: list(entry)})
		if err != nil {
			return
		}
		d := p.Judge(tool)
		if d.Verdict != policy.Allow && d.Verdict != policy.Deny || d.Rule == "" || d.Layer == "" {
			t.Fatalf("%+v", d)
		}
		if strings.EqualFold(entry, tool) && d.Verdict != policy.Deny {
			t.Fatalf("%q is denied and allowed: %+v", entry, d)
		}
		if again := p.Judge(d.Tool); again.Verdict != d.Verdict {
			t.Fatalf("%q: %+v, %q: %+v", tool, d, d.Tool, again)
		}
	})
}

func BenchmarkJudge(b *testing.B) {
	p, err := toolpolicy.New(toolpolicy.Options{Deny: list("group:messaging", "x*y*z")})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		p.Judge("sessions_spawn")
	}
}

// TestChanges checks that a read-only workspace denies changes without a tool
// as it denies the tool write, and that the lists of tools do not affect that.
func TestChanges(t *testing.T) {
	for _, o := range []toolpolicy.Options{
		{ReadOnly: true, ReadOnlyLayer: "agents.defaults"},
		{ReadOnly: true, ReadOnlyLayer: "agents.list[a]", Allow: &toolpolicy.List{Entries: []string{"write"}}, Deny: &toolpolicy.List{Entries: []string{"write"}}},
	} {
		p, err := toolpolicy.New(o)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := p.Changes(), p.Judge("write"); got != want || got.Err() == nil || !strings.Contains(got.Reason, o.ReadOnlyLayer) {
			t.Errorf("Changes() = %+v; the tool: %+v", got, want)
		}
	}
	p, err := toolpolicy.New(toolpolicy.Options{Deny: &toolpolicy.List{Entries: []string{"*"}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Changes().Err(); err != nil {
		t.Errorf("without ro: %v", err)
	}
}
