// Package plan computes what a local sandbox shows and what it closes. It takes
// the rules and the facts of the host as plain data and returns an ordered list
// of mounts, the probes that check them from inside, and the verdict on an
// operation at a path. It is pure: adapters turn a Plan into the arguments of a
// tool, and other packages read the host.
//
// How rules combine:
//
//   - The view with the longest target wins, in whatever order the views are
//     given; of two with the same target the later one, and a view wins over a
//     tmpfs.
//   - A deny wins over every view, at any depth, in every view that shows the
//     path. A view that begins below a denied path is closed too. A deny that
//     closes what the sandbox requires is an error, see [View].
//   - Inside a yielding deny, an [Open] shows its path again, in every view that
//     shows it. The deeper of the two decides, the deny if both have the same
//     path; what is denied inside the Open stays denied.
//   - A deny closes paths of the host, not of the sandbox: what another view or
//     a tmpfs mounts below a closed folder stays reachable.
//   - Folders above a closed path, and above a mount inside a writable view, are
//     mounted onto themselves, because code inside could rename a folder that is
//     no mount point and create a new one in its place.
//   - A denied path that is a link closes the target of the link. With Keep the
//     link cannot be replaced either: no mount can lie on a link, so the folder
//     that holds it loses the right to create, rename and remove names, while
//     the files and folders in it stay as writable as they were.
//   - A view may need a mount point that its source lacks. In a writable view
//     the host gets it while the sandbox runs ([Plan.Placeholders]); a read-only view is
//     shown name by name instead, in a folder in memory, and so is "/" always.
//     Such a folder shows the names that existed when the plan was made.
package plan

import sandbox "github.com/bulkhead-dev/sandbox"

// A Kind is the type of the file at a host path, without following links.
type Kind uint8

// The kinds.
const (
	Missing Kind = iota
	File
	Dir
	Link   // a symbolic link
	Socket // a Unix socket
	Other  // a device, a pipe
)

// A View makes a folder or file of the host visible. Several views may show the
// same host path.
type View struct {
	Source string // on the host: absolute and canonical
	Target string // inside: absolute and clean
	Write  bool
	// Socket says that Source is a Unix socket that commands may connect to. It
	// excludes Write.
	Socket bool
	// Optional allows Make to leave the view out if Source is missing, and a
	// deny to close it. Otherwise both are errors: the sandbox requires the
	// view.
	Optional bool
	// Fixed marks a view that this program adds: no grant changes what it
	// shows.
	Fixed bool
	Why   string // the setting or the requirement that the view comes from
}

// A Symlink is a link to create in the new root: /bin where the host has
// usr/bin.
type Symlink struct {
	Target string // inside: absolute
	To     string // its content
}

// A Deny closes a path of the host, and everything below it, in every view that
// shows it. It wins over every view and every grant, at any depth.
type Deny struct {
	Path string // canonical on the host; may be missing
	Read bool   // closed for reading and writing; otherwise for writing only
	// Keep keeps a missing path missing inside writable views, with a stub on
	// the host while sandboxes need it, and keeps a link unchanged. Without
	// Keep, a deny of a missing path takes effect only once the path exists.
	Keep bool
	// Dir makes the stub of a missing path a folder; otherwise it is a file. If
	// folders above are missing too, the stub is the first of them.
	Dir bool
	// Socket makes the stub a Unix socket to which no process listens. It is
	// for paths in a git work tree, because git neither lists nor removes
	// sockets.
	Socket bool
	// Link denies only the link itself: its target stays as it is. It has no
	// effect on a path that is not a link.
	Link bool
	// Yields lets an [Open] inside Path allow reading, and writing if the Open
	// says so. A write-only deny yields to no Open.
	Yields bool
	Rule   string // as the user finds it in the settings, or the name of a protection
}

