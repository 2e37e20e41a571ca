package providertest

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox"
)

// remountChecks hold what a sandbox does when another file system is put at its
// workspace, and what it says of what runs.
func remountChecks() []Check {
	return []Check{
		{Name: "remount puts another file system at the workspace", run: remountSeen},
		{Name: "remount of what is no mount of the spec is refused", run: remountElsewhere},
		{Name: "remount ends no command", run: remountRunning},
		{Name: "a snapshot lists what runs", run: snapshotLists},
		{Name: "a shell begins in the state of another one", run: shellFrom},
	}
}

// remounter returns the sandbox as a Remounter, and the spec of its workspace, or
// ends the check: a caller finds by the type that the provider has none.
func (r *rig) remounter() (sandbox.Spec, sandbox.Sandbox, sandbox.Remounter) {
	r.Helper()
	s, sb := r.box("a")
	m, ok := sb.(sandbox.Remounter)
	if !ok {
		r.Skip("the sandbox is no Remounter")
	}
	return s, sb, m
}

// exchanged returns what the harness puts at the workspace, or ends the check.
func (r *rig) exchanged(s sandbox.Spec, content string) *os.File {
	r.Helper()
	if r.h.Exchange == nil {
		r.Fatal("the sandbox is a Remounter and the harness has no Exchange")
	}
	mount := r.h.Exchange(r, s, content)
	if mount == nil {
		r.Skip("no file system can be mounted here")
	}
	return mount
}

func remountSeen(r *rig) {
	s, sb, m := r.remounter()
	var files sandbox.Files
	if r.p.Features().Files {
		files = r.serve(sb)
	}
	r.output(sb, script("echo before >file; mkdir gone"))
	var stays, goes sandbox.Shell
	if r.p.Features().Shells {
		stays, goes = r.shell(sb, sandbox.ShellOptions{}), r.shell(sb, sandbox.ShellOptions{})
		r.says(stays, "x=1", "")
		r.says(goes, "cd gone", "")
	}
	for _, content := range []string{"first", "second"} {
		if err := m.Remount(r.ctx, s.Workdir, r.exchanged(s, content)); err != nil {
			r.Fatalf("Remount: %v", err)
		}
		if got := r.output(sb, script("cat file && ls && echo written >made && cat made")); got != content+"file\nwritten" {
			r.Errorf("a command sees %q", got)
		}
		if files != nil {
			c, err := files.Read(r.ctx, s.Workdir+"/file", 0, -1)
			if err != nil {
				r.Fatalf("Read: %v", err)
			}
			got, err := io.ReadAll(c)
			c.Close()
			if err != nil || string(got) != content {
				r.Errorf("Read returns %q, %v", got, err)
			}
			if _, err := files.Stat(r.ctx, s.Workdir+"/gone"); !sandbox.IsNotFound(err) {
				r.Errorf("Stat of a file of the old file system: %v", err)
			}
		}
		if stays == nil {
			continue
		}
		if exit, out, errOut := r.runLine(stays, `echo "$x"; cat file`); exit.Code != 0 || exit.LostDir != "" || out != "1\n"+content || errOut != "" {
			r.Errorf("a shell: %+v, %q, %q", exit, out, errOut)
		}
		exit, out, errOut := r.runLine(goes, "pwd; cat "+s.Workdir+"/file")
		if exit.Code != 0 || !strings.HasSuffix(out, "\n"+content) || strings.HasPrefix(out, s.Workdir+"/gone") || errOut != "" {
			r.Errorf("a shell whose folder is gone: %+v, %q, %q", exit, out, errOut)
		}
		if exit.LostDir == "" && !exit.Restarted {
			if content == "first" {
				r.Errorf("a shell whose folder is gone does not say so: %+v", exit)
			}
		} else if exit.LostDir != "" && exit.LostDir != s.Workdir+"/gone" {
			r.Errorf("the folder %q is gone", exit.LostDir)
		}
	}
}

func remountElsewhere(r *rig) {
	s, sb, m := r.remounter()
	dir := r.TempDir()
	plain, err := os.Open(dir)
	if err != nil {
		r.Fatal(err)
	}
	defer plain.Close()
	file, err := os.CreateTemp(dir, "")
	if err != nil {
		r.Fatal(err)
	}
	defer file.Close()
	r.output(sb, script("echo before >file"))
	for _, target := range []string{"", "/", "/etc", "/tmp", s.Workdir + "/", s.Workdir + "/x", s.Workdir + "/..", "workspace"} {
		r.wantCode("Remount at "+target, m.Remount(r.ctx, target, plain), sandbox.CodeValidation)
	}
	for name, f := range map[string]*os.File{"a folder that is no mount": plain, "a file": file, "nothing": nil} {
		err := m.Remount(r.ctx, s.Workdir, f)
		if code := sandbox.CodeOf(err); code != sandbox.CodeValidation && code != sandbox.CodeUnsupported {
			r.Errorf("Remount of %s: %v", name, err)
		}
	}
	if got := r.output(sb, script("cat file")); got != "before" {
		r.Errorf("the workspace holds %q", got)
	}
}

