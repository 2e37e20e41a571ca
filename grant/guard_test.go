package grant_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/grant"
)

const (
	noGrant   = sandbox.CodePermissionDeny
	noTool    = sandbox.CodeDenyTool
	isBlocked = sandbox.CodeCapabilityBlocked
	malformed = sandbox.CodeValidation
)

// A judgement is an operation with what the guard of the fixture says of it.
type judgement struct {
	name  string
	op    grant.Operation
	code  sandbox.Code
	field string
}

func judged(t *testing.T, tests []judgement) {
	t.Helper()
	guard := guarded(t, aGrant(), aManifest(), aPolicy())
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v, err := guard.Check(tt.op, now())
			refused(t, err, tt.code, tt.field)
			if err != nil && (v.Domain != "" || v.Kind != "") {
				t.Errorf("refused, and yet there is %+v", v)
			}
			if err == nil && (v.Domain == "" || v.Capability == "" || len(v.Effects) == 0) {
				t.Errorf("there is nothing to record of %+v", v)
			}
		})
	}
}

func TestGuardFiles(t *testing.T) {
	read := func(p string) grant.Operation { return grant.Operation{Kind: grant.OpFsRead, Path: p} }
	write := func(p string, n int) grant.Operation {
		return grant.Operation{Kind: grant.OpFsWrite, Path: p, Data: make([]byte, n)}
	}
	list := func(p string) grant.Operation { return grant.Operation{Kind: grant.OpFsList, Path: p} }
	judged(t, []judgement{
		{"read", read("/workspace/a"), "", ""},
		{"read doubled slashes", read("/workspace//a/./b"), "", ""},
		{"read a folder", read("/workspace/a/"), malformed, "op.path"},
		{"list", list("/workspace/"), "", ""},
		{"list the root of all", list("/"), isBlocked, "policy.mappings"},
		{"write", write("/workspace/out/a", 4096), "", ""},
		{"write too much", write("/workspace/out/a", 4097), isBlocked, "profile.limits.maxBytesOut"},
		{"write elsewhere", write("/workspace/a", 1), noGrant, "grant.capabilities"},
		{"write beside", write("/workspace/outer", 1), noGrant, "grant.capabilities"},
		{"write temporary", write("/tmp/call/a", 1), "", ""},
		{"write another's temporary", write("/tmp/other/a", 1), isBlocked, "policy.mappings"},
		{"outside", read("/etc/passwd"), isBlocked, "policy.mappings"},
		{"beside the root", read("/workspace2/a"), isBlocked, "policy.mappings"},
		{"back", read("/workspace/../etc/passwd"), isBlocked, "op.path"},
		{"back inside", read("/workspace/a/../b"), isBlocked, "op.path"},
		{"back at the end", list("/workspace/out/.."), isBlocked, "op.path"},
		{"dots that are a name", read("/workspace/..a/b..c/..."), "", ""},
		{"relative", read("a"), malformed, "op.path"},
		{"none", read(""), malformed, "op.path"},
		{"NUL", read("/workspace/a\x00b"), malformed, "op.path"},
		{"line end", read("/workspace/a\nb"), malformed, "op.path"},
		{"wide control", read("/workspace/a\u0085b"), malformed, "op.path"},
		{"turned around", read("/workspace/a\u202eb"), malformed, "op.path"},
		{"no UTF-8", read("/workspace/\xc3("), malformed, "op.path"},
		{"long", read("/workspace/" + strings.Repeat("a/", 2100)), malformed, "op.path"},
		{"long name", read("/workspace/" + strings.Repeat("a", 256)), malformed, "op.path"},
		{"deep", read("/workspace/a/b/c/d"), "", ""},
		{"too deep", read("/workspace/a/b/c/d/e"), isBlocked, "profile.limits.maxDepth"},
		{"denied", read("/workspace/secret"), isBlocked, "policy.denied.paths[0]"},
		{"below denied", read("/workspace/secret/key"), isBlocked, "policy.denied.paths[0]"},
		{"beside denied", read("/workspace/secrets"), "", ""},
		{"a part", grant.Operation{Kind: grant.OpFsRead, Path: "/workspace/a", Offset: 5, Length: 8192}, "", ""},
		{"too large a part", grant.Operation{Kind: grant.OpFsRead, Path: "/workspace/a", Length: 8193}, isBlocked, "profile.limits.maxBytesIn"},
		{"before the beginning", grant.Operation{Kind: grant.OpFsRead, Path: "/workspace/a", Offset: -1}, malformed, "op.offset"},
		{"less than nothing", grant.Operation{Kind: grant.OpFsRead, Path: "/workspace/a", Length: -1}, malformed, "op.offset"},
		{"beyond numbers", grant.Operation{Kind: grant.OpFsRead, Path: "/workspace/a", Offset: 1<<63 - 1, Length: 2}, malformed, "op.offset"},
		{"alien field", grant.Operation{Kind: grant.OpFsRead, Path: "/workspace/a", Overwrite: true}, malformed, "op.overwrite"},
		{"unknown", grant.Operation{Kind: "FsChmod", Path: "/workspace/a"}, malformed, "op.kind"},
		{"no kind", grant.Operation{}, malformed, "op.kind"},
	})
}

