package operation_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/grant/budget"
	"github.com/bulkhead-dev/sandbox/grant/store"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// A row is one way to fail, with the expected error.
type row struct {
	name    string
	provoke func(*rig) error
	code    sandbox.Code

	rule      string // of the record; empty is none
	resource  string // part of it; empty is none
	cause     string // part of it; empty is any
	retryable bool
}

// status is that of HTTP for each code.
func status() map[sandbox.Code]int {
	return map[sandbox.Code]int{
		sandbox.CodePermissionDeny: 403, sandbox.CodeDenyTool: 403, sandbox.CodeCapabilityBlocked: 403,
		sandbox.CodeNotFound: 404, sandbox.CodeBusy: 409, sandbox.CodeValidation: 422, sandbox.CodeBudgetExceeded: 429,
		sandbox.CodeExecution: 500, sandbox.CodeInternal: 500, sandbox.CodeUnsupported: 501, sandbox.CodeUnavailable: 503, sandbox.CodeTimeout: 504,
	}
}

// TestTable provokes every row of the table of codes with the parts that an
// operation passes, and checks both views of the error: the caller's, and the
// administrator's.
func TestTable(t *testing.T) {
	r := newRig(t)
	for _, w := range slices.Concat(denials(), blocks(), amounts(), failures()) {
		t.Run(string(w.code)+"/"+w.name, func(t *testing.T) {
			r.t, r.budget, r.policy, r.ctx = t, budget.NoBound(), nil, t.Context()
			w.holds(t, w.provoke(r))
		})
	}
}

// holds checks the two views.
func (w *row) holds(t *testing.T, err error) {
	t.Helper()
	public, audit := grant.Public(err), grant.Audit(err)
	if public.Code != w.code || audit.Code != w.code || public.Status != status()[w.code] || public.Retryable != w.retryable {
		t.Errorf("%v is shown as %+v and kept as %+v", err, public, audit)
	}
	shown, jsonErr := json.Marshal(public)
	must(t, jsonErr)
	for _, part := range []string{canary, secret, "/", ".test", "127.0.0.1", "g-"} {
		if strings.Contains(string(shown), part) {
			t.Errorf("%q is shown: %s", part, shown)
		}
	}
	kept, jsonErr := json.Marshal(audit)
	must(t, jsonErr)
	if strings.Contains(string(kept), secret) || strings.Contains(err.Error(), secret) {
		t.Errorf("a content is kept: %s, %v", kept, err)
	}
	switch {
	case public.Message == "", audit.Message == "":
		t.Errorf("a view says nothing: %+v, %+v", public, audit)
	case audit.Rule != w.rule:
		t.Errorf("by %q, want %q: %v", audit.Rule, w.rule, err)
	case !strings.Contains(audit.Resource, w.resource) || w.resource == "" && audit.Resource != "":
		t.Errorf("about %q, want %q: %v", audit.Resource, w.resource, err)
	case !strings.Contains(audit.Cause, w.cause):
		t.Errorf("because of %q, want %q: %v", audit.Cause, w.cause, err)
	}
}

// read, write, ask and exec are operations.
func read(path string) grant.Operation { return grant.Operation{Kind: grant.OpFsRead, Path: path} }

func write(path string) grant.Operation {
	return grant.Operation{Kind: grant.OpFsWrite, Path: path, Data: []byte(secret)}
}

func ask(url string) grant.Operation {
	return grant.Operation{Kind: grant.OpNetHTTP, Method: "GET", URL: url, Header: map[string]string{"Authorization": secret}}
}

func exec(tool string, args ...string) grant.Operation {
	return grant.Operation{Kind: grant.OpProcExec, Tool: tool, Args: args}
}

// runs is a row's operation, with nothing unusual about it.
func runs(op grant.Operation) func(*rig) error {
	return func(r *rig) error { return r.run(op) }
}

// builds makes a profile of changed parties.
func builds(change func(*grant.Grant, *grant.Manifest)) func(*rig) error {
	return func(*rig) error {
		g, m := aGrant(budget.NoBound()), aManifest()
		change(&g, &m)
		_, err := grant.Build(g, m, aPolicy(), time.Now())
		return err
	}
}

// stands has the guard judge an operation in a changed state.
func stands(change func(*grant.State)) func(*rig) error {
	return func(r *rig) error {
		s := grant.State{Now: time.Now()}
		change(&s)
		return r.guard().Validate(read(inWorkspace("there")), s)
	}
}

// revoked is what a revocation says, before an operation or while it runs.
func revoked(while bool) func(*rig) error {
	return func(r *rig) error {
		var memory store.Memory
		g := aGrant(budget.NoBound())
		if !while {
			must(r.t, memory.Revoke(store.Name(g.Tenant, g.ID), g.Expires))
			return store.Check(&memory, g, time.Now())
		}
		ctx, done := store.Context(r.ctx, &memory, g)
		defer done()
		timer := time.AfterFunc(20*time.Millisecond, func() { _ = memory.Revoke(store.Name(g.Tenant, g.ID), g.Expires) }) // whether it runs by then makes no difference
		defer timer.Stop()
		r.ctx = ctx
		return r.run(exec("burn"))
	}
}

