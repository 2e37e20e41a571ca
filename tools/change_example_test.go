package tools

import (
	"context"
	"fmt"
	"os"

	"github.com/bulkhead-dev/sandbox/fsbridge"
)

func Example_apply() {
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
	ctx, files := context.Background(), fsbridge.NewHostFiles(root, dir)
	fmt.Println(applyChange(ctx, files, []changeFile{{Path: "a", After: &changeContent{Data: []byte("one\n")}}}))
	// Whoever thinks that there is no file yet changes nothing.
	err = applyChange(ctx, files, []changeFile{{Path: "a", After: &changeContent{Data: []byte("two\n")}}})
	fmt.Println(err)
	text, _ := root.ReadFile("a")
	fmt.Printf("%s", text)
	// Output:
	// <nil>
	// SANDBOX.BUSY: change: a has changed since it was read (read it again)
	// one
}