// An Open is a host path that stays open inside a yielding [Deny]. It shows
// nothing where no view does, and has no effect if the path is missing, is a
// link or passes through one. The deeper of a Deny and an Open decides, and the
// Deny if both have the same path. In the profile of sandbox-exec, a write-only
// Open takes effect only if an Open at or above its path, and below the Deny,
// opens reading; a read-only one closes writing.
type Open struct {
	Path  string // absolute and clean
	Read  bool   // opens reading
	Write bool   // opens writing, if this or an Open above opens reading
	Rule  string
}

// A Target is the content of a host link and the path that it leads to.
type Target struct {
	Text string // the result of readlink(2)
	Real string // canonical; the path may be missing
}

// A World is the input of [Make]: the rules and the facts of the host. [Draw]
// fills in the last three fields.
type World struct {
	Views    []View
	Symlinks []Symlink
	Tmpfs    []sandbox.Tmpfs
	ShmSize  int64 // bytes of /dev/shm; 0 means 64 MiB, never unbounded
	Denies   []Deny
	Opens    []Open
	// Tell lists files of /proc, as paths inside, that reveal host information
	// in every namespace. They must exist. Make closes them.
	Tell []string
	// Kinds gives the kind of every Source, every Deny path and every Open
	// path, of each ancestor of the latter two, and of the other paths that
	// Make checks. A path that it lacks is an error.
	Kinds map[string]Kind
	// Names are the entries of folders that are shown name by name.
	Names map[string][]string
	// Links are the links that are denied or shown name by name.
	Links map[string]Target
}

// An OpKind is a kind of step in building the new root.
type OpKind string

// The kinds of steps. Each acts on a Target whose parent exists by then. Steps
// that mount create their mount point only in folders in memory; everywhere
// else it exists.
const (
	OpDir       OpKind = "dir"       // a folder in memory
	OpSymlink   OpKind = "symlink"   // Source is the content of the link
	OpBind      OpKind = "bind"      // Source of the host, writable, with all mounts below it
	OpRoBind    OpKind = "ro-bind"   // the same, read-only, the mounts below included
	OpTmpfs     OpKind = "tmpfs"     // memory of Size bytes (0: unbounded, only if it ends up read-only) and Mode
	OpMaskFile  OpKind = "mask-file" // an empty file that no user can open
	OpMaskDir   OpKind = "mask-dir"  // an empty folder of Mode; with Open a later step makes it read-only, otherwise this one
	OpRemountRo OpKind = "remount-ro"
	OpProc      OpKind = "proc"
	OpDev       OpKind = "dev" // the few devices that every program expects
)

// An Op is one step. The order of steps is part of a Plan.
type Op struct {
	Kind   OpKind
	Source string // on the host; for a symlink its content
	Target string // inside
	Size   int64
	Mode   uint32
	Open   bool   // of a mask-dir: later steps mount below it
	File   bool   // of a bind: Source is not a folder
	Rule   string // the rule that requires the step
}

// A Want is the result that a probe expects.
type Want string

// The expected results.
const (
	Unreadable Want = "unreadable" // opening for reading fails
	Unwritable Want = "unwritable" // opening for writing, or creating a name in it, fails
	Writable   Want = "writable"   // opening for writing, or creating a name in it, succeeds
	Pinned     Want = "pinned"     // it is a mount point
)

// A Probe is one check to make from inside before any command runs.
type Probe struct {
	Path string // inside
	Want Want
	Rule string
}

// A Placeholder is a host path to create if it is missing, before the sandbox starts,
// and to remove when no sandbox needs it. Placeholders are ordered: parents come
// first.
type Placeholder struct {
	Path   string
	Dir    bool
	Socket bool
}

// A Plan is the result of [Make]: plain data, equal for equal worlds in
// whatever order the denies are given.
type Plan struct {
	Ops          []Op
	Probes       []Probe
	Placeholders []Placeholder
	Notes        []string // facts that the user should know and that no setting states

	layers   map[string]layer
	closures map[string]closure
	opens    map[string]Open
	links    []Symlink
}
