package hostscan

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bulkhead-dev/sandbox/internal/hostpath"
	"github.com/bulkhead-dev/sandbox/provider/local/plan"

	"golang.org/x/sys/unix"
)

// listSuffix is the end of the names of lists; the beginning is a digest of the
// folder's path. A list holds the records of the stubs in one folder, one a
// line.
const listSuffix = ".stubs"

// newSuffix is the end of the name of a list that will replace another.
const newSuffix = ".new"

// maxList bounds a list in bytes.
const maxList = 16 << 20

// A record describes a stub that was, or is about to be, created at a path.
type record struct {
	Path string `json:"path"`
	Dir  bool   `json:"dir,omitempty"`
	Sock bool   `json:"socket,omitempty"`
	Temp string `json:"temp"` // the name in Path's folder for creating and removing it
	// Ino is 0 before the stub exists. The kernel reuses inode numbers, so the
	// time of birth counts too; it is 0 if the file system has none. A file's
	// time of change shows whether a process wrote to it; a folder's time
	// changes with the stubs in it.
	Dev   uint64 `json:"dev,omitempty"`
	Ino   uint64 `json:"ino,omitempty"`
	Birth int64  `json:"birth,omitempty"` // nanoseconds
	Mtime int64  `json:"mtime,omitempty"`
}

// key returns the digest of path that names its records.
func key(path string) string {
	sum := sha256.Sum256([]byte(path))
	return hex.EncodeToString(sum[:16])
}

// folderOf returns the parent folder of path, which is absolute and clean.
func folderOf(path string) string { return path[:max(strings.LastIndexByte(path, '/'), 1)] }

// newRecord returns the record of a stub that is about to be created.
func newRecord(s plan.Placeholder) record {
	return record{Path: s.Path, Dir: s.Dir, Sock: s.Socket, Temp: ".sandbox-stub-" + strings.ToLower(rand.Text())}
}

// A placeholderList holds the records of the stubs in one folder.
type placeholderList struct {
	name    string   // the file
	records []record // one for each path
	there   bool     // the file exists
	lines   int      // in the file, obsolete ones included
	cut     bool     // the file does not end with a whole line
}

// list reads the list k. A missing list is empty. A caller that will write the
// list has locked the folder of records.
func (d *Placeholders) list(k string) (placeholderList, error) { return d.read(k, nil) }

// lookUp returns the record of path. It decodes the lines with that path alone:
// a scan of a folder with many placeholders asks for each name in it.
func (d *Placeholders) lookUp(path string) (record, bool, error) {
	name, err := json.Marshal(path) // as lines has written it
	if err != nil {
		return record{}, false, err
	}
	l, err := d.read(key(folderOf(path)), name)
	if err != nil {
		return record{}, false, err
	}
	r, ok := l.find(path)
	return r, ok, nil
}

// read reads the list k, without the lines that do not contain only.
func (d *Placeholders) read(k string, only []byte) (placeholderList, error) {
	l := placeholderList{name: filepath.Join(d.path, k+listSuffix)}
	var st unix.Stat_t
	if err := unix.Lstat(l.name, &st); err != nil { // nearly every folder has no list, so this check is a cheap call
		return l, ignoreGone(err)
	}
	l.there = true
	data, err := hostpath.File(l.name, maxList)
	if err != nil {
		return l, ignoreGone(err)
	}
	l.cut = len(data) > 0 && data[len(data)-1] != '\n'
	for line := range bytes.Lines(data) {
		l.lines++
		if !bytes.Contains(line, only) {
			continue
		}
		var r record
		// An incomplete line is ignored: the step that it announces did not
		// happen.
		if json.Unmarshal(line, &r) == nil && r.valid() && key(folderOf(r.Path)) == k {
			l.put(r)
		}
	}
	return l, nil
}

// put makes r the record of its path.
func (l *placeholderList) put(r record) {
	if i := l.index(r.Path); i >= 0 {
		l.records[i] = r
		return
	}
	l.records = append(l.records, r)
}

