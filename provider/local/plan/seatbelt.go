// Seatbelt: this part of the package writes what a local wall of macOS obeys: the profile text
// and the arguments of sandbox-exec. It is pure, and tested on every platform;
// only macOS runs it.
//
// In a profile the last rule that matches decides. So everything is denied,
// then what the wall shows is allowed, and the denies of the policy come last.
// A path appears only inside of a string of the profile, whatever is in it.
//
// The file system of macOS usually does not tell names apart that differ in
// case alone, or in how accents are written, and the rules are held against
// the name as it was first written. So denies match without regard to case,
// and any sign beyond ASCII matches any. They close more than they name, never
// less.

package plan

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	sandbox "github.com/bulkhead-dev/sandbox"
)

const seatbeltOp = "write sandbox profile"

// Exec is the program that puts a profile in force. Apple calls it deprecated
// and has everything of its own depend on what is behind it.
const Exec = "/usr/bin/sandbox-exec"

// maxProfile bounds the profile in bytes. It is an argument, and all arguments
// and variables together may take a megabyte.
const maxProfile = 512 << 10

// Rules say what a wall allows. Paths are absolute and canonical, which on
// macOS means "/private/tmp" and "/private/var" rather than the links to them.
type Rules struct {
	Tag      string         // marks this wall's lines in the system log: letters, digits, '.', '_' and '-', at most 64
	Readable []string       // files and folders
	Writable []string       // likewise; readable too
	Tmp      []string       // folders for temporary files, writable
	Denies   []SeatbeltDeny // by path; they hold for what is missing too
	Globs    []Glob
	// Yields are the paths of Denies inside which Opens are open. A glob yields
	// to none here: at which depth it matches the profile cannot say.
	Yields  []string
	Opens   []Open
	Sockets []string // Unix sockets that may be connected to
	Ports   []int    // of the loopback interface that may be connected to: those of the egress proxy
	Listen  bool     // whether programs may listen on the loopback interface
}

// A Deny closes a path and what lies below it for writing, or altogether.
type SeatbeltDeny struct {
	Path   string
	Read   bool
	Except []string // folders below Path that it does not close
	Rule   string   // as a person finds it in the settings
}

// A Glob closes what a pattern matches; its words are those of package
// pattern. A pattern that begins neither with "/" nor with "**/" is taken from
// each writable and readable path.
type Glob struct {
	Pattern string
	Read    bool
	Rule    string // as a person finds it in the settings
}

// Args returns the arguments that run command under the profile. The name of
// the program is looked for by nobody: it has to be a path.
func SeatbeltArgs(profile string, command []string) ([]string, error) {
	if len(command) == 0 || !strings.HasPrefix(command[0], "/") {
		return nil, seatbeltInvalid("", "the command is not an absolute path")
	}
	if len(profile) > maxProfile {
		return nil, &sandbox.Error{Code: sandbox.CodeCapabilityBlocked, Op: seatbeltOp, Message: fmt.Sprintf("the profile has %d bytes, more than %d", len(profile), maxProfile),
			Hint: "deny folders rather than many files in filesystem.denyRead and denyWrite"}
	}
	return append([]string{Exec, "-p", profile}, command...), nil
}

// Profile writes the profile for r. Paths that are not absolute and clean, an
// odd tag and bad patterns are [sandbox.CodeValidation].
func Profile(r Rules) (string, error) {
	if r.Tag == "" || len(r.Tag) > 64 || strings.Trim(r.Tag, tagSigns) != "" {
		return "", seatbeltInvalid(r.Tag, "the tag has signs in it that a log line must not have")
	}
	if err := r.check(); err != nil {
		return "", err
	}
	closed, err := r.closures()
	if err != nil {
		return "", err
	}
	w := writer{tag: r.Tag}
	w.text(head)
	w.line("(deny default %s)", w.message())
	systemText(&w)
	r.views(&w)
	r.network(&w)
	steps, err := r.steps(closed)
	if err != nil {
		return "", err
	}
	for _, s := range steps {
		s.write(&w)
	}
	r.pins(&w)
	return w.b.String(), nil
}

// check refuses paths and ports that cannot be written.
func (r Rules) check() error {
	lists := [][]string{r.Readable, r.Writable, r.Tmp, r.Sockets, seatbeltDenied(r.Denies), r.Yields, seatbeltOpened(r.Opens)}
	for _, d := range r.Denies {
		lists = append(lists, d.Except)
	}
	for _, p := range slices.Concat(lists...) {
		if !strings.HasPrefix(p, "/") || path.Clean(p) != p || strings.IndexByte(p, 0) >= 0 {
			return seatbeltInvalid(p, "the path is not absolute and clean")
		}
	}
	for _, d := range r.Denies {
		if d.Path == "/" {
			return seatbeltInvalid("/", "the rule closes every path there is")
		}
	}
	for _, port := range r.Ports {
		if port < 1 || port > 65535 {
			return seatbeltInvalid(strconv.Itoa(port), "there is no such port")
		}
	}
	return nil
}

// closures returns what the denies and globs close, the globs first.
func (r Rules) closures() ([]seatbeltClosure, error) {
	list, err := r.globs()
	if err != nil {
		return nil, err
	}
	for _, d := range r.Denies {
		c := closureOf(d)
		c.yields = d.Read && slices.Contains(r.Yields, d.Path)
		list = append(list, c)
	}
	return list, nil
}

