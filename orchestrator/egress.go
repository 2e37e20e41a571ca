//go:build !sandbox_front

package orchestrator

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/bulkhead-dev/sandbox/egress"
	"github.com/bulkhead-dev/sandbox/egress/proxy"
)

// An exit makes what sandboxes reach hosts through when the first of them
// may: most commands reach none and do not wait for it.
type exit struct {
	open      func() (opened, error)            // the same answer every time, like authority
	authority func() (*egress.Authority, error) // made when the first secret is bound
	used      atomic.Bool
}

type opened struct {
	*egress.Server
}

// newExit prepares an exit.
func (h *Orchestrator) newExit() *exit {
	t := &exit{authority: sync.OnceValues(func() (*egress.Authority, error) { return egress.Open(h.state.Egress()) })}
	t.open = sync.OnceValues(func() (opened, error) {
		upstream, err := egress.UpstreamFrom(func(name string) string { return h.env[name] })
		if err != nil {
			return opened{}, err
		}
		kept, err := h.records.store()
		if err != nil {
			return opened{}, err
		}
		recorder, err := egress.NewRecorder(egress.RecorderOptions{Evidence: kept, Violations: h.violations, Log: h.o.Log})
		if err != nil {
			return opened{}, err
		}
		plane := egress.New(egress.Options{
			Dialer: egress.NewDialer(egress.DialerOptions{Upstream: upstream}),
			Record: recorder.Record,
			Decide: recorder.Decide,
		})
		return opened{&egress.Server{
			Plane: plane, Recorder: recorder, Authority: t.authority, Home: h.world.Home,
			LookupEnv: func(name string) (string, bool) { v, ok := h.env[name]; return v, ok },
		}}, nil
	})
	return t
}

func (t *exit) proxy() (proxy.Server, error) {
	t.used.Store(true)
	got, err := t.open()
	if err != nil {
		return nil, err
	}
	return got.Server, nil
}

// close ends every egress session, and writes what is not recorded yet. The evidence
// and the violations stay open.
func (t *exit) close() error {
	if !t.used.Load() {
		return nil
	}
	got, err := t.open()
	if err != nil {
		return nil // the first use reported the error
	}
	return errors.Join(got.Plane.Close(), got.Recorder.Close())
}
