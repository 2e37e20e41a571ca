package grant_test

import (
	"fmt"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/grant"
)

// A caller was granted the whole workspace for reading and one host; the tool
// declares less of the one, and the settings less of the other.
func Example() {
	day := time.Date(2030, 1, 1, 9, 0, 0, 0, time.UTC)
	net := func(host string, methods ...string) grant.Capability {
		return grant.Capability{Kind: grant.NetHTTP, Host: host, Scheme: "https", Methods: methods}
	}
	read := func(path string) grant.Capability { return grant.Capability{Kind: grant.FSRead, Path: path} }
	profile, err := grant.Build(
		grant.Grant{
			ID: "7f3a", Tenant: "acme", Subject: "alice", Tool: "digest", Call: "call-1", DecisionKey: "d1",
			Capabilities: []grant.Capability{read("/workspace"), net("api.example.com", "GET", "POST")},
			Issued:       day, Expires: day.Add(time.Hour),
		},
		grant.Manifest{
			Tool: "digest", Version: "1.0.0", Safety: grant.SafetyLow,
			Capabilities: []grant.Capability{read("/workspace/docs"), net("*.example.com", "*")},
		},
		grant.Policy{
			Version:      "3c9d",
			Capabilities: []grant.Capability{read("/workspace"), net("*.example.com", "GET", "HEAD")},
			Mappings:     grant.Mappings{Root: "/workspace", Tmp: "/tmp/sandbox"},
		}, day)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, c := range profile.Capabilities {
		fmt.Println(c.Kind, c.Path+c.Host, c.Methods)
	}
	guard, err := grant.Compile(profile)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, op := range []grant.Operation{
		{Kind: grant.OpFsRead, Path: "/workspace/docs/a.md"},
		{Kind: grant.OpFsRead, Path: "/workspace/src/a.go"},
		{Kind: grant.OpNetHTTP, Method: "POST", URL: "https://api.example.com/v1"},
		{Kind: grant.OpNetHTTP, Method: "GET", URL: "https://example.org/"},
	} {
		vetted, err := guard.Check(op, grant.State{Now: day})
		if err != nil {
			fmt.Println("refused:", sandbox.CodeOf(err), grant.Audit(err).Rule)
			continue
		}
		fmt.Println("allowed:", vetted.Capability)
	}
	// Output:
	// fs.read /workspace/docs []
	// net.http api.example.com [GET]
	// allowed: fs.read:/workspace/docs/a.md
	// refused: POLICY.DENY_TOOL manifest.capabilities
	// refused: SANDBOX.CAPABILITY_BLOCKED policy.capabilities
	// refused: SANDBOX.PERMISSION_DENY grant.capabilities
}
