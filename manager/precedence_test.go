//go:build linux

package manager_test

import (
	"bytes"
	"context"
	"fmt"
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

func (p precedence) settings(provider, dir string, s spelling) string {
	rules := func(names []string) string {
		out := []string{}
		for _, n := range names {
			if !strings.HasPrefix(n, "**") {
				n = s.of(dir, n)
			}
			out = append(out, fmt.Sprintf("%q", n))
		}
		return "[" + strings.Join(out, ",") + "]"
	}
	return fmt.Sprintf(`{"agents": {"defaults": {"sandbox": {"provider": %q, "workspaceAccess": "rw", "filesystem": {"denyRead": %s, "allowRead": %s, "denyWrite": %s, "allowWrite": %s}}},
		"list": [{"id": "main", "workspace": %q}]}}`, provider, rules(p.denyRead), rules(p.allowRead), rules(p.denyWrite), rules(p.allowWrite), dir)
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
	must(t, m.Lend(ctx, req, func(sb sandbox.Sandbox, _ sandbox.Spec) error {
		for _, place := range places {
			for name, want := range p.want {
				at := place + "/" + name
				_, r := startIn(t, sb, "cat '"+at+"'")
				_, w := startIn(t, sb, ": >>'"+at+"'")
				check("a program", at, rights(r == 0, w == 0), want)
			}
			for _, d := range p.denyRead {
				if strings.HasPrefix(d, "**") {
					continue
				}
				if out, code := startIn(t, sb, "ls '"+place+"/"+d+"'"); code == 0 {
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
	for _, place := range places {
		for name, want := range p.want {
			at := place + "/" + name
			open := map[sandbox.Operation]bool{sandbox.OpRead: true, sandbox.OpWrite: true}
			e, err := m.Explain(ctx, req.Who, nil, manager.Questions{Path: at})
			must(t, err)
			for _, v := range e.Verdicts {
				if v.Verdict == "deny" {
					open[sandbox.Operation(v.Operation)] = false
				}
			}
			check("explain", at, rights(open["read"], open["write"]), want)
			lines := map[string]bool{}
			for _, line := range []string{"cat '" + at + "'", "echo >>'" + at + "'"} {
				e, err := m.Explain(ctx, req.Who, nil, manager.Questions{Command: line})
				must(t, err)
				lines[line[:3]] = e.Verdicts[0].Verdict == "allow"
			}
			check("a command line", at, rights(lines["cat"], lines["ech"]), want)
		}
	}
}

// TestPrecedenceInLocalSandboxes holds real local sandboxes, and everything that judges
// for them, to the table: each line of it with one spelling of the settings, and
// with each one with "make test-all".
func TestPrecedenceInLocalSandboxes(t *testing.T) {
	t.Parallel()
	for i, p := range precedences() {
		t.Run(p.name, func(t *testing.T) {
			for j, s := range spellings() {
				if !testenv.All() && (i+j)%len(spellings()) != 0 {
					continue
				}
				t.Run(s.name, func(t *testing.T) {
					dir := filepath.Join(outsideFolder(t), "own")
					must(t, os.MkdirAll(filepath.Join(dir, "x"), 0o755))
					p.plant(t, dir)
					w := newSandboxed(t, func(o *manager.Options, _ *statedir.Dir) {
						parsed, err := config.Parse("test", []byte(p.settings("local", dir, s)))
						must(t, err)
						o.Settings = parsed
					})
					p.hold(t, w.Manager, []string{"/workspace", dir})
				})
			}
		})
	}
}

// TestPrecedenceInContainers holds real containers, and everything that judges for
// them, to the table.
func TestPrecedenceInContainers(t *testing.T) {
	t.Parallel()
	for i, p := range precedences() {
		t.Run(p.name, func(t *testing.T) {
			s := spellings()[i%len(spellings())]
			dir := filepath.Join(tempDir(t, 0o755), "own")
			must(t, os.MkdirAll(filepath.Join(dir, "x"), 0o755))
			p.plant(t, dir)
			p.hold(t, newRig(t).manager(p.settings("docker", dir, s)), []string{"/workspace"})
		})
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
		parsed, err := config.Parse("test", []byte(settings.settings("local", dir, spellings()[2])))
		must(t, err)
		o.Settings = parsed
	})
	w.lend(config.Who{Agent: "main", Session: "s"}, func(sb sandbox.Sandbox) {
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
