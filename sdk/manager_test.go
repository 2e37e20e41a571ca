package sdk_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/internal/testenv/served"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/sdk"
	"github.com/bulkhead-dev/sandbox/server"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/server/resource"
	"github.com/bulkhead-dev/sandbox/server/stream"
)

const managerPatience = time.Minute

// A rig is a daemon on a real socket.
type managerRig struct {
	*testing.T
	*served.Rig
	ctx context.Context
}

// onBoth runs a test with sandboxes in memory and with real ones.
func managerOnBoth(t *testing.T, do func(*managerRig)) { served.OnBoth(t, managerNewRig, do) }

// managerOnMemory runs a test of what is the same over both.
func managerOnMemory(t *testing.T, do func(*managerRig)) { served.OnMemory(t, managerNewRig, do) }

func managerNewRig(t *testing.T, wall string) *managerRig {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*managerPatience)
	t.Cleanup(cancel)
	var c *resource.Sessions
	return &managerRig{T: t, ctx: ctx, Rig: served.New(t, served.Options{
		Wall: wall,
		Resources: func(r *served.Rig) []resource.Resource {
			answers, err := resource.Open(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			boxes := resource.NewSandboxes(resource.Options{Manager: r.Manager, Answers: answers, Log: r.Log})
			t.Cleanup(boxes.Close)
			c = resource.NewSessions(r.Manager, stream.Options{})
			return []resource.Resource{boxes, resource.NewCommands(r.Manager), c}
		},
		Daemon: func(o *server.Options) {
			o.Mounts = append(o.Mounts, server.Mount{Pattern: api.HandlesPath + "/", Handler: c.Handles()})
		},
	})}
}

// as is the conductor of one of the people; empty is the user that we are.
func (r *managerRig) as(name string) *sdk.Manager {
	r.T.Helper()
	o := sdk.APIOptions{}
	if name != "" {
		o.Token = r.Secret(name)
	}
	d, err := sdk.NewManager("unix:"+r.Socket, o)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { d.Close() })
	return d
}

func managerSession(key string) config.Who {
	return config.Who{Tenant: "acme", Agent: config.DefaultAgent, Session: key}
}

func line(text string) sandbox.Command {
	return sandbox.Command{Args: []string{"sh", "-c", text}, Grace: time.Second}
}

func (r *managerRig) code(what string, err error, want sandbox.Code) {
	r.T.Helper()
	if sandbox.CodeOf(err) != want {
		r.Errorf("%s: %v, want %s", what, err, want)
	}
}

func TestRun(t *testing.T) {
	managerOnBoth(t, func(r *managerRig) {
		d := r.as("acme")
		var out, errOut bytes.Buffer
		in := strings.Repeat("0123456789abcdef", 64<<10) // 1 MiB
		c := line("cat; echo oops >&2; exit 3")
		c.Stdin, c.Stdout, c.Stderr = strings.NewReader(in), &out, &errOut
		got, err := d.Run(r.ctx, manager.Request{Who: managerSession("s1"), Command: c})
		if err != nil {
			r.Fatal(err)
		}
		if got.Exit.Code != 3 || !got.Created || got.Name == "" || got.TimedOut || got.Duration <= 0 {
			r.Errorf("%+v", got)
		}
		if out.String() != in || errOut.String() != "oops\n" {
			r.Errorf("%d of %d bytes came back, stderr %q", out.Len(), len(in), errOut.String())
		}
		got, err = d.Run(r.ctx, manager.Request{Who: managerSession("s1"), Command: line("sleep 1000"), Timeout: 300 * time.Millisecond, MustExist: true})
		if err != nil || !got.TimedOut {
			r.Errorf("a time limit: %+v, %v", got, err)
		}
		_, err = d.Run(r.ctx, manager.Request{Who: managerSession("s1"), Command: sandbox.Command{Args: []string{"no-such-program"}}})
		r.code("a program that is not there", err, sandbox.CodeExecution)
		if !errors.Is(err, fs.ErrNotExist) {
			r.Errorf("%v is not fs.ErrNotExist, so the status would not be 127", err)
		}
		_, err = d.Run(r.ctx, manager.Request{Who: managerSession("s9"), Command: line(":"), MustExist: true})
		r.code("a sandbox that must exist", err, sandbox.CodeNotFound)
		out.Reset()
		c = line("echo from the shell")
		c.Args, c.Stdout = []string{"-c", "echo from the shell"}, &out
		if got, err := d.Shell(r.ctx, manager.Request{Who: managerSession("s1"), Command: c}); err != nil || got.Exit.Code != 0 || out.String() != "from the shell\n" {
			r.Errorf("a line for the shell: %+v, %v, %q", got, err, out.String())
		}
	})
}

