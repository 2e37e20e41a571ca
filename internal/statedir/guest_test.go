package statedir

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// buildProgram compiles a tiny static program for goarch.
func buildProgram(t testing.TB, goarch, text string) string {
	t.Helper()
	dir := t.TempDir()
	src := "package main\nfunc main() { println(\"" + text + "\") }\n"
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(src), 0o600); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "prog")
	cmd := exec.Command("go", "build", "-o", out, filepath.Join(dir, "main.go"))
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+goarch)
	if msg, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v: %s", err, msg)
	}
	return out
}

// settle waits until the clock has moved on far enough from the files' change
// times for the cache; no program can set a change time.
func settle(t testing.TB, paths ...string) {
	t.Helper()
	for _, p := range paths {
		testenv.Until(t, p+" is old enough", func() bool { return identifyPath(p).settled(time.Now()) })
	}
}

func TestInstallGuest(t *testing.T) {
	d := open(t)
	bin := buildProgram(t, runtime.GOARCH, "one")
	ref, err := d.InstallGuest(bin)
	if err != nil {
		t.Fatal(err)
	}
	if want, _ := digestFile(bin); ref.Digest != want || ref.Dir != filepath.Join(d.Guest(), want) {
		t.Fatalf("got %+v, digest is %s", ref, want)
	}
	entries, _ := os.ReadDir(ref.Dir)
	if len(entries) != 1 || entries[0].Name() != GuestBinary {
		t.Errorf("folder holds %v, want exactly %s", entries, GuestBinary)
	}
	target := filepath.Join(ref.Dir, GuestBinary)
	for _, p := range []string{ref.Dir, target} {
		if fi, _ := os.Stat(p); fi.Mode().Perm() != 0o755 {
			t.Errorf("%s: mode %v, want 0755", p, fi.Mode())
		}
	}

	t.Run("again, from the cache", func(t *testing.T) {
		settle(t, bin, target)
		if _, err := d.InstallGuest(bin); err != nil {
			t.Fatal(err)
		}
		src, _ := os.Open(bin)
		defer src.Close()
		id, _ := identify(src)
		id.Path = bin
		if got, ok := d.cachedGuest(id); !ok || got != ref {
			t.Errorf("not cached: %v %v", got, ok)
		}
	})
	t.Run("a damaged copy is replaced", func(t *testing.T) {
		// Same length and same modification time: only the content and the
		// change time tell.
		fi, _ := os.Stat(target)
		data, _ := os.ReadFile(target)
		data[len(data)-1] ^= 1
		if err := errors.Join(os.WriteFile(target, data, 0o755), os.Chtimes(target, fi.ModTime(), fi.ModTime())); err != nil {
			t.Fatal(err)
		}
		again, err := d.InstallGuest(bin)
		if err != nil || again != ref {
			t.Fatalf("%+v, %v", again, err)
		}
		if got, _ := digestFile(target); got != ref.Digest {
			t.Error("the damaged copy is still in place")
		}
	})
	t.Run("a new binary gets a folder of its own", func(t *testing.T) {
		other, err := d.InstallGuest(buildProgram(t, runtime.GOARCH, "two"))
		if err != nil || other.Digest == ref.Digest {
			t.Fatalf("%+v, %v", other, err)
		}
		if got, _ := digestFile(target); got != ref.Digest {
			t.Error("the first one is gone")
		}
	})
	t.Run("a poisoned cache leads nowhere", func(t *testing.T) {
		if err := os.WriteFile(d.cachePath(), []byte(`{"digest":"`+strings.Repeat("../", 21)+`x"}`), 0o600); err != nil {
			t.Fatal(err)
		}
		if again, err := d.InstallGuest(bin); err != nil || again != ref {
			t.Fatalf("%+v, %v", again, err)
		}
	})
}

func TestInstallGuestConcurrently(t *testing.T) {
	d := open(t)
	bin := buildProgram(t, runtime.GOARCH, "many")
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			ref, err := d.InstallGuest(bin)
			if err != nil {
				t.Error(err)
				return
			}
			if got, err := digestFile(filepath.Join(ref.Dir, GuestBinary)); err != nil || got != ref.Digest {
				t.Errorf("installed %s, %v; want %s", got, err, ref.Digest)
			}
		})
	}
	wg.Wait()
	if left, _ := filepath.Glob(filepath.Join(d.Guest(), "."+GuestBinary+"*")); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
}

