package keylock

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// childEnv makes the test binary act as another process: "DIR MODE NAME".
// It takes the lock, prints "held" and keeps it until its stdin ends.
const childEnv = "LEASE_TEST_CHILD"

func TestMain(m *testing.M) {
	if spec := os.Getenv(childEnv); spec != "" {
		runChild(strings.Fields(spec))
		return
	}
	testenv.Main(m)
}

func runChild(spec []string) {
	d := Open(spec[0])
	ctx := context.Background()
	var err error
	switch spec[1] {
	case "shared":
		_, err = d.Shared(ctx, spec[2])
	case "exclusive":
		_, err = d.Exclusive(ctx, spec[2])
	case "ensure":
		_, err = d.Ensure(ctx, spec[2])
	case "count": // spec[3] is a file that holds a number to be raised 50 times
		err = countUnder(d, spec[2], spec[3])
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("held")
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// countUnder raises the number in the file without any atomicity of its own.
func countUnder(d *Dir, name, file string) error {
	for range 50 {
		l, err := d.Ensure(context.Background(), name)
		if err != nil {
			return err
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		var n int
		if _, err := fmt.Sscan(string(data), &n); err != nil {
			return err
		}
		if err := os.WriteFile(file, []byte(fmt.Sprint(n+1)), 0o600); err != nil {
			return err
		}
		if err := l.Release(); err != nil {
			return err
		}
	}
	return nil
}

// child starts another process and returns once it holds its lock.
func child(t *testing.T, spec string) (kill func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+spec)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	kill = func() { once.Do(func() { _ = cmd.Process.Kill(); _ = cmd.Wait(); in.Close() }) }
	t.Cleanup(kill)
	if line, _ := bufio.NewReader(out).ReadString('\n'); line != "held\n" {
		t.Fatalf("child said %q", line)
	}
	return kill
}

func wantBusy(t *testing.T, err error) {
	t.Helper()
	if sandbox.CodeOf(err) != sandbox.CodeBusy {
		t.Fatalf("error %v, want %s", err, sandbox.CodeBusy)
	}
}

func short(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

// patient returns a context that ends soon where a lock is to be refused, and
// late where it is free: that is had at once, but on a busy machine a moment
// can be long.
func patient(t *testing.T, free bool) context.Context {
	if free {
		return t.Context()
	}
	return short(t)
}

func TestAcrossProcesses(t *testing.T) {
	tests := []struct {
		holder                  string
		shared, exclusive, held bool
	}{
		{holder: "shared", shared: true, exclusive: false, held: true},
		{holder: "exclusive", shared: false, exclusive: false, held: true},
		{holder: "ensure", shared: true, exclusive: true, held: false},
	}
	for _, tt := range tests {
		t.Run(tt.holder, func(t *testing.T) {
			dir := t.TempDir()
			d := Open(dir)
			kill := child(t, dir+" "+tt.holder+" sbx-a")
			check := func(what string, want bool, l *Lock, err error) {
				t.Helper()
				if !want {
					wantBusy(t, err)
					return
				}
				if err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				if err := l.Release(); err != nil {
					t.Fatal(err)
				}
			}
			l, err := d.Shared(patient(t, tt.shared), "sbx-a")
			check("Shared", tt.shared, l, err)
			l, err = d.Exclusive(patient(t, tt.exclusive), "sbx-a")
			check("Exclusive", tt.exclusive, l, err)
			l, err = d.TryExclusive("sbx-a")
			check("TryExclusive", tt.exclusive, l, err)
			l, err = d.Ensure(patient(t, tt.holder != "ensure"), "sbx-a")
			check("Ensure", tt.holder != "ensure", l, err)
			l, err = d.TryEnsure("sbx-a")
			check("TryEnsure", tt.holder != "ensure", l, err)
			if held, err := d.Held("sbx-a"); held != tt.held || err != nil {
				t.Errorf("Held = %v, %v; want %v", held, err, tt.held)
			}
			if held, _ := d.Held("sbx-b"); held {
				t.Error("another name is held")
			}

			kill() // -9: nothing is left to clean up
			l, err = d.TryExclusive("sbx-a")
			check("after kill -9", true, l, err)
			l, err = d.Ensure(t.Context(), "sbx-a")
			check("Ensure after kill -9", true, l, err)
		})
	}
}

func TestWaitersAreServedWhenTheHolderDies(t *testing.T) {
	dir := t.TempDir()
	d := Open(dir)
	kill := child(t, dir+" exclusive sbx-a")
	got := make(chan error, 1)
	started := make(chan struct{})
	go func() {
		close(started)
		l, err := d.Shared(t.Context(), "sbx-a")
		if err == nil {
			err = l.Release()
		}
		got <- err
	}()
	<-started
	select {
	case err := <-got:
		t.Fatalf("did not wait: %v", err)
	default:
	}
	kill()
	if err := <-got; err != nil {
		t.Fatal(err)
	}
}

func TestEnsureExcludesProcessesAndGoroutines(t *testing.T) {
	dir := t.TempDir()
	d := Open(dir)
	file := filepath.Join(dir, "number")
	if err := os.WriteFile(file, []byte("0"), 0o600); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), childEnv+"="+dir+" count sbx-a "+file)
			if out, err := cmd.Output(); err != nil {
				t.Errorf("child: %v: %s", err, out)
			}
		})
		wg.Go(func() {
			if err := countUnder(d, "sbx-a", file); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if data, _ := os.ReadFile(file); string(data) != "300" {
		t.Errorf("counted %s, want 300", data)
	}
}

func TestGoroutines(t *testing.T) {
	d := Open(t.TempDir())
	var shared, exclusive atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				l, err := d.Shared(t.Context(), "sbx-a")
				if err != nil {
					t.Error(err)
					return
				}
				shared.Add(1)
				if exclusive.Load() != 0 {
					t.Error("shared beside exclusive")
				}
				shared.Add(-1)
				_ = l.Release()
			}
		})
		wg.Go(func() {
			for range 20 {
				l, err := d.Exclusive(t.Context(), "sbx-a")
				if err != nil {
					t.Error(err)
					return
				}
				if exclusive.Add(1) != 1 || shared.Load() != 0 {
					t.Error("exclusive is not alone")
				}
				exclusive.Add(-1)
				_ = l.Release()
			}
		})
	}
	wg.Wait()
}

