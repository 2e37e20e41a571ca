package manager

import (
	"sync"
	"sync/atomic"

	"github.com/sirupsen/logrus"

	"github.com/bulkhead-dev/sandbox/config"
)

// A reload keeps the settings in force those of their source.
type reload struct {
	read     func() (*config.Settings, error)
	provider string // of Options
	log      logrus.FieldLogger

	mu       sync.Mutex
	last     *config.Settings // what read returned, which permanent permissions may have added to
	reported string           // the problem that the log has
}

// newReload returns the reload of o, nil where nothing is read again.
func newReload(o Options) *reload {
	if o.Reload == nil {
		return nil
	}
	return &reload{read: o.Reload, provider: o.Provider, log: o.Log, last: o.Settings}
}

// laidOver is s, which may be nil, with the sandbox that a program has chosen for all
// its calls, or s where it has chosen none. It is never nil: what is cached is cached
// for a pointer.
func laidOver(s *config.Settings, provider string) *config.Settings {
	if s == nil {
		s = &config.Settings{}
	}
	if provider == "" {
		return s
	}
	out := *s
	out.Program = config.Overrides{Provider: provider}.Layer()
	return &out
}

// current returns the settings in force for a request that comes now. A request
// calls it once, when it begins, and uses the result to its end.
func (m *Manager) current() *config.Settings {
	if m.reload != nil {
		m.reload.into(m.settings)
	}
	return m.settings.Load()
}

// into puts new settings into force. One caller at a time may call it, so that
// older settings never replace newer ones.
func (r *reload) into(settings *atomic.Pointer[config.Settings]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, err := r.read()
	if err != nil {
		r.tell(err)
		if s == nil { // nothing good is known, which is not the defaults
			return
		}
	} else if r.reported != "" {
		r.reported = ""
		r.log.Info("the settings can be read again")
	}
	if s != r.last {
		r.last = s
		settings.Store(laidOver(s, r.provider))
		r.log.Info("changed settings are in force")
	}
}

// problem is why the settings in force are not what their source has now, empty
// where they are.
func (r *reload) problem() string {
	if r == nil {
		return ""
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reported
}

// tell logs a problem once for as long as it stays the same.
func (r *reload) tell(err error) {
	if text := err.Error(); text != r.reported {
		r.reported = text
		r.log.WithError(err).Error("the settings cannot be read again; those read before stay in force")
	}
}