func TestGuardPrograms(t *testing.T) {
	run := func(tool string, args ...string) grant.Operation {
		return grant.Operation{Kind: grant.OpProcExec, Tool: tool, Args: args}
	}
	judged(t, []judgement{
		{"by template", run("git", "log", "-n10", "src/a"), "", ""},
		{"without the optional", run("git", "log", "src/a"), "", ""},
		{"first alone", run("git", "status"), "", ""},
		{"without arguments", run("git"), noTool, "manifest.commands"},
		{"word that the manifest lacks", run("git", "clone"), noTool, "manifest.commands"},
		{"word that the policy lacks", run("git", "push"), noTool, "policy.commands"},
		{"part of a match", run("git", "log", "x-n10"), noTool, "manifest.commands"},
		{"more than a match", run("git", "log", "-n10;rm"), noTool, "manifest.commands"},
		{"line after a match", run("git", "log", "-n10\n"), noTool, "manifest.commands"},
		{"rest that does not fit", run("git", "log", "src", "-f"), noTool, "manifest.commands"},
		{"empty argument", run("git", "log", ""), noTool, "manifest.commands"},
		{"no template, no arguments", run("make"), "", ""},
		{"no template, an argument", run("make", "all"), noTool, "manifest.commands"},
		{"not granted", run("sh"), noGrant, "grant.capabilities"},
		{"path", run("/bin/git"), malformed, "op.tool"},
		{"path from here", run("./git"), malformed, "op.tool"},
		{"option", run("-git"), malformed, "op.tool"},
		{"none", run(""), malformed, "op.tool"},
		{"NUL", run("git", "log", "a\x00"), malformed, "op.args[1]"},
		{"no UTF-8", run("git", "\xff"), malformed, "op.args[0]"},
		{"too many", run("git", make([]string, 1025)...), malformed, "op.args"},
		{"too long", run("git", slices.Repeat([]string{strings.Repeat("a", 16<<10)}, 5)...), malformed, "op.args"},
		{"in time", grant.Operation{Kind: grant.OpProcExec, Tool: "make", Timeout: 30 * time.Second}, "", ""},
		{"for too long", grant.Operation{Kind: grant.OpProcExec, Tool: "make", Timeout: 31 * time.Second}, isBlocked, "profile.limits.timeout"},
		{"for less than no time", grant.Operation{Kind: grant.OpProcExec, Tool: "make", Timeout: -1}, malformed, "op.timeout"},
	})
}

func TestGuardSpace(t *testing.T) {
	space := func(n int64) grant.Operation { return grant.Operation{Kind: grant.OpTmpAlloc, Bytes: n} }
	judged(t, []judgement{
		{"all", space(1 << 20), "", ""},
		{"too much", space(1<<20 + 1), noGrant, "grant.capabilities"},
		{"none", space(0), malformed, "op.bytes"},
		{"less", space(-1), malformed, "op.bytes"},
	})
	g, m, p := aGrant(), aManifest(), aPolicy()
	for _, list := range [][]grant.Capability{g.Capabilities, m.Capabilities, p.Capabilities} {
		list[9].Bytes = 0
	}
	p.Limits.MaxTmpBytes = 100
	guard := guarded(t, g, m, p)
	refused(t, guard.Validate(space(100), now()), "", "")
	refused(t, guard.Validate(space(101), now()), isBlocked, "profile.limits.maxTmpBytes")
}

