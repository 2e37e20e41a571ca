package change_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/bulkhead-dev/sandbox/workspace/change"
)

func ExamplePlan_Apply() {
	tmp, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(tmp)
	write := func(name, content string) {
		at := filepath.Join(tmp, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			fmt.Println(err)
		}
		if err := os.WriteFile(at, []byte(content), 0o644); err != nil {
			fmt.Println(err)
		}
	}
	write("base/greeting.txt", "hello\n")       // what the workspace was made of
	write("current/greeting.txt", "hello Go\n") // what it is now
	write("current/.envrc", "echo evil\n")
	write("host/greeting.txt", "hello\n") // the folder of the host

	base, err := change.Folder(filepath.Join(tmp, "base"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer base.Close()
	current, err := change.Folder(filepath.Join(tmp, "current"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer current.Close()

	ctx := context.Background()
	host, journal := filepath.Join(tmp, "host"), filepath.Join(tmp, "journal")
	plan, err := change.NewPlan(ctx, host, base, current, change.PlanOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := change.Render(ctx, os.Stdout, plan.Entries, change.RenderOptions{Base: base, Current: current, Format: change.NameOnly}); err != nil {
		fmt.Println(err)
	}
	if err := change.RenderRisks(os.Stdout, plan.Refused); err != nil {
		fmt.Println(err)
	}
	fmt.Println(plan.Err() != nil)

	plan, err = change.NewPlan(ctx, host, base, current, change.PlanOptions{Paths: []string{"greeting.txt"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	report, err := plan.Apply(ctx, journal)
	fmt.Println(report.Done, err)
	report, err = change.Undo(ctx, host, journal, change.UndoOptions{})
	fmt.Println(report.Done, err)
	// Output:
	// .envrc
	// greeting.txt
	// .envrc
	//     shell: a shell runs it at its start or in its folder
	// true
	// [{greeting.txt write}] <nil>
	// [{greeting.txt write}] <nil>
}
