package journal_test

import (
	"context"
	"fmt"
	"os"

	"github.com/bulkhead-dev/sandbox/audit/journal"
)

func ExampleJournal() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	j, err := journal.Open(dir, journal.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	if err := j.Append(ctx, map[string]int{"n": 1}, map[string]int{"n": 2}); err != nil {
		fmt.Println(err)
	}
	for r, err := range j.Records(ctx, journal.Range{Backward: true}) {
		fmt.Println(r.Seq, string(r.Data), err)
	}
	report, err := j.Verify(ctx)
	fmt.Println(report.OK(), report.Records, err)
	// Output:
	// 3 {"n":2} <nil>
	// 2 {"n":1} <nil>
	// true 2 <nil>
}
