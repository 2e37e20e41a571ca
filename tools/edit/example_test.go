package edit_test

import (
	"fmt"

	"github.com/bulkhead-dev/sandbox/tools/edit"
)

func ExampleApply() {
	text := []byte("func f() {\n\treturn 1\n}\n")
	r, err := edit.Apply(text, []edit.Edit{{Old: "return 1", New: "return 2"}})
	fmt.Printf("%s%d place in line %d, %v\n", r.Text, r.Changes[0].Places, r.Changes[0].Line, err)

	_, err = edit.Apply(text, []edit.Edit{{Old: "    return 1\n", New: "    return 2\n"}})
	fmt.Println(err)
	// Output:
	// func f() {
	// 	return 2
	// }
	// 1 place in line 2, <nil>
	// SCHEMA.VALIDATION_FAILED: edit: edits[0].old: old is not in the file: the nearest place is line 2, it differs in indentation:
	//      2		return 1 (read the lines again and copy them as they are)
}
