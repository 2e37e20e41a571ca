package grant_test

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/grant"
)

// operation returns what a probe is wanted for.
func (p probe) operation() (op grant.Operation, ok bool) {
	switch p.kind {
	case grant.FSRead: // "/" ends in a slash, so that it is no file
		return grant.Operation{Kind: grant.OpFsRead, Path: p.path}, p.path != "/"
	case grant.FSWrite:
		return grant.Operation{Kind: grant.OpFsWrite, Path: p.path}, p.path != "/"
	case grant.FSList:
		return grant.Operation{Kind: grant.OpFsList, Path: p.path}, true
	case grant.NetHTTP:
		return request(p.word, p.scheme+"://"+net.JoinHostPort(p.host, strconv.Itoa(p.port))+"/"), true
	case grant.Process:
		return grant.Operation{Kind: grant.OpProcExec, Tool: p.name}, true
	case grant.Temp:
		return grant.Operation{Kind: grant.OpTmpAlloc, Bytes: p.bytes}, true
	case grant.Browser:
		kind, ok := map[string]grant.OpKind{"extract": grant.OpBrowserExtract, "click": grant.OpBrowserClick, "type": grant.OpBrowserType}[p.word]
		op := grant.Operation{Kind: kind}
		if kind != grant.OpBrowserExtract {
			op.Selector = "a"
		}
		return op, ok
	}
	return grant.Operation{}, false
}

// TestNeverWhatOneForbids checks random parties against every operation of a
// small world: a guard lets pass exactly what grant, manifest and policy each
// allow, in the folders of the mappings, and of a refusal it says which of the
// three it was that lacks it.
func TestNeverWhatOneForbids(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 3))
	all := universe()
	passed, refusals := 0, map[sandbox.Code]int{}
	for n := range rounds(400) {
		g, m, p := aGrant(), aManifest(), aPolicy()
		g.Capabilities, m.Capabilities, p.Capabilities = randomList(r), randomList(r), randomList(r)
		if n%4 != 0 { // most of the time two of them allow much, so that enough passes
			m.Capabilities = append(m.Capabilities, g.Capabilities...)
			p.Capabilities = append(p.Capabilities, g.Capabilities...)
		}
		m.Commands, p.Commands, p.Lists, p.Denied = nil, nil, grant.Lists{}, grant.Denied{}
		p.Mappings = grant.Mappings{Root: "/a", Tmp: "/b"}
		guard := guarded(t, g, m, p)
		for _, probe := range all {
			op, ok := probe.operation()
			if !ok {
				continue
			}
			want := expected(probe, g, m, p)
			if got := sandbox.CodeOf(guard.Validate(op, now())); got != want {
				t.Fatalf("round %d: %+v: %q, want %q\ngrant %+v\nmanifest %+v\npolicy %+v", n, op, got, want, g.Capabilities, m.Capabilities, p.Capabilities)
			}
			if refusals[want]++; want == "" {
				passed++
			}
		}
	}
	for _, code := range []sandbox.Code{"", noGrant, noTool, isBlocked} {
		if refusals[code] < rounds(500) {
			t.Errorf("only %d of %v have been seen: the test does not try enough", refusals[code], fmt.Sprintf("%q", code))
		}
	}
}

// expected is what the oracle says of a probe.
func expected(p probe, g grant.Grant, m grant.Manifest, o grant.Policy) sandbox.Code {
	fs := []grant.Capability{{Kind: p.kind, Path: "/a"}, {Kind: p.kind, Path: "/b"}}
	switch {
	case p.path != "" && !allows(fs, p):
		return isBlocked
	case !allows(g.Capabilities, p):
		return noGrant
	case !allows(m.Capabilities, p):
		return noTool
	case !allows(o.Capabilities, p) && p.kind == grant.Process:
		return noTool
	case !allows(o.Capabilities, p):
		return isBlocked
	}
	return ""
}

