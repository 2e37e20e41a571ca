package sdk_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/sdk"
)

// tour uses each part of a sandbox once; docs/sdk.md shows it.
func tour(ctx context.Context, c *sdk.Client, out *bytes.Buffer) error {
	sb, err := c.Sandbox(ctx, "tour", sdk.Env("GREETING", "hello"), sdk.Limit(sdk.Limits{Timeout: time.Minute}))
	if err != nil {
		return err
	}
	// Files, by name and as a file system.
	if err := sb.WriteFile(ctx, "names/a.txt", []byte("Ada\nBlaise\n")); err != nil {
		return err
	}
	entries, err := fs.ReadDir(sb.FS(), "names")
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "files:", entries[0].Name())
	// A command with its streams.
	p, err := sb.Start(ctx, sdk.Command{Line: `while read -r n; do echo "$GREETING $n"; done`, Stdin: strings.NewReader("Ada\n"), Stdout: out})
	if err != nil {
		return err
	}
	if res, err := p.Wait(); err != nil || res.ExitCode != 0 {
		return fmt.Errorf("exit code %d, %w", res.ExitCode, err)
	}
	// A shell that keeps its state.
	sh, err := sb.Shell(ctx)
	if err != nil {
		return err
	}
	defer sh.Close()
	if _, err := sh.Run(ctx, "cd names; count=$(wc -l <a.txt)"); err != nil {
		return err
	}
	res, err := sh.Run(ctx, `echo "$count names in $PWD"`)
	if err != nil {
		return err
	}
	out.Write(res.Stdout)
	// A tool of an agent.
	answer, err := sb.CallTool(ctx, "read", map[string]any{"path": "names/a.txt", "limit": 1})
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "tool:", strings.Contains(answer.Text, "Ada"))
	// What does not exist.
	_, err = sb.ReadFile(ctx, "missing.txt")
	fmt.Fprintln(out, "error:", sandbox.CodeOf(err), errors.Is(err, fs.ErrNotExist))
	return sb.Remove(ctx)
}

const toured = `files: a.txt
hello Ada
2 names in /workspace/names
tool: true
error: SANDBOX.NOT_FOUND true
`

// inBothWays runs a test with a client of this process and one of a daemon that
// is a process of its own, both with local sandboxes.
func inBothWays(t *testing.T, test func(t *testing.T, c *sdk.Client)) {
	testenv.Require(t, "local")
	for _, way := range []struct {
		name string
		open func(t *testing.T) (*sdk.Client, error)
	}{
		{"in this process", func(t *testing.T) (*sdk.Client, error) {
			return sdk.Open(t.Context(), sdk.StateDir(t.TempDir()), sdk.Settings(config.NewBuilder().Provider("local")))
		}},
		{"of a daemon", func(t *testing.T) (*sdk.Client, error) { return sdk.Dial(t.Context(), daemon(t)) }},
	} {
		t.Run(way.name, func(t *testing.T) {
			c, err := way.open(t)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close() })
			test(t, c)
		})
	}
}

// TestTour holds that one program says the same in both ways.
func TestTour(t *testing.T) {
	inBothWays(t, func(t *testing.T, c *sdk.Client) {
		var out bytes.Buffer
		if err := tour(t.Context(), c, &out); err != nil {
			t.Fatal(err)
		}
		if out.String() != toured {
			t.Errorf("it says %q, want %q", out.String(), toured)
		}
	})
}

func ready(t *testing.T, c *sdk.Client, session string, list ...sdk.SandboxOption) *sdk.Sandbox {
	t.Helper()
	sb, err := c.Sandbox(t.Context(), session, list...)
	if err != nil {
		t.Fatal(err)
	}
	return sb
}