// TestGuardState checks what depends on more than the operation.
func TestGuardState(t *testing.T) {
	guard := guarded(t, aGrant(), aManifest(), aPolicy())
	write := grant.Operation{Kind: grant.OpFsWrite, Path: "/workspace/out/a"}
	read := grant.Operation{Kind: grant.OpFsRead, Path: "/workspace/a"}
	nav := grant.Operation{Kind: grant.OpBrowserNav, URL: "about:blank"}
	tests := []struct {
		name   string
		change func(*grant.State)
		op     grant.Operation
		code   sandbox.Code
		field  string
	}{
		{"no time", func(s *grant.State) { s.Now = time.Time{} }, read, sandbox.CodeInternal, "state.now"},
		{"last moment", func(s *grant.State) { s.Now = noon().Add(30*time.Minute - 1) }, read, "", ""},
		{"consent expired", func(s *grant.State) { s.Now = noon().Add(30 * time.Minute) }, read, noGrant, "grant.consent"},
		{"expired", func(s *grant.State) { s.Now = noon().Add(time.Hour) }, read, noGrant, "grant.expires"},
		{"revoked", func(s *grant.State) { s.Revoked = true }, read, noGrant, "grant.revoked"},
		{"decision of another call", func(s *grant.State) { s.KeyUsedBy = "call-2" }, read, noGrant, "grant.decisionKeyFingerprint"},
		{"decision of this call", func(s *grant.State) { s.KeyUsedBy = "call-1" }, read, "", ""},
		{"one more at a time", func(s *grant.State) { s.Running = 1 }, read, "", ""},
		{"too many at a time", func(s *grant.State) { s.Running = 2 }, read, sandbox.CodeBudgetExceeded, "profile.limits.maxConcurrency"},
		{"last file", func(s *grant.State) { s.Files = 2 }, write, "", ""},
		{"one file too many", func(s *grant.State) { s.Files = 3 }, write, isBlocked, "profile.limits.maxFiles"},
		{"files do not count for reading", func(s *grant.State) { s.Files = 3 }, read, "", ""},
		{"last page", func(s *grant.State) { s.Depth = 3 }, nav, "", ""},
		{"one page too many", func(s *grant.State) { s.Depth = 4 }, nav, isBlocked, "profile.limits.maxDepth"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := now()
			tt.change(&s)
			err := guard.Validate(tt.op, s)
			refused(t, err, tt.code, tt.field)
			if retry := err != nil && err.(*sandbox.Error).Retryable; retry != (tt.code == sandbox.CodeBudgetExceeded) {
				t.Errorf("retryable is %v", retry)
			}
		})
	}
	p := guard.Profile()
	_, err := grant.Compile(p)
	refused(t, err, "", "")
	p.Tool = "other"
	_, err = grant.Compile(p)
	refused(t, err, malformed, "profile.profileHash")
}

// TestGuardConsent checks that operations need a consent by what they do, when
// the profile as such needed none.
func TestGuardConsent(t *testing.T) {
	g, m, p := aGrant(), aManifest(), aPolicy()
	g.Consent, m.SideEffects = nil, nil
	g.Capabilities = []grant.Capability{{Kind: grant.FSRead, Path: "/workspace"}}
	guard := guarded(t, g, m, p)
	refused(t, guard.Validate(grant.Operation{Kind: grant.OpFsRead, Path: "/workspace/a"}, now()), "", "")

	// A profile that came from elsewhere and hides its side effects gets no
	// further with it.
	profile := built(t, aGrant(), m, p)
	profile.SideEffects = []grant.SideEffect{}
	profile.Hash = profile.Sum()
	guard, err := grant.Compile(profile)
	if err != nil {
		t.Fatal(err)
	}
	late := grant.State{Now: noon().Add(40 * time.Minute)} // after the consent, within the grant
	refused(t, guard.Validate(grant.Operation{Kind: grant.OpFsRead, Path: "/workspace/a"}, late), "", "")
	for kind, op := range map[string]grant.Operation{
		"write": {Kind: grant.OpFsWrite, Path: "/workspace/out/a"},
		"run":   {Kind: grant.OpProcExec, Tool: "make"},
		"click": {Kind: grant.OpBrowserClick, Selector: "a"},
	} {
		t.Run(kind, func(t *testing.T) {
			refused(t, guard.Validate(op, now()), "", "")
			refused(t, guard.Validate(op, late), noGrant, "grant.consent")
		})
	}
}

// TestVettedIsOurs checks that later changes by the caller do not change what
// was judged.
func TestVettedIsOurs(t *testing.T) {
	guard := guarded(t, aGrant(), aManifest(), aPolicy())
	run := grant.Operation{Kind: grant.OpProcExec, Tool: "git", Args: []string{"log"}}
	get := request("GET", "https://api.example.com/")
	get.Header = map[string]string{"Accept": "a"}
	ran, err := guard.Check(run, now())
	if err != nil {
		t.Fatal(err)
	}
	got, err := guard.Check(get, now())
	if err != nil {
		t.Fatal(err)
	}
	run.Args[0], get.Header["Host"] = "push", "evil.test"
	if ran.Args[0] != "log" || len(got.Header) != 1 {
		t.Errorf("%v %v", ran.Args, got.Header)
	}
}