// TestLists checks what lists do to operations that the capabilities allow.
func TestLists(t *testing.T) {
	get := request("GET", "https://api.example.com/")
	plain := request("GET", "http://x.cdn.example.com/a")
	read := grant.Operation{Kind: grant.OpFsRead, Path: "/workspace/a"}
	make := grant.Operation{Kind: grant.OpProcExec, Tool: "make"}
	tests := []struct {
		name   string
		change func(*grant.Policy)
		op     grant.Operation
		code   sandbox.Code
		field  string
	}{
		{"no list of domains", func(p *grant.Policy) { p.Lists.Domains = nil }, get, "", ""},
		{"empty list of domains", func(p *grant.Policy) { p.Lists.Domains = []string{} }, get, isBlocked, "policy.lists.domains"},
		{"other domains", func(p *grant.Policy) { p.Lists.Domains = []string{"*.api.example.com", "example.com"} }, get, isBlocked, "policy.lists.domains"},
		{"any domain", func(p *grant.Policy) { p.Lists.Domains = []string{"*"} }, get, "", ""},
		{"domain in plain only", func(p *grant.Policy) { p.Lists.Domains = []string{"http://api.example.com"} }, get, isBlocked, "policy.lists.domains"},
		{"domain at another port", func(p *grant.Policy) { p.Lists.Domains = []string{"api.example.com:8443"} }, get, isBlocked, "policy.lists.domains"},
		{"path of a domain", func(p *grant.Policy) { p.Lists.Domains = []string{"http://x.cdn.example.com/a"} }, plain, "", ""},
		{"another path of a domain", func(p *grant.Policy) { p.Lists.Domains = []string{"http://x.cdn.example.com/b"} }, plain, isBlocked, "policy.lists.domains"},
		{"denied without a list", func(p *grant.Policy) { p.Lists.Domains, p.Denied.Domains = nil, []string{"*.example.com"} }, get, isBlocked, "policy.denied.domains"},
		{"denied and listed", func(p *grant.Policy) { p.Denied.Domains = []string{"api.example.com"} }, get, isBlocked, "policy.denied.domains"},
		{"no list of methods", func(p *grant.Policy) { p.Lists.Methods = nil }, get, "", ""},
		{"any method", func(p *grant.Policy) { p.Lists.Methods = []string{"*"} }, get, "", ""},
		{"other methods", func(p *grant.Policy) { p.Lists.Methods = []string{"POST"} }, get, isBlocked, "policy.lists.methods"},
		{"empty list of methods", func(p *grant.Policy) { p.Lists.Methods = []string{} }, get, isBlocked, "policy.lists.methods"},
		{"no list of paths", func(p *grant.Policy) { p.Lists.Paths = nil }, read, "", ""},
		{"other paths", func(p *grant.Policy) { p.Lists.Paths = []string{"/workspace/b", "/workspace/a/b"} }, read, isBlocked, "policy.lists.paths"},
		{"empty list of paths", func(p *grant.Policy) { p.Lists.Paths = []string{} }, read, isBlocked, "policy.lists.paths"},
		{"no list of programs", func(p *grant.Policy) { p.Lists.Tools = nil }, make, "", ""},
		{"other programs", func(p *grant.Policy) { p.Lists.Tools = []string{"git"} }, make, noTool, "policy.lists.tools"},
		{"empty list of programs", func(p *grant.Policy) { p.Lists.Tools = []string{} }, make, noTool, "policy.lists.tools"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := aPolicy()
			tt.change(&p)
			refused(t, guarded(t, aGrant(), aManifest(), p).Validate(tt.op, now()), tt.code, tt.field)
		})
	}
}

// TestWhoLacks checks that a refusal names the source that lacks a permission,
// the grant first.
func TestWhoLacks(t *testing.T) {
	only := []grant.Capability{{Kind: grant.FSRead, Path: "/workspace"}, {Kind: grant.FSRead, Path: "/tmp/call"}}
	ops := []grant.Operation{
		{Kind: grant.OpFsWrite, Path: "/workspace/out/a"}, request("GET", "https://api.example.com/"),
		{Kind: grant.OpBrowserExtract}, {Kind: grant.OpTmpAlloc, Bytes: 1}, {Kind: grant.OpProcExec, Tool: "make"},
	}
	for _, op := range ops {
		for who, want := range map[string]sandbox.Code{"grant": noGrant, "manifest": noTool, "policy": isBlocked} {
			g, m, p := aGrant(), aManifest(), aPolicy()
			switch who {
			case "grant":
				g.Capabilities = nil
				m.Capabilities = only
			case "manifest":
				m.Capabilities, p.Capabilities = nil, only
			default:
				if p.Capabilities = only; op.Kind == grant.OpProcExec {
					want = noTool
				}
			}
			err := guarded(t, g, m, p).Validate(op, now())
			refused(t, err, want, who+".capabilities")
		}
	}
}