// TestCommands holds what commands are given and what they come to.
func TestCommands(t *testing.T) {
	inBothWays(t, func(t *testing.T, c *sdk.Client) {
		ctx, sb := t.Context(), ready(t, c, "s", sdk.Env("A", "ü\U0001F600"), sdk.Limit(sdk.Limits{OutputBytes: 8}))
		long, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		for _, tt := range []struct {
			name string
			ctx  context.Context
			cmd  sdk.Command
			out  string
			exit int
			code sandbox.Code
		}{
			{"a variable of the sandbox", ctx, sdk.Command{Line: "printf %s \"$A\""}, "ü\U0001F600", 0, ""},
			{"a variable of the command", ctx, sdk.Command{Args: []string{"printenv", "B"}, Env: map[string]string{"B": "b"}}, "b\n", 0, ""},
			{"a folder", ctx, sdk.Command{Args: []string{"pwd"}, Dir: "/tmp"}, "/tmp\n", 0, ""},
			{"input that is no text", ctx, sdk.Command{Args: []string{"cat"}, Stdin: strings.NewReader("\xff\x00")}, "\xff\x00", 0, ""},
			{"input without bytes", ctx, sdk.Command{Args: []string{"cat"}, Stdin: strings.NewReader("")}, "", 0, ""},
			{"more than is kept", ctx, sdk.Command{Args: []string{"echo", "0123456789"}}, "01234567", 0, ""},
			{"no such program", ctx, sdk.Command{Args: []string{"nosuchprogram"}}, "", 127, ""},
			{"no command", ctx, sdk.Command{}, "", 0, sandbox.CodeValidation},
			{"two commands", ctx, sdk.Command{Args: []string{"true"}, Line: "true"}, "", 0, sandbox.CodeValidation},
			{"too much input", ctx, sdk.Command{Args: []string{"cat"}, Stdin: strings.NewReader(strings.Repeat("x", 1<<20+1))}, "", 0, sandbox.CodeValidation},
			{"the end of the context", long, sdk.Command{Args: []string{"sleep", "100"}}, "", 0, sandbox.CodeTimeout},
			{"a tool that there is not", ctx, sdk.Command{Args: []string{"true"}, Tool: "browser"}, "", 0, sandbox.CodeDenyTool},
		} {
			res, err := sb.Exec(tt.ctx, tt.cmd)
			if sandbox.CodeOf(err) != tt.code || (err == nil) != (tt.code == "") || string(res.Stdout) != tt.out || res.ExitCode != tt.exit {
				t.Errorf("%s: %q, exit code %d, %v", tt.name, res.Stdout, res.ExitCode, err)
			}
		}
		if res, err := sb.Exec(ctx, sdk.Command{Args: []string{"sleep", "100"}, Timeout: 50 * time.Millisecond}); err != nil || !res.TimedOut {
			t.Errorf("a time limit: %+v, %v", res, err)
		}
	})
}

