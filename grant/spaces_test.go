package grant_test

import (
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/grant"
)

// TestSpaces checks that a call may use the temporary space that it was allotted
// without another capability, and nothing beside it.
func TestSpaces(t *testing.T) {
	g := aGrant()
	g.Capabilities = []grant.Capability{{Kind: grant.Temp, Bytes: 1 << 20}}
	guard, err := grant.Compile(built(t, g, aManifest(), aPolicy()))
	if err != nil {
		t.Fatal(err)
	}
	state := now()
	state.Spaces = []string{"/tmp/call/sbx-1", "/tmp/call", "/workspace/out", "/"}
	for _, tt := range []struct {
		kind grant.OpKind
		path string
		code sandbox.Code
	}{
		{grant.OpFsWrite, "/tmp/call/sbx-1/a", ""},
		{grant.OpFsRead, "/tmp/call/sbx-1/a/b", ""},
		{grant.OpFsList, "/tmp/call/sbx-1", ""},
		{grant.OpFsWrite, "/tmp/call/sbx-10", sandbox.CodePermissionDeny},
		{grant.OpFsRead, "/tmp/call/other", sandbox.CodePermissionDeny},
		{grant.OpFsWrite, "/tmp/call", sandbox.CodePermissionDeny},
		{grant.OpFsWrite, "/workspace/out/a", sandbox.CodePermissionDeny},
		{grant.OpFsWrite, "/tmp/call/sbx-1/../x", sandbox.CodeCapabilityBlocked},
		{grant.OpFsRead, "/etc/hosts", sandbox.CodeCapabilityBlocked},
	} {
		v, err := guard.Check(grant.Operation{Kind: tt.kind, Path: tt.path}, state)
		if sandbox.CodeOf(err) != tt.code {
			t.Errorf("%s %s: %v, want %q", tt.kind, tt.path, err, tt.code)
		}
		if err == nil && v.Capability == "" {
			t.Errorf("%s %s: nothing says what was used", tt.kind, tt.path)
		}
	}
	state.Spaces = nil
	if err := guard.Validate(grant.Operation{Kind: grant.OpFsRead, Path: "/tmp/call/sbx-1/a"}, state); sandbox.CodeOf(err) != sandbox.CodePermissionDeny {
		t.Errorf("without an allotment: %v", err)
	}
}
