package plan_test

import (
	"fmt"

	"github.com/bulkhead-dev/sandbox/provider/local/plan"
)

func ExampleMake() {
	p, err := plan.Make(plan.World{
		Views:  []plan.View{{Source: "/home/u/proj", Target: "/workspace", Write: true, Why: "workspace"}},
		Denies: []plan.Deny{{Path: "/home/u/proj/app/.env", Read: true, Rule: "**/.env"}},
		Kinds: map[string]plan.Kind{
			"/home": plan.Dir, "/home/u": plan.Dir, "/home/u/proj": plan.Dir,
			"/home/u/proj/app": plan.Dir, "/home/u/proj/app/.env": plan.File,
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, o := range p.Ops {
		fmt.Println(o.Kind, o.Target)
	}
	fmt.Printf("%+v\n", p.Judge("read", "/workspace/app/.env"))
	// Output:
	// dev /dev
	// proc /proc
	// bind /workspace
	// tmpfs /dev/shm
	// bind /workspace/app
	// mask-file /workspace/app/.env
	// remount-ro /dev
	// remount-ro /
	// {Allowed:false Rule:**/.env Builtin:true HostPath:/home/u/proj/app/.env}
}
