// Package scan finds what the globs of a policy mean on this host at this
// moment: the existing paths that match, the other names that denied files
// have by hard links, and Unix sockets, all below given folders.
//
// A mount can close only what exists, so a wall's globs are expanded before
// it is built and again before each command. What appears afterwards is found
// the next time; a wall that stands does not close it by itself.
//
// What a rule closes for writing alone can still be read, and so it is looked
// through for what others close for reading, and for sockets.
//
// A scan looks at the names in a folder, not at the files: the kernel tells
// the kinds along with the names. It never follows a link and holds on to
// folders by descriptor, so whoever exchanges a folder for a link meanwhile
// leads it nowhere. It skips nothing by name. A [Scanner] remembers folders
// that have not changed (see node), so the scan before a command costs about
// one system call a folder.
//
// A scan is bounded, and one that meets its bound is an error: a deny that
// was only half looked for is no deny.
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

// What [Limits] means by zero. The time is what so many entries take where
// nothing is cached and other programs keep the machine busy: a wall that can
// be made at rest is not to be refused because of what else runs.
const (
	DefaultEntries = 1_000_000
	DefaultTime    = 2 * time.Minute
	DefaultHits    = 4096
)

// maxDepth bounds how deep folders may lie below a root. Each level holds a
// descriptor while it is looked at.
const maxDepth = 256

// Limits bound one scan; zero means the default.
type Limits struct {
	Entries int           // names looked at, remembered ones included
	Time    time.Duration // from begin to end
	Hits    int           // hits and aliases together; each costs mounts
}

// A Glob is a deny by pattern. The words are those of doublestar: *, ?,
// [class], {a,b}, and ** for any number of folders. A pattern that begins with
// "/" is about host paths, one that begins with "**/" matches at any depth
// anywhere, and any other is taken from each root. A match closes what lies
// below it too, so "x/**" is "x".
type Glob struct {
	Pattern string
	Read    bool   // closes reading too
	Yields  bool   // leaves [Request.Opened] open inside what it matches
	Rule    string // as a person finds it in the settings
}

// A Request says what to look for. Paths are absolute and canonical.
type Request struct {
	Roots []string // folders to look below: what the wall shows, but not the system's folders
	Globs []Glob   //
	// Denied is denied by path: looked at for hard links and, where reading is
	// left open, for what must not be read.
	Denied []plan.Deny
	// Opened lists paths that stay open inside what denies and globs that yield
	// close: they are looked through like folders that nothing closes.
	Opened []string
	// Exclude lists folders that are not looked into, because the wall does
	// not show them or shows something else there.
	Exclude []string
	Find    []string // names (".git") whose every place is reported, without being denied
	List    bool     // asks for Result.Folders
}

// A Hit is something that exists and matches a glob. Two hits that differ in
// Dev or Ino are different things under one name: a mask over the one does
// not hide the other.
type Hit struct {
	Path     string
	Kind     plan.Kind
	Dev, Ino uint64
	Links    uint64 // names that the file has, wherever they are
	Read     bool   // some glob that matches closes reading
	Yields   bool   // each glob that matches and closes reading yields
	Rule     string
	Firm     string // where it yields, the rule that closes writing in what is opened, or empty
	// To is, for a link, the canonical path it leads to when that lies below
	// a root and is or holds no root: closing the name alone would leave the
	// content open by its other name. Elsewhere it is empty, so a link to
	// "/usr" closes nothing but itself.
	To           string
	ToDev, ToIno uint64 // what is there, links not followed; 0 where nothing is
}

// An Alias is another name of a denied file, a hard link, found below a root
// or in a denied folder.
type Alias struct {
	Path     string
	Of       string // the denied name
	Dev, Ino uint64
	Read     bool
	Rule     string
}

// A Result is what a scan found, each list sorted by path.
type Result struct {
	Hits    []Hit
	Aliases []Alias
	Sockets []string // Unix sockets that no hit and no denied path closes for reading
	Found   []string // places of the names in Request.Find
	// Unreadable lists folders that could not be looked into. Whoever owns
	// one can make it readable again afterwards, so the caller closes them.
	Unreadable []string
	Skipped    []string // mount points of the kernel's own file systems (/proc and the like)
	// Unseen counts the names of denied files that were not found: they lie
	// outside everything that was looked at.
	Unseen  int
	Folders []string // that were looked into, in no order, if asked for
	Entries int      // names looked at
	Listed  int      // folders that had to be read anew
}

// Same reports whether o found the same things, so that a wall built for r
// serves for o.
func (r Result) Same(o Result) bool {
	return slices.Equal(r.Hits, o.Hits) && slices.Equal(r.Aliases, o.Aliases) && slices.Equal(r.Sockets, o.Sockets) &&
		slices.Equal(r.Found, o.Found) && slices.Equal(r.Unreadable, o.Unreadable)
}

// Rules of what is closed without a setting that names it.
const (
	RuleUnreadable = "protection: a folder that cannot be checked"
	RuleSocket     = "protection: unix sockets"
)

// Denies returns what is to be closed: hits, aliases, folders that could not
// be looked into, and sockets. Of a hit that is a link it is what the link
// leads to, as far as [Hit.To] has it: a plan closes what a denied link leads
// to, so a link to "/usr" that code inside has made would close every wall.
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

// A Scanner scans and remembers what it saw. It is safe for concurrent use,
// one scan at a time; what it remembers serves requests that are alike.
type Scanner struct {
	limits Limits
	settle time.Duration // see node.trusted; a field for tests

	mu    sync.Mutex
	key   string
	match *matcher
	trees map[string]*node // by the path they begin at
}

// New returns a Scanner that remembers nothing yet.
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

// Scan looks below the roots. A root that is missing has nothing below it.
//
// A bad pattern is [sandbox.CodeValidation], a bound that was met
// [sandbox.CodeCapabilityBlocked], anything that keeps the scan from seeing
// what is there, and the end of ctx, [sandbox.CodeUnavailable]. With an error
// the Result means nothing and no command must run.
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

// prepare compiles the globs, and forgets what was remembered for other
// requests: which names matter is part of what is remembered.
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

// key tells requests apart. Paths hold no NUL byte.
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
