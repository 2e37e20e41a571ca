package registry_test

import (
	"fmt"
	"os"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/registry"
)

func ExampleStore() {
	tmp, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(tmp)

	s, err := registry.Open(tmp)
	if err != nil {
		fmt.Println(err)
		return
	}
	made := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	err = s.Put(registry.Record{Name: "sbx-chat-42", Kind: sandbox.KindSandbox, CreatedAt: made, LastUsedAt: made})
	fmt.Println(err)
	err = s.Touch(sandbox.KindSandbox, "sbx-chat-42", made.Add(time.Hour))
	fmt.Println(err)
	r, err := s.Get(sandbox.KindSandbox, "sbx-chat-42")
	fmt.Println(r.LastUsedAt, err)
	// Output:
	// <nil>
	// <nil>
	// 2026-11-01 13:00:00 +0000 UTC <nil>
}
