//go:build linux

package local_test

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
)

// TestEveryWayIn holds that whoever starts a program, and however, it is held
// as a plain command is: by a line of a shell, a job that the shell has in the
// background, on a terminal, or detached.
func TestEveryWayIn(t *testing.T) {
	s := newFixture(t, newKit(t), listeners, victims)
	s.up()
	ctx, done := context.WithTimeout(t.Context(), 3*patience)
	defer done()
	shell, err := s.sb.OpenShell(ctx, sandbox.ShellOptions{})
	must(t, err)
	defer shell.Close()
	interactive, err := s.sb.OpenShell(ctx, sandbox.ShellOptions{})
	must(t, err)
	defer interactive.Close()
	ways := map[string]func(script string) (sandbox.Process, *bytes.Buffer, error){
		"command": func(script string) (sandbox.Process, *bytes.Buffer, error) {
			var out bytes.Buffer
			p, err := s.sb.Start(ctx, sandbox.Command{Args: []string{"bash", "-c", script}, Stdout: &out, Stderr: &out})
			return p, &out, err
		},
		"terminal": func(script string) (sandbox.Process, *bytes.Buffer, error) {
			var out bytes.Buffer
			p, err := s.sb.Start(ctx, sandbox.Command{Args: []string{"bash", "-c", script}, Stdout: &out, TTY: &sandbox.TTY{Rows: 9, Cols: 80}})
			return p, &out, err
		},
		"detached": func(script string) (sandbox.Process, *bytes.Buffer, error) {
			var out bytes.Buffer
			p, err := s.sb.Start(ctx, sandbox.Command{Args: []string{"bash", "-c", script}, Stdout: &out, Stderr: &out, Detach: true})
			return p, &out, err
		},
		"shell": func(script string) (sandbox.Process, *bytes.Buffer, error) {
			var out bytes.Buffer
			p, err := shell.Run(ctx, script, sandbox.Command{Stdout: &out, Stderr: &out})
			return p, &out, err
		},
		"job of a shell": func(script string) (sandbox.Process, *bytes.Buffer, error) {
			var out bytes.Buffer
			p, err := interactive.Run(ctx, "{ "+script+"\n} & wait", sandbox.Command{Stdout: &out, Stderr: &out})
			return p, &out, err
		},
	}
	run := func(name, script string) string {
		p, out, err := ways[name](script)
		must(t, err)
		_, err = p.Wait()
		must(t, err)
		return strings.ReplaceAll(out.String(), "\r", "")
	}
	const posture = `grep -E '^(Seccomp|NoNewPrivs|Cap|Uid|Gid|Groups)' /proc/self/status | sort; ulimit -u; ls /proc/self/fd | head -3 | wc -l`
	want := run("command", posture)
	if !strings.Contains(want, "NoNewPrivs:\t1") || !strings.Contains(want, "Seccomp:\t2") {
		t.Fatalf("a plain command is not held: %s", want)
	}
	env := strings.Join(append(s.envs, "WS=/workspace", "P='/.sandbox/bin/sandbox-guest probe'", "DENIED='"+s.denied()+"'"), "; ")
	env = strings.NewReplacer("ADDRESSES=", "ADDRESSES='", " ; ", "'; ").Replace(env)
	for name := range ways {
		t.Run(name, func(t *testing.T) {
			if got := run(name, posture); got != want {
				t.Errorf("it is held by\n%s\na command by\n%s", got, want)
			}
			for _, script := range []string{
				`for f in $DENIED; do cat "$f"; echo x >"$f"; done`,
				tried("dial unix host.sock", "dial unix $READ/host.sock", "dial unix @$ABSTRACT", "dial tcp 127.0.0.1:$TCP", "pair-connect host.dgram"),
				tried("uring-read secret.txt", "trace 1", "vm-read 1", "vm-read $PPID", "mem $PPID", "look-into $PPID", "unshare user", "bind vault shared", "personality", "host-key attack"),
				`kill -9 $VICTIM; kill -9 1; echo x >/proc/1/fd/1; echo x >/etc/passwd; $P io-uring; $P vsock; $P ptrace-1`,
			} {
				out := run(name, env+"; "+script)
				if !strings.Contains(out, "denied") && !strings.Contains(out, "not permitted") {
					t.Errorf("it shows nothing: %.1000q", out)
				}
				for _, what := range s.damage(out) {
					t.Errorf("%s\noutput: %.1000q", what, out)
				}
			}
		})
	}
}