// TestRunEnds holds that signals go through, that the end of the context ends
// the command, and that the client's end does.
func TestRunEnds(t *testing.T) {
	managerOnBoth(t, func(r *managerRig) {
		d := r.as("acme")
		started := make(chan sandbox.Process, 1)
		type end struct {
			out manager.Outcome
			err error
		}
		run := func(ctx context.Context) chan end {
			ended := make(chan end, 1)
			go func() {
				out, err := d.Run(ctx, manager.Request{
					Who: managerSession("s1"), Command: sandbox.Command{Args: []string{"sleep", "1000"}}, Started: func(p sandbox.Process) { started <- p },
				})
				ended <- end{out, err}
			}()
			return ended
		}
		ended := run(r.ctx)
		if err := (<-started).Signal(r.ctx, "INT"); err != nil {
			r.Errorf("Signal: %v", err)
		}
		if e := <-ended; e.err != nil || e.out.Exit.Code != 130 || e.out.Exit.Signal != "INT" {
			r.Errorf("%+v", e)
		}
		ctx, cancel := context.WithCancel(r.ctx)
		ended = run(ctx)
		<-started
		cancel()
		if e := <-ended; e.err == nil && e.out.Exit.Signal == "" {
			r.Errorf("a command that was cancelled ended with %+v", e.out)
		}
		if out := r.Rig.Run("acme", "s1", "echo still here"); out != "still here\n" {
			r.Errorf("the sandbox says %q", out)
		}
	})
}

// TestWhoMay holds what is not for everybody.
func TestWhoMay(t *testing.T) {
	r := managerNewRig(t, "")
	flags := config.Overrides{Image: "other:image"}.Layer()
	for _, name := range []string{"acme", "acme-s1"} {
		d := r.as(name)
		_, err := d.Run(r.ctx, manager.Request{Who: managerSession("s1"), Command: line(":"), Flags: flags})
		r.code(name+" gives flags", err, sandbox.CodePermissionDeny)
		err = d.Files(r.ctx, manager.Request{Who: managerSession("s1"), Flags: flags}, func(manager.Share) error { return nil })
		r.code(name+" gives flags for files", err, sandbox.CodePermissionDeny)
		_, err = d.Prune(r.ctx, manager.PruneOptions{Tenant: "acme"})
		r.code(name+" prunes", err, sandbox.CodePermissionDeny)
		_, err = d.Explain(r.ctx, managerSession("s1"), nil, manager.Questions{})
		r.code(name+" has it explained", err, sandbox.CodePermissionDeny)
		_, err = d.List(r.ctx, manager.ListOptions{Tenant: "acme", All: true})
		r.code(name+" lists all tenants", err, sandbox.CodePermissionDeny)
		_, err = d.Run(r.ctx, manager.Request{Who: config.Who{Tenant: "evil", Agent: "main", Session: "s1"}, Command: line(":")})
		r.code(name+" runs for another tenant", err, sandbox.CodePermissionDeny)
	}
	_, err := r.as("acme-s1").Run(r.ctx, manager.Request{Who: managerSession("s2"), Command: line(":")})
	r.code("a session runs in another", err, sandbox.CodePermissionDeny)
	_, err = r.as("").Run(r.ctx, manager.Request{Who: managerSession("s1"), Command: line(":"), Unsandboxed: true})
	r.code("no sandbox", err, sandbox.CodeUnsupported)
	if _, err := r.as("").Explain(r.ctx, managerSession("s1"), config.Overrides{Env: map[string]string{"A": "b"}}.Layer(), manager.Questions{Command: "ls"}); err != nil {
		r.Errorf("an admin with flags: %v", err)
	}
	a, err := sdk.NewManager("unix:"+r.Socket, sdk.APIOptions{Token: "sbt_no_such_token"})
	if err != nil {
		r.Fatal(err)
	}
	defer a.Close()
	_, err = a.List(r.ctx, manager.ListOptions{})
	r.code("a token that nobody made", err, sandbox.CodePermissionDeny)
}

func TestFiles(t *testing.T) {
	managerOnMemory(t, func(r *managerRig) {
		d := r.as("acme")
		req := manager.Request{Who: managerSession("s1")}
		err := d.Files(r.ctx, req, func(s manager.Share) error {
			if s.Name == "" || !slices.Equal(s.Exposed, []string{"/"}) {
				r.Errorf("lent %q, exposed %q; a tenant is told no paths of the host, and none is trusted", s.Name, s.Exposed)
			}
			if err := s.Write(r.ctx, "dir/file \xff", strings.NewReader("content"), sandbox.WriteOptions{Perm: 0o640}); err != nil {
				return err
			}
			err := s.CreateExclusive(r.ctx, "/workspace/dir/file \xff", strings.NewReader("x"), 0)
			if !errors.Is(err, fs.ErrExist) {
				r.Errorf("exclusive: %v", err)
			}
			if err := s.Symlink(r.ctx, "file \xff", "dir/link"); err != nil {
				return err
			}
			c, err := s.Read(r.ctx, "dir/link", 3, 2)
			if err != nil {
				return err
			}
			defer c.Close()
			if b, err := io.ReadAll(c); err != nil || string(b) != "te" {
				r.Errorf("read %q, %v", b, err)
			}
			entries, err := s.ReadDir(r.ctx, "dir")
			if err != nil || len(entries) != 2 || entries[0].Name() != "file \xff" {
				r.Errorf("the folder holds %v, %v", entries, err)
			}
			_, err = s.Stat(r.ctx, "/etc/passwd")
			r.code("a path outside", err, sandbox.CodeCapabilityBlocked)
			_, err = s.Stat(r.ctx, "none")
			r.code("nothing there", err, sandbox.CodeNotFound)
			return nil
		})
		if err != nil {
			r.Fatal(err)
		}
		if out := r.Rig.Run("acme", "s1", "cat dir/file*"); out != "content" {
			r.Errorf("inside there is %q", out)
		}
		mine := errors.New("mine")
		if err := d.Files(r.ctx, req, func(manager.Share) error { return mine }); !errors.Is(err, mine) {
			r.Errorf("an error of the function came back as %v", err)
		}
	})
}

