package manager

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/internal/keylock"
	"github.com/bulkhead-dev/sandbox/registry"
	"github.com/bulkhead-dev/sandbox/workspace"
)

// New returns a Manager on the state folder of o.
func New(o Options) (*Manager, error) {
	records, err := registry.Open(o.State.Registry())
	if err != nil {
		return nil, err
	}
	providers, err := identifyAll(o.Providers, records)
	if err != nil {
		return nil, err
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	settings := &atomic.Pointer[config.Settings]{}
	settings.Store(laidOver(o.Settings, o.Provider))
	m := &Manager{
		settings: settings, reload: newReload(o), approver: o.Approver, permanent: o.Permanent, recorder: o.Violations, observer: o.Observer, out: o.Out, gates: &gates{}, accounting: o.Accounting, control: o.Control, calls: &calls{}, prepared: &prepared{}, skills: &skillStamps{}, state: o.State, providers: providers, images: o.Images, volumes: &sync.Map{}, imageJava: &sync.Map{}, host: o.Host, log: o.Log, commandFlags: o.CommandFlags, now: o.Now, begin: o.Begin,
		records: records, leases: keylock.Open(o.State.Locks()), owners: workspace.OpenOwners(o.State.Uids()), handles: &handles{}, freezer: &freezer{}, pool: newSlots(), grants: &grants{}, names: &settingsCache[string]{}, layered: &settingsCache[config.Resolved]{}, described: &descriptions{}, usables: &settingsCache[Usable]{},
	}
	m.writable = config.Following(m.current, func(s *config.Settings) ([]string, error) {
		return config.WritableFolders(s, o.Host.Home, o.Host.Env)
	})
	m.handles.frozen = m.frozen
	return m, nil
}
