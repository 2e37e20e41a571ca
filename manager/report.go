package manager

import (
	"cmp"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/egress/proxy"
)

// Bounds of a report.
const (
	maxSeenFiles   = 500_000 // of a workspace that are compared
	maxShownChange = 1000    // changes that are named
)

// A Report says what a command did beyond its sandbox's own. Texts that come from
// inside, such as names of files, may hold anything.
type Report struct {
	Sandbox  string `json:"sandbox"`
	Provider string `json:"provider"`
	User     string `json:"user"`    // uid:gid of the command
	Network  string `json:"network"` // of the sandbox; none is none but the proxy

	Reached []proxy.Reached     `json:"reached"` // hosts that it was let through to
	Blocked []sandbox.Violation `json:"blocked"` // what rules stopped

	Workspace   string       `json:"workspace"`             // folder of the host whose files are compared
	Changed     []FileChange `json:"changed"`               // in the order of their paths, the first 1000
	ChangedMore int          `json:"changedMore,omitempty"` // how many others there are
	Unknown     string       `json:"unknown,omitempty"`     // why changes are not known

	CopiedOut *CopiedOut `json:"copiedOut,omitempty"` // of a workspace that is copied
	Services  []string   `json:"services,omitempty"`
	Notes     []string   `json:"notes"` // what is weaker than usual
}

// A FileChange is one file of the workspace that differs after a command.
type FileChange struct {
	Path string `json:"path"` // relative to the workspace
	How  string `json:"how"`  // added, changed or removed
}

// A seenFile is what distinguishes a file from a changed one. The time of the last change of
// status cannot be set by programs inside.
type seenFile struct {
	mode    fs.FileMode
	size    int64
	ino     uint64
	changed unix.Timespec
}

// A snapshotOf is the files of a folder, by their paths in it.
type snapshotOf struct {
	files map[string]seenFile
	why   string // it is not complete; or empty
}

// seenIn looks at all files below dir, without following links. Folders are left
// out: what is in them says what became of them.
func seenIn(ctx context.Context, dir string) snapshotOf {
	s := snapshotOf{files: map[string]seenFile{}}
	root, err := os.OpenRoot(dir)
	if err != nil {
		s.why = "the workspace cannot be read: " + err.Error()
		return s
	}
	defer root.Close()
	err = fs.WalkDir(root.FS(), ".", func(path string, e fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil || e.IsDir() {
			return nil //nolint:nilerr // a folder that has gone meanwhile, or is closed to us, has no files to name
		}
		fi, err := e.Info()
		if err != nil {
			return nil //nolint:nilerr // it has gone meanwhile
		}
		if len(s.files) == maxSeenFiles {
			s.why = "the workspace has more than " + strconv.Itoa(maxSeenFiles) + " files"
			return fs.SkipAll
		}
		f := seenFile{mode: fi.Mode(), size: fi.Size()}
		if st, ok := fi.Sys().(*syscall.Stat_t); ok {
			f.ino, f.changed = st.Ino, changedAt(st)
		}
		s.files[filepath.ToSlash(path)] = f
		return nil
	})
	if err != nil {
		s.why = "the workspace cannot be read: " + err.Error()
	}
	return s
}

// compare returns what differs in later, and how many changes are not named.
func (s snapshotOf) compare(later snapshotOf) (list []FileChange, more int) {
	list = []FileChange{}
	for path, f := range later.files {
		switch was, ok := s.files[path]; {
		case !ok:
			list = append(list, FileChange{path, "added"})
		case was != f:
			list = append(list, FileChange{path, "changed"})
		}
	}
	for path := range s.files {
		if _, ok := later.files[path]; !ok {
			list = append(list, FileChange{path, "removed"})
		}
	}
	slices.SortFunc(list, func(a, b FileChange) int { return cmp.Compare(a.Path, b.Path) })
	if len(list) > maxShownChange {
		list, more = list[:maxShownChange], len(list)-maxShownChange
	}
	return list, more
}

// A reportMaker makes the report of one call.
type reportMaker struct {
	report *Report
	dir    string
	before snapshotOf
}

// reporting begins the report of a call in l, or returns nil where none is wanted.
func reporting(ctx context.Context, l *acquired, req Request) *reportMaker {
	if !req.Report {
		return nil
	}
	r := &reportMaker{dir: workspaceOf(l.spec), report: &Report{
		Sandbox: l.name(), Provider: l.provider.Name(), User: strconv.Itoa(l.spec.UID) + ":" + strconv.Itoa(l.spec.GID),
		Network: cmp.Or(l.spec.Network, "none"), Workspace: workspaceOf(l.spec),
		Reached: []proxy.Reached{}, Blocked: []sandbox.Violation{}, Changed: []FileChange{}, Notes: []string{},
	}}
	r.report.Notes = append(r.report.Notes, rootNotes(l.want.res, l.spec)...)
	for _, s := range req.Services {
		name := s.Name
		if s.Image != "" {
			name += " (" + s.Image + ")"
		}
		r.report.Services = append(r.report.Services, name)
	}
	if r.dir == "" || detached(l.provider) {
		r.report.Workspace, r.report.Unknown = "", "the workspace is no folder of this machine"
		return r
	}
	r.before = seenIn(ctx, r.dir)
	return r
}

// end completes the report with how the call ended.
func (r *reportMaker) end(ctx context.Context, out *Outcome) {
	if r == nil {
		return
	}
	out.Report = r.report
	r.report.Reached = append(r.report.Reached, out.reached...)
	r.report.Blocked = append(r.report.Blocked, out.Violations...)
	if r.report.Workspace == "" {
		return
	}
	after := seenIn(context.WithoutCancel(ctx), r.dir)
	r.report.Changed, r.report.ChangedMore = r.before.compare(after)
	r.report.Unknown = cmp.Or(r.before.why, after.why)
}
