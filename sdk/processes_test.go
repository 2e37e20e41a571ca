package sdk_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/sdk"
	"github.com/bulkhead-dev/sandbox/server/api"
)

// A collected output can be read while it is written.
type collected struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (c *collected) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.b.Write(p)
}

func (c *collected) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.b.String()
}

// TestAttach holds that a process outlives the context that started it and its
// attachments, and that an attachment begins where it is told to.
func TestAttach(t *testing.T) {
	inBothWays(t, func(t *testing.T, c *sdk.Client) {
		ctx, sb := t.Context(), ready(t, c, "s")
		short, cancel := context.WithCancel(ctx)
		info, err := sb.StartProcess(short, sdk.Command{Line: `echo "I am $$"; while read -r x; do echo "got $x"; done; exit 4`, Tag: "loop", StdinOpen: true, User: "sandbox"})
		cancel()
		if err != nil || info.PID <= 0 || info.State != "running" {
			t.Fatalf("%+v: %v", info, err)
		}
		var out collected
		away, leave := context.WithCancel(ctx)
		p, err := sb.Attach(away, "loop", sdk.Attachment{Stdout: &out})
		if err != nil {
			t.Fatal(err)
		}
		want := "I am " + strconv.Itoa(info.PID) + "\n"
		testenv.Until(t, "its output is there", func() bool { return out.String() == want })
		leave()
		if _, err := p.Wait(); sandbox.CodeOf(err) != sandbox.CodeTimeout {
			t.Errorf("an attachment that was left: %v", err)
		}
		if p, err = sb.Attach(ctx, info.ID, sdk.Attachment{From: int64(len(want)), Stdout: &out}); err != nil {
			t.Fatal(err)
		}
		for _, step := range []error{p.WriteStdin(ctx, []byte("it\nüber\n")), p.CloseStdin(ctx)} {
			if step != nil {
				t.Fatal(step)
			}
		}
		res, err := p.Wait()
		if err != nil || res.ExitCode != 4 || out.String() != want+"got it\ngot über\n" || p.PID() != info.PID || p.ID() != info.ID {
			t.Errorf("%+v, %v: %q", res, err, out.String())
		}
		list, err := sb.Processes(ctx)
		if err != nil || len(list) != 1 || list[0].Exit == nil || list[0].Exit.ExitCode != 4 || list[0].Tag != "loop" {
			t.Errorf("%+v: %v", list, err)
		}
		for name, tt := range map[string]struct {
			err  error
			code sandbox.Code
		}{
			"no such process":      {errorOf(sb.Attach(ctx, "none", sdk.Attachment{})), sandbox.CodeNotFound},
			"no such place":        {errorOf(sb.Attach(ctx, info.ID, sdk.Attachment{From: 1 << 40})), sandbox.CodeValidation},
			"a negative place":     {errorOf(sb.Attach(ctx, info.ID, sdk.Attachment{From: -9})), sandbox.CodeValidation},
			"a path":               {errorOf(sb.FindProcess(ctx, "../shells")), sandbox.CodeNotFound},
			"root":                 {errorOf(sb.StartProcess(ctx, sdk.Command{Line: "id", User: "root"})), sandbox.CodeCapabilityBlocked},
			"root in front":        {errorOf(sb.Exec(ctx, sdk.Command{Line: "id", User: "root"})), sandbox.CodeCapabilityBlocked},
			"root over a socket":   {errorOf(sb.Start(ctx, sdk.Command{Line: "id", User: "root"})), sandbox.CodeCapabilityBlocked},
			"an unknown user":      {errorOf(sb.Start(ctx, sdk.Command{Line: "id", User: "daemon"})), sandbox.CodeValidation},
			"a tag in front":       {errorOf(sb.Exec(ctx, sdk.Command{Line: "id", Tag: "x"})), sandbox.CodeValidation},
			"outputs behind":       {errorOf(sb.StartProcess(ctx, sdk.Command{Line: "id", Stdout: io.Discard})), sandbox.CodeValidation},
			"a signal too late":    {p.Signal(ctx, "TERM"), sandbox.CodeNotFound},
			"more input than ever": {p.WriteStdin(ctx, []byte("x")), sandbox.CodeNotFound},
		} {
			if sandbox.CodeOf(tt.err) != tt.code {
				t.Errorf("%s: %v, want %s", name, tt.err, tt.code)
			}
		}
		// The numbers of the sandbox's user are taken too.
		id, err := sb.RunLine(ctx, "printf %s:%s $(id -u) $(id -g)")
		if err != nil {
			t.Fatal(err)
		}
		uid, _, _ := strings.Cut(string(id.Stdout), ":")
		for _, user := range []string{"user", uid, string(id.Stdout)} {
			if res, err := sb.Exec(ctx, sdk.Command{Args: []string{"id", "-un"}, User: user}); err != nil || string(res.Stdout) != "sandbox\n" {
				t.Errorf("%s: %q %v", user, res.Stdout, err)
			}
		}
	})
}

