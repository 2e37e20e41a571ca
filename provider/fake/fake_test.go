package fake_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/provider/fake"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// TestFaults holds what each fault does to a call and what it leaves behind.
func TestFaults(t *testing.T) {
	boom := errors.New("boom")
	tests := []struct {
		name  string
		fault fake.Fault
		code  sandbox.Code   // of Create
		left  sandbox.Status // of what Create left, or empty
	}{
		{"fail before", fake.FailAt(fake.StepCreate, boom), sandbox.CodeUnavailable, ""},
		{"fail between", fake.FailAt(fake.StepStart, boom), sandbox.CodeUnavailable, ""},
		{"fail after", fake.FailAt(fake.StepReady, boom), sandbox.CodeUnavailable, ""},
		{"a code of the test's own", fake.FailAt(fake.StepStart, &sandbox.Error{Code: sandbox.CodeBudgetExceeded}), sandbox.CodeBudgetExceeded, ""},
		{"crash before", fake.FailAt(fake.StepCreate, fake.ErrCrash), sandbox.CodeUnavailable, ""},
		{"crash between", fake.FailAt(fake.StepStart, fake.ErrCrash), sandbox.CodeUnavailable, sandbox.StatusStopped},
		{"crash after", fake.FailAt(fake.StepReady, fake.ErrCrash), sandbox.CodeUnavailable, sandbox.StatusRunning},
		{"down", fake.Down(), sandbox.CodeUnavailable, ""},
		{"hang", fake.Hang(), sandbox.CodeTimeout, ""},
		{"hang between", fake.HangAt(fake.StepReady), sandbox.CodeTimeout, ""},
		{"another step", fake.FailAt(fake.StepRemove, boom), "", sandbox.StatusRunning},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := fake.New(fake.Options{})
				heal := p.Engine().Inject(tt.fault)
				_, err := p.Create(t.Context(), spec("a"))
				if got := sandbox.CodeOf(err); got != tt.code {
					t.Errorf("Create: %v, want code %q", err, tt.code)
				}
				heal()
				// Another connection sees what the first one left.
				info, err := p.Engine().Provider().Inspect(t.Context(), spec("a").Name)
				if tt.left == "" && !sandbox.IsNotFound(err) || tt.left != "" && info.Status != tt.left {
					t.Errorf("left behind: %+v, %v; want status %q", info, err, tt.left)
				}
				p.Remove(t.Context(), spec("a").Name)
			})
		})
	}
}

func TestHealOnlyOne(t *testing.T) {
	p := fake.New(fake.Options{})
	first, second := errors.New("first"), errors.New("second")
	healFirst := p.Engine().Inject(fake.FailAt(fake.StepList, first))
	healSecond := p.Engine().Inject(fake.FailAt(fake.StepList, second))
	healFirst()
	healFirst()
	if _, err := p.List(t.Context(), sandbox.Filter{}); !errors.Is(err, second) {
		t.Errorf("List: %v, want the second fault", err)
	}
	healSecond()
	if _, err := p.List(t.Context(), sandbox.Filter{}); err != nil {
		t.Errorf("List: %v", err)
	}
}

// box makes and opens a sandbox of a fresh engine.
func box(t *testing.T, o fake.Options) (*fake.Provider, sandbox.Sandbox) {
	t.Helper()
	if o.Deadline == 0 {
		o.Deadline = testenv.Patience
	}
	p := fake.New(o)
	s := spec(t.Name())
	if _, err := p.Create(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	sb, err := p.Open(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		sb.Close()
		p.Remove(context.Background(), s.Name)
	})
	return p, sb
}

func TestPrograms(t *testing.T) {
	_, sb := box(t, fake.Options{})
	tests := []struct {
		name   string
		args   []string
		stdin  string
		code   int
		stdout string
		stderr string
	}{
		{"true", []string{"true"}, "", 0, "", ""},
		{"false", []string{"false"}, "", 1, "", ""},
		{"echo", []string{"echo", "a", "b"}, "", 0, "a b\n", ""},
		{"cat", []string{"/bin/cat"}, "text", 0, "text", ""},
		{"sleep", []string{"sleep", "0", "0.001"}, "", 0, "", ""},
		{"sleep with a word", []string{"sleep", "long"}, "", 1, "", "sleep: invalid time interval \"long\"\n"},
		{"pwd", []string{"pwd"}, "", 0, "/workspace\n", ""},
		{"sh with one command", []string{"sh", "-c", "echo a  b"}, "", 0, "a b\n", ""},
		{"sh with a line that begins like an option", []string{"sh", "-c", "--", "-x; echo b"}, "", 0, "b\n", "sh: -x: not found\n"},
		{"sh with nothing", []string{"sh", "-c", " "}, "", 0, "", ""},
		{"sh passes the status on", []string{"sh", "-c", "exit 9"}, "", 9, "", ""},
		{"sh without such a program", []string{"sh", "-c", "nope"}, "", 127, "", "sh: nope: not found\n"},
		{"sh with two commands", []string{"sh", "-c", "a; echo b"}, "", 0, "b\n", "sh: a: not found\n"},
		{"sh with bad syntax", []string{"sh", "-c", "echo a; ("}, "", 2, "", "sh: 1:9: `(` must be followed by a statement list\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			p, err := sb.Start(t.Context(), sandbox.Command{
				Args: tt.args, Stdin: strings.NewReader(tt.stdin), Stdout: &stdout, Stderr: &stderr,
			})
			if err != nil {
				t.Fatal(err)
			}
			exit, err := p.Wait()
			if err != nil || exit.Code != tt.code || stdout.String() != tt.stdout || stderr.String() != tt.stderr {
				t.Errorf("%+v, %v, stdout %q, stderr %q", exit, err, stdout.String(), stderr.String())
			}
		})
	}
}