func remountRunning(r *rig) {
	s, sb, m := r.remounter()
	mount := r.exchanged(s, "other") // which may skip the check, before a command waits for its input
	in, feed := io.Pipe()
	p := r.start(r.ctx, sb, sandbox.Command{Args: []string{"sh", "-c", "exec 3>log; echo begun; read -r l; echo $l >&3; echo $l"}, Stdin: in})
	r.await(p.stdout, "begun\n")
	err := m.Remount(r.ctx, s.Workdir, mount)
	if code := sandbox.CodeOf(err); code != "" && code != sandbox.CodeBusy {
		r.Errorf("Remount: %v", err)
	}
	if _, err := io.WriteString(feed, "on\n"); err != nil {
		r.Error(err)
	}
	feed.Close()
	if exit := r.exit(p); exit.Code != 0 || p.stdout.String() != "begun\non\n" {
		r.Errorf("the command ended with %+v and wrote %q", exit, p.stdout.String())
	}
	if sandbox.CodeOf(err) == sandbox.CodeBusy {
		return
	}
	if got := r.output(sb, script("cat file; ls")); got != "otherfile" {
		r.Errorf("the next command sees %q", got)
	}
}

// snapshotter returns the sandbox as a Snapshotter, or ends the check.
func (r *rig) snapshotter() (sandbox.Sandbox, sandbox.Snapshotter) {
	r.Helper()
	_, sb := r.box("a")
	s, ok := sb.(sandbox.Snapshotter)
	if !ok {
		if r.p.Features().Shells {
			_, err := sb.OpenShell(r.ctx, sandbox.ShellOptions{From: &sandbox.ShellState{Program: "sh", Content: []byte("x")}})
			r.wantCode("OpenShell from a state", err, sandbox.CodeUnsupported)
		}
		r.Skip("the sandbox is no Snapshotter")
	}
	return sb, s
}

func snapshotLists(r *rig) {
	sb, s := r.snapshotter()
	if got, err := s.Snapshot(r.ctx); err != nil || len(got.Running)+len(got.Shells) != 0 {
		r.Errorf("of a sandbox at rest: %+v, %v", got, err)
	}
	marker := newMarker()
	before := time.Now()
	p := r.start(r.ctx, sb, r.h.Programs.Sleep(marker))
	r.awaitCount(sb, marker, 1)
	sh := r.shell(sb, sandbox.ShellOptions{ID: "one", Dir: "/tmp"})
	r.says(sh, "x=1", "")
	got, err := s.Snapshot(r.ctx)
	if err != nil || len(got.Running) != 1 || len(got.Shells) != 1 {
		r.Fatalf("Snapshot: %+v, %v", got, err)
	}
	if c := got.Running[0]; c.PID != pidOf(p.Process) || len(c.Args) == 0 || c.Detached || c.TTY || c.Started.Before(before.Add(-time.Hour)) || c.Started.After(time.Now().Add(time.Hour)) {
		r.Errorf("the command is %+v", c)
	}
	if one := got.Shells[0]; one.ID != "one" || one.Program != sh.Program() || one.Dir != "/tmp" || one.Line != "" || one.Processes != 0 || one.Stale || len(one.Content) == 0 {
		r.Errorf("the shell is %+v", one)
	}
	if err := p.Kill(r.ctx); err != nil {
		r.Errorf("Kill: %v", err)
	}
	if err := sh.Close(); err != nil {
		r.Errorf("Close: %v", err)
	}
	r.eventually(func() (bool, string) {
		got, err := s.Snapshot(r.ctx)
		return err == nil && len(got.Running)+len(got.Shells) == 0, fmt.Sprintf("the snapshot is %+v, %v", got, err)
	})
}

// pidOf returns the number of a process as it says, or 0.
func pidOf(p sandbox.Process) int {
	if i, ok := p.(sandbox.Identified); ok {
		return i.PID()
	}
	return 0
}

func shellFrom(r *rig) {
	sb, s := r.snapshotter()
	sh := r.shell(sb, sandbox.ShellOptions{ID: "one", Env: map[string]string{"TOKEN": "old", "HELD": "old"}})
	r.says(sh, `cd /tmp; x='a b'; export y="it's"; alias hi='echo hello'; set -f; readonly HELD`, "")
	got, err := s.Snapshot(r.ctx)
	if err != nil || len(got.Shells) != 1 {
		r.Fatalf("Snapshot: %+v, %v", got, err)
	}
	second := r.spec("b")
	r.create(second)
	other := r.open(second)
	next := r.shell(other, sandbox.ShellOptions{ID: "two", Env: map[string]string{"TOKEN": "it's\nnew", "not a name": "x"}, From: &got.Shells[0]})
	if next.ID() != "two" || next.Program() != sh.Program() {
		r.Errorf("the shell is called %q and is %s", next.ID(), next.Program())
	}
	exit, out, errOut := r.runLine(next, `pwd; echo "$x" /*; sh -c 'echo "$y $TOKEN $HELD"'; hi there`)
	if want := "/tmp\na b /*\nit's it's\nnew old\nhello there\n"; exit.Code != 0 || !exit.Restarted || out != want || errOut != "" {
		r.Errorf("the first line: %+v, %q, %q, want %q", exit, out, errOut, want)
	}
	r.says(next, "pwd", "/tmp\n")
	if exit, _, _ := r.runLine(next, "exit 3"); !exit.Restarted {
		r.Errorf("exit 3: %+v", exit)
	}
	r.says(next, `echo "$x $TOKEN"`, "a b it's\nnew\n")
	for name, bad := range map[string]sandbox.ShellState{
		"none": {}, "another program": {Program: "fish", Content: got.Shells[0].Content}, "no content": {Program: sh.Program()}, "no state": {Program: sh.Program(), Content: []byte("x=1\n")},
	} {
		_, err := other.OpenShell(r.ctx, sandbox.ShellOptions{From: &bad})
		r.wantCode("OpenShell from "+name, err, sandbox.CodeValidation)
	}
	r.works(other)
}
