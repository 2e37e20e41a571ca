package stub

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/bulkhead-dev/sandbox/internal/hostpath"
	"github.com/bulkhead-dev/sandbox/provider/local/plan"

	"github.com/gofrs/flock"
	"golang.org/x/sys/unix"
)

// recordSuffix ends the names of records; a digest of the path begins them.
const recordSuffix = ".json"

// maxRecord bounds a record in bytes: a path of the longest kind, escaped.
const maxRecord = 64 << 10

// A record says what was, or was about to be, made at a path.
type record struct {
	Path string `json:"path"`
	Dir  bool   `json:"dir,omitempty"`
	Sock bool   `json:"socket,omitempty"`
	Temp string `json:"temp"` // the name beside Path that it is made and removed under
	// Ino is 0 before the thing was made. Numbers of inodes are used again, so
	// the time of birth counts too, 0 where the file system has none. A file's
	// time of change tells whether somebody wrote to it; a folder's changes
	// with the stubs in it.
	Dev   uint64 `json:"dev,omitempty"`
	Ino   uint64 `json:"ino,omitempty"`
	Birth int64  `json:"birth,omitempty"` // nanoseconds
	Mtime int64  `json:"mtime,omitempty"`
}

// key returns the name of the record for path.
func key(path string) string {
	sum := sha256.Sum256([]byte(path))
	return hex.EncodeToString(sum[:16])
}

// newRecord returns the record for a stub that is about to be made.
func newRecord(s plan.Stub) record {
	return record{Path: s.Path, Dir: s.Dir, Sock: s.Socket, Temp: ".sandbox-stub-" + strings.ToLower(rand.Text())}
}

func (d *Dir) read(key string) (record, error) {
	var r record
	name := d.file(key)
	var st unix.Stat_t
	if err := unix.Lstat(name, &st); err != nil { // of nearly every path, so it is asked for cheaply
		return r, err
	}
	if st.Size == 0 {
		return r, nil // its lock was taken, and nothing was made
	}
	data, err := hostpath.File(name, maxRecord)
	if err != nil {
		return r, err
	}
	for dec := json.NewDecoder(bytes.NewReader(data)); ; {
		var next record
		switch err := dec.Decode(&next); {
		case err == nil:
			r = next // the last one counts
		default:
			return r, nil // the end, or the rest of what was never written whole
		}
	}
}

// begin writes a record for what is about to be made, in place of an older
// one. What was made is added to the file later. The file stays the same one,
// because the locks of its users are on it, and because file systems flush a
// file that replaces another, which takes longer than all the rest. The caller
// closes it.
func (d *Dir) begin(r record) (*os.File, error) {
	f, err := os.OpenFile(d.file(key(r.Path)), os.O_WRONLY|os.O_CREATE|os.O_TRUNC|os.O_APPEND|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err := r.appendTo(f); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// appendTo writes r in one piece, so that it is there as a whole or not.
func (r record) appendTo(f *os.File) error {
	data, err := json.Marshal(r)
	if err == nil {
		_, err = f.Write(append(data, '\n'))
	}
	return err
}

// file returns the path of the record k. The shared locks of those who use
// the stub are on it.
func (d *Dir) file(k string) string { return filepath.Join(d.path, k+recordSuffix) }

// lockOf returns the lock on the record k, not yet taken.
func (d *Dir) lockOf(k string) *flock.Flock {
	return flock.New(d.file(k), flock.SetPermissions(0o600))
}

// forget removes the record; the caller holds its lock alone, and that of the
// folder, so nobody opens it meanwhile.
func (d *Dir) forget(k string) error {
	err := os.Remove(d.file(k))
	d.step()
	if errors.Is(err, os.ErrNotExist) {
		return nil
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
	if r.Ino == 0 || hostpath.Stat(dir, name, &st) != nil || uint64(st.Dev) != r.Dev || st.Ino != r.Ino {
		return false
	}
	if r.Dir {
		// rmdir sees whether it is empty.
		return st.Mode == unix.S_IFDIR|dirMode && birth(dir, name) == r.Birth
	}
	if r.Sock {
		return st.Mode == unix.S_IFSOCK && st.Nlink == 1 && st.Mtim.Nano() == r.Mtime && birth(dir, name) == r.Birth
	}
	return st.Mode == unix.S_IFREG|fileMode && st.Nlink == 1 && st.Size == int64(len(content(r.Path))) && st.Mtim.Nano() == r.Mtime &&
		birth(dir, name) == r.Birth
}
