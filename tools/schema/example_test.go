package schema_test

import (
	"fmt"

	"github.com/bulkhead-dev/sandbox/tools/schema"
)

func ExampleDecode() {
	in, err := schema.Decode[schema.Read]("read", []byte(`{"path":"main.go","limit":100}`))
	fmt.Println(in.Path, in.Offset, in.Limit, err)

	_, err = schema.Decode[schema.Read]("read", []byte(`{"path":"main.go","lines":100}`))
	fmt.Println(err)
	// Output:
	// main.go 1 100 <nil>
	// SCHEMA.VALIDATION_FAILED: read: lines: unknown field (there are path, offset, limit)
}
