package launch

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"golang.org/x/sys/unix"
)

// A Instance is one that some process has up or is putting up.
type Record struct {
	Process   recordProcess `json:"process"` // its first process; zero until it is known
	StartedAt time.Time     `json:"startedAt"`
	Group     string        `json:"group,omitempty"` // folder of its control group, where it has one of its own
}

// instanceLen is what is written into the file of an instance: the record, and blanks.
// Files are used again, because a new one costs some file systems a search
// past all that were deleted lately; of one length they are never truncated.
const instanceLen = 512

// A Slot is the place of an instance of this process in the folder of its sandbox.
type Slot struct {
	f    *os.File
	path string
}

// newSlot makes and locks a file for an instance. The caller holds the lock.
func (d *Records) newSlot(name string) (*Slot, error) {
	path := filepath.Join(d.folder(name), instancesDir, randomHex())
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	// Another process may be looking at it just now, for some microseconds.
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		f.Close()
		_ = os.Remove(path)
		return nil, err
	}
	return &Slot{f: f, path: path}, nil
}

// usedSlot takes the file of a sandbox that no process has any more, or returns nil
// when it cannot be had. The caller holds the lock.
func usedSlot(path string) *Slot {
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	s := &Slot{f: f, path: path}
	if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil || s.Gone() || s.write(nil) != nil {
		f.Close()
		return nil
	}
	return s
}

// Started notes the instance's first process, so that any process can end it.
func (s *Slot) Started(w Record) error {
	b, err := json.Marshal(w)
	if err != nil {
		return err
	}
	return statedir.Unavailable("note sandbox", s.path, s.write(b))
}

// write puts b and blanks into the file. Blanks alone are no record.
func (s *Slot) write(b []byte) error {
	if len(b) > instanceLen {
		return errors.New("the record of the sandbox is too long")
	}
	_, err := s.f.WriteAt(append(b, bytes.Repeat([]byte{' '}, instanceLen-len(b))...), 0)
	return err
}

// Gone reports whether the slot was taken away: another process has removed the
// sandbox.
func (s *Slot) Gone() bool {
	var st unix.Stat_t
	return unix.Fstat(int(s.f.Fd()), &st) != nil || st.Nlink == 0
}

// Release gives the slot up. The instance must have ended. The file stays for the
// next instance, and counts as nothing until then.
func (s *Slot) Release() { unlock(s.f) }

// instances returns the instances of the sandbox name that are up.
func (d *Records) instances(name string) ([]Record, error) {
	folder := filepath.Join(d.folder(name), instancesDir)
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, statedir.Unavailable("inspect", folder, err)
	}
	var up []Record
	for _, e := range entries {
		w, alive, err := lookRecord(filepath.Join(folder, e.Name()))
		if err != nil {
			return nil, statedir.Unavailable("inspect", folder, err)
		}
		if alive {
			up = append(up, w)
		}
	}
	return up, nil
}

// look reads the file of an instance. It is up while its file is locked and its
// first process, once that is known, lives.
func lookRecord(path string) (w Record, up bool, err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return w, false, nil
	}
	if err != nil {
		return w, false, err
	}
	defer f.Close()
	free := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	if free != nil && !errors.Is(free, unix.EWOULDBLOCK) {
		return w, false, free
	}
	b := make([]byte, instanceLen)
	n, _ := f.ReadAt(b, 0)
	if n == 0 || json.Unmarshal(b[:n], &w) != nil {
		return Record{}, free != nil, nil // it is being put up, or never was
	}
	if free == nil {
		return w, false, nil
	}
	up, err = w.Process.Alive()
	return w, up, err
}

func randomHex() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // does not fail
	return hex.EncodeToString(b[:])
}
