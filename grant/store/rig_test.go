package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// helperEnv makes the test binary a process that revokes; see helper.
const helperEnv = "REVOCATION_TEST_HELPER"

// helper is what the test binary does as another process: it revokes one grant
// in a folder and says when that was done.
func helper(what string) error {
	dir, id, _ := strings.Cut(what, " ")
	f, err := Open(dir)
	if err != nil {
		return err
	}
	if err := f.Revoke(id, time.Time{}); err != nil {
		return err
	}
	fmt.Println(time.Now().UnixNano())
	return nil
}

// revokeElsewhere lets another process revoke a grant and returns when it had.
func revokeElsewhere(t *testing.T, dir, id string) time.Time {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), helperEnv+"="+dir+" "+id)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var at int64
	if _, err := fmt.Sscan(string(out), &at); err != nil {
		t.Fatalf("%q: %v", out, err)
	}
	return time.Unix(0, at)
}

// A store is what both kinds can do.
type store interface {
	Watcher
	Revoke(id string, expires time.Time) error
	Derived(child, parent string, expires time.Time) error
}

// both runs a test with revocations in memory and in a folder.
func both(t *testing.T, test func(t *testing.T, s store)) {
	t.Run("memory", func(t *testing.T) { test(t, &Memory{}) })
	t.Run("folder", func(t *testing.T) { test(t, open(t, t.TempDir())) })
}

func open(t testing.TB, dir string) *Folder {
	t.Helper()
	f, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// openAt is open on a machine.
func openAt(t testing.TB, dir string, m *testenv.Machine) *Folder {
	t.Helper()
	f := open(t, dir)
	f.passed = &statedir.Clock{Path: f.passed.Path, Source: m.Source()}
	return f
}

// machine is one whose clock has gone evenly for long, by what is kept in dir.
func machine(t testing.TB, dir string) *testenv.Machine {
	t.Helper()
	m := testenv.New(time.Now())
	must(t, m.Seen(&statedir.Clock{Path: filepath.Join(dir, statedir.FileName), Source: m.Source()}, statedir.AfterStep))
	return m
}

func forever(id string) grant.Grant { return grant.Grant{ID: id, Expires: time.Now().Add(time.Hour)} }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantRevoked(t testing.TB, w Watcher, id string, want bool) {
	t.Helper()
	if got, err := w.Revoked(id); got != want || err != nil {
		t.Errorf("%s: revoked %v, %v, want %v", id, got, err, want)
	}
}

// wantSignal holds that the channel is closed, sooner or later.
func wantSignal(t testing.TB, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(30 * time.Second):
		t.Fatalf("%s: no signal", what)
	}
}

func wantNoSignal(t testing.TB, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
		t.Errorf("%s: a signal", what)
	default:
	}
}

// wantEnd holds that the context ends with that code.
func wantEnd(t testing.TB, ctx context.Context, code sandbox.Code, message string) {
	t.Helper()
	wantSignal(t, message, ctx.Done())
	wantCode(t, context.Cause(ctx), code, message)
}

func wantCode(t testing.TB, err error, code sandbox.Code, message string) {
	t.Helper()
	var e *sandbox.Error
	if !errors.As(err, &e) || e.Code != code || !strings.Contains(e.Error(), message) {
		t.Fatalf("error %v, want %s with %q", err, code, message)
	}
}
