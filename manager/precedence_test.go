//go:build linux

package manager_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/manager"
)

// A precedence is a set of rules in the agent's own folder, and what may be done
// there: "r" to read, "w" to write, "-" for neither. Rules are paths below the
// folder; one that starts with "**" is a pattern. It is the one table of how the
// four lists of filesystem meet, to which every way in is held.
type precedence struct {
	name                                       string
	denyRead, allowRead, denyWrite, allowWrite []string
	want                                       map[string]string
}

func precedences() []precedence {
	list := func(s ...string) []string { return s }
	return []precedence{
		{"an allow inside a deny opens reading, and nothing beside it", list("a"), list("a/b"), nil, nil,
			map[string]string{"a/f": "-", "a/b/f": "r", "a/b/c/f": "r", "a/c/f": "-", "c/f": "rw"}},
		{"the deeper one decides, however deep they lie in each other", list("a", "a/b/c"), list("a/b", "a/b/c/d"), nil, nil,
			map[string]string{"a/f": "-", "a/b/f": "r", "a/b/c/f": "-", "a/b/c/d/f": "r"}},
		{"the deny decides where both name one path", list("a/b"), list("a/b"), nil, nil, map[string]string{"a/f": "rw", "a/b/f": "-"}},
		{"an allow around a deny opens nothing in it", list("a/b"), list("a"), nil, nil, map[string]string{"a/b/f": "-", "a/b/c/f": "-"}},
		{"a file is opened by itself", list("a"), list("a/f"), nil, nil, map[string]string{"a/f": "r", "a/b/f": "-"}},
		{"an allow to write beside that to read opens writing", list("a"), list("a/b"), nil, list("a/b"),
			map[string]string{"a/f": "-", "a/b/f": "rw", "a/b/c/f": "rw"}},
		{"an allow to write below that to read", list("a"), list("a/b"), nil, list("a/b/c"), map[string]string{"a/b/f": "r", "a/b/c/f": "rw"}},
		{"an allow to write above that to read", list("a"), list("a/b/c"), nil, list("a/b"), map[string]string{"a/b/f": "-", "a/b/c/f": "r"}},
		{"an allow to write alone opens nothing that is closed for reading", list("a"), nil, nil, list("a/b"), map[string]string{"a/f": "-", "a/b/f": "-"}},
		{"an allow to write opens nothing that is closed for writing", nil, nil, list("a"), list("a/b"), map[string]string{"a/f": "r", "a/b/f": "r"}},
		{"what is closed for writing stays so in what is opened", list("a"), list("a/b"), list("a"), list("a/b"), map[string]string{"a/f": "-", "a/b/f": "r"}},
		{"a deny of writing inside what is opened", list("a"), list("a/b"), list("a/b/c"), list("a/b"), map[string]string{"a/b/f": "rw", "a/b/c/f": "r"}},
		{"an allow inside what a pattern closes", list("**/key"), list("a/key/b"), nil, nil,
			map[string]string{"a/key/f": "-", "a/key/b/f": "r", "a/key/b/key/f": "-", "key/f": "-"}},
		{"a pattern closes what lies inside an allow", list("a", "**/c"), list("a/b"), nil, nil, map[string]string{"a/b/f": "r", "a/b/c/f": "-"}},
		{"a built-in secret stays closed in what is opened", list("a"), list("a/b", "a/b/.env", "a/b/s/.env"), nil, list("a/b/.env"),
			map[string]string{"a/b/f": "r", "a/b/.env": "-", "a/b/s/.env": "-"}},
		{"nothing is opened inside a built-in secret", nil, list(".env/f", "secrets.json/b"), nil, nil, map[string]string{".env/f": "-", "secrets.json/b/f": "-"}},
		{"nor where the settings name the secret as well", list(".env", "**/secrets.json"), list(".env/f", "secrets.json/b"), nil, nil,
			map[string]string{".env/f": "-", "secrets.json/b/f": "-"}},
	}
}

// plant makes the files that p asks about below dir.
func (p precedence) plant(t *testing.T, dir string) {
	t.Helper()
	for name := range p.want {
		must(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755))
		must(t, os.WriteFile(filepath.Join(dir, name), []byte("text\n"), 0o644))
	}
	if os.Geteuid() == 0 {
		give(t, dir)
	}
}