func TestAttachedTerminal(t *testing.T) {
	inBothWays(t, func(t *testing.T, c *sdk.Client) {
		ctx, sb := t.Context(), ready(t, c, "s")
		info, err := sb.StartProcess(ctx, sdk.Command{Line: `trap 'stty size; exit 0' TERM; echo ready; while :; do sleep 0.05; done`, TTY: &sandbox.TTY{Rows: 5, Cols: 6}})
		if err != nil {
			t.Fatal(err)
		}
		var out collected
		p, err := sb.Attach(ctx, strconv.Itoa(info.PID), sdk.Attachment{Stdout: &out})
		if err != nil {
			t.Fatal(err)
		}
		testenv.Until(t, "it is ready", func() bool { return strings.Contains(out.String(), "ready") })
		if err := p.Resize(ctx, sandbox.TTY{Rows: 41, Cols: 132}); err != nil {
			t.Fatal(err)
		}
		if err := p.Signal(ctx, "TERM"); err != nil {
			t.Fatal(err)
		}
		if res, err := p.Wait(); err != nil || res.ExitCode != 0 || !strings.Contains(out.String(), "41 132") {
			t.Errorf("%+v, %v: %q", res, err, out.String())
		}
		again, err := sb.StartProcess(ctx, sdk.Command{Line: "sleep 600"})
		if err != nil {
			t.Fatal(err)
		}
		if p, err = sb.Attach(ctx, again.ID, sdk.Attachment{From: sdk.FromNow}); err != nil {
			t.Fatal(err)
		}
		if err := p.Resize(ctx, sandbox.TTY{Rows: 1, Cols: 1}); sandbox.CodeOf(err) != sandbox.CodeUnsupported {
			t.Errorf("without a terminal: %v", err)
		}
		if err := p.Kill(ctx); err != nil {
			t.Fatal(err)
		}
		if res, err := p.Wait(); err != nil || res.Signal != "KILL" {
			t.Errorf("%+v: %v", res, err)
		}
	})
}

// A cutter is a way to a daemon that is cut after so many bytes of answers,
// again and again.
type cutter struct {
	net.Listener
	to    string
	after int64
	cuts  atomic.Int32
}

func (c *cutter) serve() {
	for {
		conn, err := c.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			up, err := net.Dial("unix", strings.TrimPrefix(c.to, "unix:"))
			if err != nil {
				return
			}
			defer up.Close()
			go io.Copy(up, conn)
			if n, _ := io.CopyN(conn, up, c.after); n == c.after {
				c.cuts.Add(1)
			}
		}()
	}
}

// TestFollowOverCutConnections holds that every byte arrives once, however often
// the connection is cut.
func TestFollowOverCutConnections(t *testing.T) {
	testenv.Require(t, "local")
	address := daemon(t)
	c, err := sdk.Dial(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	sb := ready(t, c, "s")
	l, err := net.Listen("unix", t.TempDir()+"/s")
	if err != nil {
		t.Fatal(err)
	}
	cut := &cutter{Listener: l, to: address, after: 100_000}
	go cut.serve()
	defer l.Close()
	through, err := sdk.NewAPI("unix:"+l.Addr().String(), sdk.APIOptions{Agent: "main", Session: "s"})
	if err != nil {
		t.Fatal(err)
	}
	defer through.Close()
	var out, errs collected
	var dropped int64
	r := api.ExecStream{StartProcess: api.StartProcess{Exec: api.Exec{Line: "i=0; while [ $i -lt 8000 ]; do echo this is the line number $i of many; echo $i >&2; i=$((i+1)); done"}}}
	exit, err := through.StreamProcess(t.Context(), sb.Name(), r, sdk.ProcessSinks{Sinks: sdk.Sinks{Stdout: &out, Stderr: &errs}, Dropped: func(n int64) { dropped += n }})
	if err != nil || exit.ExitCode != 0 || dropped != 0 {
		t.Fatalf("%+v, %v, %d dropped", exit, err, dropped)
	}
	var want, wantErrs bytes.Buffer
	for i := range 8000 {
		want.WriteString("this is the line number " + strconv.Itoa(i) + " of many\n")
		wantErrs.WriteString(strconv.Itoa(i) + "\n")
	}
	if out.String() != want.String() || errs.String() != wantErrs.String() || cut.cuts.Load() < 2 {
		t.Errorf("%d of %d and %d of %d bytes over %d connections that were cut", len(out.String()), want.Len(), len(errs.String()), wantErrs.Len(), cut.cuts.Load())
	}
}
