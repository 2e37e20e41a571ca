//go:build linux

package launch

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"
)

// frozenFile names what was stopped by itself before a sandbox was frozen.
const frozenFile = "frozen.json"

// betweenPasses is the time between two looks at processes that are to stop.
const betweenPasses = time.Millisecond

// Stopped reports whether the process is stopped by a signal. The first process of
// an instance never is but when the instance is frozen.
func (id ID) Stopped() (bool, error) {
	alive, err := id.Alive()
	if err != nil || !alive {
		return false, err
	}
	st, err := statOf(id.PID)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return false, nil
	}
	return err == nil && st.start == id.Start && st.state == 'T', err
}

// treeOf returns root and its descendants, each after its parent.
func treeOf(root ID) ([]stat, error) {
	all, err := snapshot()
	if err != nil {
		return nil, err
	}
	children := map[int][]stat{}
	var out []stat
	for _, st := range all {
		if st.pid == root.PID && st.start == root.Start {
			out = append(out, st)
		} else {
			children[st.parent] = append(children[st.parent], st)
		}
	}
	for i := 0; i < len(out); i++ {
		out = append(out, children[out[i].pid]...)
		delete(children, out[i].pid) // a picture taken over time may hold a circle
	}
	return out, nil
}

// Freeze stops the process root and all its descendants: a parent before its
// children, so that no shell inside sees a child that has stopped, and again and
// again until none is left that runs and could make another. Those that were
// stopped by themselves are in already, also beside an error. known are those of an
// earlier call that was not completed.
func Freeze(ctx context.Context, root ID, known []ID) (already []ID, err error) {
	already = known
	stopping := map[procKey]bool{}
	for _, id := range known {
		stopping[procKey{id.PID, id.Start}] = true
	}
	again, err := root.Stopped()
	if err != nil {
		return already, err
	}
	for {
		list, err := treeOf(root)
		if err != nil {
			return already, err
		}
		moving := false
		for _, st := range list {
			key := procKey{st.pid, st.start}
			if !stopping[key] {
				stopping[key] = true
				if st.state == 'T' && !again {
					already = append(already, ID{PID: st.pid, Start: st.start, Boot: root.Boot})
					continue
				}
				if err := (ID{PID: st.pid, Start: st.start, Boot: root.Boot}).signal(unix.SIGSTOP); err != nil {
					return already, err
				}
				moving = true
			}
			// Providers take the state of root for that of the instance.
			moving = moving || st.state == 'R' || st.state == 'S' || st.pid == root.PID && st.state != 'T'
		}
		if !moving {
			return already, nil // one in a system call that cannot be interrupted stops at its end
		}
		select {
		case <-ctx.Done():
			return already, ctx.Err()
		case <-time.After(betweenPasses):
		}
	}
}

// A procKey is one process of this boot.
type procKey struct {
	pid   int
	start uint64
}

// Thaw has what Freeze has stopped go on, but for except: children before their
// parents, and root at last, so that a call that was not completed can be repeated.
func Thaw(root ID, except []ID) error {
	list, err := treeOf(root)
	if err != nil {
		return err
	}
	stays := map[procKey]bool{}
	for _, id := range except {
		stays[procKey{id.PID, id.Start}] = true
	}
	for i := len(list) - 1; i >= 0; i-- {
		st := list[i]
		if stays[procKey{st.pid, st.start}] {
			continue
		}
		if err := (ID{PID: st.pid, Start: st.start, Boot: root.Boot}).signal(unix.SIGCONT); err != nil {
			return err
		}
	}
	return nil
}

// signal sends a signal to the process, if it is still that one. One that has gone
// is no error.
func (id ID) signal(s unix.Signal) error {
	fd, err := unix.PidfdOpen(id.PID, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	// The descriptor is of whatever had the number when it was opened.
	if alive, err := id.Alive(); err != nil || !alive {
		return err
	}
	if err := unix.PidfdSendSignal(fd, s, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return err
	}
	return nil
}

// Stopped returns what was noted by NoteStopped.
func (d *Records) Stopped(name string) ([]ID, error) {
	path := filepath.Join(d.folder(name), frozenFile)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, statedir.Unavailable("thaw", path, err)
	}
	var ids []ID
	if json.Unmarshal(b, &ids) != nil {
		return nil, nil // then all go on
	}
	return ids, nil
}

// NoteStopped notes which processes of the sandbox name were stopped by themselves
// before it was frozen, so that any process can thaw it as it was.
func (d *Records) NoteStopped(name string, ids []ID) error {
	path := filepath.Join(d.folder(name), frozenFile)
	if len(ids) == 0 {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return statedir.Unavailable("freeze", path, err)
		}
		return nil
	}
	b, err := json.Marshal(ids)
	if err == nil {
		err = renameio.WriteFile(path, b, 0o600, renameio.WithTempDir(filepath.Dir(path)))
	}
	return statedir.Unavailable("freeze", path, err)
}