func denials() []row {
	const code, tool = sandbox.CodePermissionDeny, sandbox.CodeDenyTool
	return []row{
		{name: "no grant", provoke: builds(func(g *grant.Grant, _ *grant.Manifest) { *g = grant.Grant{} }), code: code, rule: "grant"},
		{name: "not granted", provoke: runs(ask("https://" + canary + ".example/")), code: code, rule: "grant.capabilities", resource: canary},
		{name: "expired", provoke: stands(func(s *grant.State) { s.Now = s.Now.Add(2 * time.Hour) }), code: code, rule: "grant.expires", resource: canary},
		{name: "revoked", provoke: revoked(false), code: code, rule: "id", resource: canary},
		{name: "revoked while it runs", provoke: revoked(true), code: code, rule: "id", resource: canary},
		{name: "revoked, as the guard sees it", provoke: stands(func(s *grant.State) { s.Revoked = true }), code: code, rule: "grant.revoked", resource: canary},
		{name: "decision used before", provoke: stands(func(s *grant.State) { s.KeyUsedBy = "other" }), code: code, rule: "grant.decisionKeyFingerprint", resource: canary},
		{name: "no consent", provoke: builds(func(g *grant.Grant, _ *grant.Manifest) { g.Consent = nil }), code: code, rule: "grant.consent", resource: ""},
		{name: "a redirect that is not granted", provoke: func(r *rig) error { return r.run(ask(r.at("away"))) }, code: code, rule: "grant.capabilities", resource: canary},

		{name: "manifest of another tool", provoke: builds(func(_ *grant.Grant, m *grant.Manifest) { m.Tool = "other-" + canary }), code: tool, rule: "manifest.tool", resource: canary},
		{name: "not in the manifest", provoke: func(r *rig) error {
			m := aManifest()
			m.Capabilities = m.Capabilities[1:]
			p, err := grant.Build(aGrant(budget.NoBound()), m, aPolicy(), time.Now())
			must(r.t, err)
			guard, err := grant.Compile(p)
			must(r.t, err)
			return guard.Validate(read(inWorkspace("there")), grant.State{Now: time.Now()})
		}, code: tool, rule: "manifest.capabilities", resource: canary},
		{name: "argument", provoke: runs(exec("echo", secret)), code: tool, rule: "manifest.commands", resource: "echo"},
		{name: "program not listed", provoke: func(r *rig) error {
			r.policy = func(p *grant.Policy) { p.Lists.Tools = []string{"echo"} }
			return r.run(exec("burn"))
		}, code: tool, rule: "policy.lists.tools", resource: "burn"},
	}
}

func blocks() []row {
	const code = sandbox.CodeCapabilityBlocked
	named := func(method string) func(*rig) error {
		return func(r *rig) error {
			op := ask(r.at("page"))
			op.Method = method
			return r.run(op)
		}
	}
	return []row{
		{name: "denied path", provoke: runs(write(inWorkspace("denied/x"))), code: code, rule: "policy.denied.paths[0]", resource: canary},
		{name: "path that leads back", provoke: runs(read(inWorkspace("../../etc/shadow"))), code: code, rule: "op.path", resource: canary},
		{name: "path beyond all folders", provoke: runs(read("/etc/" + canary)), code: code, rule: "policy.mappings", resource: canary},
		{name: "link", provoke: runs(read(inWorkspace("link"))), code: code, rule: "path", resource: canary},
		{name: "size of a file", provoke: runs(read(inWorkspace("large"))), code: code, rule: "profile.limits.maxBytesIn", resource: canary},
		{name: "size of what is written", provoke: func(r *rig) error {
			op := write(inWorkspace("new"))
			op.Data = make([]byte, 1001)
			return r.run(op)
		}, code: code, rule: "profile.limits.maxBytesOut", resource: canary},
		{name: "method", provoke: named("DELETE"), code: code, rule: "policy.lists.methods", resource: canary},
		{name: "header", provoke: func(r *rig) error {
			op := ask(r.at("page"))
			op.Header["Proxy-Authorization"] = secret
			return r.run(op)
		}, code: code, rule: "op.header", resource: "Proxy-Authorization"},
		{name: "type of an answer", provoke: func(r *rig) error {
			r.policy = func(p *grant.Policy) { p.Lists.MIME = []string{"text/plain"} }
			return r.run(ask(r.at("page")))
		}, code: code, rule: "policy.lists.mime", resource: canary},
		{name: "host, by the proxy", provoke: func(r *rig) error { return r.run(ask(r.at("no"))) }, code: code, rule: "network.deniedDomains[0]: " + host("no"), resource: host("no")},
		{name: "address of a host", provoke: func(r *rig) error {
			r.net.Names.Set(host("metadata"), testenv.Reply{Addrs: []netip.Addr{netip.MustParseAddr("169.254.169.254")}})
			return r.run(ask(r.at("metadata")))
		}, code: code, rule: "address", resource: host("metadata")},
	}
}