func TestProcessTable(t *testing.T) {
	p, sb := box(t, fake.Options{})
	name := sb.Info().Name
	c, err := sb.Start(t.Context(), sandbox.Command{Args: []string{"sleep", "1000"}})
	if err != nil {
		t.Fatal(err)
	}
	table := p.Engine().Processes(name)
	if len(table) != 1 || !slices.Equal(table[0].Args, []string{"sleep", "1000"}) {
		t.Errorf("the table says %+v", table)
	}
	if err := c.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if table := p.Engine().Processes(name); len(table) != 0 {
		t.Errorf("after Kill the table says %+v", table)
	}
	if exit, err := c.Wait(); err != nil || exit.Code != 137 {
		t.Errorf("%+v, %v", exit, err)
	}
	if table := p.Engine().Processes("nobody"); table != nil {
		t.Errorf("an unknown sandbox has %+v", table)
	}
}

// TestPauseFreezes holds that a paused program does nothing.
func TestPauseFreezes(t *testing.T) {
	ticks := make(chan int) // a handover shows that the program moves
	o := fake.Options{Programs: map[string]fake.Program{"tick": func(p *fake.Proc) int {
		for i := 0; ; i++ {
			p.Sleep(0)
			ticks <- i
		}
	}}}
	synctest.Test(t, func(t *testing.T) {
		ticks = make(chan int)
		p := fake.New(o)
		s := spec("a")
		if _, err := p.Create(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		sb, err := p.Open(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := sb.Start(t.Context(), sandbox.Command{Args: []string{"tick"}}); err != nil {
			t.Fatal(err)
		}
		<-ticks
		synctest.Wait() // the program stands in its next handover
		if err := p.Pause(t.Context(), s.Name); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		<-ticks // it stood in the handover
		synctest.Wait()
		select {
		case <-ticks:
			t.Error("a paused program goes on")
		default:
		}
		if err := p.Unpause(t.Context(), s.Name); err != nil {
			t.Fatal(err)
		}
		<-ticks
		synctest.Wait()
		<-ticks
		// The program does not wait through its Proc while it hands over, so
		// take what it still has to give.
		go func() {
			for range ticks {
			}
		}()
		sb.Close()
		close(ticks)
	})
}

func TestNamesAndOpen(t *testing.T) {
	p, sb := box(t, fake.Options{Name: "walls"})
	if p.Name() != "walls" || sb.Info().Provider != "walls" {
		t.Errorf("called %q, its sandbox says %q", p.Name(), sb.Info().Provider)
	}
	if names := p.Engine().Names(); !slices.Equal(names, []string{sb.Info().Name}) {
		t.Errorf("Names = %v", names)
	}
	if err := p.Engine().Destroy("none"); !sandbox.IsNotFound(err) {
		t.Errorf("Destroy of none: %v", err)
	}
	if _, err := sb.Start(t.Context(), sandbox.Command{Args: []string{"nope"}}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Start of nope: %v", err)
	}
}

func ExampleProvider() {
	ctx := context.Background()
	p := fake.New(fake.Options{Programs: map[string]fake.Program{
		"greet": func(p *fake.Proc) int {
			fmt.Fprintf(p.Stdout, "hello from %s\n", p.Dir)
			return 4
		},
	}})
	s := sandbox.Spec{
		Name: "sbx-example", Kind: sandbox.KindSandbox, Workdir: sandbox.WorkspaceDir, UID: 1000, GID: 1000,
		Network: "none", Security: sandbox.Security{NoNewPrivileges: true},
	}
	if _, err := p.Create(ctx, s); err != nil {
		fmt.Println(err)
		return
	}
	sb, err := p.Open(ctx, s)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer sb.Close()

	var out bytes.Buffer
	c, err := sb.Start(ctx, sandbox.Command{Args: []string{"greet"}, Stdout: &out})
	if err != nil {
		fmt.Println(err)
		return
	}
	exit, err := c.Wait()
	fmt.Print(out.String())
	fmt.Println(exit.Code, err)

	heal := p.Engine().Inject(fake.Down())
	_, err = p.Inspect(ctx, s.Name)
	fmt.Println(err)
	heal()
	// Output:
	// hello from /workspace
	// 4 <nil>
	// PROVIDER.UNAVAILABLE: inspect: the engine does not answer (start the engine)
}

// spec returns what a sandbox of the fake is made from.
func spec(key string) sandbox.Spec {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(key))
	return sandbox.Spec{
		Format: sandbox.SpecFormat, Name: "sbx-" + name, Kind: sandbox.KindSandbox, Provider: "fake",
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
