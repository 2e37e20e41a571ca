// The seatbelt files write the profile of a local sandbox on macOS and the
// arguments of sandbox-exec. They are pure, and the tests run on every
// platform; only macOS applies the result.
//
// In a profile the last matching rule decides. So a profile first denies
// everything, then allows what the sandbox shows, and ends with the denies of
// the policy. A path appears only inside a string of the profile, whatever
// characters it contains.
//
// The file system of macOS usually does not distinguish names that differ only
// in case or in the encoding of accents, and macOS compares rules with the name
// as it was first written. So denies ignore case, and a character outside ASCII
// matches any character. Denies may close more than they name, never less.

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

// Exec is the program that applies a profile. Apple marks it as deprecated, but
// builds its own sandboxes on the same mechanism.
const Exec = "/usr/bin/sandbox-exec"

// maxProfile bounds the profile in bytes. The profile is an argument, and all
// arguments and variables together may take a megabyte.
const maxProfile = 512 << 10

// Rules are the input for a profile. Paths are absolute and canonical, which on
// macOS means "/private/tmp" and "/private/var" rather than the links to them.
type Rules struct {
	Tag      string         // marks this sandbox's lines in the system log: letters, digits, '.', '_' and '-', at most 64
	Readable []string       // files and folders
	Writable []string       // files and folders; readable too
	Tmp      []string       // folders for temporary files, writable
	Denies   []SeatbeltDeny // by path; they apply to missing paths too
	Globs    []Glob
	// Yields are the paths of Denies inside which Opens apply. No Open applies
	// inside a glob here: a profile cannot tell at which depth a glob matches.
	Yields  []string
	Opens   []Open
	Sockets []string // Unix sockets that commands may connect to
	Ports   []int    // loopback ports that commands may connect to: those of the egress proxy
	Listen  bool     // whether programs may listen on the loopback interface
}

// A SeatbeltDeny closes a path and everything below it, for writing or for both
// reading and writing.
type SeatbeltDeny struct {
	Path   string
	Read   bool
	Except []string // folders below Path that it does not close
	Rule   string   // as the user finds it in the settings
}

// A Glob closes the paths that a pattern matches, in the syntax of package
// pattern. A pattern that begins neither with "/" nor with "**/" is relative to
// each writable and readable path.
type Glob struct {
	Pattern string
	Read    bool
	Rule    string // as the user finds it in the settings
}

// SeatbeltArgs returns the arguments that run command under the profile. The
// name of the program must be a path, because sandbox-exec does not search for
// it.
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

// Profile writes the profile for r. For paths that are not absolute and clean,
// an invalid tag or an invalid pattern it returns an error with
// [sandbox.CodeValidation].
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

// check refuses paths and ports that a profile cannot express.
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

// sparing narrows a filter to paths that none of the expressions match.
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

// views allows access to the readable and writable paths. Programs query every
// folder on the path to a file, so views allows metadata of these folders,
// though not listing them.
func (r Rules) views(w *writer) {
	write := sorted(r.Writable, r.Tmp)
	read := sorted(r.Readable, write)
	w.rule("allow file-read-metadata", each("literal", ancestors(read, sorted(r.Sockets))))
	w.rule("allow file-read*", each("subpath", read))
	w.rule("allow file-write*", each("subpath", write))
}

// network allows the listed sockets that no deny closes and the ports of the
// egress proxy, and nothing else. In an address filter the profile language
// knows two hosts: "*" and "localhost".
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

// A seatbeltClosure is one deny: the filters of the profile, any of which may
// match, and the expressions for the [Judge]. Its depth is the number of names
// in its path, or 0 for a pattern, because a pattern matches at any depth.
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

// denies writes the denies of writing first, then those of reading and writing.
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

// pins prevents renaming and removing of denied paths and the folders above
// them: the rules would not cover a new folder in their place.
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

// within reports whether p is dir or lies below it, ignoring case.
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