// A spelling is a way to write paths of the folder in rules.
type spelling struct {
	name string
	of   func(dir, name string) string
}

func spellings() []spelling {
	return []spelling{
		{"as paths of the workspace", func(_, name string) string { return name }},
		{"as paths inside", func(_, name string) string { return "/workspace/" + name }},
		{"as paths of the host", func(dir, name string) string { return dir + "/" + name }},
		{"with dots", func(dir, name string) string { return dir + "/./x/../" + name }},
	}
}

// below returns p for a folder in the agent's.
func (p precedence) below(folder string) precedence {
	within := func(names []string) (out []string) {
		for _, n := range names {
			if !strings.HasPrefix(n, "**") {
				n = folder + "/" + n
			}
			out = append(out, n)
		}
		return out
	}
	p.denyRead, p.allowRead, p.denyWrite, p.allowWrite = within(p.denyRead), within(p.allowRead), within(p.denyWrite), within(p.allowWrite)
	want := map[string]string{}
	for name, rights := range p.want {
		want[folder+"/"+name] = rights
	}
	p.want = want
	return p
}

// tables returns the lines of the table for sandboxes to share: each in a folder of its
// own, and the one apart whose pattern would close folders of others.
func tables() (list [2][]precedence) {
	for i, p := range precedences() {
		of := 0
		if slices.Contains(p.denyRead, "**/c") {
			of = 1
		}
		list[of] = append(list[of], p.below(fmt.Sprintf("line%d", i)))
	}
	return list
}

// settingsOf returns settings with the rules of all of lines, each spelled in another way than
// the one before.
func settingsOf(provider, dir string, lines []precedence, first int) string {
	var lists [4][]string
	for i, p := range lines {
		s := spellings()[(first+i)%len(spellings())]
		for at, names := range [][]string{p.denyRead, p.allowRead, p.denyWrite, p.allowWrite} {
			for _, n := range names {
				if !strings.HasPrefix(n, "**") {
					n = s.of(dir, n)
				}
				lists[at] = append(lists[at], fmt.Sprintf("%q", n))
			}
		}
	}
	rules := func(at int) string { return "[" + strings.Join(lists[at], ",") + "]" }
	return fmt.Sprintf(`{"agents": {"defaults": {"sandbox": {"provider": %q, "workspaceAccess": "rw", "filesystem": {"denyRead": %s, "allowRead": %s, "denyWrite": %s, "allowWrite": %s}}},
		"list": [{"id": "main", "workspace": %q}]}}`, provider, rules(0), rules(1), rules(2), rules(3), dir)
}