// TestHandleBelongsToOne holds that a handle of one caller is of no other caller, and no more
// when it is given back.
func TestHandleBelongsToOne(t *testing.T) {
	r := managerNewRig(t, "")
	c, err := sdk.NewAPI("unix:"+r.Socket, sdk.APIOptions{Token: r.Secret("acme-s1"), Tenant: "acme", Session: "s1"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	conn, _, err := c.Socket(r.ctx, "lend", "/v1/lend", nil)
	if err != nil {
		t.Fatal(err)
	}
	talk := stream.NewTalk(conn, stream.Options{})
	defer talk.End(false)
	var opened api.Handle
	if err := errors.Join(talk.Send(api.HandleRequest{}), talk.Receive(r.ctx, &opened)); err != nil || opened.Error != nil {
		t.Fatal(err, opened.Error)
	}
	stat := func(name, session string) error {
		other, err := sdk.NewAPI("unix:"+r.Socket, sdk.APIOptions{Token: r.Secret(name), Session: session})
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		return other.Call(r.ctx, sdk.Request{
			Op: "stat", Method: http.MethodGet, Path: api.HandlesPath + "/" + opened.Ticket + "/files/stat", Query: url.Values{"path": {"/workspace"}},
		}, nil)
	}
	for name, session := range map[string]string{"evil": "s1", "acme": "s1", "acme-s2": "s2", "root": "s1"} {
		r.code(name+" looks at it", stat(name, session), sandbox.CodeUnavailable)
	}
	if err := stat("acme-s1", "s1"); err != nil {
		t.Errorf("whom it is lent to: %v", err)
	}
	talk.End(true)
	testenv.Until(t, "given back it answers no more", func() bool { return stat("acme-s1", "s1") != nil })
	r.code("given back", stat("acme-s1", "s1"), sandbox.CodeUnavailable)
}

func TestKeeping(t *testing.T) {
	managerOnMemory(t, func(r *managerRig) {
		name := r.Ready("acme", "s1")
		other := r.Ready("evil", "s1")
		d := r.as("acme")
		l, err := d.List(r.ctx, manager.ListOptions{Tenant: "acme"})
		if err != nil || len(l.Containers) != 1 || l.Containers[0].Name != name || l.Containers[0].Workspace != "" || l.Browsers == nil {
			r.Errorf("a tenant sees %+v, %v", l, err)
		}
		all, err := r.as("").List(r.ctx, manager.ListOptions{All: true})
		if err != nil || len(all.Containers) != 2 || all.Containers[0].Workspace == "" {
			r.Errorf("an admin sees %+v, %v", all, err)
		}
		stats, err := d.Stats(r.ctx, "acme")
		if err != nil || len(stats) != 1 || stats[0].Name != name {
			r.Errorf("stats %+v, %v", stats, err)
		}
		rows, err := d.Select(r.ctx, "acme", manager.Selector{All: true}, false)
		if err != nil || len(rows) != 1 || rows[0].Name != name {
			r.Fatalf("selected %+v, %v", rows, err)
		}
		forged := rows[0]
		forged.Name = other
		if done := d.Recreate(r.ctx, []manager.Row{forged}); len(done.Removed) != 0 {
			r.Errorf("a tenant removed another's: %+v", done)
		}
		if done := d.Recreate(r.ctx, rows); len(done.Removed) != 1 || len(done.Failed) != 0 {
			r.Errorf("recreate: %+v", done)
		}
		_, err = d.Select(r.ctx, "acme", manager.Selector{}, false)
		r.code("nothing selected", err, sandbox.CodeValidation)
		idle := time.Duration(1)
		p, err := r.as("").Prune(r.ctx, manager.PruneOptions{Tenant: "evil", Idle: &idle, DryRun: true})
		if err != nil || len(p.Removed) != 1 || p.Removed[0].Name != other {
			r.Errorf("prune: %+v, %v", p, err)
		}
	})
}

// TestDocument holds that the routes can be described.
func TestDocument(t *testing.T) {
	r := managerNewRig(t, "")
	b, err := r.Server.Document()
	if err != nil || !bytes.Contains(b, []byte(`"attachSession"`)) {
		t.Errorf("%d bytes, %v", len(b), err)
	}
}
