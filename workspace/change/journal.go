package change

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/hostpath"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"
)

const opJournal = "read journal of applied changes"

// A journal is what [Plan.Apply] writes before it changes anything, and by
// which [Undo] and [Resume] know for each path what was there and what has to
// be there. Its folder holds:
//
//	journal.json  the operations, in the order in which they are done
//	old/N, new/N  the content of the file of operation N before and after it
//	phase         how far it is: no file while operations are done for the first time
//
// No progress is recorded for single operations, because the state of a path
// shows whether its operation is done.
type journal struct {
	Version int         `json:"version"`
	ID      string      `json:"id"`     // part of the names of temporary files in the folder
	Folder  rawName     `json:"folder"` // canonical path
	Ino     uint64      `json:"ino"`    // of the folder
	Limit   int64       `json:"limit"`  // bytes of a file
	Ops     []operation `json:"ops"`

	dir string
}

// An operation changes what lies at one path from Old to New.
type operation struct {
	Path rawName `json:"path"`
	Old  state   `json:"old"`
	New  state   `json:"new"`

	source  source
	data    []byte   // of sourceData
	origin  string   // path in the current tree, of sourceTree
	entries []string // paths of the entries that need it
	merged  bool
}

// A source says where new content comes from.
type source int

const (
	sourceTree source = iota // the current tree
	sourceHost               // the host's own file: only its mode changes
	sourceData               // a merge
)

// A Phase says how far the application of changes is.
type Phase string

// The phases of a journal.
const (
	Applying Phase = "applying" // interrupted, or still at work: Resume completes it, Undo takes it back
	Applied  Phase = "applied"
	Undoing  Phase = "undoing" // interrupted, or still at work: Undo completes it
	Undone   Phase = "undone"
)

// Bounds and names of a journal.
const (
	version     = 1
	maxJournal  = 512 << 20 // bytes
	journalFile = "journal.json"
	phaseFile   = "phase"
	tempPrefix  = ".sandbox-apply-"
)

// A rawName is a string of any bytes. In JSON, one that is not UTF-8 is written
// in base64 after a mark.
type rawName string

const rawMark = "base64:"

// MarshalJSON implements [json.Marshaler].
func (n rawName) MarshalJSON() ([]byte, error) {
	s := string(n)
	if !utf8.ValidString(s) || strings.HasPrefix(s, rawMark) {
		s = rawMark + base64.StdEncoding.EncodeToString([]byte(s))
	}
	return json.Marshal(s)
}

// UnmarshalJSON implements [json.Unmarshaler].
func (n *rawName) UnmarshalJSON(data []byte) error {
	var s string
	if err := json.Unmarshal(data, &s); err != nil {
		return err
	}
	if coded, ok := strings.CutPrefix(s, rawMark); ok {
		raw, err := base64.StdEncoding.DecodeString(coded)
		*n = rawName(raw)
		return err
	}
	*n = rawName(s)
	return nil
}

// newJournal makes the folder of a journal, which must be empty or missing.
func newJournal(dir string, h *host, ops []operation, limit int64) (*journal, error) {
	dir, err := privateFolder(dir, h)
	if err != nil {
		return nil, err
	}
	there, err := os.ReadDir(dir)
	if err != nil {
		return nil, failed(opApply, dir, err)
	}
	if slices.ContainsFunc(there, func(e fs.DirEntry) bool { return e.Name() == journalFile }) {
		e := sandbox.Errorf(sandbox.CodeValidation, opApply, "%s holds the journal of other changes", Quote(dir))
		e.Field, e.Resource, e.Hint = "journal", dir, "name another folder"
		return nil, e
	}
	for _, sub := range []string{"old", "new"} { // of an application that ended before it wrote anything
		if err := os.RemoveAll(filepath.Join(dir, sub)); err != nil {
			return nil, failed(opApply, dir, err)
		}
		if err := os.Mkdir(filepath.Join(dir, sub), 0o700); err != nil {
			return nil, failed(opApply, dir, err)
		}
	}
	return &journal{Version: version, ID: strings.ToLower(rand.Text()[:12]), Folder: rawName(h.path), Ino: h.ino, Limit: limit, Ops: ops, dir: dir}, nil
}

// privateFolder makes the folder dir, or takes one that only its owner may
// write to. It must not lie in the folder that is changed.
func privateFolder(dir string, h *host) (string, error) {
	canonical, err := hostpath.Canonical(dir)
	if err != nil {
		return "", failed(opApply, dir, err)
	}
	if hostpath.Within(canonical, h.path) {
		e := sandbox.Errorf(sandbox.CodeValidation, opApply, "the journal %s lies in the folder that is changed", Quote(dir))
		e.Field, e.Resource, e.Hint = "journal", dir, "name a folder elsewhere"
		return "", e
	}
	return statedir.MakePrivate(canonical)
}

// write records the operations for good.
func (j *journal) write() error {
	data, err := json.Marshal(j)
	if err != nil {
		return sandbox.Errorf(sandbox.CodeInternal, opApply, "cannot encode the journal: %w", err)
	}
	if len(data) > maxJournal {
		return tooMuch(".", "the journal would be too long")
	}
	if err := renameio.WriteFile(filepath.Join(j.dir, journalFile), data, 0o600, renameio.WithTempDir(j.dir)); err != nil {
		return failed(opApply, j.dir, err)
	}
	return failed(opApply, j.dir, syncFolders(j.dir, filepath.Join(j.dir, "old"), filepath.Join(j.dir, "new"), filepath.Dir(j.dir)))
}

