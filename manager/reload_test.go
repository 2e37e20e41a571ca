package manager_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/manager"
)

// reloading is a machine whose manager follows a settings file.
type reloading struct {
	*guarded
	path string
	m    *manager.Manager
}

func newReloading(t *testing.T, settings string) *reloading {
	t.Helper()
	g := newGuarded(t, sandbox.AllowPermanent)
	r := &reloading{guarded: g, path: filepath.Join(t.TempDir(), "sandbox.json")}
	r.write(settings)
	source, err := config.NewSource(r.path, config.Parse)
	must(t, err)
	g.reload = source.Current
	r.m = g.manager(settings)
	return r
}

func (r *reloading) write(settings string) {
	r.t.Helper()
	must(r.t, os.WriteFile(r.path, []byte(settings), 0o600))
}

// TestTightenedFileRefusesTheNextRequest closes and opens a rule in the
// settings file, and every request after goes by it.
func TestTightenedFileRefusesTheNextRequest(t *testing.T) {
	t.Parallel()
	open, closed := settingsWith(`"tools": {"deny": ["browser"]}`), settingsWith(`"tools": {"deny": ["process"]}, "commands": {"block": ["reach:*"]}`)
	r := newReloading(t, open)
	must(t, r.judged(r.m, []string{"reach"})) // makes the sandbox
	slowest := time.Duration(0)
	for i := range 20 {
		r.write(closed)
		at := time.Now()
		err := r.judged(r.m, []string{"reach"})
		slowest = max(slowest, time.Since(at))
		if sandbox.CodeOf(err) != sandbox.CodeDenyTool || !strings.Contains(err.Error(), "commands.block") {
			t.Fatalf("round %d: a command that is closed now: %v", i, err)
		}
		if err := r.judged(r.m, []string{"x"}, func(q *manager.Request) { q.Tool = "process" }); sandbox.CodeOf(err) != sandbox.CodeDenyTool {
			t.Fatalf("round %d: a tool that is closed now: %v", i, err)
		}
		r.write(open)
		if err := r.judged(r.m, []string{"reach"}); err != nil {
			t.Fatalf("round %d: a command that is open again: %v", i, err)
		}
	}
	t.Logf("the slowest of 20 refusals came %v after the file was written", slowest)
	if r.runs != 21 {
		t.Errorf("the program ran %d times", r.runs)
	}
}

// TestExplainFollowsTheFile holds that what looks at settings without running
// anything sees the same ones.
func TestExplainFollowsTheFile(t *testing.T) {
	t.Parallel()
	r := newReloading(t, settingsWith(`"limits": {"timeout": "5s"}`))
	r.write(settingsWith(`"limits": {"timeout": "6s"}, "browser": {"enabled": true}`))
	e, err := r.m.Explain(t.Context(), someone, nil, manager.Questions{})
	must(t, err)
	found := false
	for _, s := range e.Settings {
		found = found || s.Path == "limits.timeout" && s.Value == "6s"
	}
	if !found {
		t.Errorf("explain does not know the new time limit: %+v", e.Settings)
	}
	if res, _, err := r.m.BrowserResolve(someone, nil); err != nil || !res.Browser.Enabled {
		t.Errorf("the browser is not enabled: %v", err)
	}
	r.write(settingsWith(`"browser": {"enabled": false}`))
	if _, err := r.m.OpenBrowser(t.Context(), manager.BrowserRequest{Who: someone}); sandbox.CodeOf(err) != sandbox.CodeCapabilityBlocked {
		t.Errorf("a browser that was disabled: %v", err)
	}
}