func TestInstallGuestRefuses(t *testing.T) {
	otherArch := "arm64"
	if runtime.GOARCH == otherArch {
		otherArch = "amd64"
	}
	dir := t.TempDir()
	script := filepath.Join(dir, "script")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	truncated := filepath.Join(dir, "truncated")
	if err := os.WriteFile(truncated, []byte("\x7fELF\x02\x01\x01"), 0o755); err != nil {
		t.Fatal(err)
	}
	tests := []struct{ name, path, message string }{
		{"script", script, "is not an ELF program"},
		{"truncated", truncated, "is not an ELF program"},
		{"folder", dir, "is not a regular file"},
		{"missing", filepath.Join(dir, "nope"), "cannot be read"},
		{"another architecture", buildProgram(t, otherArch, "x"), "is built for EM_"},
		{"dynamic", dynamicProgram(t), "is linked dynamically"},
	}
	d := open(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := d.InstallGuest(tt.path)
			wantError(t, err, sandbox.CodeUnavailable, tt.message, "CGO_ENABLED=0")
		})
	}
	if entries, _ := os.ReadDir(d.Guest()); len(entries) != 0 {
		t.Errorf("refused binaries left %v", entries)
	}
}

// dynamicProgram returns a program of this machine that has an interpreter.
func dynamicProgram(t *testing.T) string {
	t.Helper()
	sh, err := exec.LookPath("sh")
	if err != nil {
		testenv.Lack(t, "sh", err)
	}
	return sh
}

func TestFindGuest(t *testing.T) {
	dir := t.TempDir()
	put := func(sub string) string {
		p := filepath.Join(dir, sub, GuestBinary)
		if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, nil, 0o755)); err != nil {
			t.Fatal(err)
		}
		return p
	}
	explicit, beside, inPath := put("explicit"), put("beside"), put("path")
	self := filepath.Join(dir, "beside", "sandbox")
	lone := filepath.Join(dir, "lone", "sandbox")
	pathList := ":relative:" + filepath.Join(dir, "empty") + ":" + filepath.Join(dir, "path")

	tests := []struct{ name, explicit, self, path, want, message string }{
		{name: "explicit wins", explicit: explicit, self: self, path: pathList, want: explicit},
		{name: "explicit that is missing", explicit: "/nope/guest", self: self, path: pathList, message: "/nope/guest (from SANDBOX_GUEST)"},
		{name: "beside the program", self: self, path: pathList, want: beside},
		{name: "in PATH", self: lone, path: pathList, want: inPath},
		{name: "program unknown", path: pathList, want: inPath},
		{name: "nowhere", self: lone, path: "/empty:.", message: filepath.Join(dir, "lone", GuestBinary) + ", /empty/" + GuestBinary},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := findGuest(tt.explicit, tt.self, tt.path)
			if tt.message != "" {
				wantError(t, err, sandbox.CodeUnavailable, tt.message, "SANDBOX_GUEST")
				return
			}
			if err != nil || got != tt.want {
				t.Errorf("got %q, %v; want %q", got, err, tt.want)
			}
		})
	}
}

func BenchmarkInstallGuest(b *testing.B) {
	d, err := Open(filepath.Join(b.TempDir(), "state"))
	if err != nil {
		b.Fatal(err)
	}
	bin := buildProgram(b, runtime.GOARCH, "bench")
	ref, err := d.InstallGuest(bin)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("verify", func(b *testing.B) {
		for b.Loop() {
			_ = os.Remove(d.cachePath())
			if _, err := d.InstallGuest(bin); err != nil {
				b.Fatal(err)
			}
		}
	})
	settle(b, bin, filepath.Join(ref.Dir, GuestBinary))
	b.Run("cached", func(b *testing.B) {
		for b.Loop() {
			if _, err := d.InstallGuest(bin); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func TestSettled(t *testing.T) {
	second := time.Unix(1_700_000_000, 0)
	for _, tt := range []struct {
		changed time.Time
		after   time.Duration
		want    bool
	}{
		{second, 1999 * time.Millisecond, false},
		{second, 2001 * time.Millisecond, true},
		{second.Add(time.Millisecond), 49 * time.Millisecond, false},
		{second.Add(time.Millisecond), 51 * time.Millisecond, true},
		{second.Add(time.Millisecond), -time.Second, false},
	} {
		id := fileID{Ctime: tt.changed.UnixNano()}
		if got := id.settled(tt.changed.Add(tt.after)); got != tt.want {
			t.Errorf("changed at %d, %v later: %v", tt.changed.UnixNano(), tt.after, got)
		}
	}
}