// syncFolders writes files, and the names in folders, to the disk.
func syncFolders(paths ...string) error {
	for _, p := range paths {
		f, err := os.Open(p)
		if err != nil {
			return err
		}
		err = f.Sync()
		f.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// setPhase records how far the work is.
func (j *journal) setPhase(p Phase) error {
	err := renameio.WriteFile(filepath.Join(j.dir, phaseFile), []byte(p), 0o600, renameio.WithTempDir(j.dir))
	if err == nil {
		err = syncFolders(j.dir)
	}
	return failed(opApply, j.dir, err)
}

// phase reads how far the work is.
func (j *journal) phase() (Phase, error) {
	data, err := hostpath.File(filepath.Join(j.dir, phaseFile), 16)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Applying, nil
	case err != nil:
		return "", failed(opJournal, j.dir, err)
	}
	p := Phase(data)
	if !slices.Contains([]Phase{Applied, Undoing, Undone}, p) {
		return "", damaged(j.dir, "its phase is not known")
	}
	return p, nil
}

// content names the file with the content of an operation.
func (j *journal) content(which string, n int) string {
	return filepath.Join(j.dir, which, strconv.Itoa(n))
}

// temp names the temporary file of an operation in its folder.
func (j *journal) temp(n int, suffix string) string {
	return tempPrefix + j.ID + "-" + strconv.Itoa(n) + suffix
}

// readJournal reads the journal in the folder dir.
func readJournal(dir string) (*journal, error) {
	canonical, err := hostpath.Canonical(dir)
	if err != nil {
		return nil, failed(opJournal, dir, err)
	}
	data, err := hostpath.File(filepath.Join(canonical, journalFile), maxJournal)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &sandbox.Error{Code: sandbox.CodeNotFound, Op: opJournal, Resource: dir, Message: "there is no journal of applied changes in " + Quote(dir), Err: err}
	}
	if err != nil {
		return nil, failed(opJournal, dir, err)
	}
	j, err := parseJournal(data)
	if err != nil {
		return nil, damaged(dir, err.Error())
	}
	j.dir = canonical
	return j, nil
}

// parseJournal decodes a journal and checks all that is used of it.
func parseJournal(data []byte) (*journal, error) {
	j := &journal{}
	if err := json.Unmarshal(data, j); err != nil {
		return nil, err
	}
	if j.Version != version {
		return nil, fmt.Errorf("its version is %d, not %d", j.Version, version)
	}
	if len(j.ID) != 12 || strings.Trim(j.ID, "abcdefghijklmnopqrstuvwxyz234567") != "" || j.Limit < 0 || !filepath.IsAbs(string(j.Folder)) {
		return nil, errors.New("it is not complete")
	}
	for i, o := range j.Ops {
		if o.Path == "." || checkPath(opJournal, string(o.Path)) != nil {
			return nil, fmt.Errorf("operation %d has no path below the folder", i)
		}
		for _, s := range []state{o.Old, o.New} {
			if err := s.check(); err != nil {
				return nil, fmt.Errorf("operation %d: %w", i, err)
			}
		}
		if o.New.Mode&(unix.S_ISUID|unix.S_ISGID|unix.S_ISVTX) != 0 && o.New.Kind != folder {
			return nil, fmt.Errorf("operation %d sets setuid, setgid or sticky", i)
		}
	}
	return j, nil
}

// check returns an error for a state that no operation leads from or to.
func (s state) check() error {
	digest, err := hex.DecodeString(s.Digest)
	switch {
	case err != nil || s.Mode > 0o7777 || s.Size < 0:
		return errors.New("a state is malformed")
	case s.Kind == regular && len(digest) == 32 && s.Link == "":
		return nil
	case s.Kind == symlink && s.Link != "" && s.Digest == "" && len(s.Link) <= unix.PathMax && !strings.ContainsRune(string(s.Link), 0):
		return nil
	case (s.Kind == folder || s.Kind == absent) && s.Link == "" && s.Digest == "":
		return nil
	}
	return errors.New("a state is malformed")
}

func damaged(dir, why string) error {
	return &sandbox.Error{
		Code: sandbox.CodeValidation, Op: opJournal, Resource: dir, Message: "the journal in " + Quote(dir) + " cannot be used: " + why,
		Hint: "compare the folder with a backup; nothing was changed",
	}
}

// A Status describes a journal.
type Status struct {
	Phase  Phase    `json:"phase"`
	Folder string   `json:"folder"` // to which the changes were applied
	Paths  []string `json:"paths"`  // that it changes, sorted
}

// Inspect reads the journal in the folder dir. CodeNotFound says that nothing
// was applied with it.
func Inspect(dir string) (Status, error) {
	j, err := readJournal(dir)
	if err != nil {
		return Status{}, err
	}
	s := Status{Folder: string(j.Folder)}
	for _, o := range j.Ops {
		s.Paths = append(s.Paths, string(o.Path))
	}
	slices.Sort(s.Paths)
	s.Paths = slices.Compact(s.Paths)
	s.Phase, err = j.phase()
	return s, err
}
