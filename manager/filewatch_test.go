package manager_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/audit/violation"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/manager"
)

// violations keep what was stopped.
type violations struct {
	mu   sync.Mutex
	list []violation.Record
}

func (v *violations) Append(_ context.Context, rs ...violation.Record) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.list = append(v.list, rs...)
	return nil
}

func (v *violations) taken() []violation.Record {
	v.mu.Lock()
	defer v.mu.Unlock()
	out := v.list
	v.list = nil
	return out
}

// TestFilesAreOnRecord holds that each operation on files is on record with its
// kind, its path, and digests of its own, and that a refused one leaves a
// violation as well.
func TestFilesAreOnRecord(t *testing.T) {
	t.Parallel()
	var stopped violations
	onControlled(t, `, "evidence": {"commands": true}`, func(c *controlled) {
		ctx, done := context.WithTimeout(context.Background(), 2*time.Minute)
		defer done()
		withFiles := func(fn func(manager.Share) error) []*reportedPair {
			c.t.Helper()
			before := len(c.commandsReported())
			must(c.t, c.Files(ctx, manager.Request{Who: c.who, Tool: "write"}, fn))
			return c.commandsReported()[before:]
		}
		pairs := withFiles(func(s manager.Share) error {
			_, err := s.Stat(ctx, "a") // as tools do before they write
			if !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			for name, content := range map[string]string{"a": "one", "b": "two"} {
				if err := s.Write(ctx, name, strings.NewReader(content), sandbox.WriteOptions{}); err != nil {
					return err
				}
			}
			r, err := s.Read(ctx, "a", 1, 1)
			if err != nil {
				return err
			}
			if _, err := io.ReadAll(r); err != nil {
				return err
			}
			if err := errors.Join(r.Close(), r.Close()); err != nil {
				return err
			}
			_, err = s.ReadDir(ctx, ".")
			return errors.Join(err, s.Mkdir(ctx, "dir", 0o755), s.Rename(ctx, "b", "dir/c"), s.Remove(ctx, "dir", true))
		})
		inputs := map[evidence.Digest]bool{}
		var got []string
		for _, p := range pairs {
			if p.ends != 1 || p.end.Status != evidence.OK || p.begin.Tenant != tenant || p.begin.Tool != "write" || p.begin.Sandbox == "" || len(p.end.Effects) == 0 {
				c.t.Errorf("%+v, %+v", p.begin, p.end)
				continue
			}
			inputs[p.begin.Inputs] = true
			got = append(got, string(p.begin.Kind)+" "+p.begin.Capability)
			switch effect := p.end.Effects[0]; p.begin.Capability {
			case "fs.write:/workspace/a":
				if effect.Kind != grant.EffectWrite || effect.Path != "/workspace/a" || effect.Digest != evidence.DigestOf([]byte("one")) || p.begin.Request.Path != "/workspace/a" {
					c.t.Errorf("%+v, %+v", p.begin, p.end)
				}
			case "fs.read:/workspace/a":
				if effect.Kind != grant.EffectRead || effect.Digest != evidence.DigestOf([]byte("n")) || p.end.Outputs != effect.Digest || effect.BytesIn != 1 {
					c.t.Errorf("%+v", p.end)
				}
			case "fs.rename:/workspace/b":
				if len(p.end.Effects) != 2 || p.end.Effects[1].Path != "/workspace/dir/c" {
					c.t.Errorf("%+v", p.end)
				}
			}
		}
		slices.Sort(got)
		want := []string{
			"FsList fs.list:/workspace", "FsRead fs.read:/workspace/a", "FsWrite fs.mkdir:/workspace/dir", "FsWrite fs.remove:/workspace/dir",
			"FsWrite fs.rename:/workspace/b", "FsWrite fs.write:/workspace/a", "FsWrite fs.write:/workspace/b",
		}
		if !slices.Equal(got, want) || len(inputs) != len(want) {
			c.t.Errorf("%d digests of %q, want one for each of %q", len(inputs), got, want)
		}

		// A handle that is only looked at, one that is never closed, and more
		// handles than are recorded.
		if pairs := withFiles(func(s manager.Share) error { _, err := s.Stat(ctx, "a"); return err }); len(pairs) != 1 || pairs[0].begin.Capability != "fs.stat:/workspace/a" {
			c.t.Errorf("%d operations for a look: %+v", len(pairs), pairs)
		}
		if pairs := withFiles(func(s manager.Share) error { _, err := s.Read(ctx, "a", 0, 5); return err }); len(pairs) != 1 || pairs[0].ends != 1 {
			c.t.Errorf("a file that is left open: %+v", pairs)
		}
		if c.wall == "docker" || testenv.All() { // no provider knows of the bound
			pairs = withFiles(func(s manager.Share) error {
				for range 260 {
					if err := s.Write(ctx, "many", bytes.NewReader(nil), sandbox.WriteOptions{}); err != nil {
						return err
					}
				}
				return nil
			})
			if last := pairs[len(pairs)-1]; len(pairs) != 257 || last.begin.Capability != "fs.more" || last.end.More != 260-256 {
				c.t.Errorf("%d operations are on record, the last is %+v, %+v", len(pairs), last.begin, last.end)
			}
		}

		if list := stopped.taken(); len(list) > 0 {
			c.t.Errorf("violations of what was let pass: %+v", list)
		}
		before := len(c.commandsReported())
		for range 2 { // the second in a call of its own
			err := c.Files(ctx, manager.Request{Who: c.who, Tool: "write"}, func(s manager.Share) error {
				return s.Write(ctx, "/etc/shadow", strings.NewReader("x"), sandbox.WriteOptions{})
			})
			if sandbox.CodeOf(err) != sandbox.CodeCapabilityBlocked {
				c.t.Fatalf("a path outside: %v", err)
			}
		}
		list := stopped.taken()
		if len(list) != 2 || list[0].Resource != "/etc/shadow" || list[0].Op != sandbox.OpWrite || list[0].Rule == "" || list[0].Session != "s" {
			c.t.Errorf("the violations are %+v", list)
		}
		for _, p := range c.commandsReported()[before:] {
			if p.end.Status != evidence.Denied || p.end.Code != sandbox.CodeCapabilityBlocked || p.begin.Request.Path != "/etc/shadow" || len(p.end.Effects) > 0 {
				c.t.Errorf("refused, and on record %+v, %+v", p.begin, p.end)
			}
		}
		if n := len(c.commandsReported()) - before; n != 2 {
			c.t.Errorf("%d operations are on record, want 2", n)
		}
	}, func(_ *controlled, o *manager.Options, _ *statedir.Dir) { o.Violations = &stopped })
}