// hold holds every way in to the table: programs that no policy for commands
// judges, file tools, what explain says of paths and of commands.
func (p precedence) hold(t *testing.T, m *manager.Manager, places []string) {
	t.Helper()
	ctx, done := context.WithTimeout(t.Context(), 2*time.Minute)
	defer done()
	req := manager.Request{Who: config.Who{Agent: "main", Session: "s"}}
	check := func(way, path, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %s is %q, want %q", way, path, got, want)
		}
	}
	rights := func(read, write bool) string {
		switch {
		case read && write:
			return "rw"
		case read:
			return "r"
		case write:
			return "w"
		}
		return "-"
	}
	must(t, m.WithSandbox(ctx, req, func(sb sandbox.Sandbox, _ sandbox.Spec) error {
		const open = "open " // before the right and the path, by a process for each
		var lines strings.Builder
		try := func(right, at, line string) {
			fmt.Fprintf(&lines, "(%s) >/dev/null && echo '%s%s %s'\n", line, open, right, at)
		}
		for _, place := range places {
			for name := range p.want {
				at := place + "/" + name
				try("r", at, "cat '"+at+"'")
				try("w", at, ": >>'"+at+"'")
			}
			for _, d := range p.denyRead {
				if !strings.HasPrefix(d, "**") {
					try("l", place+"/"+d, "ls '"+place+"/"+d+"'")
				}
			}
		}
		out, code := startIn(t, sb, "exec 2>&1\n"+lines.String()+"echo all were tried")
		got := strings.Split(out, "\n")
		if code != 0 || !slices.Contains(got, "all were tried") {
			t.Fatalf("the program ended with %d: %s", code, out)
		}
		is := func(right, at string) bool { return slices.Contains(got, open+right+" "+at) }
		for _, place := range places {
			for name, want := range p.want {
				at := place + "/" + name
				check("a program", at, rights(is("r", at), is("w", at)), want)
			}
			for _, d := range p.denyRead {
				if is("l", place+"/"+d) {
					t.Errorf("a program lists the closed folder %s/%s: %s", place, d, out)
				}
			}
		}
		return nil
	}))
	must(t, m.Files(ctx, req, func(f manager.Share) error {
		for _, place := range places {
			for name, want := range p.want {
				at := place + "/" + name
				c, errRead := f.Read(ctx, at, 0, -1)
				if errRead == nil {
					c.Close()
				}
				errWrite := f.Write(ctx, at, strings.NewReader("text\n"), sandbox.WriteOptions{})
				check("a file tool", at, rights(errRead == nil, errWrite == nil), want)
				if t.Failed() {
					t.Logf("%v, %v", errRead, errWrite)
				}
			}
		}
		return nil
	}))
	// Explain looks at the host each time: it is asked for one place of each path.
	for i, name := range slices.Sorted(maps.Keys(p.want)) {
		at := places[i%len(places)] + "/" + name
		open := map[sandbox.Operation]bool{sandbox.OpRead: true, sandbox.OpWrite: true}
		lines := map[string]bool{}
		for _, q := range []manager.Questions{{Path: at, Command: "cat '" + at + "'"}, {Command: "echo >>'" + at + "'"}} {
			e, err := m.Explain(ctx, req.Who, nil, q)
			must(t, err)
			paths, commands := 0, 0
			for _, v := range e.Verdicts {
				switch v.Kind {
				case "path":
					paths++
					if v.Verdict == "deny" {
						open[sandbox.Operation(v.Operation)] = false
					}
				case "command":
					if commands++; commands == 1 { // the others are of where it would run
						lines[q.Command[:3]] = v.Verdict == "allow"
					}
				}
			}
			if commands == 0 || paths == 0 && q.Path != "" {
				t.Fatalf("explain answers %+v with %+v", q, e.Verdicts)
			}
		}
		check("explain", at, rights(open["read"], open["write"]), p.want[name])
		check("a command line", at, rights(lines["cat"], lines["ech"]), p.want[name])
	}
}

// TestPrecedenceInLocalSandboxes holds real local sandboxes, and everything that judges
// for them, to the table: each line of it with one spelling of the settings, and
// with each one with "make test-all".
func TestPrecedenceInLocalSandboxes(t *testing.T) {
	t.Parallel()
	holdTables(t, func(t *testing.T) string { return outsideFolder(t) }, func(t *testing.T, dir string, lines []precedence, first int) (*manager.Manager, []string) {
		w := newSandboxed(t, func(o *manager.Options, _ *statedir.Dir) {
			parsed, err := config.Parse("test", []byte(settingsOf("local", dir, lines, first)))
			must(t, err)
			o.Settings = parsed
		})
		return w.Manager, []string{"/workspace", dir}
	})
}

// TestPrecedenceInContainers holds real containers, and everything that judges for
// them, to the table.
func TestPrecedenceInContainers(t *testing.T) {
	t.Parallel()
	holdTables(t, func(t *testing.T) string { return tempDir(t, 0o755) }, func(t *testing.T, dir string, lines []precedence, first int) (*manager.Manager, []string) {
		return newRig(t).manager(settingsOf("docker", dir, lines, first)), []string{"/workspace"}
	})
}

// holdTables holds sandboxes that build makes to the table.
func holdTables(t *testing.T, folder func(*testing.T) string, build func(t *testing.T, dir string, lines []precedence, first int) (*manager.Manager, []string)) {
	for n, lines := range tables() {
		for first, s := range spellings() {
			if first != n && !testenv.All() {
				continue
			}
			t.Run(fmt.Sprintf("%d lines, first %s", len(lines), s.name), func(t *testing.T) {
				dir := filepath.Join(folder(t), "own")
				must(t, os.MkdirAll(filepath.Join(dir, "x"), 0o755))
				for _, p := range lines {
					p.plant(t, dir)
				}
				m, places := build(t, dir, lines, first)
				for _, p := range lines {
					t.Run(p.name, func(t *testing.T) { p.hold(t, m, places) })
				}
			})
		}
	}
}

