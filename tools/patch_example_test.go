package tools

import (
	"fmt"
	"io/fs"
)

func Example_patch() {
	p, err := parsePatch([]byte(`*** Begin Patch
*** Update File: main.go
*** Move to: cmd/main.go
@@ func main() {
-	run(1)
+	run(2)
*** Delete File: old.go
*** End Patch
`), "/workspace")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(p.Paths())
	files := map[string]string{"/workspace/main.go": "func main() {\n\trun(1)\n}\n", "/workspace/old.go": ""}
	r, err := p.Apply(readerFunc(func(path string) ([]byte, error) {
		text, ok := files[path]
		if !ok {
			return nil, fs.ErrNotExist
		}
		return []byte(text), nil
	}))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, c := range r.Changes {
		fmt.Printf("%s %s %q\n", c.Action, c.Path, c.Data)
	}
	fmt.Println("to remove:", r.Removed())
	// Output:
	// [/workspace/main.go /workspace/cmd/main.go /workspace/old.go]
	// rename /workspace/cmd/main.go "func main() {\n\trun(2)\n}\n"
	// delete /workspace/old.go ""
	// to remove: [/workspace/main.go /workspace/old.go]
}
