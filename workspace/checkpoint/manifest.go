package checkpoint

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/bulkhead-dev/sandbox/workspace"
	"golang.org/x/sys/unix"
)

// Types of an [Entry].
const (
	typeDir      = 'd'
	typeFile     = 'f'
	typeLink     = 'l' // symbolic
	typeWhiteout = 'w' // of overlayfs
	typeLeftOut  = 'x' // there was something, which was not copied
)

// An Entry is one line of a manifest: a file as it was when it was copied. The
// identity (Ino, MTime, CTime, Size) is that of the source, by which a file
// that did not change since is known.
type Entry struct {
	Path     string // below the tree, any bytes; "." is the tree itself
	Type     byte   // 'd' folder, 'f' regular file, 'l' symbolic link, 'w' whiteout, 'x' left out; of a base also 'a' absent, 's' special
	Mode     uint32 // permissions and set-user-id, set-group-id and sticky bits
	UID, GID int
	Size     int64
	MTime    int64 // nanoseconds since the epoch
	CTime    int64
	Ino      uint64
	Digest   string            // SHA-256 of a regular file in hexadecimal, or empty where none was computed
	Link     string            // target of a symbolic link; for a regular file its first name, if it is a hard link
	Xattrs   map[string]string // user.*
}

// entryOf returns the entry of a file. The conversions are for systems with
// other types.
func entryOf(rel string, kind byte, st *unix.Stat_t) Entry {
	return Entry{
		Path: rel, Type: kind, Mode: uint32(st.Mode) & 0o7777, UID: int(st.Uid), GID: int(st.Gid), //nolint:unconvert
		Size: st.Size, MTime: nanos(st.Mtim), CTime: nanos(st.Ctim), Ino: st.Ino,
	}
}

// unchanged reports whether the file st is the one of the entry, and did not
// change since.
func (e *Entry) unchanged(st *unix.Stat_t) bool {
	return e.CTime != 0 && e.Ino == st.Ino && e.Size == st.Size && e.MTime == nanos(st.Mtim) && e.CTime == nanos(st.Ctim)
}

// owner returns whom the copy belongs to.
func (e *Entry) owner(change func(workspace.Owner) workspace.Owner) workspace.Owner {
	o := workspace.Owner{UID: e.UID, GID: e.GID}
	if change == nil {
		return o
	}
	return change(o)
}

// swapOwners returns the owner of a file in a copy in which a and b have
// changed places, as in an idmapped mount.
func swapOwners(a, b workspace.Owner) func(workspace.Owner) workspace.Owner {
	swap := func(id, x, y int) int {
		switch id {
		case x:
			return y
		case y:
			return x
		}
		return id
	}
	return func(o workspace.Owner) workspace.Owner {
		return workspace.Owner{UID: swap(o.UID, a.UID, b.UID), GID: swap(o.GID, a.GID, b.GID)}
	}
}

const manifestHeader = "sandbox-manifest 1"

// writeManifest writes entries to the file at path, one a line, in fields
// separated by tabs. Names are quoted as in Go, so that any bytes survive.
func writeManifest(path, note string, entries []Entry) (err error) {
	f, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err == nil {
			err = os.Rename(path+".new", path)
		}
	}()
	w := bufio.NewWriterSize(f, 1<<18)
	fmt.Fprintf(w, "%s\t%s\n", manifestHeader, strconv.Quote(note))
	var b []byte
	for i := range entries {
		b = entries[i].appendTo(b[:0])
		if _, err := w.Write(b); err != nil {
			return err
		}
	}
	return w.Flush()
}

func (e *Entry) appendTo(b []byte) []byte {
	b = append(b, e.Type, '\t')
	b = strconv.AppendUint(b, uint64(e.Mode), 8)
	for _, n := range []int64{int64(e.UID), int64(e.GID), e.Size, e.MTime, e.CTime} {
		b = strconv.AppendInt(append(b, '\t'), n, 10)
	}
	b = strconv.AppendUint(append(b, '\t'), e.Ino, 10)
	b = append(append(b, '\t'), e.Digest...)
	b = strconv.AppendQuote(append(b, '\t'), e.Path)
	b = strconv.AppendQuote(append(b, '\t'), e.Link)
	for _, key := range sortedKeys(e.Xattrs) {
		b = strconv.AppendQuote(append(b, '\t'), key)
		b = strconv.AppendQuote(append(b, '\t'), e.Xattrs[key])
	}
	return append(b, '\n')
}

func sortedKeys(m map[string]string) []string {
	if len(m) == 0 {
		return nil
	}
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// readManifest calls fn for the entries of the manifest at path and returns its
// note. ok is false when there is none.
func readManifest(path string, fn func(Entry)) (note string, ok bool, err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, 1<<18)
	for first := true; ; first = false {
		line, err := r.ReadString('\n')
		if errors.Is(err, io.EOF) && line == "" && !first {
			return note, true, nil
		}
		if err != nil {
			return "", false, fmt.Errorf("%s ends in the middle of a line: %w", path, err)
		}
		line = strings.TrimSuffix(line, "\n")
		if first {
			head, quoted, _ := strings.Cut(line, "\t")
			if note, err = strconv.Unquote(quoted); err != nil || head != manifestHeader {
				return "", false, fmt.Errorf("%s is no manifest", path)
			}
			continue
		}
		e, err := parseEntry(line)
		if err != nil {
			return "", false, fmt.Errorf("%s: %q: %w", path, line, err)
		}
		fn(e)
	}
}

func parseEntry(line string) (Entry, error) {
	f := strings.Split(line, "\t")
	if len(f) < 11 || len(f)%2 != 1 || len(f[0]) != 1 {
		return Entry{}, errors.New("wrong number of fields")
	}
	mode, err := strconv.ParseUint(f[1], 8, 32)
	if err != nil {
		return Entry{}, err
	}
	var n [5]int64
	for i := range n {
		if n[i], err = strconv.ParseInt(f[2+i], 10, 64); err != nil {
			return Entry{}, err
		}
	}
	ino, err := strconv.ParseUint(f[7], 10, 64)
	if err != nil {
		return Entry{}, err
	}
	text := make([]string, len(f)-9)
	for i, quoted := range f[9:] {
		if text[i], err = strconv.Unquote(quoted); err != nil {
			return Entry{}, err
		}
	}
	e := Entry{
		Path: text[0], Type: f[0][0], Mode: uint32(mode), UID: int(n[0]), GID: int(n[1]), Size: n[2], MTime: n[3], CTime: n[4],
		Ino: ino, Digest: f[8], Link: text[1],
	}
	for i := 2; i+1 < len(text); i += 2 {
		if e.Xattrs == nil {
			e.Xattrs = map[string]string{}
		}
		e.Xattrs[text[i]] = text[i+1]
	}
	return e, nil
}

// Absent reports whether there was nothing.
func (e Entry) Absent() bool { return e.Type == typeAbsent }

// FileMode returns the type and the permissions, with the bits setuid, setgid and
// sticky.
func (e Entry) FileMode() fs.FileMode {
	mode := fs.FileMode(e.Mode & 0o777)
	for bit, m := range map[uint32]fs.FileMode{unix.S_ISUID: fs.ModeSetuid, unix.S_ISGID: fs.ModeSetgid, unix.S_ISVTX: fs.ModeSticky} {
		if e.Mode&bit != 0 {
			mode |= m
		}
	}
	switch e.Type {
	case typeDir:
		mode |= fs.ModeDir
	case typeLink:
		mode |= fs.ModeSymlink
	}
	return mode
}