// TestPrecedenceAsOrdinaryUser holds the sandboxes of an ordinary user to the same
// table, which root's way of building one does not concern.
func TestPrecedenceAsOrdinaryUser(t *testing.T) {
	testenv.Exhaustive(t, "the same table once more, as an ordinary user")
	t.Parallel()
	testenv.Require(t, "root") // else the other test runs as such a user already
	testenv.Require(t, "user")
	dir, err := os.MkdirTemp("/srv", "manager-user-")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	must(t, os.Chown(dir, testenv.OrdinaryUser, testenv.OrdinaryUser))
	must(t, os.Chmod(dir, 0o755))
	self, err := os.Executable()
	must(t, err)
	program, guest := filepath.Join(dir, "tests"), filepath.Join(dir, "sandbox-guest")
	for from, to := range map[string]string{self: program, testenv.Guest(t): guest} {
		data, err := os.ReadFile(from)
		must(t, err)
		must(t, os.WriteFile(to, data, 0o755))
	}
	cmd := exec.Command(program, "-test.v", "-test.count=1", "-test.run=^TestPrecedenceInLocalSandboxes$")
	testenv.AsUser(cmd)
	cmd.Dir = dir
	cmd.Env = append(testenv.UserEnviron(), "TMPDIR="+dir, "HOME="+dir, "SANDBOX_GUEST="+guest)
	out, err := cmd.CombinedOutput()
	if err != nil || !slices.Contains(strings.Split(string(out), "\n"), "PASS") {
		t.Fatalf("%v\n%s", err, out)
	}
}

// TestLinksOpenNothing holds that an allow which reaches into a closed folder by a
// link opens nothing there, that explain says so, and that a file which another
// name of it is closed by stays closed in what is opened.
func TestLinksOpenNothing(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(outsideFolder(t), "own")
	p := precedence{want: map[string]string{"a/secret/f": "-", "a/b/f": "r", "a/b/hard": "-", "a/hard": "-", ".env": "-", "out/link/f": "-"}}
	must(t, os.MkdirAll(dir, 0o755))
	p.plant(t, dir)
	must(t, os.Remove(filepath.Join(dir, "a/b/hard")))
	must(t, os.Link(filepath.Join(dir, "a/hard"), filepath.Join(dir, "a/b/hard")))
	must(t, os.RemoveAll(filepath.Join(dir, "out/link")))
	for name, to := range map[string]string{"out/link": "../a/secret", "a/link": "secret", "a/env": "../.env", "a/self": "."} {
		must(t, os.Symlink(to, filepath.Join(dir, name)))
	}
	settings := precedence{denyRead: []string{"a"}, allowRead: []string{"a/b", "out/link", "a/link", "a/env", "a/self/secret"}}
	w := newSandboxed(t, func(o *manager.Options, _ *statedir.Dir) {
		parsed, err := config.Parse("test", []byte(settingsOf("local", dir, []precedence{settings}, 2)))
		must(t, err)
		o.Settings = parsed
	})
	w.withSandbox(config.Who{Agent: "main", Session: "s"}, func(sb sandbox.Sandbox) {
		for name, want := range p.want {
			for _, place := range []string{"/workspace", dir} {
				if _, code := startIn(t, sb, "cat "+place+"/"+name); (code == 0) != (want == "r") {
					t.Errorf("cat %s/%s ends with %d, want %q", place, name, code, want)
				}
			}
		}
	})
	e, err := w.Explain(t.Context(), config.Who{Agent: "main", Session: "s"}, nil, manager.Questions{})
	must(t, err)
	var linked []string
	for _, n := range e.NoEffect {
		if strings.Contains(n.Note, "leads through a link") {
			linked = append(linked, n.Value)
		}
	}
	if len(linked) != 3 {
		t.Errorf("explain names %q as links, want a/link, a/env and a/self/secret: %+v", linked, e.NoEffect)
	}
}

// startIn runs a shell line in sb, which no policy for commands sees, and returns
// its output and its code.
func startIn(t *testing.T, sb sandbox.Sandbox, line string) (string, int) {
	t.Helper()
	var out bytes.Buffer
	p, err := sb.Start(t.Context(), sandbox.Command{Args: []string{"sh", "-c", line}, Stdout: &out, Stderr: &out})
	must(t, err)
	exit, err := p.Wait()
	must(t, err)
	return out.String(), exit.Code
}
