package local

import (
	"runtime"
	"sync"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/provider/seccomp"
)

// A filters computes the filters of sandboxes, each once. It is safe for
// concurrent use. Callers must not change what it returns.
type filters struct {
	// whole returns the filter of a sandbox as a whole, which is the same for
	// all of them.
	whole func() ([]byte, error)
	// commands holds the filter of commands by its [seccomp.Options], each
	// a func() ([]byte, error) that computes it once.
	commands sync.Map
}

func newFilters() *filters {
	return &filters{whole: sync.OnceValues(func() ([]byte, error) {
		arch, err := seccomp.ArchOf(runtime.GOARCH)
		if err != nil {
			return nil, err
		}
		return seccomp.Filter(arch).Bytes(), nil
	})}
}

// command returns the filter of commands.
func (f *filters) command(o seccomp.Options) ([]byte, error) {
	get, known := f.commands.Load(o)
	if !known {
		get, _ = f.commands.LoadOrStore(o, sync.OnceValues(func() ([]byte, error) {
			arch, err := seccomp.ArchOf(runtime.GOARCH)
			if err != nil {
				return nil, err
			}
			return seccomp.Command(arch, o).Bytes(), nil
		}))
	}
	return get.(func() ([]byte, error))()
}

// prepare computes the filters that the sandbox of spec will probably
// have. They do not depend on the plan, so that this can be done while the host
// is looked at. A wrong guess and an error cost nothing: [filters.confinement] asks for
// the filters that it needs, and reports what is wrong.
func (f *filters) prepare(spec sandbox.Spec) {
	set, err := parseSettings(spec.Options)
	if err != nil || set.withoutSeccomp {
		return
	}
	_, _ = f.whole()
	_, _ = f.command(seccomp.Options{
		Observe: set.observe, OwnSockets: set.observe && len(spec.Filesystem.AllowUnixSockets) == 0, Trace: !set.withoutLandlock,
	})
}
