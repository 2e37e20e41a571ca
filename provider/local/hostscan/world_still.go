package hostscan

import (
	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/hostpath"
	"github.com/bulkhead-dev/sandbox/provider/local/plan"
)

// Unmoved returns an error if the source of a view leads elsewhere than when
// the view was judged, because a link was put in its path. It ignores missing
// sources, which the planner handles.
func Unmoved(views []plan.View) error {
	for _, v := range views {
		if direct(v.Source) {
			continue
		}
		real, err := hostpath.Canonical(v.Source)
		if err != nil {
			return err
		}
		if real != v.Source {
			return &sandbox.Error{
				Code: sandbox.CodeCapabilityBlocked, Op: "plan", Resource: v.Source, Hint: "name the folder itself",
				Message: "it leads to " + real + " now: a link was put in its way after it was resolved",
			}
		}
	}
	return nil
}