// TestStart holds that streams, signals and a terminal are connected, and how a
// command ended is reported.
func TestStart(t *testing.T) {
	inBothWays(t, func(t *testing.T, c *sdk.Client) {
		ctx, sb := t.Context(), ready(t, c, "s")
		var out, errs bytes.Buffer
		p, err := sb.Start(ctx, sdk.Command{Line: "cat; echo bad >&2; exit 4", Stdin: strings.NewReader("in"), Stdout: &out, Stderr: &errs})
		if err != nil {
			t.Fatal(err)
		}
		res, err := p.Wait()
		again, fail := p.Wait()
		if err != nil || fail != nil || res.ExitCode != 4 || again.ExitCode != 4 || out.String() != "in" || errs.String() != "bad\n" || res.StdoutBytes != 2 {
			t.Errorf("%q, %q, %+v, %v, %v", out.String(), errs.String(), res, err, fail)
		}
		p, err = sb.Start(ctx, sdk.Command{Args: []string{"sleep", "100"}})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Signal(ctx, "TERM"); err != nil {
			t.Error(err)
		}
		if res, err := p.Wait(); err != nil || res.Signal != "TERM" {
			t.Errorf("a signal: %+v, %v", res, err)
		}
		var screen bytes.Buffer
		p, err = sb.Start(ctx, sdk.Command{Args: []string{"stty", "size"}, TTY: &sandbox.TTY{Rows: 33, Cols: 77}, Stdout: &screen})
		if err != nil {
			t.Fatal(err)
		}
		if res, err := p.Wait(); err != nil || res.ExitCode != 0 || strings.TrimSpace(screen.String()) != "33 77" {
			t.Errorf("a terminal: %q, %+v, %v", screen.String(), res, err)
		}
		for name, cmd := range map[string]sdk.Command{"nothing": {}, "both": {Args: []string{"true"}, Line: "true"}} {
			if _, err := sb.Start(ctx, cmd); sandbox.CodeOf(err) != sandbox.CodeValidation {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// TestShellsOfSDK holds that a shell keeps its state, streams, and is closed.
func TestShellsOfSDK(t *testing.T) {
	inBothWays(t, func(t *testing.T, c *sdk.Client) {
		ctx, sb := t.Context(), ready(t, c, "s", sdk.Env("A", "a"))
		sh, err := sb.Shell(ctx)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if res, err := sh.Stream(ctx, "x=$A; echo out; exit 5", &out, nil); err != nil || res.ExitCode != 5 || out.String() != "out\n" {
			t.Errorf("%q, %+v, %v", out.String(), res, err)
		}
		if _, err := sh.Run(ctx, "x=1; cd /tmp"); err != nil {
			t.Error(err)
		}
		if res, err := sh.Run(ctx, "echo $x $PWD $A"); err != nil || string(res.Stdout) != "1 /tmp a\n" {
			t.Errorf("%q, %v", res.Stdout, err)
		}
		if err := errors.Join(sh.Close(), sh.Close()); err != nil {
			t.Error(err)
		}
		if _, err := sh.Run(ctx, "true"); sandbox.CodeOf(err) != sandbox.CodeNotFound {
			t.Errorf("a closed shell: %v", err)
		}
	})
}

// TestFilesOfSDK holds that the workspace is a file system that io/fs accepts,
// and what errors files have.
func TestFilesOfSDK(t *testing.T) {
	inBothWays(t, func(t *testing.T, c *sdk.Client) {
		ctx, sb := t.Context(), ready(t, c, "s")
		for name, data := range map[string]string{"a.txt": "a", "d/b c.txt": strings.Repeat("b", 3<<20), "d/ü#?%.txt": "", "e/f/g": "\x00\xff"} {
			if err := sb.WriteFile(ctx, name, []byte(data)); err != nil {
				t.Fatal(err)
			}
			if got, err := sb.ReadFile(ctx, "/workspace/"+name); string(got) != data || err != nil {
				t.Errorf("%s: %d bytes, %v", name, len(got), err)
			}
		}
		files := sb.Files()
		if l, ok := files.(interface {
			Symlink(context.Context, string, string) error
		}); !ok || l.Symlink(ctx, "../a.txt", "d/link") != nil {
			t.Error("no link can be made")
		}
		if err := fstest.TestFS(sb.FS(), "a.txt", "d/b c.txt", "d/link", "d/ü#?%.txt", "e/f/g"); err != nil {
			t.Error(err)
		}
		if got, err := fs.ReadLink(sb.FS(), "d/link"); got != "../a.txt" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
		r, err := files.Read(ctx, "d/b c.txt", 5, 7)
		if err != nil {
			t.Fatal(err)
		}
		var part bytes.Buffer
		part.ReadFrom(r)
		r.Close()
		if part.String() != "bbbbbbb" {
			t.Errorf("a part is %q", part.String())
		}
		if err := files.Mkdir(ctx, "private", 0o700); err != nil {
			t.Error(err)
		}
		if info, err := files.Stat(ctx, "private"); err != nil || info.Mode() != fs.ModeDir|0o700 {
			t.Errorf("%v, %v", info, err)
		}
		_, missing := sb.ReadFile(ctx, "nothing")
		_, outside := sb.ReadFile(ctx, "/etc/shadow")
		for _, tt := range []struct {
			name string
			err  error
			is   error
			code sandbox.Code
		}{
			{"read nothing", missing, fs.ErrNotExist, sandbox.CodeNotFound},
			{"read outside", outside, fs.ErrPermission, sandbox.CodeCapabilityBlocked},
			{"read up", errorOf(sb.ReadFile(ctx, "../../etc/passwd")), fs.ErrPermission, sandbox.CodeCapabilityBlocked},
			{"write again", files.Write(ctx, "a.txt", nil, sandbox.WriteOptions{Exclusive: true}), fs.ErrExist, sandbox.CodeBusy},
			{"make again", files.Mkdir(ctx, "d", 0o700), nil, sandbox.CodeBusy},
			{"make below nothing", files.Mkdir(ctx, "x/y", 0o700), fs.ErrNotExist, sandbox.CodeNotFound},
			{"make", files.Mkdir(ctx, "x", 0o700), nil, ""},
			{"rename", files.Rename(ctx, "x", "y"), nil, ""},
			{"rename nothing", files.Rename(ctx, "x", "y"), fs.ErrNotExist, sandbox.CodeNotFound},
			{"remove", files.Remove(ctx, "y", false), nil, ""},
			{"remove nothing", files.Remove(ctx, "y", false), fs.ErrNotExist, sandbox.CodeNotFound},
		} {
			if tt.code != "" && sandbox.CodeOf(tt.err) != tt.code || tt.code == "" && tt.err != nil || tt.is != nil && !errors.Is(tt.err, tt.is) {
				t.Errorf("%s: %v, want %v and %s", tt.name, tt.err, tt.is, tt.code)
			}
		}
	})
}

func errorOf[T any](_ T, err error) error { return err }

// TestDialOfSDK holds that a client of HTTP reaches a server inside, and nothing
// else is dialled.
func TestDialOfSDK(t *testing.T) {
	inBothWays(t, func(t *testing.T, c *sdk.Client) {
		ctx, sb := t.Context(), ready(t, c, "s")
		p, err := sb.Start(ctx, sdk.Command{Line: listens})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := p.Kill(ctx); err != nil {
				t.Error(err)
			}
			p.Wait()
		}()
		web := &http.Client{Transport: &http.Transport{DialContext: sb.Dial, DisableKeepAlives: true}}
		testenv.Until(t, "the server inside answers", func() bool {
			a, err := web.Get("http://localhost:8123/")
			if err != nil {
				if !strings.Contains(err.Error(), string(sandbox.CodeUnavailable)) {
					t.Fatal(err)
				}
				return false
			}
			defer a.Body.Close()
			return a.StatusCode == http.StatusOK
		})
		outside, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer outside.Close()
		for address, code := range map[string]sandbox.Code{
			outside.Addr().String(): sandbox.CodeUnavailable, "example.com:80": sandbox.CodeValidation, "10.0.0.1:80": sandbox.CodeValidation,
			"localhost:0": sandbox.CodeValidation, "localhost:http": sandbox.CodeValidation, "localhost": sandbox.CodeValidation,
		} {
			if _, err := sb.Dial(ctx, "tcp", address); sandbox.CodeOf(err) != code {
				t.Errorf("%s: %v, want %s", address, err, code)
			}
		}
		if _, err := sb.Dial(ctx, "unix", "/tmp/s"); sandbox.CodeOf(err) != sandbox.CodeValidation {
			t.Errorf("a socket: %v", err)
		}
	})
}

// listens serves HTTP at port 8123 with what the machines of tests have.
const listens = `exec perl -MIO::Socket::INET -e 'my $l = IO::Socket::INET->new(LocalAddr => "127.0.0.1", LocalPort => 8123, Listen => 5, ReuseAddr => 1) or die;
while (my $c = $l->accept) { while (<$c>) { last if /^\r?$/ } print $c "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"; close $c }'`

// TestToolsOfSDK holds that tools are listed with schemas, called, and refused.
func TestToolsOfSDK(t *testing.T) {
	inBothWays(t, func(t *testing.T, c *sdk.Client) {
		ctx, sb := t.Context(), ready(t, c, "s", sdk.With(func(b *config.Builder) { b.DenyTool("write") }))
		list, err := sb.Tools(ctx)
		if err != nil {
			t.Fatal(err)
		}
		names := map[string]bool{}
		for _, tool := range list {
			names[tool.Name] = json.Valid(tool.InputSchema)
		}
		if !names["exec"] || !names["read"] || names["write"] {
			t.Errorf("the tools are %v", names)
		}
		a, err := sb.CallTool(ctx, "exec", json.RawMessage(`{"command":"echo hi; exit 1"}`))
		if err != nil || !a.Failed || !strings.Contains(a.Text, "hi") || !json.Valid(a.Data) {
			t.Errorf("%+v, %v", a, err)
		}
		for tool, code := range map[string]sandbox.Code{"write": sandbox.CodeDenyTool, "nothing": sandbox.CodeDenyTool, "read": sandbox.CodeValidation} {
			if _, err := sb.CallTool(ctx, tool, nil); sandbox.CodeOf(err) != code {
				t.Errorf("%s: %v, want %s", tool, err, code)
			}
		}
	})
}

// TestSandboxes holds which sandbox a session has, and that a removed one is
// reported as such.
func TestSandboxes(t *testing.T) {
	inBothWays(t, func(t *testing.T, c *sdk.Client) {
		ctx, shared := t.Context(), t.TempDir()
		if os.Getuid() == 0 { // no sandbox runs as root
			if err := os.Chown(shared, 54321, 54321); err != nil {
				t.Fatal(err)
			}
		}
		one, other, same := ready(t, c, "one"), ready(t, c, "one", sdk.Agent("helper")), ready(t, c, "one")
		if one.Name() != same.Name() || one.Name() == other.Name() {
			t.Errorf("%s, %s and %s", one.Name(), other.Name(), same.Name())
		}
		folder := ready(t, c, "folder", sdk.Workspace(shared))
		if err := folder.WriteFile(ctx, "in.txt", []byte("x")); err != nil {
			t.Error(err)
		}
		if _, err := fs.Stat(os.DirFS(shared), "in.txt"); err != nil {
			t.Error(err)
		}
		if err := errors.Join(folder.Remove(ctx), folder.Remove(ctx)); err != nil {
			t.Error(err)
		}
		if _, err := fs.Stat(os.DirFS(shared), "in.txt"); err != nil {
			t.Errorf("a folder of the host went with the sandbox: %v", err)
		}
		view := ready(t, c, "view", sdk.Private(shared))
		if b, err := view.ReadFile(ctx, "in.txt"); err != nil || string(b) != "x" {
			t.Errorf("%q, %v", b, err)
		}
		if err := errors.Join(view.WriteFile(ctx, "in.txt", []byte("changed")), view.WriteFile(ctx, "new.txt", nil)); err != nil {
			t.Error(err)
		}
		if b, err := fs.ReadFile(os.DirFS(shared), "in.txt"); err != nil || string(b) != "x" {
			t.Errorf("a private view has changed the folder: %q, %v", b, err)
		}
		if _, err := fs.Stat(os.DirFS(shared), "new.txt"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a private view has changed the folder: %v", err)
		}
		if err := view.Remove(ctx); err != nil {
			t.Error(err)
		}
		if err := one.WriteFile(ctx, "a", nil); err != nil {
			t.Error(err)
		}
		if err := one.Remove(ctx); err != nil {
			t.Error(err)
		}
		if _, err := one.Run(ctx, "true"); sandbox.CodeOf(err) != sandbox.CodeNotFound {
			t.Errorf("a sandbox that was removed: %v", err)
		}
		if _, err := ready(t, c, "one").ReadFile(ctx, "a"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("its workspace: %v", err)
		}
		for name, list := range map[string][]sdk.SandboxOption{
			"an image":    {sdk.Provider("docker"), sdk.Image("-bad")},
			"a network":   {sdk.With(func(b *config.Builder) { b.Set(func(s *config.SandboxSettings) { s.Provider = new("nothing") }) })},
			"a workspace": {sdk.Workspace("/proc")},
			"an agent":    {sdk.Agent("../x")},
			"many bytes":  {sdk.Env("A", strings.Repeat("x", 30<<10))},
		} {
			if sb, err := c.Sandbox(ctx, "refused", list...); err == nil || sandbox.CodeOf(err) == sandbox.CodeInternal {
				t.Errorf("%s: %v, %v", name, sb, err)
			}
		}
	})
}

// TestOptions holds that options which have no effect are refused.
func TestOptions(t *testing.T) {
	for name, err := range map[string]error{
		"a token of Open":       errorOf(sdk.Open(t.Context(), sdk.Token("x"))),
		"settings of Dial":      errorOf(sdk.Dial(t.Context(), "unix:/nothing", sdk.Settings(config.NewBuilder()))),
		"a folder of Dial":      errorOf(sdk.Dial(t.Context(), "unix:/nothing", sdk.StateDir("/x"))),
		"no option":             errorOf(sdk.Open(t.Context(), sdk.Option{})),
		"an address":            errorOf(sdk.Dial(t.Context(), "nothing")),
		"settings twice":        errorOf(sdk.Open(t.Context(), sdk.StateDir(t.TempDir()), sdk.Settings(config.NewBuilder()), sdk.ConfigFile("/x"))),
		"settings with a fault": errorOf(sdk.Open(t.Context(), sdk.StateDir(t.TempDir()), sdk.Settings(config.NewBuilder().Provider("x")))),
	} {
		if sandbox.CodeOf(err) != sandbox.CodeValidation {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := sdk.Dial(t.Context(), "unix:/nothing/at/all"); sandbox.CodeOf(err) != sandbox.CodeUnavailable {
		t.Errorf("no daemon: %v", err)
	}
}

// TestApproverOfSDK holds that the client's approver answers what commands ask,
// and that without it they are stopped.
func TestApproverOfSDK(t *testing.T) {
	testenv.Require(t, "local")
	strict := sdk.With(func(b *config.Builder) {
		b.Provider("local").Set(func(s *config.SandboxSettings) {
			s.Commands = &config.CommandSettings{Strictness: new("strict"), AutoAllowIfSandboxed: new(false)}
		})
	})
	address := daemon(t)
	for name, open := range map[string]func(...sdk.Option) (*sdk.Client, error){
		"in this process": func(o ...sdk.Option) (*sdk.Client, error) {
			return sdk.Open(t.Context(), append(o, sdk.StateDir(t.TempDir()))...)
		},
		"of a daemon": func(o ...sdk.Option) (*sdk.Client, error) { return sdk.Dial(t.Context(), address, o...) },
	} {
		for _, says := range []sandbox.Permission{sandbox.AllowOnce, sandbox.Deny, ""} {
			options := []sdk.Option{sdk.Defaults(strict)}
			p := person{says: says, asked: make(chan sandbox.PermissionRequest, 10)}
			if says != "" {
				options = append(options, sdk.Approver(p))
			}
			c, err := open(options...)
			if err != nil {
				t.Fatal(err)
			}
			res, err := ready(t, c, "s").Run(t.Context(), "echo", "ran")
			if ran := err == nil && string(res.Stdout) == "ran\n"; ran != (says == sandbox.AllowOnce) || says != "" && len(p.asked) != 1 {
				t.Errorf("%s, %q: %q, %v, asked %d times", name, says, res.Stdout, err, len(p.asked))
			}
			c.Close()
		}
	}
}
