package tools

import (
	"context"
	"fmt"
	"os"

	"github.com/bulkhead-dev/sandbox/fsbridge"
)

func Example_search() {
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
	if err := root.WriteFile("a.go", []byte("package a\n\nfunc main() {}\n"), 0o600); err != nil {
		fmt.Println(err)
		return
	}
	match, err := compileSearch(`func \w+\(`, false, false)
	if err != nil {
		fmt.Println(err)
		return
	}
	tally, err := runSearch(context.Background(), fsbridge.NewHostFiles(root, dir), searchQuery{Match: match, Root: ".", Glob: "*.go"}, func(l searchLine) bool {
		fmt.Printf("%s:%d: %s\n", l.Path, l.Number, l.Text)
		return true
	})
	fmt.Println(tally.Files, tally.Binary, err)
	// Output:
	// ./a.go:3: func main() {}
	// 1 0 <nil>
}
