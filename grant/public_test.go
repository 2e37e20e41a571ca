package grant_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/grant"
)

// TestTableOfCodes checks the rows of the table of codes that concern this
// package: the fault, the code, its status, and the contents of each view.
func TestTableOfCodes(t *testing.T) {
	guard := guarded(t, aGrant(), aManifest(), aPolicy())
	check := func(op grant.Operation) error { return guard.Validate(op, now()) }
	at := func(change func(*grant.State)) error {
		s := now()
		change(&s)
		return guard.Validate(grant.Operation{Kind: grant.OpFsRead, Path: "/workspace/a"}, s)
	}
	build := func(change func(*grant.Grant, *grant.Manifest)) error {
		g, m := aGrant(), aManifest()
		change(&g, &m)
		_, err := grant.Build(g, m, aPolicy(), noon())
		return err
	}
	tests := []struct {
		row    string
		err    error
		code   sandbox.Code
		status int
		tells  string // of the record: the rule or the resource
		hides  string // of the public view
	}{
		{"capability not granted", check(grant.Operation{Kind: grant.OpFsWrite, Path: "/workspace/key.pem"}), noGrant, 403, "/workspace/key.pem", "key.pem"},
		{"host not granted", check(request("GET", "https://internal.corp.test/x")), noGrant, 403, "internal.corp.test", "corp"},
		{"grant missing", build(func(g *grant.Grant, _ *grant.Manifest) { *g = grant.Grant{} }), noGrant, 403, "grant", "grant.id"},
		{"grant expired", at(func(s *grant.State) { s.Now = noon().Add(2 * time.Hour) }), noGrant, 403, "grant.expires", "g-1"},
		{"grant revoked", at(func(s *grant.State) { s.Revoked = true }), noGrant, 403, "grant.revoked", "g-1"},
		{"decision used twice", at(func(s *grant.State) { s.KeyUsedBy = "call-9" }), noGrant, 403, "decisionKey", "call-9"},
		{"no consent", build(func(g *grant.Grant, _ *grant.Manifest) { g.Consent = nil }), noGrant, 403, "grant.consent", "alice"},
		{"manifest of another tool", build(func(_ *grant.Grant, m *grant.Manifest) { m.Tool = "secret-tool" }), noTool, 403, "manifest.tool", "builder"},
		{"arguments", check(grant.Operation{Kind: grant.OpProcExec, Tool: "git", Args: []string{"clone", "https://token@host"}}), noTool, 403, "manifest.commands", "token"},
		{"path denied", check(grant.Operation{Kind: grant.OpFsRead, Path: "/workspace/secret/key"}), isBlocked, 403, "policy.denied.paths[0]", "secret"},
		{"path that leads back", check(grant.Operation{Kind: grant.OpFsRead, Path: "/workspace/../etc/shadow"}), isBlocked, 403, "/workspace/../etc/shadow", "shadow"},
		{"out of bounds", check(grant.Operation{Kind: grant.OpFsRead, Path: "/etc/shadow"}), isBlocked, 403, "policy.mappings", "shadow"},
		{"size", check(grant.Operation{Kind: grant.OpFsRead, Path: "/workspace/a", Length: 1 << 40}), isBlocked, 403, "maxBytesIn", "workspace"},
		{"type", guard.ValidateMIME("application/x-secret"), isBlocked, 403, "x-secret", "x-secret"},
		{"host denied", check(request("GET", "https://bad.cdn.example.com/")), isBlocked, 403, "bad.cdn.example.com", "cdn"},
		{"malformed operation", check(grant.Operation{Kind: grant.OpNetHTTP, Method: "GET", URL: "https://u:pass@h.test"}), malformed, 422, "op.url", "pass"},
		{"malformed grant", build(func(g *grant.Grant, _ *grant.Manifest) { g.Capabilities[4].Host = "a b.secret.test" }), malformed, 422, "grant.capabilities[4].host", "secret"},
		{"too many at once", at(func(s *grant.State) { s.Running = 99 }), sandbox.CodeBudgetExceeded, 429, "maxConcurrency", "builder"},
		{"nobody said when", at(func(s *grant.State) { s.Now = time.Time{} }), sandbox.CodeInternal, 500, "state.now", "state"},
	}
	for _, tt := range tests {
		t.Run(tt.row, func(t *testing.T) {
			public, audit := grant.Public(tt.err), grant.Audit(tt.err)
			if public.Code != tt.code || audit.Code != tt.code || public.Status != tt.status || public.Message == "" {
				t.Errorf("%v: %+v, %+v", tt.err, public, audit)
			}
			if text := written(t, audit); !strings.Contains(text, tt.tells) {
				t.Errorf("the record does not tell %q: %s", tt.tells, text)
			}
			if text := written(t, public); strings.Contains(text, tt.hides) {
				t.Errorf("the public view tells %q: %s", tt.hides, text)
			}
			if audit.Rule == "" || audit.Hint == "" && tt.code != sandbox.CodeInternal && tt.row != "type" && tt.code != malformed {
				t.Errorf("no rule or no hint: %+v", audit)
			}
		})
	}
}

func TestPublic(t *testing.T) {
	deep := fmt.Errorf("around: %w", &sandbox.Error{
		Code: sandbox.CodeValidation, Field: "op.args[3]", Resource: "/secret", Message: "secret", Hint: "secret", Err: errors.New("secret"),
	})
	if got := grant.Public(deep); got.Field != "op.args[3]" || strings.Contains(written(t, got), "secret") {
		t.Errorf("%+v", got)
	}
	if got := grant.Audit(deep); got.Rule != "op.args[3]" || got.Resource != "/secret" || got.Cause != "around: secret" {
		t.Errorf("%+v", got)
	}
	// Fields that others filled with what they read are not shown.
	for _, field := range []string{"example.com", "op.header[Secret]", "docker.env.SECRET", "policy.lists.domains[1]", "network.allowedDomains[2]: *.secret.test", "op.a.b.c.d.e", "op./etc"} {
		if got := grant.Public(&sandbox.Error{Code: sandbox.CodeValidation, Field: field}); got.Field != "" {
			t.Errorf("%q is shown", field)
		}
	}
	// Nor is a field where nothing is malformed.
	if got := grant.Public(&sandbox.Error{Code: sandbox.CodePermissionDeny, Field: "grant.consent"}); got.Field != "" {
		t.Errorf("%+v", got)
	}
	if got := grant.Public(errors.New("secret")); got.Code != sandbox.CodeInternal || got.Status != 500 || strings.Contains(written(t, got), "secret") {
		t.Errorf("%+v", got)
	}
	if got := grant.Public(&sandbox.Error{Code: "secret", Message: "secret"}); got.Code != sandbox.CodeInternal {
		t.Errorf("%+v", got)
	}
	if got := grant.Audit(errors.New("what it was")); got.Code != sandbox.CodeInternal || got.Message != "what it was" {
		t.Errorf("%+v", got)
	}
	if grant.Public(nil) != (grant.PublicView{}) || grant.Audit(nil) != (grant.AuditView{}) {
		t.Error("no error has a view")
	}
	if !grant.Public(&sandbox.Error{Code: sandbox.CodeUnavailable, Retryable: true}).Retryable {
		t.Error("that it may succeed later is not told")
	}
}

func written(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
