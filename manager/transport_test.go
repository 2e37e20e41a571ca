package manager_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/fsbridge"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/provider"
	"github.com/bulkhead-dev/sandbox/provider/docker"
)

// An execCounter counts what is started by means of the engine.
type execCounter struct {
	docker.Engine
	n *atomic.Int64
}

func (e execCounter) Run(ctx context.Context, name string, c sandbox.Command) (sandbox.Process, error) {
	e.n.Add(1)
	return e.Engine.Run(ctx, name, c)
}

// counted has the manager of r count its execs.
func (r *rig) counted() *atomic.Int64 {
	n := new(atomic.Int64)
	r.wrap = func(e docker.Engine) docker.Engine { return execCounter{e, n} }
	return n
}

// A fileless provider is one whose guests serve no files, as those from before
// they did.
type fileless struct{ *docker.Provider }

func (p fileless) Open(ctx context.Context, s sandbox.Spec) (sandbox.Sandbox, error) {
	sb, err := p.Provider.Open(ctx, s)
	if err != nil {
		return nil, err
	}
	return oldBox{sb, sb.(engineBox)}, nil
}

type engineBox interface {
	sandbox.Execer
	Ping(ctx context.Context) error
}

type oldBox struct {
	sandbox.Sandbox
	engineBox
}

func (oldBox) Files(context.Context) (sandbox.Files, error) {
	return nil, &sandbox.Error{Code: sandbox.CodeUnsupported, Op: "open files", Message: "the guest serves no files"}
}

// withoutFiles has the manager of r find guests that serve no files.
func (r *rig) withoutFiles() {
	r.change = func(o *manager.Options) {
		p, err := o.Providers.Get("docker")
		must(r.t, err)
		o.Providers, err = provider.New(fileless{p.(*docker.Provider)})
		must(r.t, err)
	}
}

func fsTransport(value string) string {
	return `{"agents": {"defaults": {"sandbox": {"fsTransport": "` + value + `"}}}}`
}

// put writes a file over the files that a caller gets.
func put(m *manager.Manager, session, path, text string) (fsbridge.Transport, error) {
	var t fsbridge.Transport
	err := m.Files(context.Background(), manager.Request{Who: who(session)}, func(s manager.Share) error {
		t = s.Transport()
		return s.Write(context.Background(), path, strings.NewReader(text), sandbox.WriteOptions{})
	})
	return t, err
}

// TestTransportIsChosen holds that the setting decides for the next use of a sandbox
// that is there, that the sandbox is kept, and that explain says what is used.
func TestTransportIsChosen(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	execs := r.counted()
	explain := func(m *manager.Manager) manager.Explanation {
		t.Helper()
		e, err := m.Explain(t.Context(), who("s"), nil, manager.Questions{})
		must(t, err)
		return e
	}
	first := explain(r.manager(fsTransport("script")))
	if f := first.Files; f.Setting != sandbox.FSScript || f.Transport != "script" || f.Durable || f.Reason != "fsTransport is script" || f.Note == "" {
		t.Errorf("before there is a sandbox: %+v", f)
	}
	var id string
	for i, by := range []sandbox.FSTransport{sandbox.FSAuto, sandbox.FSScript, sandbox.FSGuest, sandbox.FSScript} {
		m := r.manager(fsTransport(string(by)))
		want := manager.FileTransport{Setting: by, Transport: "guest", Reason: "fsTransport is " + string(by), Durable: true}
		switch by {
		case sandbox.FSScript:
			want.Transport = "script"
		case sandbox.FSAuto:
			want.Reason = "the guest serves files"
		}
		before := execs.Load()
		got, err := put(m, "s", "a/f", string(by))
		must(t, err)
		if got.Name != want.Transport || (execs.Load() > before) != (by == sandbox.FSScript) {
			t.Errorf("%d: %s: transport %+v, %d execs", i, by, got, execs.Load()-before)
		}
		if out, _ := mustRun(t, m, "s", "cat a/f"); out != string(by) {
			t.Errorf("%d: %s: a command reads %q", i, by, out)
		}
		e := explain(m)
		if e.Files != want || len(e.Drift) > 0 || e.ConfigHash != first.ConfigHash || !strings.HasPrefix(e.Next, "keep") && !strings.HasPrefix(e.Next, "use") {
			t.Errorf("%d: %s: explained as %+v, drift %v, next %s", i, by, e.Files, e.Drift, e.Next)
		}
		info, err := r.engine.Inspect(t.Context(), e.Name)
		must(t, err)
		if id == "" {
			id = info.ID
		}
		if info.ID != id {
			t.Errorf("%d: %s: another container serves", i, by)
		}
		must(t, m.Close())
	}
	// An agent has its own.
	m := r.manager(`{"agents": {"defaults": {"sandbox": {"fsTransport": "script"}}, "list": [{"id": "main", "sandbox": {"fsTransport": "guest"}}]}}`)
	if got, err := put(m, "s", "f", "x"); err != nil || got.Name != "guest" {
		t.Errorf("the agent's own: %+v, %v", got, err)
	}
}

