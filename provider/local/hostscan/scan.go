// Package hostscan reads the host for local sandboxes. It finds what a policy's
// globs match, determines which paths to protect, creates stubs for missing
// paths, watches folders and mounts for changes, and describes the host to the
// planner.
//
// A [Scanner] finds, below given folders, the existing paths that match the
// globs of a policy, other names (hard links) of denied files, and Unix
// sockets. A mount can close only an existing path, so the globs are expanded
// before a sandbox is built and again before each command. A path that appears
// later is found by the next scan; a running sandbox does not close it by
// itself.
//
// A path that a rule closes for writing only is still readable, so the scan
// searches it for paths that other rules close for reading, and for sockets.
//
// A scan reads the names in a folder, not the files: the kernel returns the
// kinds with the names. It never follows a link and holds folders by
// descriptor, so replacing a folder by a link during the scan does not redirect
// it. It skips nothing by name. A Scanner caches folders that have not changed
// (see node), so the scan before a command costs about one system call per
// folder.
//
// A scan is bounded, and a scan that reaches a bound returns an error, because
// an incomplete search would leave denied files open.
package hostscan

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/provider/local/plan"
)

// The defaults of [Limits]. A host that a developer works on holds more than a
// million files, and a sandbox may be allowed to read all of it; an entry costs
// about 35 bytes of memory. The time is what the default number of entries
// takes without a cache and on a busy machine, so that load on the machine
// alone does not make a scan fail.
const (
	DefaultEntries = 4_000_000
	DefaultTime    = 2 * time.Minute
	DefaultHits    = 4096
)

// maxDepth and maxPath bound the depth of folders below a root, and the length
// of their paths in bytes. Each level holds a descriptor while the scan is in
// it, and nothing is mounted at a path longer than PATH_MAX. A folder beyond
// them is not searched but closed, as if it were unreadable: code in a sandbox can
// nest folders at will, and an error would end every sandbox that sees them. A hard
// link elsewhere to a file in it that matches stays open. Below a denied path, where
// each file is denied, it is an error.
const (
	maxDepth = 256
	maxPath  = 4096 - 2*nameMax // PATH_MAX, less room for a name below, and for the folder that the sandbox is built in
	nameMax  = 255
)

// Limits bound one scan; zero means the default.
type Limits struct {
	Entries int           // names read, cached ones included
	Time    time.Duration // total duration
	Hits    int           // hits, aliases and closed folders together; each costs mounts
}

// A Glob is a deny by pattern, in the syntax of doublestar: *, ?, [class],
// {a,b}, and ** for any number of folders. A pattern that begins with "/"
// matches host paths, one that begins with "**/" matches at any depth anywhere,
// and any other is relative to each root. A match also closes what lies below
// it, so "x/**" means "x".
type Glob struct {
	Pattern string
	Read    bool   // closes reading too
	Yields  bool   // [Request.Opened] stays open inside its matches
	Rule    string // as the user finds it in the settings
}

// A Request describes a scan. Paths are absolute and canonical.
type Request struct {
	Roots []string // folders to search: those that the sandbox shows, without the system's folders
	Globs []Glob   //
	// Denied is denied by path. The scan searches it for hard links and, where
	// reading stays allowed, for paths that are closed for reading.
	Denied []plan.Deny
	// Opened lists paths that stay open inside yielding denies and globs: the
	// scan searches them like folders that no rule closes.
	Opened []string
	// Exclude lists folders to skip, because the sandbox does not show them or
	// shows other content there.
	Exclude []string
	Find    []string // names (".git") whose places to report, without denying them
	List    bool     // fill in Result.Folders
}

// A Hit is an existing path that matches a glob. Two hits that differ in Dev or
// Ino are different files under one name: a mask over the one does not hide the
// other.
type Hit struct {
	Path     string
	Kind     plan.Kind
	Dev, Ino uint64
	Links    uint64 // names of the file, wherever they are
	Read     bool   // at least one matching glob closes reading
	Yields   bool   // every matching glob that closes reading yields
	Rule     string
	Firm     string // if Yields, the rule that closes writing in what is opened, or empty
	// To is, for a link, its canonical target if that lies below a root and is
	// or holds no root: closing only the link would leave the content open
	// under its other name. Otherwise it is empty, so a link to "/usr" closes
	// only itself.
	To           string
	ToDev, ToIno uint64 // of the target, without following links; 0 if it is missing
}

// An Alias is another name of a denied file, a hard link, found below a root or
// in a denied folder.
type Alias struct {
	Path     string
	Of       string // the denied name
	Dev, Ino uint64
	Read     bool
	Rule     string
}

// A Result is the result of a scan. Its lists are sorted by path, except
// Folders.
type Result struct {
	Hits    []Hit
	Aliases []Alias
	Sockets []string // Unix sockets that neither a hit nor a denied path closes for reading
	Found   []string // places of the names in Request.Find
	// Unreadable lists folders that could not be read, or lie too deep to be.
	// Their owner can make them readable later, so the caller closes them.
	Unreadable []string
	Skipped    []string // mount points of the kernel's own file systems (/proc and similar)
	// Unseen counts the names of denied files that were not found: they lie
	// outside the searched folders.
	Unseen  int
	Folders []string // the searched folders, in no order, if requested
	Entries int      // names read
	Listed  int      // folders that had to be read anew
}

