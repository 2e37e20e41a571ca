package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox/internal/statedir"
)

// maxNote bounds a file, in bytes: two ids, each byte of which may take six.
const maxNote = 4 << 10

// A note is what a file of the folder says.
type note struct {
	ID     string `json:"id"`
	Parent string `json:"parent,omitempty"` // of a derived grant
	Until  int64  `json:"until"`            // milliseconds since the epoch when the grant expires, 0 for never
}

func (n note) until() time.Time {
	if n.Until == 0 {
		return time.Time{}
	}
	return time.UnixMilli(n.Until)
}

func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// fileName is the name of the file about a grant: a hash, because ids may
// contain any characters.
func fileName(id string) string {
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:])
}

var errDamaged = errors.New("the file cannot be read; move it away when it is known what it was")

// get reads the note at path, which has to be about id unless that is empty.
func get(path, id string) (note, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENXIO) {
		return note{}, fmt.Errorf("%s: %w", path, errDamaged)
	}
	if err != nil {
		return note{}, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return note{}, err
	}
	if !fi.Mode().IsRegular() || fi.Size() > maxNote {
		return note{}, fmt.Errorf("%s: %w", path, errDamaged)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxNote+1))
	if err != nil {
		return note{}, err
	}
	n, ok := decode(data)
	if !ok || id != "" && n.ID != id || fileName(n.ID) != filepath.Base(path) {
		return note{}, fmt.Errorf("%s: %w", path, errDamaged)
	}
	return n, nil
}

// decode reads what encode has written and nothing else.
func decode(data []byte) (note, bool) {
	var n note
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&n); err != nil {
		return note{}, false
	}
	want, err := encode(n)
	return n, err == nil && bytes.Equal(want, data) && checkID(n.ID) == nil && n.Until >= 0 && (n.Parent == "" || checkIDs(n.ID, n.Parent) == nil)
}

func encode(n note) ([]byte, error) {
	data, err := json.Marshal(n)
	return append(data, '\n'), err
}

// putMark writes the note n of a revocation at path, unless a note exists there
// that is kept for at least as long. It creates the name first and writes the
// contents afterwards: the name is sufficient, and a full disk may still have
// room for names.
func putMark(path string, n note) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if errors.Is(err, os.ErrExist) {
		if had, err := get(path, n.ID); err == nil && !later(n.until(), had.until()) {
			return nil
		}
		return replace(path, n)
	}
	if err != nil {
		return err
	}
	data, err := encode(n)
	if err == nil {
		_, err = f.Write(data)
	}
	return errors.Join(err, f.Sync(), f.Close(), statedir.SyncDir(filepath.Dir(path)))
}

// replace writes the note n at path in one step.
func replace(path string, n note) error {
	data, err := encode(n)
	if err != nil {
		return err
	}
	err = renameio.WriteFile(path, data, 0o600, renameio.WithTempDir(filepath.Dir(path)), renameio.WithStaticPermissions(0o600))
	if err != nil {
		return err
	}
	return statedir.SyncDir(filepath.Dir(path))
}
