package fsbridge

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/bulkhead-dev/sandbox"
)

func TestTextErrno(t *testing.T) {
	for text, want := range map[string]syscall.Errno{
		"cat: write error: No space left on device\n":                          syscall.ENOSPC,
		"sh: 3: cannot create ./x: Read-only file system\n":                    syscall.EROFS,
		"mv: cannot move './a' to './b': Directory not empty":                  syscall.ENOTEMPTY,
		"rmdir: './b': Directory not empty\n":                                  syscall.ENOTEMPTY,
		"sh: 1: Cannot fork\n":                                                 syscall.EAGAIN,
		"mv: cannot stat 'No space left on device': No such file or directory": syscall.ENOENT,
		"mv: cannot stat ': No space left on device'\n":                        0,
		"x: No space left on device\nrm: cannot remove 'y': Permission denied": syscall.EACCES,
		"nothing known": 0, "": 0, "\n": 0, "XFile exists": 0, "File exists": syscall.EEXIST,
	} {
		if got := textErrno(text); got != want {
			t.Errorf("%q is %v, want %v", text, got, want)
		}
	}
}

func TestParseListing(t *testing.T) {
	good := "81a4 5 1700000000 ./b//\n41ed 0 0 ./a\n/b//\nend 0\n"
	if _, _, err := parseListing(good); err == nil {
		t.Error("a name with a slash was taken")
	}
	infos, status, err := parseListing("81a4 5 1700000000 ./b//\n41ed 0 0 ./a\n x//\na1ff 1 -5 ./c d//\nend 1\n")
	if err != nil || status != 1 || len(infos) != 3 {
		t.Fatalf("%v, %d, %v", infos, status, err)
	}
	if i := infos[0]; i.Name() != "a\n x" || !i.IsDir() || i.Mode().Perm() != 0o755 {
		t.Errorf("%+v", i)
	}
	if i := infos[2]; i.Name() != "c d" || i.Mode().Type() != fs.ModeSymlink || i.ModTime().Unix() != -5 {
		t.Errorf("%+v", i)
	}
	for name, text := range map[string]string{
		"nothing": "", "no end": "81a4 5 0 ./b//\n", "cut": "81a4 5 0 ./b//\nend", "dot dot": "81a4 5 0 ./..//\nend 0\n",
		"negative size": "81a4 -5 0 ./b//\nend 0\n", "no name": "81a4 5 0 .///\nend 0\n", "big mode": "1ffffffff 5 0 ./b//\nend 0\n",
		"self": "81a4 5 0 .//\nend 0\n", "nul": "81a4 5 0 ./a\x00b//\nend 0\n", "garbage": "\xff\xff", "status": "end x\n",
	} {
		if _, _, err := parseListing(text); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
}

// FuzzParseListing holds that what a sandbox says becomes plain names or an error.
func FuzzParseListing(f *testing.F) {
	f.Add("81a4 5 1700000000 ./b//\nend 0\n")
	f.Add("41ed 0 0 ./a\n//\na1ff 1 1 ./c d//\nend 1\n")
	f.Fuzz(func(t *testing.T, text string) {
		infos, _, err := parseListing(text)
		if err != nil {
			return
		}
		for i, info := range infos {
			if info.Name() == "" || info.Name() == "." || info.Name() == ".." || strings.ContainsAny(info.Name(), "/\x00") || info.Size() < 0 {
				t.Fatalf("%+v", info)
			}
			if i > 0 && infos[i-1].Name() >= info.Name() {
				t.Fatalf("%q comes before %q", infos[i-1].Name(), info.Name())
			}
		}
	})
}

// A said is a sandbox whose every command says the same.
type said struct {
	stdout, stderr string
	exit           sandbox.Exit
	start, wait    error
}

func (s said) Start(_ context.Context, c sandbox.Command) (sandbox.Process, error) {
	if s.start != nil {
		return nil, s.start
	}
	if c.Stdout != nil {
		c.Stdout.Write([]byte(s.stdout))
	}
	c.Stderr.Write([]byte(s.stderr))
	return process{s}, nil
}

type process struct{ said }

func (p process) Wait() (sandbox.Exit, error)             { return p.exit, p.wait }
func (process) Signal(context.Context, string) error      { return nil }
func (process) Resize(context.Context, sandbox.TTY) error { return nil }
func (process) Kill(context.Context) error                { return nil }

// TestLyingSandbox holds that strange answers are errors, never results.
func TestLyingSandbox(t *testing.T) {
	table, err := NewMountTable([]sandbox.Mount{{Target: "/workspace", Role: sandbox.RoleWorkspace}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	gone := &sandbox.Error{Code: sandbox.CodeNotFound, Message: "no such sandbox"}
	for name, s := range map[string]said{
		"silence": {}, "noise": {stdout: "noise\n"}, "huge": {stdout: strings.Repeat("x", maxListing+1)},
		"escapes": {stderr: "\x1b[2J\x1b]0;x\a", exit: sandbox.Exit{Code: 1}}, "no shell": {exit: sandbox.Exit{Code: 127}, stderr: "sh: not found"},
		"killed": {exit: sandbox.Exit{Code: 137, Signal: "KILL"}}, "sandbox gone": {start: gone}, "lost": {wait: gone}, "strange": {wait: errors.New("x")},
	} {
		f := &scriptFiles{starter: s, table: table}
		ctx := t.Context()
		results := map[string]error{}
		_, results["stat"] = f.Stat(ctx, "/workspace/f")
		_, results["readdir"] = f.ReadDir(ctx, "/workspace")
		_, results["readlink"] = f.ReadLink(ctx, "/workspace/f")
		if name == "noise" {
			delete(results, "readlink") // any text can be a target
		}
		if r, err := f.Read(ctx, "/workspace/f", 0, -1); err == nil {
			r.Close()
			results["read"] = nil
		} else {
			results["read"] = err
		}
		_, results["open"] = openScript(ctx, s, table)
		if s.exit.Code != 0 || s.start != nil || s.wait != nil {
			results["write"] = f.Write(ctx, "/workspace/f", nil, sandbox.WriteOptions{})
			results["remove"] = f.Remove(ctx, "/workspace/f", false)
		}
		for op, err := range results {
			if err == nil || sandbox.IsNotFound(err) || sandbox.CodeOf(err) == sandbox.CodeInternal {
				t.Errorf("%s: %s: %v", name, op, err)
			} else if strings.ContainsAny(err.Error(), "\x1b\a") {
				t.Errorf("%s: %s: %q reaches the terminal", name, op, err)
			}
		}
	}
}