func (l *placeholderList) index(path string) int {
	return slices.IndexFunc(l.records, func(r record) bool { return r.Path == path })
}

// find returns the record of path.
func (l *placeholderList) find(path string) (record, bool) {
	if i := l.index(path); i >= 0 {
		return l.records[i], true
	}
	return record{}, false
}

// append writes records at the end of the file in one call, so that after a
// crash all of them are complete or the last of them are missing.
func (l *placeholderList) append(fd int, records []record) error {
	var data []byte
	if l.cut {
		data = append(data, '\n')
	}
	data, err := lines(data, records)
	if err != nil {
		return err
	}
	l.cut = true
	n, err := unix.Write(fd, data)
	if err != nil {
		return err
	}
	if n != len(data) {
		return errShort
	}
	l.cut = false
	l.lines += len(records)
	for _, r := range records {
		l.put(r)
	}
	return nil
}

var errShort = errors.New("the records of placeholders were not written whole")

// lines appends records to data.
func lines(data []byte, records []record) ([]byte, error) {
	for _, r := range records {
		line, err := json.Marshal(r)
		if err != nil {
			return nil, err
		}
		data = append(append(data, line...), '\n')
	}
	return data, nil
}

// open opens the file for append. The caller closes it.
func (l *placeholderList) open() (fd int, err error) {
	err = hostpath.Retry(func() (err error) {
		fd, err = unix.Open(l.name, unix.O_WRONLY|unix.O_CREAT|unix.O_APPEND|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
		return err
	})
	return fd, err
}

// save replaces the file by the records of l, or removes the file if there are
// none. Replacing is slow, because file systems flush a file that replaces
// another.
func (d *Placeholders) save(l *placeholderList) error {
	defer d.step()
	if len(l.records) == 0 {
		return ignoreGone(unix.Unlink(l.name))
	}
	data, err := lines(nil, l.records)
	if err != nil {
		return err
	}
	next := strings.TrimSuffix(l.name, listSuffix) + newSuffix
	if err := os.WriteFile(next, data, 0o600); err != nil {
		return errors.Join(err, ignoreGone(unix.Unlink(next)))
	}
	d.step()
	l.lines, l.cut = len(l.records), false
	return os.Rename(next, l.name)
}

// valid reports whether a record read from a file may come from this package.
// Otherwise the package could remove or rename the paths that the record names.
func (r record) valid() bool {
	return strings.HasPrefix(r.Path, "/") && filepath.Clean(r.Path) == r.Path && r.Path != "/" && strings.IndexByte(r.Path, 0) < 0 &&
		strings.HasPrefix(r.Temp, ".sandbox-stub-") && !strings.ContainsAny(r.Temp, "/\x00")
}

// isAt reports whether name in the folder dir is the stub, as it was created.
func (r record) isAt(dir int, name string) bool {
	if r.Ino == 0 {
		return false
	}
	st, err := lookPlaceholder(dir, name)
	return err == nil && r.is(st)
}

// is reports whether st describes the stub, as it was created.
func (r record) is(st status) bool {
	if r.Ino == 0 || st.dev != r.Dev || st.ino != r.Ino || st.birth != r.Birth {
		return false
	}
	switch {
	case r.Dir:
		// rmdir fails if it is not empty.
		return st.mode == unix.S_IFDIR|dirMode
	case r.Sock:
		return st.mode == unix.S_IFSOCK && st.nlink == 1 && st.mtime == r.Mtime
	}
	return st.mode == unix.S_IFREG|fileMode && st.nlink == 1 && st.size == int64(len(content(r.Path))) && st.mtime == r.Mtime
}

// A status is the result of stat for a file.
type status struct {
	dev, ino, nlink uint64
	mode            uint32
	size            int64
	mtime, birth    int64 // nanoseconds; birth is 0 if the file system has none
}