func amounts() []row {
	const code = sandbox.CodeBudgetExceeded
	with := func(k budget.Kind, n int64, op func(*rig) grant.Operation) func(*rig) error {
		return func(r *rig) error {
			v := budget.Values(budget.NoBound())
			v[k] = n
			r.budget = budget.FromValues(v)
			return r.run(op(r))
		}
	}
	page := func(r *rig) grant.Operation { return ask(r.at("page")) }
	file := func(*rig) grant.Operation { return write(inWorkspace("new")) }
	return []row{
		{name: "calls", provoke: with(budget.Calls, 0, page), code: code, rule: "budget.calls", resource: canary},
		{name: "bytes in", provoke: with(budget.BytesIn, 3, page), code: code, rule: "budget.bytesIn", resource: canary},
		{name: "bytes out", provoke: with(budget.BytesOut, 3, file), code: code, rule: "budget.bytesOut", resource: canary},
		{name: "files", provoke: with(budget.Files, 0, file), code: code, rule: "budget.files", resource: canary},
		{name: "time", provoke: with(budget.WallMs, 20, func(*rig) grant.Operation { return exec("burn") }), code: code, rule: "budget.wallMs", resource: canary},
		{name: "at a time", provoke: stands(func(s *grant.State) { s.Running = 2 }), code: code, rule: "profile.limits.maxConcurrency", retryable: true},
	}
}

func failures() []row {
	return []row{
		{name: "settings that are no JSON", provoke: func(*rig) error {
			_, err := config.Parse(canary, []byte(`{"agents": `+canary))
			return err
		}, code: sandbox.CodeValidation, resource: canary},
		{name: "address", provoke: runs(ask("https://" + secret + ":" + secret + "@files.test/")), code: sandbox.CodeValidation, rule: "op.url"},
		{name: "field of another kind", provoke: runs(grant.Operation{Kind: grant.OpFsRead, Path: inWorkspace("there"), Text: secret}), code: sandbox.CodeValidation, rule: "op.text"},
		{name: "grant", provoke: builds(func(g *grant.Grant, _ *grant.Manifest) { g.Capabilities[3].Host = canary + " x" }), code: sandbox.CodeValidation, rule: "grant.capabilities[3].host"},
		{name: "a file that is there", provoke: runs(write(inWorkspace("there"))), code: sandbox.CodeValidation, rule: "op.overwrite", resource: canary, cause: "exist"},

		{name: "file", provoke: runs(read(inWorkspace("missing"))), code: sandbox.CodeNotFound, rule: "path", resource: canary},
		{name: "a second way out", provoke: func(r *rig) error {
			_, err := r.inside.Listen(r.ctx, "tcp", "127.0.0.1:0")
			return err
		}, code: sandbox.CodeBusy},
		{name: "what cannot be metered", provoke: func(r *rig) error {
			r.budget = budget.NoBound()
			r.budget.GPUMs = 5
			return r.run(exec("echo"))
		}, code: sandbox.CodeUnsupported, rule: "budget.gpuMs"},

		{name: "host that is down", provoke: func(r *rig) error {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			must(r.t, err)
			at := l.Addr().(*net.TCPAddr).Port
			must(r.t, l.Close())
			return r.run(ask("https://" + host("down") + ":" + strconv.Itoa(at) + "/"))
		}, code: sandbox.CodeUnavailable, resource: host("down"), retryable: true},
		{name: "host without TLS", provoke: func(r *rig) error {
			return r.run(ask("https://" + r.net.At("http", host("page"))))
		}, code: sandbox.CodeUnavailable, resource: host("page"), cause: "tls"},
		{name: "host that says nothing", provoke: func(r *rig) error {
			op := ask(r.at("stall"))
			op.Timeout = 20 * time.Millisecond
			return r.run(op)
		}, code: sandbox.CodeTimeout, rule: "op.timeout", retryable: true},
		{name: "who asked gave up", provoke: func(r *rig) error {
			ctx, cancel := context.WithCancel(r.ctx)
			cancel()
			_, err := r.do[grant.DomainNet].Execute(ctx, r.call(), r.vetted(ask(r.at("page"))))
			return err
		}, code: sandbox.CodeTimeout, cause: "canceled", retryable: true},

		{name: "answer that is none", provoke: func(r *rig) error { return r.run(ask(r.at("junk"))) }, code: sandbox.CodeExecution, resource: host("junk"), cause: "malformed HTTP response"},
		{name: "program that is not there", provoke: runs(exec("missing-" + canary)), code: sandbox.CodeExecution, rule: "args", resource: canary},
		{name: "what nobody expected", provoke: func(*rig) error { return fmt.Errorf("%s: %w", canary, errors.ErrUnsupported) }, code: sandbox.CodeInternal},
		{name: "with a cause", provoke: func(*rig) error {
			return &sandbox.Error{Code: sandbox.CodeInternal, Message: canary, Err: errors.New(canary)}
		}, code: sandbox.CodeInternal, cause: canary},
		{name: "the time is missing", provoke: stands(func(s *grant.State) { s.Now = time.Time{} }), code: sandbox.CodeInternal, rule: "state.now"},
	}
}
