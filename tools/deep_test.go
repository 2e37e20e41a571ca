//go:build linux

package tools

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/tools/schema"
)

// line runs shell text that has to succeed and returns what it wrote.
func (r *rig) line(text string) string {
	r.t.Helper()
	a := r.call("exec", obj{"command": text})
	d := data[schema.ExecResult](r.t, a)
	if d.ExitCode != 0 {
		r.t.Fatalf("%s: %s", text, a.Text)
	}
	return strings.TrimSpace(d.Stdout.Text)
}

func TestShellStaysOnProviders(t *testing.T) {
	onProviders(t, "", func(t *testing.T, r *rig) {
		r.line(`mkdir -p a/b; cd a/b; export E=exported; v=plain; f() { echo "f says $1 in $PWD"; }; alias z=true`)
		if got := r.line(`f "$E $v"`); got != "f says exported plain in /workspace/a/b" && got != "f says exported plain in "+r.workspace()+"/a/b" {
			t.Errorf("%q", got)
		}
		d := data[schema.ExecResult](t, r.call("exec", obj{"command": "exit 7"}))
		if d.ExitCode != 7 || !d.Restarted {
			t.Errorf("a line that ends the shell: %+v", d)
		}
		if got := r.line(`f "$v"`); !strings.HasPrefix(got, "f says plain in ") || !strings.HasSuffix(got, "/a/b") {
			t.Errorf("after the shell has ended: %q", got)
		}
		r.call("exec", obj{"restart": true})
		if got := r.line(`echo "[$v$E]"; type f >/dev/null 2>&1 || echo none`); got != "[]\nnone" {
			t.Errorf("after a restart: %q", got)
		}
	})
}

// TestTimeoutEndsTheTree looks inside for what a command has started.
func TestTimeoutEndsTheTree(t *testing.T) {
	onProviders(t, "", func(t *testing.T, r *rig) {
		for name, v := range map[string]obj{
			"in the shell":      {"command": "sleep 98761 & setsid sleep 98761 & (sleep 98761 &) ; sleep 98761", "timeout": 1},
			"on a terminal":     {"command": "sleep 98761 & setsid sleep 98761 & (sleep 98761 &) ; sleep 98761", "timeout": 1, "tty": true},
			"in the background": {"command": "sleep 98761 & setsid sleep 98761 & (sleep 98761 &) ; sleep 98761", "timeout": 1, "background": true},
		} {
			a := r.call("exec", v)
			if id := data[schema.ExecResult](t, a).ID; id != "" {
				_, _, last := r.poll(id, "")
				if !last.Commands[0].TimedOut {
					t.Errorf("%s: %+v", name, last)
				}
			} else if !data[schema.ExecResult](t, a).TimedOut {
				t.Errorf("%s: %s", name, a.Text)
			}
			if got := data[schema.ExecResult](t, r.call("exec", obj{"command": "pgrep -fc '[s]leep 98761'"})).Stdout.Text; got != "0\n" {
				t.Errorf("%s: %s processes are left", name, got)
			}
		}
	})
}

// TestCancelEndsTheTree looks inside, too.
func TestCancelEndsTheTree(t *testing.T) {
	onProviders(t, "", func(t *testing.T, r *rig) {
		r.line("true")
		for name, v := range map[string]obj{"in the shell": {"command": "setsid sleep 98762 & echo up; sleep 98762"}, "on a terminal": {"command": "setsid sleep 98762 & echo up; sleep 98762", "tty": true}} {
			ctx, cancel := context.WithCancel(deadline(t))
			_, err := r.Call(ctx, "exec", in(t, v), func(Progress) { cancel() })
			cancel()
			if sandbox.CodeOf(err) != sandbox.CodeExecution {
				t.Errorf("%s: %v", name, err)
			}
			if got := data[schema.ExecResult](t, r.call("exec", obj{"command": "pgrep -fc '[s]leep 98762'"})).Stdout.Text; got != "0\n" {
				t.Errorf("%s: %s processes are left", name, got)
			}
		}
	})
}