// TestBrokenFileChangesNothing holds that the last good rules go on, and that
// the log hears of it once.
func TestBrokenFileChangesNothing(t *testing.T) {
	t.Parallel()
	r := newReloading(t, settingsWith(`"commands": {"block": ["reach:*"]}`))
	reported := func() int { return strings.Count(r.log.String(), "cannot be read again") }
	for i, text := range []string{`{"agents": `, `{"agents": {"lits": []}}`} {
		r.write(text)
		for range 3 {
			if err := r.judged(r.m, []string{"reach"}); sandbox.CodeOf(err) != sandbox.CodeDenyTool {
				t.Errorf("with %s: %v", text, err)
			}
		}
		if n := reported(); n != i+1 {
			t.Errorf("the log was told %d times of %d problems: %s", n, i+1, r.log)
		}
	}
	if e, err := r.m.Explain(t.Context(), someone, nil, manager.Questions{}); err != nil || !strings.Contains(strings.Join(e.Problems, "\n"), "lits") {
		t.Errorf("explain does not tell of the problem: %v, %v", e.Problems, err)
	}
	must(t, os.Remove(r.path))
	if err := r.judged(r.m, []string{"reach"}); sandbox.CodeOf(err) != sandbox.CodeDenyTool {
		t.Errorf("without the file: %v", err)
	}
	if reported() != 3 || !strings.Contains(r.log.String(), "was removed") {
		t.Errorf("the log does not tell of the file that is gone: %s", r.log)
	}
	r.write(settingsWith(`"tools": {"deny": ["cron"]}`))
	must(t, r.judged(r.m, []string{"reach"}))
	if !strings.Contains(r.log.String(), "can be read again") {
		t.Errorf("the log does not tell of the end: %s", r.log)
	}
	if e, err := r.m.Explain(t.Context(), someone, nil, manager.Questions{}); err != nil || len(e.Problems) > 0 {
		t.Errorf("explain tells of problems: %v, %v", e.Problems, err)
	}
}

// TestSourceThatFailsWhole holds that a source which has nothing at all leaves
// the settings in force, rather than the defaults.
func TestSourceThatFailsWhole(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	g.reload = func() (*config.Settings, error) { return nil, errors.New("no such source") }
	m := g.manager(settingsWith(`"commands": {"block": ["reach:*"]}`))
	if err := g.judged(m, []string{"reach"}); sandbox.CodeOf(err) != sandbox.CodeDenyTool {
		t.Error(err)
	}
}

// TestPermanentGrantsMeetTheFile holds that what was permitted for good stays
// in force whichever of file and memory is looked at first, and goes when the
// file no longer says it.
func TestPermanentGrantsMeetTheFile(t *testing.T) {
	t.Parallel()
	r := newReloading(t, guardedSettings)
	ask := func(q *manager.Request) { q.Ask = true }
	for range 2 { // the second try asks no approver
		if out, o := r.try(r.m, someone, []string{"HOST/x"}, ask); o.Exit.Code != 0 {
			t.Fatalf("%q, %+v", out, o)
		}
	}
	if len(r.asked) != 1 || len(r.kept) != 1 {
		t.Fatalf("asked %v, kept %v", r.asked, r.kept)
	}
	// The program's own way to keep a grant wrote no file; now one comes.
	must(t, config.AllowPermanent(r.path, "main", sandbox.Grant{Operation: sandbox.OpWrite, Path: r.host + "/a"}))
	other := config.Who{Agent: "main", Session: "other"}
	mute := func(q *manager.Request) { q.Ask = false }
	if out, o := r.try(r.m, other, []string{"HOST/a"}, mute); o.Exit.Code != 0 {
		t.Errorf("what the file allows: %q, %+v", out, o)
	}
	if out, o := r.try(r.m, other, []string{"HOST/x"}, mute); o.Exit.Code == 0 {
		t.Errorf("what the file does not say: %q, %+v", out, o)
	}
}

// TestManyRequestsDuringChanges holds that requests and changes do not disturb
// each other, and that each goes by settings at least as new as itself.
func TestManyRequestsDuringChanges(t *testing.T) {
	t.Parallel()
	r := newReloading(t, settingsWith(`"limits": {"timeout": "1h"}`))
	timeout := func(n int) string { return settingsWith(fmt.Sprintf(`"limits": {"timeout": "%ds"}`, n)) }
	var mu sync.Mutex
	written := 0
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				mu.Lock()
				least := written
				mu.Unlock()
				res, _, err := r.m.BrowserResolve(someone, nil)
				if got := int(time.Duration(res.Limits.Timeout) / time.Second); err != nil || got < least && least > 0 {
					t.Errorf("asked after %d was written and got %d, %v", least, got, err)
				}
			}
		})
	}
	for i := range 50 {
		// Written beside and renamed: a file that is half written is a problem.
		must(t, os.WriteFile(r.path+".new", []byte(timeout(i+1)), 0o600))
		must(t, os.Rename(r.path+".new", r.path))
		mu.Lock()
		written = i + 1
		mu.Unlock()
	}
	wg.Wait()
	if strings.Contains(r.log.String(), "cannot be read") {
		t.Error(r.log)
	}
	if err := r.judged(r.m, []string{"reach"}, func(q *manager.Request) { q.Command.Stdout = io.Discard }); err != nil {
		t.Error(err)
	}
}