// TestGuestWithoutFiles checks that a guest which serves no files is refused
// where the settings require it and noted where they leave the choice, and that
// the rest works.
func TestGuestWithoutFiles(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.withoutFiles()
	m := r.manager(fsTransport("guest"))
	refused := func(what string, err error) {
		t.Helper()
		e, is := errors.AsType[*sandbox.Error](err)
		if !is || e.Code != sandbox.CodeUnsupported || e.Field != "fsTransport" || !strings.Contains(e.Hint, "sandbox recreate") || !strings.Contains(e.Hint, `"script"`) {
			t.Errorf("%s: %#v", what, err)
		}
	}
	_, err := put(m, "s", "f", "x")
	refused("a share", err)
	_, err = m.Open(t.Context(), manager.Request{Who: who("s")})
	refused("a session", err)
	mustRun(t, m, "s", "test ! -e f")
	e, err := m.Explain(t.Context(), who("s"), nil, manager.Questions{})
	must(t, err)
	if f := e.Files; f.Setting != sandbox.FSGuest || f.Transport != "" || f.Durable || f.Reason != "file operations are refused" || !strings.Contains(f.Note, "fsTransport is guest") {
		t.Errorf("explained as %+v", f)
	}
	must(t, m.Close())
	m = r.manager(fsTransport("auto"))
	if got, err := put(m, "s", "f", "x"); err != nil || got.Name != "script" || got.Reason != "the guest cannot serve files" {
		t.Errorf("auto: %+v, %v", got, err)
	}
}

// TestScriptsObeyPolicy holds that files over scripts are judged as those of the
// guest: names, where links lead, trees, mounts, budgets of paths.
func TestScriptsObeyPolicy(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ro := t.TempDir()
	must(t, os.Chmod(ro, 0o755))
	must(t, os.WriteFile(filepath.Join(ro, "file"), []byte("x"), 0o644))
	rules := `"docker": {"binds": ["` + ro + `:/ro"]}, "filesystem": {"denyRead": ["/workspace/secret/**"], "denyWrite": ["/workspace/kept/**"]}`
	m := r.manager(`{"agents": {"defaults": {"sandbox": {"fsTransport": "script", ` + rules + `}}}}`)
	_, err := put(m, "s", "ok/f", "fine")
	must(t, err)
	// The policy for commands is no matter here: programs of the container make these.
	s, err := m.Open(t.Context(), manager.Request{Who: who("s")})
	must(t, err)
	defer s.Close()
	p, err := s.Sandbox.Start(t.Context(), sandbox.Command{Args: []string{"sh", "-ec", `cd /workspace; mkdir -p secret kept tree/sub; echo key >secret/f; echo key >.env; echo old >kept/f
		ln -s secret/f plain; ln -s .env env; ln -s secret dir; ln -s kept k; ln -s /etc/passwd out; echo key >tree/sub/.env`}})
	must(t, err)
	if exit, err := p.Wait(); err != nil || exit.Code != 0 {
		t.Fatal(exit, err)
	}
	ctx := t.Context()
	plain, err := s.Files.WithoutLinks()
	must(t, err)
	for view, files := range map[string]sandbox.Files{"": s.Files, " without links": plain} {
		read := func(path string) error {
			f, err := files.Read(ctx, path, 0, -1)
			if err == nil {
				text, _ := io.ReadAll(f)
				f.Close()
				t.Errorf("read %s%s: %q", path, view, text)
			}
			return err
		}
		write := func(path string) error {
			return files.Write(ctx, path, strings.NewReader("new"), sandbox.WriteOptions{})
		}
		for what, err := range map[string]error{
			"read secret/f": read("/workspace/secret/f"), "read .env": read("/workspace/.env"), "read plain": read("/workspace/plain"), "read env": read("/workspace/env"),
			"read dir/f": read("/workspace/dir/f"), "read out": read("/workspace/out"), "read outside": read("/etc/passwd"), "read the guest": read(sandbox.GuestDir + "/bin/sandbox-guest"),
			"write kept/f": write("/workspace/kept/f"), "write k/f": write("/workspace/k/f"), "write .env": write("/workspace/.env"), "write /ro": write("/ro/file"),
			"remove kept": files.Remove(ctx, "/workspace/kept", true), "remove tree": files.Remove(ctx, "/workspace/tree", true),
			"rename kept": files.Rename(ctx, "/workspace/kept", "/workspace/moved"), "rename to .env": files.Rename(ctx, "/workspace/ok/f", "/workspace/.env"),
			"mkdir kept/d": files.Mkdir(ctx, "/workspace/kept/d", 0),
		} {
			if sandbox.CodeOf(err) != sandbox.CodeCapabilityBlocked {
				t.Errorf("%s%s: %v", what, view, err)
			}
		}
	}
	if out, _ := mustRun(t, m, "s", "cat kept/f ok/f"); out != "old\nfine" {
		t.Errorf("now there is %q", out)
	}
}
