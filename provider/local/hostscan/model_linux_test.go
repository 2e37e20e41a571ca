package hostscan

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"testing"

	"github.com/bulkhead-dev/sandbox/internal/hostpath"
	"github.com/bulkhead-dev/sandbox/provider/local/plan"
	"golang.org/x/sys/unix"
)

// A model is the content of a folder and the effect of the rules on it,
// computed without the scanner's code except its matcher.
type model struct {
	q      Request
	kinds  map[string]fs.FileMode
	inodes map[string]uint64
	read   map[string]bool // closed for reading, by a rule for the path or a folder above
	write  map[string]bool // closed for writing at least
}

func pick[T any](r *rand.Rand, list ...T) T { return list[r.IntN(len(list))] }

// randomTree creates folders, files, hard links, and sockets.
func randomTree(t *testing.T, r *rand.Rand) (x *tree, paths []string) {
	x = newTree(t)
	var files []string
	var grow func(dir string, deep int)
	grow = func(dir string, deep int) {
		for _, name := range []string{"a", "b", "d", "e", "f.k"} {
			p := path.Join(dir, name)
			switch pick(r, "", "", "file", "file", "link", "socket", "dir", "dir", "dir") {
			case "file":
				x.must(os.WriteFile(p, nil, 0o644))
				files = append(files, p)
			case "link":
				if len(files) == 0 {
					continue
				}
				x.must(os.Link(pick(r, files...), p))
				files = append(files, p)
			case "socket":
				socket(t, p)
			case "dir":
				if deep > 2 {
					continue
				}
				x.must(os.Mkdir(p, 0o755))
				grow(p, deep+1)
			default:
				continue
			}
			paths = append(paths, p)
		}
	}
	grow(x.root, 0)
	return x, append(paths, x.at("a"), x.at("b/d"), x.at("missing"))
}

func randomRequest(r *rand.Rand, root string, paths []string) (q Request) {
	for i := range 1 + r.IntN(4) {
		p := pick(r, "**/e", "**/e", "**/*.k", "**/d/**", "**/b", "a/*", "d/**/a", root+"/a/**/e", root+"/b/d")
		q.Globs = append(q.Globs, Glob{Pattern: p, Read: r.IntN(2) == 0, Rule: fmt.Sprint("glob ", i, p)})
	}
	for i := range r.IntN(4) {
		q.Denied = append(q.Denied, plan.Deny{Path: pick(r, paths...), Read: r.IntN(2) == 0, Rule: fmt.Sprint("path ", i)})
	}
	for range 1 + r.IntN(3) {
		// The planner handles a socket that is shown by its own name, and
		// nothing is below a file.
		if p := pick(r, append(paths, root)...); kindAt(p) != plan.Socket && kindAt(path.Dir(p)) == plan.Dir {
			q.Roots = append(q.Roots, p)
		}
	}
	return q
}

func kindAt(p string) plan.Kind {
	var st unix.Stat_t
	if unix.Lstat(p, &st) != nil {
		return plan.Missing
	}
	return kind(&st)
}

func newModel(t *testing.T, x *tree, q Request) *model {
	m := &model{q: q, kinds: map[string]fs.FileMode{}, inodes: map[string]uint64{}, read: map[string]bool{}, write: map[string]bool{}}
	only := func(read bool) *matcher {
		globs := slices.DeleteFunc(slices.Clone(q.Globs), func(g Glob) bool { return g.Read != read })
		c, err := compile(globs, q.Roots, nil)
		x.must(err)
		return c
	}
	reads, writes, hit := only(true), only(false), map[string][2]bool{}
	x.must(filepath.WalkDir(x.root, func(p string, d fs.DirEntry, err error) error {
		x.must(err)
		var st unix.Stat_t
		x.must(unix.Lstat(p, &st))
		m.kinds[p], m.inodes[p] = d.Type(), st.Ino
		dir, name := path.Split(p)
		near := slices.ContainsFunc(q.Roots, func(r string) bool { return hostpath.Within(p, r) || hostpath.Within(r, p) })
		matched := func(c *matcher, below bool) bool {
			glob, _ := c.matches(path.Clean(dir), []byte(name), d.IsDir(), false)
			return below || near && glob >= 0
		}
		closed := func(read bool) bool {
			return slices.ContainsFunc(q.Denied, func(d plan.Deny) bool { return hostpath.Within(p, d.Path) && (d.Read || !read) })
		}
		hit[p] = [2]bool{matched(reads, hit[path.Dir(p)][0]), matched(writes, hit[path.Dir(p)][1])}
		shown := m.shown(p) // globs do not apply elsewhere
		m.read[p] = closed(true) || shown && hit[p][0]
		m.write[p] = closed(false) || shown && (hit[p][0] || hit[p][1])
		return nil
	}))
	return m
}

func (m *model) shown(p string) bool {
	return slices.ContainsFunc(m.q.Roots, func(r string) bool { return hostpath.Within(p, r) })
}

// wanted returns what must be closed at p: because of the rules, because p is a
// socket, or because another name of the file must be closed.
func (m *model) wanted(p string) (read, write bool) {
	read, write = m.read[p] || m.kinds[p]&fs.ModeSocket != 0, m.write[p]
	for o, ino := range m.inodes {
		if ino == m.inodes[p] && m.kinds[p].IsRegular() {
			read, write = read || m.read[o], write || m.write[o]
		}
	}
	return read, write || read
}

// hold returns an error if the result differs from the model.
func (m *model) hold(r Result) error {
	denies := slices.Concat(m.q.Denied, r.Denies())
	for p := range m.kinds {
		if !m.shown(p) {
			continue
		}
		var read, write bool
		for _, d := range denies {
			if hostpath.Within(p, d.Path) {
				read, write = read || d.Read, true
			}
		}
		if r, w := m.wanted(p); r != read || w != write {
			return fmt.Errorf("%s (%v) is closed for reading %v and writing %v, want %v and %v", p, m.kinds[p], read, write, r, w)
		}
	}
	return nil
}

// TestNothingIsOverlooked compares scans of many small trees with the model:
// the scan must find what a rule closes for reading below what another closes
// for writing only, and all other nestings.
func TestNothingIsOverlooked(t *testing.T) {
	trees := 100
	if testing.Short() {
		trees = 30
	}
	for seed := range uint64(trees) {
		r := rand.New(rand.NewPCG(seed, 1))
		x, paths := randomTree(t, r)
		for i := range 5 {
			q := randomRequest(r, x.root, paths)
			if err := newModel(t, x, q).hold(x.scan(q)); err != nil {
				t.Fatalf("seed %d, request %d: %v\n%+v", seed, i, err, q)
			}
		}
		x.must(os.RemoveAll(x.root))
	}
}
