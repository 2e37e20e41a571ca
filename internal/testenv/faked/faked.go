// Package faked presents the provider in memory to the conformance suite of all
// providers, for the tests that run that suite over it: the provider's own, and
// those of the layers between a provider and its users.
package faked

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/provider/fake"
	"github.com/bulkhead-dev/sandbox/provider/providertest"
)

// Harness is the fake as the suite sees it.
func Harness() providertest.Harness {
	behind := func(do func(*fake.Engine, string) error) func(testing.TB, sandbox.Provider, string) {
		return func(t testing.TB, p sandbox.Provider, name string) {
			t.Helper()
			if err := do(EngineOf(p), name); err != nil {
				t.Fatal(err)
			}
		}
	}
	return providertest.Harness{
		New:      func(testing.TB) sandbox.Provider { return fake.New(Options()) },
		Spec:     func(_ testing.TB, key string) sandbox.Spec { return Spec(key) },
		Programs: programs(),
		Reconnect: func(_ testing.TB, p sandbox.Provider) sandbox.Provider {
			return EngineOf(p).Provider()
		},
		Behind: providertest.Behind{
			Stop: behind((*fake.Engine).Stop), Pause: behind((*fake.Engine).Pause),
			Restart: behind((*fake.Engine).Restart), Destroy: behind((*fake.Engine).Destroy),
		},
		Folder: func(t testing.TB, p sandbox.Provider) string {
			const source = "/host/providertest"
			if err := EngineOf(p).Folder(source, Spec("").UID).Write("file", 0o644, providertest.FolderContent); err != nil {
				t.Fatal(err)
			}
			return source
		},
		Down:     func(testing.TB) sandbox.Provider { return Faulty(fake.Down()) },
		Hanging:  func(testing.TB) sandbox.Provider { return Faulty(fake.Hang()) },
		Patience: testenv.Patience,
	}
}

// Options are those of a fake that has the programs of the harness.
func Options() fake.Options {
	return fake.Options{Deadline: testenv.Patience, Programs: inside()}
}

// Faulty is a fake with a fault.
func Faulty(f fake.Fault) sandbox.Provider {
	o := Options()
	o.Deadline = 800 * time.Millisecond // for one that hangs
	p := fake.New(o)
	p.Engine().Inject(f)
	return p
}

// EngineOf finds the engine behind a provider, wrapped or not.
func EngineOf(p sandbox.Provider) *fake.Engine {
	return p.(interface{ Engine() *fake.Engine }).Engine()
}

// Spec is a Spec of the fake for key.
func Spec(key string) sandbox.Spec {
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
		Burst:        func(n int) sandbox.Command { return cmd("burst", n) },
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
