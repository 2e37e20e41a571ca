package store_test

import (
	"context"
	"fmt"
	"os"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/policy"
	"github.com/bulkhead-dev/sandbox/violation/store"
)

func ExampleStore() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	s, err := store.Open(dir, store.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()

	ctx := context.Background()
	m := store.Meta{Tenant: "acme", Agent: "main", Session: "chat-42", Command: "cat ~/.ssh/id_ed25519"}
	denied := sandbox.Violation{Kind: sandbox.ResourcePath, Operation: sandbox.OpRead, Resource: "/root/.ssh", Builtin: true}
	again := denied
	if err := s.Append(ctx, store.FromWall(denied, m), store.FromWall(again, m)); err != nil {
		fmt.Println(err)
	}
	for r, err := range s.Query(ctx, store.Filter{Tenant: "acme", MinSeverity: policy.High, Limit: 10}) {
		fmt.Println(r.Type, r.Severity, r.Op, r.Resource, r.Count, err)
	}
	// Output: wall_path high read /root/.ssh 2 <nil>
}
