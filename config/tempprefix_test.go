package config_test

import (
	"errors"
	"strings"
	"testing"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/policy"
)

// TestTempPrefixErrors holds that a prefix which is none is an error that names
// its place and what to write, in a file and in a program.
func TestTempPrefixErrors(t *testing.T) {
	for prefix, want := range map[string]string{
		"": "is not absolute", "tmp/x": "is not absolute", "~/tmp": "is not absolute", "$TMPDIR/x": "is not absolute", "./x": "is not absolute",
		"/": "is the root folder", "//": "is the root folder", "/tmp/..": "goes up", "/tmp/../etc": "goes up", "/tmp/a/../b": "goes up", "/../tmp": "goes up",
		"/tmp//x": "is not clean", "/tmp/./x": "is not clean", "/tmp/x//": "is not clean",
		"/tmp/a*": "has a sign of a pattern", "/tmp/{a,b}": "has a sign of a pattern", "/tmp/[a]": "has a sign of a pattern", `/tmp/a\\b`: "has a sign of a pattern",
		"/etc": "does not lie in", "/tmpx": "does not lie in", "/var/tm": "does not lie in", "/workspace/tmp": "does not lie in", "/private/etc": "does not lie in",
		`/tmp/\u202ex`: "control or invisible", `/tmp/\u0000x`: "control or invisible", "/tmp/" + strings.Repeat("x", 5000): "has 5005 bytes",
	} {
		_, err := config.Parse("f", []byte(`{"agents": {"list": [{"id": "a", "sandbox": {"filesystem": {"tempPrefixes": ["/tmp/ok", "`+prefix+`"]}}}]}}`))
		if err == nil || !strings.Contains(err.Error(), "agents.list[0].sandbox.filesystem.tempPrefixes[1]") || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", prefix, err, want)
		}
	}
	_, err := config.NewBuilder().TempPrefix("/tmp/ok", "x").Build()
	var e *sandbox.Error
	if !errors.As(err, &e) || e.Code != sandbox.CodeValidation || !strings.Contains(err.Error(), "filesystem.tempPrefixes[1]") {
		t.Errorf("program: %v", err)
	}
	if _, err := config.NewBuilder().TempPrefix().Build(); err == nil {
		t.Error("no prefix is no error")
	}
}

// TestTempPrefixes holds that prefixes of all layers limit what may be named for
// writing in temporary folders, whatever the strictness, and nothing else.
func TestTempPrefixes(t *testing.T) {
	const set = `"filesystem": {"tempPrefixes": ["/tmp/ours/", "/private/var/tmp/söder"]}`
	for _, tt := range []struct {
		name, settings string
		want           map[string]policy.Verdict
	}{
		{"none", `"commands": {}`, map[string]policy.Verdict{"/tmp/x": policy.Allow, "/var/tmp/x": policy.Allow}},
		{"an empty list", `"filesystem": {"tempPrefixes": []}`, map[string]policy.Verdict{"/tmp/x": policy.Allow}},
		{"none under strict", `"commands": {"strictness": "strict"}`, map[string]policy.Verdict{"/tmp/x": policy.Allow}},
		{"two", set, map[string]policy.Verdict{"/tmp/x": policy.Deny, "/tmp/ours/x": policy.Allow, "/tmp/oursx": policy.Deny, "/var/tmp/söder/x": policy.Allow, "/var/tmp/x": policy.Deny, "/workspace/x": policy.Allow, "/run/x": policy.Allow, "/home/sandbox/x": policy.Allow}},
		{"permissive", set + `, "preset": "permissive"`, map[string]policy.Verdict{"/tmp/x": policy.Deny, "/tmp/ours/x": policy.Allow}},
		{"strict", set + `, "commands": {"strictness": "strict"}`, map[string]policy.Verdict{"/tmp/x": policy.Deny, "/tmp/ours/x": policy.Allow}},
		{"a folder of memory below /tmp", `"docker": {"tmpfs": ["/tmp:size=8m", "/tmp/other:size=8m", "/scratch:size=8m"]}, ` + set, map[string]policy.Verdict{"/tmp/other/x": policy.Deny, "/scratch/x": policy.Allow}},
	} {
		p, err := config.PathPolicy(resolved(t, "f", inDefaults(tt.settings)), config.Inside{})
		if err != nil {
			t.Fatal(err)
		}
		for file, want := range tt.want {
			d := p.Judge(sandbox.OpWrite, file)
			if d.Verdict != want || want == policy.Deny && (d.Rule != "filesystem.tempPrefixes" || d.Hint != "write below the workspace or below /tmp/ours or /private/var/tmp/söder" || d.Violation() != "disallowed_temp_write") {
				t.Errorf("%s: writing %s is %+v, want %s", tt.name, file, d, want)
			}
			if d := p.Judge(sandbox.OpRead, file); d.Verdict != policy.Allow {
				t.Errorf("%s: reading %s is %+v", tt.name, file, d)
			}
		}
	}
}