func TestContext(t *testing.T) {
	d := Open(t.TempDir())
	l, err := d.Exclusive(t.Context(), "sbx-a")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Release()
	_, err = d.Shared(short(t), "sbx-a")
	wantBusy(t, err)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v does not wrap the context's error", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := d.Shared(ctx, "sbx-free"); !errors.Is(err, context.Canceled) {
		t.Errorf("an ended context took a lock: %v", err)
	}
}

func TestReleaseTwice(t *testing.T) {
	d := Open(t.TempDir())
	a, err := d.Exclusive(t.Context(), "sbx-a")
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Release(); err != nil {
		t.Fatal(err)
	}
	b, err := d.TryExclusive("sbx-a")
	if err != nil {
		t.Fatal(err)
	}
	defer b.Release()
	if err := a.Release(); err != nil { // must not release b
		t.Fatal(err)
	}
	if held, _ := d.Held("sbx-a"); !held {
		t.Error("a second Release gave up somebody else's lock")
	}
}

func TestHeldBySeveralLookersIsNeverTrue(t *testing.T) {
	d := Open(t.TempDir())
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 200 {
				if held, err := d.Held("sbx-a"); held || err != nil {
					t.Errorf("Held = %v, %v while nobody holds it", held, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func TestFailures(t *testing.T) {
	d := Open(t.TempDir())
	for _, name := range []string{"", "../a", "a/b", "A", ".a"} {
		if _, err := d.TryExclusive(name); sandbox.CodeOf(err) != sandbox.CodeValidation {
			t.Errorf("name %q: %v", name, err)
		}
	}
	gone := Open(filepath.Join(t.TempDir(), "gone"))
	if _, err := gone.Shared(t.Context(), "sbx-a"); sandbox.CodeOf(err) != sandbox.CodeUnavailable {
		t.Errorf("missing folder: %v", err)
	}
	if held, err := gone.Held("sbx-a"); !held || err == nil {
		t.Errorf("Held = %v, %v; what cannot be read must count as held", held, err)
	}
}

func TestFilesStay(t *testing.T) {
	dir := t.TempDir()
	d := Open(dir)
	l, err := d.Exclusive(t.Context(), "sbx-a")
	if err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(filepath.Join(dir, "sbx-a.lease"))
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Release()
	after, err := os.Stat(filepath.Join(dir, "sbx-a.lease"))
	if err != nil || !os.SameFile(before, after) {
		t.Errorf("the lock file was unlinked: %v", err)
	}
}

func BenchmarkShared(b *testing.B) {
	d := Open(b.TempDir())
	for b.Loop() {
		l, err := d.Shared(b.Context(), "sbx-a")
		if err != nil {
			b.Fatal(err)
		}
		_ = l.Release()
	}
}