// Same reports whether o found the same things, so that a sandbox built for r
// also serves o.
func (r Result) Same(o Result) bool {
	return slices.Equal(r.Hits, o.Hits) && slices.Equal(r.Aliases, o.Aliases) && slices.Equal(r.Sockets, o.Sockets) &&
		slices.Equal(r.Found, o.Found) && slices.Equal(r.Unreadable, o.Unreadable)
}

// Rules for what is closed although no setting names it.
const (
	RuleUnreadable = "protection: a folder that cannot be checked"
	RuleSocket     = "protection: unix sockets"
)

// Denies returns the paths to close: hits, aliases, unreadable folders, and
// sockets. For a hit that is a link it is the target, if [Hit.To] has one. A
// plan closes the target of a denied link, so closing every link that code
// inside makes, such as one to "/usr", would break every sandbox.
func (r Result) Denies() []plan.Deny {
	var out []plan.Deny
	for _, h := range r.Hits {
		at := h.Path
		if h.Kind == plan.Link {
			at = h.To
		}
		if at == "" {
			continue
		}
		out = append(out, plan.Deny{Path: at, Read: h.Read, Yields: h.Yields, Rule: h.Rule})
		if h.Firm != "" {
			out = append(out, plan.Deny{Path: at, Rule: h.Firm})
		}
	}
	for _, a := range r.Aliases {
		out = append(out, plan.Deny{Path: a.Path, Read: a.Read, Rule: a.Rule})
	}
	for _, p := range r.Unreadable {
		out = append(out, plan.Deny{Path: p, Read: true, Rule: RuleUnreadable})
	}
	for _, p := range r.Sockets {
		out = append(out, plan.Deny{Path: p, Read: true, Rule: RuleSocket})
	}
	return out
}

// A Scanner scans and caches what it read. It is safe for concurrent use but
// runs one scan at a time; the cache serves equal requests.
type Scanner struct {
	limits Limits
	settle time.Duration // see node.trusted; a field for tests

	mu    sync.Mutex
	key   string
	match *matcher
	trees map[string]*node // by the path that they begin at
}

// New returns a Scanner with an empty cache.
func New(l Limits) *Scanner {
	if l.Entries <= 0 {
		l.Entries = DefaultEntries
	}
	if l.Time <= 0 {
		l.Time = DefaultTime
	}
	if l.Hits <= 0 {
		l.Hits = DefaultHits
	}
	return &Scanner{limits: l, settle: settleTime}
}

// Scan searches below the roots. It ignores a missing root.
//
// The error has [sandbox.CodeValidation] for a bad pattern,
// [sandbox.CodeCapabilityBlocked] for a bound that was reached, and
// [sandbox.CodeUnavailable] for the end of ctx and for anything that prevents
// the scan from reading a folder. After an error the Result is meaningless and
// the caller must not run a command.
func (s *Scanner) Scan(ctx context.Context, q Request) (Result, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.prepare(q); err != nil {
		return Result{}, err
	}
	w := newWalk(ctx, s, q)
	defer w.close()
	if err := w.all(); err != nil {
		return Result{}, err
	}
	return w.result(), nil
}

// prepare compiles the globs, and clears the cache of other requests: the cache
// depends on which names matter.
func (s *Scanner) prepare(q Request) error {
	for _, list := range [][]string{q.Roots, q.Exclude, q.Opened, denied(q.Denied)} {
		for _, p := range list {
			if !strings.HasPrefix(p, "/") || strings.IndexByte(p, 0) >= 0 {
				return failed(sandbox.CodeValidation, p, "the path is not absolute", "", nil)
			}
		}
	}
	key := q.key()
	if s.match != nil && s.key == key {
		return nil
	}
	m, err := compile(q.Globs, q.Roots, q.Find)
	if err != nil {
		return err
	}
	s.key, s.match, s.trees = key, m, map[string]*node{}
	return nil
}

// key returns a string that distinguishes requests with different caches. Paths
// contain no NUL byte.
func (q Request) key() string {
	var b strings.Builder
	for _, list := range [][]string{q.Roots, q.Exclude, q.Find, q.Opened, denied(q.Denied)} {
		for _, p := range list {
			b.WriteString(p + "\x00")
		}
		b.WriteByte(0)
	}
	for _, d := range q.Denied {
		b.WriteByte(mark(d.Read))
		b.WriteByte(mark(d.Yields))
	}
	for _, g := range q.Globs {
		b.WriteString(g.Pattern + "\x00" + g.Rule + "\x00")
		b.WriteByte(mark(g.Read))
		b.WriteByte(mark(g.Yields))
	}
	return b.String()
}

func mark(read bool) byte {
	if read {
		return 'r'
	}
	return 'w'
}

func denied(list []plan.Deny) []string {
	out := make([]string, len(list))
	for i, d := range list {
		out[i] = d.Path
	}
	return out
}

func failed(code sandbox.Code, path, message, hint string, cause error) error {
	return &sandbox.Error{Code: code, Op: "look for denied paths", Resource: path, Message: message, Hint: hint, Err: cause}
}
