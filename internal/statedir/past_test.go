package statedir

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

const year = 365 * 24 * time.Hour

// A rig is a machine with a clock that keeps a time.
type rig struct {
	*testenv.Machine
	t    *testing.T
	path string
}

// both runs a test with a time in a file, which each look reads anew, and with
// one in memory.
func both(t *testing.T, test func(r *rig, look func() time.Time)) {
	for name, path := range map[string]string{"file": filepath.Join(t.TempDir(), FileName), "memory": ""} {
		t.Run(name, func(t *testing.T) {
			r := &rig{testenv.New(time.Now()), t, path}
			c := &Clock{Path: path, Source: r.Source()}
			test(r, func() time.Time {
				if path != "" { // another process, each time
					c = &Clock{Path: path, Source: r.Source()}
				}
				moved, err := c.Advance(0)
				kept, kErr := c.Time()
				if err != nil || kErr != nil || !moved.Equal(kept) {
					t.Fatalf("moved to %v (%v), and kept %v (%v)", moved, err, kept, kErr)
				}
				return kept
			})
		})
	}
}

// want holds what has passed by a look: now, or nothing new.
func (r *rig) want(what string, got, want time.Time) {
	r.t.Helper()
	if !got.Equal(want.Truncate(time.Millisecond)) && !(got.IsZero() && want.IsZero()) {
		r.t.Errorf("%s: %v has passed, want %v", what, got, want)
	}
}

// TestEven holds that a clock is believed when it has gone evenly for an hour,
// and at once from then on.
func TestEven(t *testing.T) {
	both(t, func(r *rig, look func() time.Time) {
		r.want("first look", look(), time.Time{})
		r.Pass(afterBoot - time.Second)
		r.want("too early", look(), time.Time{})
		r.Pass(time.Second)
		r.want("an hour", look(), r.Now())
		r.Pass(100 * 24 * time.Hour)
		r.want("long after", look(), r.Now())
		r.Set(2 * time.Second)
		r.want("a small step", look(), r.Now())
	})
}

// TestJump holds that a clock that jumps ahead is not believed for a day, and
// that nothing has come of it when it was set right by then.
func TestJump(t *testing.T) {
	both(t, func(r *rig, look func() time.Time) {
		look()
		r.Pass(afterBoot)
		before := look()
		r.want("before", before, r.Now())
		r.Set(year)
		r.want("jumped", look(), before)
		r.Pass(AfterStep - time.Second)
		r.want("almost a day", look(), before)
		r.Set(-year)
		r.want("set right", look(), before)
		r.Pass(AfterStep)
		r.want("a day later", look(), r.Now())

		r.Set(year)
		look()
		r.Pass(AfterStep)
		after := look()
		r.want("ahead for a day", after, r.Now())
		r.Set(-year)
		look()
		r.Pass(10 * AfterStep)
		r.want("it never goes back", look(), after)
	})
}

// TestReboot checks that the time for which a machine was off counts as
// unknown, and that a new start ends no wait that a jump has begun.
func TestReboot(t *testing.T) {
	both(t, func(r *rig, look func() time.Time) {
		look()
		r.Pass(afterBoot)
		before := look()
		r.Reboot(year)
		r.want("started", look(), before)
		r.Pass(afterBoot - time.Second)
		r.want("too early", look(), before)
		r.Pass(time.Second)
		before = look()
		r.want("an hour later", before, r.Now())

		r.Set(year)
		look()
		r.Reboot(time.Minute)
		look()
		r.Pass(AfterStep - time.Second)
		r.want("jumped, and started", look(), before)
		r.Pass(time.Second)
		r.want("a day later", look(), r.Now())
	})
}

// TestOver holds what has certainly expired, and that Advance leaves alone what
// is not least behind.
func TestOver(t *testing.T) {
	m := testenv.New(time.Now())
	c := &Clock{Path: filepath.Join(t.TempDir(), FileName), Source: m.Source()}
	if err := m.Seen(c, AfterStep); err != nil {
		t.Fatal(err)
	}
	now, err := c.Advance(time.Minute)
	if err != nil || !now.Equal(m.Now().Truncate(time.Millisecond)) {
		t.Fatalf("%v, %v", now, err)
	}
	m.Pass(time.Minute - time.Second)
	if again, err := c.Advance(time.Minute); err != nil || !again.Equal(now) {
		t.Errorf("moved on to %v, %v", again, err)
	}
	for want, at := range map[bool]time.Time{true: now, false: now.Add(time.Millisecond)} {
		if over, err := c.Over(at); over != want || err != nil {
			t.Errorf("what expires at %v is over: %v, %v", at, over, err)
		}
	}
	if over, err := c.Over(time.Time{}); over || err != nil {
		t.Errorf("what never expires is over: %v, %v", over, err)
	}
}

// TestMachine holds that the machine's own clocks are read.
func TestMachine(t *testing.T) {
	c := In(t.TempDir())
	for range 2 {
		if now, err := c.Advance(0); err != nil || !now.IsZero() {
			t.Errorf("%v, %v", now, err)
		}
	}
	data, err := os.ReadFile(c.Path)
	if err != nil || strings.Contains(string(data), `"boot":""`) || strings.Contains(string(data), `"up":0,`) {
		t.Errorf("kept %s, %v", data, err)
	}
}

// TestDamaged checks that a damaged file is not taken for a missing one.
func TestDamaged(t *testing.T) {
	for name, make := range map[string]func(path string) error{
		"empty":   func(p string) error { return os.WriteFile(p, nil, 0o600) },
		"garbage": func(p string) error { return os.WriteFile(p, []byte(`{"past":1}`+"\n"), 0o600) },
		"large":   func(p string) error { return os.WriteFile(p, []byte(strings.Repeat(" ", 1<<20)), 0o600) },
		"link":    func(p string) error { return os.Symlink("nowhere", p) },
		"folder":  func(p string) error { return os.Mkdir(p, 0o700) },
	} {
		t.Run(name, func(t *testing.T) {
			c := In(t.TempDir())
			if err := make(c.Path); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Time(); sandbox.CodeOf(err) != sandbox.CodeUnavailable || !strings.Contains(err.Error(), "remove it") {
				t.Errorf("told: %v", err)
			}
			if now, err := c.Advance(0); sandbox.CodeOf(err) != sandbox.CodeUnavailable || !now.IsZero() {
				t.Errorf("moved to %v: %v", now, err)
			}
		})
	}
}

// TestManyLook holds that of many that look at once none moves the time on
// wrongly, or reads half a file.
func TestManyLook(t *testing.T) {
	m := testenv.New(time.Now())
	c := &Clock{Path: filepath.Join(t.TempDir(), FileName), Source: m.Source()}
	if err := m.Seen(c, AfterStep); err != nil {
		t.Fatal(err)
	}
	right := m.Now().Add(time.Hour)
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			c := &Clock{Path: c.Path, Source: m.Source()}
			for range 50 {
				if n == 0 {
					m.Set(year)
				}
				if _, err := c.Advance(0); err != nil {
					t.Error(err)
				}
				if now, err := c.Time(); err != nil || now.After(right) {
					t.Errorf("%v has passed, %v", now, err)
				}
				if n == 0 {
					m.Set(-year)
				}
			}
		})
	}
	all.Wait()
}
