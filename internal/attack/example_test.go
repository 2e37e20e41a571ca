package attack_test

import (
	"fmt"

	"github.com/bulkhead-dev/sandbox/internal/attack"
)

func ExampleReport_Failed() {
	report := attack.Report{Results: []attack.Result{
		{Name: "mount", Outcome: attack.Contained, Seen: "EPERM"},
		{Name: "vsock", Outcome: attack.Escaped, Seen: "worked: stream"},
	}}
	fmt.Println(report.Failed(), report.Count(attack.Contained))
	// Output: true 1
}
