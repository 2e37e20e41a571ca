package walls_test

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/provider/fake"
	"github.com/bulkhead-dev/sandbox/provider/providertest"
)

// TestConformanceOfFake runs the suite of all walls through a daemon on a real
// socket, with the wall in memory behind it.
func TestConformanceOfFake(t *testing.T) {
	providertest.Run(t, through(harness()))
}

// harness is the fake as the suite sees it.
func harness() providertest.Harness {
	behind := func(do func(*fake.Engine, string) error) func(testing.TB, sandbox.Provider, string) {
		return func(t testing.TB, p sandbox.Provider, name string) {
			t.Helper()
			if err := do(engineOf(p), name); err != nil {
				t.Fatal(err)
			}
		}
	}
	return providertest.Harness{
		New:      func(testing.TB) sandbox.Provider { return fake.New(options()) },
		Spec:     func(_ testing.TB, key string) sandbox.Spec { return spec(key) },
		Programs: programs(),
		Reconnect: func(_ testing.TB, p sandbox.Provider) sandbox.Provider {
			return engineOf(p).Provider()
		},
		Behind: providertest.Behind{
			Stop: behind((*fake.Engine).Stop), Pause: behind((*fake.Engine).Pause),
			Restart: behind((*fake.Engine).Restart), Destroy: behind((*fake.Engine).Destroy),
		},
		Folder: func(t testing.TB, p sandbox.Provider) string {
			const source = "/host/providertest"
			if err := engineOf(p).Folder(source, spec("").UID).Write("file", 0o644, providertest.FolderContent); err != nil {
				t.Fatal(err)
			}
			return source
		},
		Down:     func(testing.TB) sandbox.Provider { return faulty(fake.Down()) },
		Hanging:  func(testing.TB) sandbox.Provider { return faulty(fake.Hang()) },
		Patience: 10 * time.Second,
	}
}

func options() fake.Options {
	return fake.Options{Deadline: 800 * time.Millisecond, Programs: testPrograms()}
}

func faulty(f fake.Fault) sandbox.Provider {
	p := fake.New(options())
	p.Engine().Inject(f)
	return p
}

// engineOf finds the engine behind a provider, wrapped or not.
func engineOf(p sandbox.Provider) *fake.Engine {
	return p.(interface{ Engine() *fake.Engine }).Engine()
}

func spec(key string) sandbox.Spec {
	return sandbox.Spec{
		Format: sandbox.SpecFormat, Name: "sbx-" + strings.Map(nameRune, key), Kind: sandbox.KindSandbox, Provider: "fake",
		Owner: sandbox.Owner{
			Instance: "0123456789abcdef", Tenant: "acme", Agent: "main",
			Session: key, Scope: sandbox.ScopeSession, ScopeKey: key,
		},
		Image: "sandbox:test", ImageID: "sha256:0", Workdir: sandbox.WorkspaceDir,
		UID: 1000, GID: 1000, Network: "none",
		Mounts:    []sandbox.Mount{{Source: "/host/work/" + key, Target: sandbox.WorkspaceDir, Role: sandbox.RoleWorkspace}},
		Tmpfs:     []sandbox.Tmpfs{{Target: "/tmp", Size: 64 << 20, Exec: true, Mode: 0o1777}},
		Security:  sandbox.Security{CapDrop: []string{"ALL"}, NoNewPrivileges: true},
		Resources: sandbox.Resources{Memory: 1 << 30, MemorySwap: 1 << 30, NanoCPUs: 1e9, PIDs: 512},
	}
}

func nameRune(r rune) rune {
	if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
		return r
	}
	return '-'
}

// programs maps the portable set to the fake's own programs.
func programs() providertest.Programs {
	cmd := func(args ...any) sandbox.Command {
		var c sandbox.Command
		for _, a := range args {
			c.Args = append(c.Args, fmt.Sprint(a))
		}
		return c
	}
	return providertest.Programs{
		Exit:         func(code int) sandbox.Command { return cmd("exit", code) },
		Raise:        func(signal string) sandbox.Command { return cmd("raise", signal) },
		Echo:         func(stdout, stderr string) sandbox.Command { return cmd("write", stdout, stderr) },
		CopyToStderr: func() sandbox.Command { return cmd("caterr") },
		Zeros:        func(n int64) sandbox.Command { return cmd("zeros", n) },
		OpenFiles:    func() sandbox.Command { return cmd("openfiles") },
		Tree:         func(marker int) sandbox.Command { return cmd("tree", marker) },
		Orphan:       func(marker int) sandbox.Command { return cmd("orphan", marker) },
		OnTerm:       func(marker, code int) sandbox.Command { return cmd("onterm", marker, code) },
		Deaf:         func(marker int) sandbox.Command { return cmd("deaf", marker) },
		Count:        func(marker int) sandbox.Command { return cmd("count", marker) },
		Hog:          func(marker int, bytes int64) sandbox.Command { return cmd("hogs", marker, 1, bytes) },
		Hogs:         func(marker, n int, bytes int64) sandbox.Command { return cmd("hogs", marker, n, bytes) },
		HogLine:      func(marker int, bytes int64) string { return fmt.Sprint("hogs ", marker, " 1 ", bytes) },
		Burn:         func() sandbox.Command { return cmd("burn") },
		Bomb:         func(marker int) sandbox.Command { return cmd("bomb", marker) },
		Fill: func(path string, bytes int64) sandbox.Command {
			return cmd("sh", "-c", fmt.Sprintf("head -c %d /dev/zero >%s", bytes, path))
		},
		Holder: func(n int) sandbox.Command { return cmd("holder", n) },
		// The fake has one interface, and that is not a setting.
		Interfaces: func() sandbox.Command { return cmd("echo", "lo") },
		Terminal:   func() sandbox.Command { return cmd("terminal") },
		Note:       func() string { return "note 1" },
		Notes:      func() sandbox.Command { return cmd("note", 0) },
		Fail:       func() string { return "exit 3" },
	}
}