func TestBackgroundOnProviders(t *testing.T) {
	onProviders(t, "", func(t *testing.T, r *rig) {
		id := data[schema.ExecResult](t, r.call("exec", obj{"command": "echo ready; while read x; do echo got $x; done; sleep 98763", "background": true})).ID
		if text, _, _ := r.poll(id, "ready\n"); text != "ready\n" {
			t.Errorf("%q", text)
		}
		r.call("process", obj{"action": "write", "id": id, "data": "one\n"})
		if text, _, _ := r.poll(id, "got one\n"); text != "got one\n" {
			t.Errorf("%q", text)
		}
		r.call("process", obj{"action": "write", "id": id, "eof": true})
		r.call("process", obj{"action": "kill", "id": id})
		if _, _, last := r.poll(id, ""); last.Commands[0].State == "running" {
			t.Errorf("%+v", last)
		}
		if got := data[schema.ExecResult](t, r.call("exec", obj{"command": "pgrep -fc '[s]leep 98763'"})).Stdout.Text; got != "0\n" {
			t.Errorf("%s processes are left", got)
		}
		id = data[schema.ExecResult](t, r.call("exec", obj{"command": "trap 'echo caught; exit 9' TERM; echo up; while :; do sleep 0.1; done", "background": true})).ID
		r.poll(id, "up\n")
		r.call("process", obj{"action": "kill", "id": id, "signal": "TERM"})
		if text, _, last := r.poll(id, ""); text != "caught\n" || *last.Commands[0].ExitCode != 9 {
			t.Errorf("%q, %+v", text, last)
		}
	})
}

func TestTerminalOnProviders(t *testing.T) {
	onProviders(t, "", func(t *testing.T, r *rig) {
		d := data[schema.ExecResult](t, r.call("exec", obj{"command": "test -t 0 && test -t 1 && stty size; echo $K; pwd", "tty": true, "rows": 33, "cols": 99, "env": obj{"K": "v"}, "dir": "/tmp"}))
		if d.Stdout.Text != "33 99\r\nv\r\n/tmp\r\n" || d.ExitCode != 0 {
			t.Errorf("%+v", d)
		}
		id := data[schema.ExecResult](t, r.call("exec", obj{"command": "stty -echo; echo up; read x; echo got $x", "tty": true, "background": true})).ID
		r.poll(id, "up\r\n")
		r.call("process", obj{"action": "write", "id": id, "data": "it\n"})
		if text, _, last := r.poll(id, ""); text != "got it\r\n" || !last.Commands[0].TTY {
			t.Errorf("%q, %+v", text, last)
		}
	})
}

// TestFilesAndCommandsAgree holds that both see the same files, and that modes
// stay.
func TestFilesAndCommandsAgree(t *testing.T) {
	onProviders(t, "", func(t *testing.T, r *rig) {
		r.write("bin/run", "#!/bin/sh\necho one\n")
		r.line("chmod 755 bin/run")
		r.call("edit", obj{"path": "bin/run", "old": "one", "new": "two"})
		if got := r.line("./bin/run; stat -c %a bin/run"); got != "two\n755" {
			t.Errorf("%q", got)
		}
		r.call("apply_patch", obj{"patch": "*** Begin Patch\n*** Update File: bin/run\n*** Move to: bin/go\n@@\n-echo two\n+echo three\n*** Add File: x/y/z\n+new\n*** End Patch\n"})
		if got := r.line("bin/go; stat -c %a bin/go; cat x/y/z; ls bin"); got != "three\n755\nnew\ngo" {
			t.Errorf("%q", got)
		}
		r.call("apply_patch", obj{"patch": "diff --git a/x/y/z b/x/y/z\nold mode 100644\nnew mode 100755\n--- a/x/y/z\n+++ b/x/y/z\n@@ -1 +1 @@\n-new\n+newer\n"})
		if got := r.line("stat -c %a x/y/z; cat x/y/z; ls -A x/y"); got != "755\nnewer\nz" {
			t.Errorf("%q", got)
		}
	})
}

