package workspace_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/workspace"
)

func ExampleStore() {
	tmp, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(tmp)
	agent := filepath.Join(tmp, "agent")
	if err := os.MkdirAll(agent, 0o755); err != nil {
		fmt.Println(err)
		return
	}
	if err := os.WriteFile(filepath.Join(agent, "AGENTS.md"), []byte("Be brief.\n"), 0o644); err != nil {
		fmt.Println(err)
		return
	}

	ctx := context.Background()
	scope := sandbox.Owner{Instance: "0123456789abcdef", Scope: sandbox.ScopeSession, ScopeKey: "chat-42"}
	owner, err := workspace.OpenOwners(tmp).Claim("sbx-chat-42", scope)
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := workspace.Open(filepath.Join(tmp, "workspaces"))
	if err != nil {
		fmt.Println(err)
		return
	}
	path, err := s.Ensure(ctx, "sbx-chat-42", owner, 0)
	fmt.Println(filepath.Base(path), err)
	report, err := s.Seed(ctx, "sbx-chat-42", agent, owner)
	fmt.Println(report.Copied, err)
	fmt.Println(s.Remove(ctx, path))
	// Output:
	// sbx-chat-42 <nil>
	// [AGENTS.md] <nil>
	// <nil>
}
