package manager

import (
	"sync/atomic"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/internal/hostpath"
	"github.com/bulkhead-dev/sandbox/internal/keylock"
	"github.com/bulkhead-dev/sandbox/registry"
	"github.com/bulkhead-dev/sandbox/workspace"
	"github.com/bulkhead-dev/sandbox/workspace/checkpoint"
)

// New returns a Manager on the state folder of o.
func New(o Options) (*Manager, error) {
	records, err := registry.Open(o.State.Registry())
	if err != nil {
		return nil, err
	}
	watch := o.Watch
	if watch == nil {
		watch = &hostpath.Watch{}
	}
	records.Watch(watch)
	if o.Now == nil {
		o.Now = time.Now
	}
	settings := &atomic.Pointer[config.Settings]{}
	settings.Store(laidOver(o.Settings, o.Provider))
	m := &Manager{
		settings: settings, reload: newReload(o), approver: o.Approver, permanent: o.Permanent, recorder: o.Violations, observer: o.Observer, out: o.Out, accounting: o.Accounting, control: o.Control, prepared: &prepared{}, skills: &skillStamps{}, state: o.State, images: o.Images, host: o.Host, log: o.Log, commandFlags: o.CommandFlags, now: o.Now, begin: o.Begin,
		records: records, watch: watch, leases: keylock.Open(o.State.Locks()), owners: workspace.OpenOwners(o.State.Uids()), portHolds: &portHolds{}, traffic: &traffic{}, handles: &handles{}, grants: &grants{}, names: &settingsCache[string]{}, usables: &settingsCache[Usable]{},
	}
	if err := m.keepAll(o.Providers); err != nil {
		return nil, err
	}
	if m.providers, err = identifyAll(o.Providers, records); err != nil {
		return nil, err
	}
	m.approvals, m.browsers, m.builder, m.calls = &approvals{m}, &browsers{m}, &builder{m}, &calls{m: m}
	m.checkpoints = &checkpoints{m: m, stores: map[string]*checkpoint.Store{}, shells: map[string][]sandbox.ShellState{}, opened: map[*Shell]bool{}}
	m.describer, m.executor, m.explainer, m.freezer = &describer{m: m}, &executor{m}, &explainer{m}, &freezer{m: m}
	m.lister, m.pool, m.pruner, m.stager = &lister{m}, &poolKeeper{newSlots(), m}, &pruner{m}, &stager{m}
	m.creations, m.expiry = &creations{m: m}, &expiry{m: m, due: make(chan struct{}, 1)}
	m.gates, m.reporter = &gates{m: m}, &reporter{m}
	m.writable = config.Following(m.current, func(s *config.Settings) ([]string, error) {
		return config.WritableFolders(s, o.Host.Home, o.Host.Env)
	})
	m.handles.frozen = m.freezer.frozen
	return m, nil
}