// TestLinksLeadNowhere holds that no tool follows a link out of the workspace,
// whatever the sandbox has put there.
func TestLinksLeadNowhere(t *testing.T) {
	onProviders(t, "", func(t *testing.T, r *rig) {
		r.line("true")
		secret := filepath.Join(t.TempDir(), "secret")
		must(t, os.WriteFile(secret, []byte("canary-7351\n"), 0o644))
		must(t, os.Chmod(filepath.Dir(secret), 0o755))
		ws := r.workspace()
		must(t, os.Symlink(secret, filepath.Join(ws, "out")))
		must(t, os.Symlink(filepath.Dir(secret), filepath.Join(ws, "folder")))
		must(t, os.Symlink("../../../../../../../../"+secret, filepath.Join(ws, "climb")))
		must(t, os.WriteFile(filepath.Join(ws, "plain"), []byte("canary-none\n"), 0o666))
		for _, c := range []struct {
			tool string
			v    obj
		}{
			{"read", obj{"path": "out"}}, {"read", obj{"path": "climb"}}, {"read", obj{"path": "folder/secret"}}, {"image", obj{"path": "out"}},
			{"edit", obj{"path": "out", "old": "canary", "new": "x"}}, {"edit", obj{"path": "folder/secret", "old": "canary", "new": "x"}},
			{"write", obj{"path": "folder/new", "content": "x"}}, {"ls", obj{"path": "folder"}}, {"glob", obj{"pattern": "folder/*"}},
			{"grep", obj{"pattern": "canary-7"}}, {"grep", obj{"pattern": "canary", "path": "folder"}}, {"grep", obj{"pattern": "canary", "path": "out"}},
			{"apply_patch", obj{"patch": "*** Begin Patch\n*** Update File: out\n@@\n-canary-7351\n+x\n*** End Patch\n"}},
			{"apply_patch", obj{"patch": "*** Begin Patch\n*** Delete File: folder/secret\n*** End Patch\n"}},
			{"apply_patch", obj{"patch": "*** Begin Patch\n*** Add File: folder/more\n+x\n*** End Patch\n"}},
			{"write", obj{"path": "climb", "content": "x"}}, {"write", obj{"path": "out", "content": "x"}},
		} {
			a, err := r.Call(deadline(t), c.tool, in(t, c.v), nil)
			if strings.Contains(a.Text, "7351") || strings.Contains(a.Text, "secret") {
				t.Errorf("%s %v shows what is outside: %q", c.tool, c.v, a.Text)
			}
			if err != nil && (sandbox.CodeOf(err) == sandbox.CodeInternal || sandbox.CodeOf(err) == sandbox.CodeExecution) {
				t.Errorf("%s %v: %v", c.tool, c.v, err)
			}
		}
		if got, err := os.ReadFile(secret); string(got) != "canary-7351\n" {
			t.Errorf("the file outside is %q now, %v", got, err)
		}
		if entries, _ := os.ReadDir(filepath.Dir(secret)); len(entries) != 1 {
			t.Errorf("something was made outside: %v", entries)
		}
	})
}

// TestEditLosesNothing checks that concurrent edits of one file are all in it,
// and that a file which another process changes meanwhile is left alone.
func TestEditLosesNothing(t *testing.T) {
	onProviders(t, "", func(t *testing.T, r *rig) {
		var b strings.Builder
		const n = 24
		for i := range n {
			b.WriteString("line" + string(rune('a'+i)) + " 0\n")
		}
		r.write("f", b.String())
		errs := make(chan error, n)
		ctx := deadline(t)
		for i := range n {
			input := in(t, obj{"path": "f", "old": "line" + string(rune('a'+i)) + " 0", "new": "line" + string(rune('a'+i)) + " 1"})
			go func() {
				_, err := r.Call(ctx, "edit", input, nil)
				errs <- err
			}()
		}
		for range n {
			must(t, <-errs)
		}
		if got := r.content("f"); strings.Count(got, " 1\n") != n {
			t.Errorf("edits are lost: %q", got)
		}
	})
}

func TestSearchIsQuick(t *testing.T) {
	r := newDocker(t, "")
	r.line(`mkdir t; i=0; while [ $i -lt 2000 ]; do echo "file $i needle" > t/$i; i=$((i+1)); done`)
	began := time.Now()
	d := data[schema.GrepResult](t, r.call("grep", obj{"pattern": "needle", "mode": "count", "limit": 10000}))
	if len(d.Files) != 2000 {
		t.Errorf("%d files", len(d.Files))
	}
	t.Logf("2000 files in %s", time.Since(began))
}

func TestHostileInputsOnProviders(t *testing.T) {
	onProviders(t, "", hostile)
}

func TestLinesTakeTurnsOnProviders(t *testing.T) {
	onProviders(t, "", takeTurns)
}

// TestPatchIsAtomicOnProviders has the last of several changes fail by what is on
// the disk, and holds that nothing has changed.
func TestPatchIsAtomicOnProviders(t *testing.T) {
	onProviders(t, "", func(t *testing.T, r *rig) {
		r.line("mkdir closed; echo one > a; echo two > closed/b; chmod 640 a; chmod 555 closed")
		before := r.line("find . -printf '%p %m %s\\n' | sort; cat a closed/b")
		for _, last := range []string{"*** Delete File: closed/b\n", "*** Add File: closed/c\n+x\n", "*** Update File: closed/b\n@@\n-two\n+2\n", "*** Add File: a/below\n+x\n"} {
			_, err := r.Call(deadline(t), "apply_patch", in(t, obj{"patch": "*** Begin Patch\n*** Add File: new/deep/file\n+fresh\n*** Update File: a\n@@\n-one\n+1\n" + last + "*** End Patch\n"}), nil)
			if err == nil || sandbox.CodeOf(err) == sandbox.CodeExecution {
				t.Errorf("%q: %v", last, err)
			}
			if got := r.line("find . -printf '%p %m %s\\n' | sort; cat a closed/b"); got != before {
				t.Errorf("%q: got\n%s\nwant\n%s\n(%v)", last, got, before, err)
			}
		}
	})
}

