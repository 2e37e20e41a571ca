// Package plan computes what a local wall shows and what it closes: from the
// rules and from what there is on the host, both plain data, to a list of
// mounts in order, the probes that prove them from inside, and the answer to
// what may be done where. It is pure: adapters turn a Plan into the arguments
// of a tool, and others look at the host.
//
// How rules meet:
//
//   - The view with the longest target wins, whatever the order they are given
//     in; of two with one target the later one, and a view wins over a tmpfs.
//   - A deny wins over every view, at any depth, in every view that shows the
//     path. A view that begins below a denied path is closed too. A deny that
//     closes what the wall cannot do without is an error, see [View].
//   - Inside a deny that yields, an [Open] shows its path again, in every view
//     that shows it. The deeper of the two decides, the deny where they are of
//     one path; what is denied inside the Open stays so.
//   - A deny closes paths of the host, not of the inside: what another view or
//     a tmpfs puts below a closed folder stays reachable.
//   - Folders above a closed path, and above a mount inside a writable view,
//     are mounted onto themselves, because a folder that is no mount point
//     could be renamed and a new one put in its place.
//   - A denied path that is a link closes what it leads to. With Keep the link
//     cannot be replaced either: nothing can be mounted on a link, so the
//     folder it lies in loses the right to make, rename and remove names, while
//     the files and folders in it stay as writable as they were.
//   - A view may need a mount point that its source lacks. In a writable view
//     the host gets it for as long as the wall stands ([Plan.Stubs]); a
//     read-only one is shown name by name instead, in a folder of memory, and
//     so is "/" always. Such a folder shows the names of when the plan was made.
package plan

import sandbox "github.com/bulkhead-dev/sandbox"

// A Kind is what there is at a path of the host, links not followed.
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

// A View makes a folder or file of the host visible. A host path may be
// visible in several.
type View struct {
	Source string // on the host: absolute, canonical
	Target string // inside: absolute, clean
	Write  bool
	// Socket has Source be a Unix socket that may be connected to. Write does
	// not go with it.
	Socket bool
	// Optional is a view that may be left out where Source is missing, and
	// closed by a deny. Otherwise either is an error: the wall needs it.
	Optional bool
	// Fixed is a view of our own making: no grant changes what it shows.
	Fixed bool
	Why   string // the setting or the need that it comes from
}

// A Symlink is made in the new root: /bin where the host has usr/bin.
type Symlink struct {
	Target string // inside: absolute
	To     string // what it holds
}

// A Deny closes a path of the host, and everything below it, wherever a view
// shows it. It beats every view and every grant, at any depth.
type Deny struct {
	Path string // canonical on the host; it may be missing
	Read bool   // closed for reading and writing; otherwise for writing alone
	// Keep has a path that is missing be kept missing inside writable views,
	// by a stub on the host for as long as walls need it, and a link be kept
	// as it is. Without it a deny of a missing path has an effect only once
	// the path is there.
	Keep bool
	// Dir has the stub of a missing path be a folder; otherwise it is a file.
	// Where folders above are missing too, the first of them is the stub.
	Dir bool
	// Socket has it be a Unix socket to which no process listens, for a path
	// in a work tree of git, which neither lists nor removes sockets.
	Socket bool
	// Link has a link be denied alone: what it leads to stays as it is. Of
	// what is no link it says nothing.
	Link bool
	// Yields has an [Open] below Path be open for reading, and for writing where
	// that says so. A deny of writing alone yields to none.
	Yields bool
	Rule   string // as a person finds it in the settings, or the name of a protection
}

// An Open is a path of the host that stays open inside a [Deny] that yields. It
// shows nothing where no view does, and has no effect where the path is missing,
// is a link or is reached through one. The deeper of a Deny and an Open decides,
// and the Deny where both have one path. In rules for sandbox-exec an Open to
// write alone has an effect where an Open at or above its path, and below the
// Deny, opens reading; one to read alone closes writing.
type Open struct {
	Path  string // absolute and clean
	Read  bool   // opens reading
	Write bool   // opens writing, where this or an Open above opens reading
	Rule  string
}

// A Target is what a link of the host holds and where it leads.
type Target struct {
	Text string // what readlink(2) says
	Real string // canonical; what is there may be missing
}

// A World is what Make has to know of wall and host. [Draw] fills the last
// three.
type World struct {
	Views    []View
	Symlinks []Symlink
	Tmpfs    []sandbox.Tmpfs
	ShmSize  int64 // bytes of /dev/shm; 0 is 64 MiB, never unbounded
	Denies   []Deny
	Opens    []Open
	// Tell are files of /proc that tell of the host whatever the namespace,
	// as paths inside; they have to be there. They are closed.
	Tell []string
	// Kinds tells what there is at every Source, every Deny path and every Open
	// path, at each ancestor of the latter two, and where else Make looks. A path that is not
	// in it is an error.
	Kinds map[string]Kind
	// Names are the entries of folders that are shown name by name.
	Names map[string][]string
	// Links are the links that are denied or shown by name.
	Links map[string]Target
}

// An OpKind is one kind of step in building the new root.
type OpKind string

// The kinds of steps. Each acts on a Target whose parent is there by then;
// those that mount make their mount point themselves, but only in folders of
// memory: everywhere else it is there.
const (
	OpDir       OpKind = "dir"       // a folder in memory
	OpSymlink   OpKind = "symlink"   // Source is what it holds
	OpBind      OpKind = "bind"      // Source of the host, writable, with all mounts below
	OpRoBind    OpKind = "ro-bind"   // the same, read-only, the mounts below too
	OpTmpfs     OpKind = "tmpfs"     // memory of Size bytes (0: no bound, only where it ends up read-only) and Mode
	OpMaskFile  OpKind = "mask-file" // an empty file that nobody can open
	OpMaskDir   OpKind = "mask-dir"  // an empty folder of Mode; read-only by a later step where Open, else at once
	OpRemountRo OpKind = "remount-ro"
	OpProc      OpKind = "proc"
	OpDev       OpKind = "dev" // the few devices that every program expects
)

// An Op is one step. Their order is part of a Plan.
type Op struct {
	Kind   OpKind
	Source string // on the host; of a symlink its text
	Target string // inside
	Size   int64
	Mode   uint32
	Open   bool   // of a mask-dir: mounts follow below it
	File   bool   // of a bind: Source is no folder
	Rule   string // why it is there
}

// A Want is what a probe expects of a path.
type Want string

// What probes expect.
const (
	Unreadable Want = "unreadable" // opening for reading fails
	Unwritable Want = "unwritable" // opening for writing, or making a name in it, fails
	Writable   Want = "writable"   // it succeeds
	Pinned     Want = "pinned"     // it is a mount point
)

// A Probe is one thing to try from inside before any command runs.
type Probe struct {
	Path string // inside
	Want Want
	Rule string
}

// A Stub is a path of the host to make when it is missing, before the wall
// starts, and to remove when no wall needs it. They are in order: parents
// come first.
type Stub struct {
	Path   string
	Dir    bool
	Socket bool
}

// A Plan is what Make computes: plain data, equal for equal worlds, whatever
// the order of the denies.
type Plan struct {
	Ops    []Op
	Probes []Probe
	Stubs  []Stub
	Notes  []string // what a person should know that no setting says

	layers   map[string]layer
	closures map[string]closure
	opens    map[string]Open
	links    []Symlink
}
