//go:build linux

package manager_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/manager"
)

// killed has a child carry operations out, and kills it after so many.
func (c *controlled) killed(r string, ops []manager.Operation, after int) {
	c.t.Helper()
	name := filepath.Join(c.t.TempDir(), "work.json")
	text, err := json.Marshal(ops)
	must(c.t, err)
	must(c.t, os.WriteFile(name, text, 0o600))
	cmd := childCmd(&rig{dir: r}, childWork+"="+name, childSet+"="+c.settingsFor(""))
	out, err := cmd.StdoutPipe()
	must(c.t, err)
	must(c.t, cmd.Start())
	watchdog := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
	defer watchdog.Stop()
	lines := bufio.NewScanner(out)
	for n := 0; n < after; {
		if !lines.Scan() {
			c.t.Fatal("the child has ended")
		}
		if lines.Text() != "ok" {
			c.t.Fatalf("the child said %q", lines.Text())
		}
		n++
	}
	must(c.t, cmd.Process.Kill())
	go io.Copy(io.Discard, out)
	cmd.Wait()
}

// ended returns how operations of the tenant ended, by id, as far as they
// have begun.
func (c *controlled) ended() map[string][]evidence.Status {
	c.t.Helper()
	out := map[string][]evidence.Status{}
	for r, err := range c.evidence.Query(context.Background(), evidence.Filter{Tenant: tenant}) {
		must(c.t, err)
		switch r.Type {
		case evidence.TypeBegin:
			if out[r.Command] == nil {
				out[r.Command] = []evidence.Status{}
			}
		case evidence.TypeEnd:
			var e evidence.End
			must(c.t, json.Unmarshal(r.Data, &e))
			out[r.Command] = append(out[r.Command], e.Status)
		}
	}
	return out
}

// TestKilledBetweenBeginAndEnd kills a program again and again in the middle of
// its operations. No budget is filled by that, and the next start of a program
// tells once what the last one did not live to tell.
func TestKilledBetweenBeginAndEnd(t *testing.T) {
	t.Parallel()
	onControlled(t, "", func(c *controlled) {
		if c.again == nil {
			return
		}
		const calls = 160
		parent := c.looks(calls)
		parent.Grant.Budget.Files = 100_000
		var ops []manager.Operation
		for i := range 9 {
			op := parent
			c.derive(&op)
			op.Do = grant.Operation{Kind: grant.OpFsList, Path: "/workspace"}
			if i == 0 { // is never done
				op.Do = grant.Operation{Kind: grant.OpProcExec, Tool: "sleep", Args: []string{"1000"}}
			}
			ops = append(ops, op)
		}
		must(c.t, second(c.operate(ops[1]))) // makes the sandbox
		const rounds = 3
		for range rounds {
			c.killed(c.state.Path(), ops, 20)
			c.again()
		}
		passed, begun, aborted := 0, 0, 0
		for id, how := range c.ended() {
			switch {
			case len(how) != 1:
				c.t.Errorf("operation %s has %d ends", id, len(how))
				continue
			case how[0] == evidence.OK:
				passed++
			case how[0] == evidence.Aborted:
				aborted++
			default:
				c.t.Errorf("operation %s ended %s", id, how[0])
			}
			begun++
		}
		if aborted < rounds {
			c.t.Errorf("%d operations are told to be aborted, of %d at least", aborted, rounds)
		}
		left := 0
		for ; left <= calls; left++ {
			if done, _ := c.operate(ops[1]); !done.OK {
				break
			}
		}
		if passed+left > calls || begun+left < calls {
			c.t.Errorf("%d of %d calls have passed and %d have begun; then %d more passed", passed, calls, begun, left)
		}
		c.t.Logf("%d passed, %d were aborted, %d of %d were left", passed, aborted, left, calls)
		c.again()
		again := 0
		for _, how := range c.ended() {
			again += strings.Count(fmt.Sprint(how), string(evidence.Aborted))
		}
		if again != aborted {
			c.t.Errorf("%d operations are told to be aborted, and before %d", again, aborted)
		}
		c.verified()
	})
}