// TestBlockedSaysWhyAndHow checks that the error for a blocked action names
// the rule and the resource.
func TestBlockedSaysWhyAndHow(t *testing.T) {
	r := newLocal(t, "")
	r.refused(sandbox.CodeDenyTool, "exec", obj{"command": "cat /etc/shadow"})
	r.write("look.sh", "cat /etc/shadow")
	a := r.call("exec", obj{"command": "sh look.sh"})
	d := data[schema.ExecResult](t, a)
	if !d.Blocked || d.BlockedResource != "/etc/shadow" || d.BlockedReason == "" || len(d.Violations) == 0 || !a.Failed || !strings.Contains(a.Text, "blocked: "+d.BlockedReason) {
		t.Errorf("%+v\n%s", d, a.Text)
	}
	id := data[schema.ExecResult](t, r.call("exec", obj{"command": "sh look.sh", "background": true})).ID
	if _, _, last := r.poll(id, ""); last.Commands[0].Blocked == "" {
		t.Errorf("%+v", last)
	}
}

// TestLimitSaysWhich holds that a limit which ended a command is named.
func TestLimitSaysWhich(t *testing.T) {
	onProviders(t, `, "limits": {"cpuSeconds": 1}`, func(t *testing.T, r *rig) {
		a := r.call("exec", obj{"command": "while :; do :; done"})
		if d := data[schema.ExecResult](t, a); d.Limit == nil || d.Limit.Limit != sandbox.LimitCPUSeconds || !strings.Contains(a.Text, "limits.cpuSeconds") {
			t.Errorf("%+v\n%s", d, a.Text)
		}
		if got := r.line("echo on"); got != "on" {
			t.Errorf("%q", got)
		}
	})
}

// TestLeftIsNamed holds that processes which were ended with a command are in its
// result: with a command of its own, where nothing outlives it.
func TestLeftIsNamed(t *testing.T) {
	onProviders(t, "", func(t *testing.T, r *rig) {
		id := data[schema.ExecResult](t, r.call("exec", obj{"command": `sleep 4321 & until [ "$(cat /proc/$!/comm)" = sleep ]; do :; done; echo on`, "background": true})).ID
		_, _, last := r.poll(id, "")
		left := last.Commands[0].Left
		if left == nil || left.Count != 1 || len(left.Names) != 1 || !strings.HasPrefix(left.Names[0], "sleep (") {
			t.Fatalf("%+v names %+v", last.Commands[0], left)
		}
		if !strings.Contains(r.call("process", obj{"action": "list"}).Text, left.String()) {
			t.Errorf("the text does not say %q", left)
		}
		a := r.call("exec", obj{"command": `trap "" HUP; sleep 4321 & until [ "$(cat /proc/$!/comm)" = sleep ]; do :; done; echo on`, "tty": true})
		if d := data[schema.ExecResult](t, a); d.Left == nil || d.Left.Count != 1 || !strings.Contains(a.Text, d.Left.String()) {
			t.Errorf("on a terminal: %+v\n%s", d.Left, a.Text)
		}
		id = data[schema.ExecResult](t, r.call("exec", obj{"command": "echo alone", "background": true})).ID
		if _, _, last := r.poll(id, ""); last.Commands[0].Left != nil {
			t.Errorf("a command without is said to have left %+v", last.Commands[0].Left)
		}
	})
}

// BenchmarkCall is what a call of a tool costs on a container that runs.
func BenchmarkCall(b *testing.B) {
	r := newDocker(b, "")
	r.write("f", strings.Repeat("a line of text\n", 200))
	for tool, v := range map[string]obj{
		"read": {"path": "f", "limit": 50}, "write": {"path": "g", "content": "x"}, "ls": {}, "glob": {"pattern": "**"}, "grep": {"pattern": "text"}, "exec": {"command": "true"},
	} {
		input := in(b, v)
		b.Run(tool, func(b *testing.B) {
			for b.Loop() {
				if _, err := r.Call(b.Context(), tool, input, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("edit", func(b *testing.B) {
		there, here := in(b, obj{"path": "g", "old": "x", "new": "y"}), in(b, obj{"path": "g", "old": "y", "new": "x"})
		r.write("g", "x")
		for b.Loop() {
			for _, input := range []json.RawMessage{there, here} {
				if _, err := r.Call(b.Context(), "edit", input, nil); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}
