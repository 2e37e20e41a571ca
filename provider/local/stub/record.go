package stub

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/bulkhead-dev/sandbox/provider/local/nolink"
	"golang.org/x/sys/unix"
)

// Names in the folder of records: a digest of the path and what it is.
const (
	recordSuffix = ".json"
	lockSuffix   = ".lock"
	tempRecord   = ".record-"
)

// maxRecord bounds a record in bytes: a path of the longest kind, escaped.
const maxRecord = 64 << 10

// A record says what was, or was about to be, made at a path.
type record struct {
	Path string `json:"path"`
	Dir  bool   `json:"dir,omitempty"`
	Temp string `json:"temp"` // the name beside Path that it is made and removed under
	// Ino is 0 before the thing was made. A file's time of change tells
	// whether somebody wrote to it; a folder's changes with the stubs in it.
	Dev   uint64 `json:"dev,omitempty"`
	Ino   uint64 `json:"ino,omitempty"`
	Mtime int64  `json:"mtime,omitempty"` // nanoseconds
}

// key returns the name of the record for path.
func key(path string) string {
	sum := sha256.Sum256([]byte(path))
	return hex.EncodeToString(sum[:16])
}

// newRecord returns the record for a stub that is about to be made.
func newRecord(path string, dir bool) record {
	return record{Path: path, Dir: dir, Temp: ".sandbox-stub-" + strings.ToLower(rand.Text())}
}

func (d *Dir) read(key string) (record, error) {
	var r record
	data, err := nolink.File(filepath.Join(d.path, key+recordSuffix), maxRecord)
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	return r, err
}

// write replaces the record in one step.
func (d *Dir) write(r record) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(d.path, tempRecord)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), filepath.Join(d.path, key(r.Path)+recordSuffix))
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// forget removes record and lock; the caller holds the lock alone, and that
// of the folder, so nobody opens it meanwhile.
func (d *Dir) forget(key string) error {
	err := os.Remove(filepath.Join(d.path, key+recordSuffix))
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	d.step()
	if e := os.Remove(filepath.Join(d.path, key+lockSuffix)); err == nil && !errors.Is(e, os.ErrNotExist) {
		err = e
	}
	return err
}

// valid reports whether a record that was read can be ours: anything else
// would have us remove or rename what it names.
func (r record) valid(k string) bool {
	return key(r.Path) == k && strings.HasPrefix(r.Path, "/") && filepath.Clean(r.Path) == r.Path && r.Path != "/" &&
		strings.HasPrefix(r.Temp, ".sandbox-stub-") && !strings.ContainsAny(r.Temp, "/\x00")
}

// isAt reports whether the stub lies under name in the folder dir, as it was
// made.
func (r record) isAt(dir int, name string) bool {
	var st unix.Stat_t
	if r.Ino == 0 || nolink.Stat(dir, name, &st) != nil || uint64(st.Dev) != r.Dev || st.Ino != r.Ino {
		return false
	}
	if r.Dir {
		return st.Mode == unix.S_IFDIR|dirMode // rmdir sees whether it is empty
	}
	return st.Mode == unix.S_IFREG|fileMode && st.Nlink == 1 && st.Size == int64(len(content(r.Path))) && st.Mtim.Nano() == r.Mtime
}
