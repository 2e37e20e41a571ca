//go:build linux

package manager_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/manager"
)

// allot gives a call temporary space, and returns its folder.
func (c *controlled) allot(op manager.Operation) string {
	c.t.Helper()
	op.Do = grant.Operation{Kind: grant.OpTmpAlloc, Bytes: 64 << 10}
	done, err := c.operate(op)
	must(c.t, err)
	if !strings.HasPrefix(done.Output.Path, "/tmp/") {
		c.t.Fatalf("the folder is %q", done.Output.Path)
	}
	return done.Output.Path
}

// there reports whether a folder is in the sandbox, as another call sees it.
func (c *controlled) there(folder string) bool {
	c.t.Helper()
	done, err := c.operate(c.shell("test -e " + folder + " && echo there"))
	must(c.t, err)
	return string(done.Output.Data) == "there\n"
}

// gone waits until a folder is not there any more, and returns how long.
func (c *controlled) gone(how, folder string) {
	c.t.Helper()
	began := time.Now()
	waitFor(c.t, func() *bool {
		if !c.there(folder) {
			return new(bool)
		}
		return nil
	})
	c.t.Logf("temporary space, %s: gone within %v", how, time.Since(began).Round(time.Millisecond))
}

// allotBriefly is the space of a call whose grant ends soon, but not before it
// has got that.
func (c *controlled) allotBriefly() (folder string) {
	c.t.Helper()
	for life := 3 * time.Second; ; life *= 2 {
		op := c.shell("true")
		op.Grant.Expires = time.Now().Add(life)
		op.Do = grant.Operation{Kind: grant.OpTmpAlloc, Bytes: 64 << 10}
		done, err := c.operate(op)
		if done.Code == sandbox.CodePermissionDeny && life < 20*time.Second {
			continue
		}
		must(c.t, err)
		return done.Output.Path
	}
}

// TestTemporarySpaceGoesWithItsCall uses temporary space by files and programs,
// up to its bound, and checks that it is removed with its own call and not with
// another.
func TestTemporarySpaceGoesWithItsCall(t *testing.T) {
	t.Parallel()
	onControlled(t, "", func(c *controlled) {
		op, other := c.shell("true"), c.shell("true")
		folder, kept := c.allot(op), c.allot(other)
		write := func(bytes int) sandbox.Code {
			op.Do = grant.Operation{Kind: grant.OpFsWrite, Path: folder + "/file", Data: make([]byte, bytes), Overwrite: true}
			done, _ := c.operate(op)
			return done.Code
		}
		if code := write(40 << 10); code != "" {
			t.Errorf("a file within the bound: %s", code)
		}
		if code := write(80 << 10); code != sandbox.CodeBudgetExceeded {
			t.Errorf("a file beyond the bound: %q", code)
		}
		mark := fmt.Sprintf("space-%s-%d", c.wall, time.Now().UnixNano())
		op.Do = grant.Operation{Kind: grant.OpProcExec, Tool: "sh", Args: []string{"-c", ": " + mark + "; cd " + folder + " && head -c 200000 /dev/zero > more; sleep 1000 & sleep 1000"}}
		began := time.Now()
		done, err := c.operate(op)
		if done.Code != sandbox.CodeBudgetExceeded || time.Since(began) > time.Minute {
			c.t.Errorf("a program that fills the space: %v after %v", err, time.Since(began))
		}
		c.t.Logf("a program that fills its space was ended after %v", time.Since(began).Round(time.Millisecond))
		if left := marked(mark); len(left) > 0 {
			c.t.Errorf("processes %v are left", left)
		}
		if code := write(10); code != sandbox.CodeBudgetExceeded {
			t.Errorf("a file in a space that is full: %q", code)
		}
		must(c.t, c.EndCall(tenant, op.Grant.ID))
		if c.there(folder) {
			c.t.Error("the space is there after the end of its call")
		}

		op = c.shell("true")
		folder = c.allot(op)
		must(c.t, c.ctl.Revoke(op.Grant))
		c.gone("revoked", folder)
		c.gone("expired", c.allotBriefly()) // within that of being made

		op = c.shell("true")
		c.derive(&op)
		folder = c.allot(op)
		must(c.t, c.ctl.Revoke(op.Line[0]))
		c.gone("parent revoked", folder)

		if !c.there(kept) {
			c.t.Error("the space of another call is gone")
		}
		must(c.t, c.Manager.Close())
		if c.again != nil { // the sandbox goes on
			c.again()
			if c.there(kept) {
				c.t.Error("the space is there after the end of the program")
			}
		}
	})
}
