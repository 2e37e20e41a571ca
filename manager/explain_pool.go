package manager

import (
	"fmt"
	"strings"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/pool"
)

// explainClaim says whether the sandbox that is to be made would be a slot of
// the pool, and why not. It is empty where settings keep no pool.
func (m *Manager) explainClaim(w *want) (string, error) {
	if w.res.Pool.Size <= 0 || w.spec.Kind != sandbox.KindSandbox {
		return "", nil
	}
	if _, ok := w.provider.(berthed); !ok {
		return "; no slot of the pool can become it: the provider " + w.provider.Name() + " keeps none", nil
	}
	if !m.unborn(w.res, w.spec.Name) {
		return "; no slot of the pool becomes it: it has been there before, and what is its own waits for it", nil
	}
	fit, why, err := m.slotsFor(w)
	switch {
	case err != nil:
		return "", err
	case fit > 0:
		return fmt.Sprintf("; a slot of the pool becomes it, of which %d are there", fit), nil
	}
	return "; no slot of the pool becomes it: " + why, nil
}

// slotsFor counts the recorded slots that the sandbox of w can become, and says
// why there is none where there is none.
func (m *Manager) slotsFor(w *want) (fit int, why string, err error) {
	shape, err := shapeOf(w)
	if err != nil {
		return 0, "", err
	}
	records, _, err := m.readRecords()
	if err != nil {
		return 0, "", err
	}
	why = "none is ready"
	for _, r := range records {
		if r.Kind != sandbox.KindPool || r.Provider != w.provider.Name() {
			continue
		}
		whole, err := m.records.Get(r.Kind, r.Name)
		if err != nil || whole.Spec == nil {
			continue
		}
		switch ok, differ := pool.CanBindLate(*whole.Spec, w.asOn(r.Name, *whole.Spec)); {
		case ok && r.Shape == shape:
			fit++
		case ok:
			why = "those there are differ in workspaceQuota"
		default:
			why = "those there are differ in " + strings.Join(differ, ", ")
		}
	}
	return fit, why, nil
}
