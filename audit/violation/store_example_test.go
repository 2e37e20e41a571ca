package violation_test

import (
	"context"
	"fmt"
	"os"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/violation"
	"github.com/bulkhead-dev/sandbox/policy"
)

func ExampleStore() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	s, err := violation.Open(dir, violation.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()

	ctx := context.Background()
	m := violation.Meta{Tenant: "acme", Agent: "main", Session: "chat-42", Command: "cat ~/.ssh/id_ed25519"}
	denied := sandbox.Violation{Kind: sandbox.ResourcePath, Operation: sandbox.OpRead, Resource: "/root/.ssh", Builtin: true}
	again := denied
	if err := s.Append(ctx, violation.FromSandbox(denied, m), violation.FromSandbox(again, m)); err != nil {
		fmt.Println(err)
	}
	for r, err := range s.Query(ctx, violation.Filter{Tenant: "acme", MinSeverity: policy.High, Limit: 10}) {
		fmt.Println(r.Type, r.Severity, r.Op, r.Resource, r.Count, err)
	}
	// Output: wall_path high read /root/.ssh 2 <nil>
}
