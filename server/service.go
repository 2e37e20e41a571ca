// This file holds the life of the daemon as a process: it serves, runs the
// background loops, reports its state to systemd, reloads the settings when it
// is asked to, and drains in the end.

package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"
)

// ServiceOptions configure a service. All but Reload, Hangups, Loops and Tell
// are required.
type ServiceOptions struct {
	Server    *Server
	Listeners []net.Listener // closed in the end
	Grace     func() time.Duration
	Log       logrus.FieldLogger

	Hangups <-chan struct{} // each asks for Reload
	Reload  func() error    // reloads the settings; after an error the last valid ones stay
	Loops   []Loop

	// Tell reports a state to the service manager that started this process; nil
	// reports to systemd, where there is one.
	Tell func(state string)
}

// Run serves until ctx ends, and then drains. It returns an error if it could
// not serve.
func Run(ctx context.Context, o ServiceOptions) error {
	if o.Tell == nil {
		o.Tell = func(state string) {
			if _, err := daemon.SdNotify(false, state); err != nil {
				o.Log.WithError(err).Warn("systemd cannot be notified")
			}
		}
	}
	failed := make(chan error, len(o.Listeners))
	gate := newGate(roomNow())
	for _, l := range o.Listeners {
		srv := o.Server.HTTP()
		go func() { failed <- srv.Serve(Heads(gate.Listener(l))) }()
	}
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	loops := start(life, o.Loops, o.Log)
	o.Tell(daemon.SdNotifyReady)
	err := o.wait(ctx, failed)
	o.Tell(daemon.SdNotifyStopping)
	grace := o.Grace()
	o.Log.WithField("grace", grace).Info("going down: no request is taken any more")
	_ = o.Server.Drain(context.WithoutCancel(ctx), grace) // which ends by itself
	end()
	loops.Wait()
	return err
}

// wait returns when ctx ends or a listener has failed.
func (o *ServiceOptions) wait(ctx context.Context, failed <-chan error) error {
	beat, stop := o.beats()
	defer stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-failed:
			if errors.Is(err, http.ErrServerClosed) {
				err = nil
			}
			return err
		case <-beat:
			o.Tell(daemon.SdNotifyWatchdog)
		case <-o.Hangups:
			o.reload()
		}
	}
}

// beats returns a channel that ticks whenever a report to the watchdog of
// systemd is due, and a function that stops it.
func (o *ServiceOptions) beats() (<-chan time.Time, func()) {
	every, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		o.Log.WithError(err).Warn("systemd's watchdog says nothing that can be kept to")
	}
	if every <= 0 {
		return nil, func() {}
	}
	t := time.NewTicker(every / 2)
	return t.C, t.Stop
}

// reload reloads the settings. systemd expects the start time of that, by its
// own clock.
func (o *ServiceOptions) reload() {
	if o.Reload == nil {
		return
	}
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) // which there always is
	o.Tell(fmt.Sprintf("%s\nMONOTONIC_USEC=%d", daemon.SdNotifyReloading, now.Nano()/1000))
	if err := o.Reload(); err != nil {
		o.Log.WithError(err).Error("the settings cannot be taken in; those from before stay in force")
	} else {
		o.Log.Info("the settings are in force as they are now")
	}
	o.Tell(daemon.SdNotifyReady)
}