// TestEndsByLimitsAreAborted holds that the end of a command by its time limit or
// its caller is on record as what it is, with its code.
func TestEndsByLimitsAreAborted(t *testing.T) {
	t.Parallel()
	onControlled(t, `, "evidence": {"commands": true}`, func(c *controlled) {
		ctx, done := context.WithTimeout(context.Background(), 2*time.Minute)
		defer done()
		slow := manager.Request{Who: c.who, Command: sandbox.Command{Args: []string{"sleep", "1000"}}, Timeout: 300 * time.Millisecond}
		if out, err := c.Run(ctx, slow); err != nil || !out.TimedOut {
			c.t.Fatalf("%+v, %v", out, err)
		}
		line := slow
		line.Command.Args = []string{"-c", "sleep 1000"}
		if out, err := c.Shell(ctx, line); err != nil || !out.TimedOut {
			c.t.Fatalf("%+v, %v", out, err)
		}
		given, giveUp := context.WithCancel(ctx)
		slow.Timeout = 0
		slow.Started = func(sandbox.Process) { giveUp() }
		if _, err := c.Run(given, slow); sandbox.CodeOf(err) != sandbox.CodeExecution {
			c.t.Fatalf("%v", err)
		}
		var got []string
		for _, p := range c.commandsReported() {
			got = append(got, string(p.end.Status)+" "+string(p.end.Code))
			if p.end.Duration <= 0 || p.end.Detail == "" {
				c.t.Errorf("%+v", p.end)
			}
		}
		timeout := "aborted " + string(sandbox.CodeTimeout)
		if want := []string{timeout, timeout, "aborted " + string(sandbox.CodeExecution)}; !slices.Equal(got, want) {
			c.t.Errorf("on record is %q, want %q", got, want)
		}
	})
}
