package operation

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/grant"
)

func writing(path, content string, overwrite bool) grant.Operation {
	return grant.Operation{Kind: grant.OpFsWrite, Path: path, Data: []byte(content), Overwrite: overwrite}
}

func TestWrite(t *testing.T) {
	r := newRig(t)
	c, out, err := r.do(writing("/workspace/a/b/f", "content", false))
	filesMust(t, err)
	if out.Path != "/workspace/a/b/f" || out.Digest != evidence.DigestOf([]byte("content")) || len(out.Data) != 0 {
		t.Errorf("got %+v", out)
	}
	if used := c.Meter.Used(); used.BytesOut != 7 || used.Files != 1 || used.BytesIn != 0 {
		t.Errorf("used %+v", used)
	}
	effects, _ := c.Effects()
	if want := (evidence.Effect{Kind: grant.EffectWrite, Path: "/workspace/a/b/f", BytesOut: 7, Digest: out.Digest}); len(effects) != 1 || effects[0] != want {
		t.Errorf("effects %+v", effects)
	}
	c, _, err = r.do(writing("/workspace/a/b/f", "other", false))
	r.fails("again", err, sandbox.CodeValidation, "op.overwrite")
	if !errors.Is(err, fs.ErrExist) {
		t.Errorf("%v is no fs.ErrExist", err)
	}
	if effects, _ := c.Effects(); len(effects) != 0 {
		t.Errorf("a write that was refused has effects: %+v", effects)
	}
	if used := c.Meter.Used(); used.BytesOut != 0 || used.Files != 0 {
		t.Errorf("a write that was refused has used %+v", used)
	}
	if got := r.sh("cat a/b/f"); got != "content" {
		t.Errorf("the file holds %q", got)
	}
	_, _, err = r.do(writing("/workspace/a/b/f", "", true))
	filesMust(t, err)
	if got := r.sh("cat a/b/f"); got != "" {
		t.Errorf("the file holds %q", got)
	}
}

func TestWriteFails(t *testing.T) {
	r := newRig(t)
	r.put("/workspace/d/f", "old")
	r.sh(`ln -s d/f link; ln -s d dir; mkdir closed; chmod 555 closed`)
	for path, want := range map[string]sandbox.Code{
		"/workspace/d": sandbox.CodeValidation, "/workspace/d/f/x": sandbox.CodeValidation, "/workspace/link": sandbox.CodeCapabilityBlocked,
		"/workspace/dir/f": sandbox.CodeCapabilityBlocked, "/workspace/dir/new": sandbox.CodeCapabilityBlocked, "/workspace/dir/new/f": sandbox.CodeCapabilityBlocked,
		"/workspace/closed/f": sandbox.CodeCapabilityBlocked, "/etc/f": sandbox.CodeCapabilityBlocked,
		"/small/large": sandbox.CodeExecution, // a full disk is no budget of the call
	} {
		content := "new"
		if path == "/small/large" {
			content = strings.Repeat("x", 2<<20)
		}
		c, _, err := r.do(writing(path, content, true))
		r.fails(path, err, want, "path")
		if effects, _ := c.Effects(); len(effects) != 0 {
			t.Errorf("%s: %+v", path, effects)
		}
	}
	if got := r.sh("cat d/f; ls d"); got != "oldf\n" {
		t.Errorf("the folder holds %q", got)
	}
}

// TestWriteBudget checks that nothing is written beyond a budget.
func TestWriteBudget(t *testing.T) {
	for _, tt := range []struct {
		name         string
		bytes, files int64
		field        string
	}{{"enough", 3, 1, ""}, {"a byte too few", 2, 1, "budget.bytesOut"}, {"no file left", 3, 0, "budget.files"}} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			r.bound.BytesOut, r.bound.Files = tt.bytes, tt.files
			_, _, err := r.do(writing("/workspace/f", "abc", false))
			if tt.field == "" {
				filesMust(t, err)
				return
			}
			r.fails("write", err, sandbox.CodeBudgetExceeded, tt.field)
			if _, err := r.files.Stat(t.Context(), "/workspace/f"); !sandbox.IsNotFound(err) {
				t.Errorf("the file is there: %v", err)
			}
		})
	}
}

// A closet is a space with a fixed room below /tmp/closet.
type closet struct{ room int64 }

func (c closet) Room(_ context.Context, path string) (int64, bool, error) {
	if path == "/tmp/broken" {
		return 0, false, &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "room"}
	}
	return c.room, strings.HasPrefix(path, "/tmp/closet/"), nil
}

func (c closet) Watch(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithCancel(ctx)
}

func TestWriteRoom(t *testing.T) {
	r := newRig(t)
	r.space = closet{room: 5}
	_, _, err := r.do(writing("/tmp/closet/f", "12345", true))
	filesMust(t, err)
	_, _, err = r.do(writing("/tmp/closet/f", "123456", true))
	r.fails("a byte too many", err, sandbox.CodeBudgetExceeded, "space")
	_, _, err = r.do(writing("/workspace/f", "123456", true))
	filesMust(t, err)
	_, _, err = r.do(writing("/tmp/broken", "1", true))
	r.fails("nobody can look", err, sandbox.CodeUnavailable, "")
	if got := r.sh("cat /tmp/closet/f; ls /tmp"); got != "12345closet\n" {
		t.Errorf("there is %q", got)
	}
}
