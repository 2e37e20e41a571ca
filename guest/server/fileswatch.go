//go:build linux

package server

import (
	"github.com/bulkhead-dev/sandbox/guest/server/files"
	"github.com/bulkhead-dev/sandbox/guest/wire"
)

// watch sends what changes in a folder until it is called off or the folder has
// gone. It waits for the kernel and for the client without being one of the few
// that may be in system calls.
func (o *fileOp) watch() error {
	select {
	case o.conn.srv.files.watches <- struct{}{}:
	default:
		return errWatches
	}
	defer func() { <-o.conn.srv.files.watches }()
	release, err := o.keep()
	if err != nil {
		return err
	}
	defer release()
	var w *files.Watch
	ends := func() {}
	err = o.reach(func(r *files.Root) (err error) {
		if w, err = r.Watch(o.req.Path, o.req.Flags&wire.FileRecursive != 0, o.pause); err == nil {
			ends = o.conn.srv.files.gate.watching(w, o.req.Root)
		}
		return err
	})
	if err != nil {
		return err
	}
	defer ends()
	defer o.finally(w.Close)
	over := make(chan struct{})
	woken := make(chan struct{})
	defer func() { close(over); <-woken }()
	go func() {
		defer close(woken)
		select {
		case <-o.off:
			w.Wake()
		case <-over:
		}
	}()
	return o.sendChanges(w)
}

func (o *fileOp) sendChanges(w *files.Watch) error {
	records, ended := w.Records()
	fill := func(b []byte) (n int, more bool, err error) {
		n = copy(b, records)
		records = records[n:]
		return n, true, nil
	}
	if _, err := o.sendAnswer(fill, &wire.FileInfo{}); err != nil {
		return err
	}
	for {
		for len(records) > 0 {
			n, err := o.credits.Take(min(wire.MaxData, len(records)))
			if err != nil {
				return err
			}
			if _, err := o.sendData(fill, n); err != nil {
				return err
			}
		}
		if ended {
			return o.done(nil)
		}
		err := w.Wait()
		if off := o.calledOff(); off != nil {
			return off
		}
		if err == nil {
			err = o.inside(func() error { return o.work(w.Report) })
		}
		if err != nil {
			return err
		}
		records, ended = w.Records()
	}
}