func closureOf(d SeatbeltDeny) seatbeltClosure {
	expression := pathRegex(d.Path) + "(/.*)?"
	c := seatbeltClosure{read: d.Read, rule: d.Rule, depth: seatbeltDepth(d.Path), match: expression, filters: []string{"(subpath " + quote(d.Path) + ")", regex(expression)}}
	for _, e := range d.Except {
		c.except = append(c.except, pathRegex(e)+"(/.*)?")
	}
	for i := range c.filters {
		c.filters[i] = sparing(c.filters[i], c.except)
	}
	return c
}

// sparing narrows a filter to what none of the expressions match.
func sparing(filter string, except []string) string {
	if len(except) == 0 {
		return filter
	}
	out := "(require-all " + filter
	for _, e := range except {
		out += " (require-not " + regex(e) + ")"
	}
	return out + ")"
}

const tagSigns = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

// views allows what is shown. Programs ask about every folder on the way to a
// file, so these can be asked about, though not listed.
func (r Rules) views(w *writer) {
	write := sorted(r.Writable, r.Tmp)
	read := sorted(r.Readable, write)
	w.rule("allow file-read-metadata", each("literal", ancestors(read, sorted(r.Sockets))))
	w.rule("allow file-read*", each("subpath", read))
	w.rule("allow file-write*", each("subpath", write))
}

// network allows the sockets that are named and not denied, the ports of the
// egress proxy, and nothing else. In a filter for addresses the language knows
// two hosts: "*" and "localhost".
func (r Rules) network(w *writer) {
	w.line("(deny network* %s)", w.message())
	for _, port := range slices.Compact(slices.Sorted(slices.Values(r.Ports))) {
		w.line("(allow network-outbound (remote ip %s))", quote("localhost:"+strconv.Itoa(port)))
	}
	if r.Listen {
		w.line("(allow network-bind (local ip %s))", quote("localhost:*"))
		w.line("(allow network-inbound (local ip %s))", quote("localhost:*"))
	}
	sockets := slices.DeleteFunc(sorted(r.Sockets), func(s string) bool {
		return slices.ContainsFunc(r.Denies, func(d SeatbeltDeny) bool { return within(s, d.Path) })
	})
	if len(sockets) == 0 {
		return
	}
	w.line("(allow system-socket (socket-domain AF_UNIX))")
	for _, s := range sockets {
		w.line("(allow network-outbound (remote unix-socket (path-literal %s)))", quote(s))
		w.line("(allow file-read* (literal %s))", quote(s))
	}
}

// A closure is one deny as filters of the profile, of which any matches, and as
// expressions for the Judge. Depth counts the names of a path; that of a pattern
// is 0, because a pattern matches at any depth.
type seatbeltClosure struct {
	read    bool
	yields  bool
	rule    string
	depth   int
	filters []string
	match   string
	except  []string
}

func seatbeltOpened(list []Open) []string {
	out := make([]string, len(list))
	for i, o := range list {
		out[i] = o.Path
	}
	return out
}

// denies closes first what is closed for writing, then what is closed
// altogether.
func denies(w *writer, list []seatbeltClosure) {
	for _, read := range []bool{false, true} {
		var filters []string
		for _, c := range list {
			if c.read == read {
				filters = append(filters, c.filters...)
			}
		}
		slices.Sort(filters)
		filters = slices.Compact(filters)
		what := "deny file-write*"
		if read {
			what = "deny file-read* file-write*"
		}
		w.rule(what, filters, w.message())
	}
}

// pins has no denied path and no folder above one be renamed or removed: a new
// one put in its place would not be denied.
func (r Rules) pins(w *writer) {
	var filters []string
	for _, p := range sorted(seatbeltDenied(r.Denies), ancestors(seatbeltDenied(r.Denies))) {
		if p != "/" {
			filters = append(filters, regex(pathRegex(p)))
		}
	}
	for _, g := range r.Globs {
		filters = append(filters, r.pinned(g)...)
	}
	slices.Sort(filters)
	w.rule("deny file-write-unlink", slices.Compact(filters), w.message())
}

// within reports whether p is dir or lies below it, without regard to case.
func within(p, dir string) bool {
	p, dir = strings.ToLower(p), strings.ToLower(dir)
	return p == dir || strings.HasPrefix(p, dir+"/")
}

// ancestors returns the folders above the paths, "/" included.
func ancestors(lists ...[]string) []string {
	var out []string
	for _, p := range slices.Concat(lists...) {
		for p != "/" {
			p = path.Dir(p)
			out = append(out, p)
		}
	}
	return sorted(out)
}

func sorted(lists ...[]string) []string {
	out := slices.Concat(lists...)
	slices.Sort(out)
	return slices.Compact(out)
}

func seatbeltDenied(list []SeatbeltDeny) []string {
	out := make([]string, len(list))
	for i, d := range list {
		out[i] = d.Path
	}
	return out
}

func seatbeltInvalid(resource, message string) error {
	return &sandbox.Error{Code: sandbox.CodeValidation, Op: seatbeltOp, Resource: resource, Message: message}
}