func testPrograms() map[string]fake.Program {
	return map[string]fake.Program{
		"raise": func(p *fake.Proc) int { p.Raise(p.Args[1]); return 99 },
		"write": func(p *fake.Proc) int {
			io.WriteString(p.Stdout, p.Args[1])
			io.WriteString(p.Stderr, p.Args[2])
			return 0
		},
		"caterr": func(p *fake.Proc) int {
			p.Stdout = p.Stderr
			return p.Program("cat")(p)
		},
		"zeros":     zeros,
		"openfiles": func(p *fake.Proc) int { fmt.Fprintln(p.Stdout, p.Limits().OpenFiles); return 0 },
		"tree":      tree,
		"orphan": func(p *fake.Proc) int {
			fork(p, p.Args[1])
			fmt.Fprintln(p.Stdout, "left")
			return 0
		},
		"onterm": func(p *fake.Proc) int {
			trapped := p.Trap("TERM")
			fork(p, p.Args[1])
			fmt.Fprintln(p.Stdout, "ready")
			p.Await(trapped)
			fmt.Fprintln(p.Stdout, "term")
			return atoi(p.Args[2])
		},
		"deaf": func(p *fake.Proc) int {
			p.Ignore("TERM")
			fmt.Fprintln(p.Stdout, "ready")
			return p.Join(fork(p, p.Args[1]))
		},
		"hogs": hogs, "burn": burn, "bomb": bomb, "holder": holder,
		"count":    count,
		"terminal": terminal,
		"note":     func(p *fake.Proc) int { fmt.Fprintln(p.Stdout, p.Note("n", atoi(p.Args[1]))); return 0 },
	}
}

func atoi(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(err)
	}
	return n
}

func fork(p *fake.Proc, marker string) *fake.Proc {
	return p.Fork([]string{"sleep", marker}, p.Program("sleep"))
}

func zeros(p *fake.Proc) int {
	chunk := make([]byte, 64<<10)
	for n := atoi(p.Args[1]); n > 0; n -= len(chunk) {
		p.Stdout.Write(chunk[:min(n, len(chunk))])
	}
	return 0
}

// tree starts TreeSize sleepers, two of them through a parent that leaves.
func tree(p *fake.Proc) int {
	marker := p.Args[1]
	parent := p.Fork([]string{"parent"}, func(q *fake.Proc) int {
		fork(q, marker)
		fork(q, marker)
		return 0
	})
	p.Join(parent)
	var last *fake.Proc
	for range providertest.TreeSize - 2 {
		last = fork(p, marker)
	}
	fmt.Fprintln(p.Stdout, "ready")
	return p.Join(last)
}

func count(p *fake.Proc) int {
	n := 0
	for _, q := range p.Peers() {
		if len(q.Args) == 2 && q.Args[0] == "sleep" && q.Args[1] == p.Args[1] {
			n++
		}
	}
	fmt.Fprintln(p.Stdout, n)
	return 0
}

func terminal(p *fake.Proc) int {
	show := func() {
		size, ok := p.Terminal()
		if ok {
			fmt.Fprintln(p.Stdout, size.Rows, size.Cols)
		}
	}
	show()
	line := make([]byte, 1)
	for line[0] != '\n' {
		if _, err := p.Stdin.Read(line); err != nil {
			return 1
		}
	}
	show()
	return 0
}

func hogs(p *fake.Proc) int {
	var last *fake.Proc
	for range atoi(p.Args[2]) {
		last = p.Fork([]string{"sleep", p.Args[1]}, func(q *fake.Proc) int {
			q.Grow(int64(atoi(p.Args[3])))
			return q.Program("sleep")(q)
		})
	}
	return p.Join(last)
}

// burn uses processor time in one short process after the other.
func burn(p *fake.Proc) int {
	for {
		p.Join(p.Fork([]string{"short"}, func(q *fake.Proc) int {
			q.Work(50 * time.Millisecond)
			return 0
		}))
	}
}

// bomb starts processes that start processes.
func bomb(p *fake.Proc) int {
	for {
		fork(p, p.Args[1])
		p.Fork(p.Args, bomb)
	}
}

// holder has so many files open, and tries one more.
func holder(p *fake.Proc) int {
	if err := p.Hold(int64(atoi(p.Args[1]) - 3)); err != nil {
		return 1
	}
	fmt.Fprintln(p.Stdout, "full")
	for b := make([]byte, 1); b[0] != '\n'; {
		if _, err := p.Stdin.Read(b); err != nil {
			return 1
		}
	}
	if p.Hold(1) != nil {
		return 2
	}
	return 0
}
