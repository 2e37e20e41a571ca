package change_test

import (
	"context"
	"fmt"
	"os"

	"github.com/bulkhead-dev/sandbox/fsbridge/hostdir"
	"github.com/bulkhead-dev/sandbox/tools/change"
)

func ExampleApply() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	root, err := os.OpenRoot(dir)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer root.Close()
	ctx, files := context.Background(), hostdir.New(root, dir)
	fmt.Println(change.Apply(ctx, files, []change.File{{Path: "a", After: &change.Content{Data: []byte("one\n")}}}))
	// Whoever thinks that there is no file yet changes nothing.
	err = change.Apply(ctx, files, []change.File{{Path: "a", After: &change.Content{Data: []byte("two\n")}}})
	fmt.Println(err)
	text, _ := root.ReadFile("a")
	fmt.Printf("%s", text)
	// Output:
	// <nil>
	// SANDBOX.BUSY: change: a has changed since it was read (read it again)
	// one
}
