//go:build linux

package manager_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/manager"
)

// TestSettingsReachTheNextOperation takes a host, a path, a tool, a program and
// a budget away in the settings file, and gives them back.
func TestSettingsReachTheNextOperation(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "sandbox.json")
	onControlled(t, "", func(c *controlled) {
		all := c.settingsFor("")
		write := func(text string) { must(c.t, os.WriteFile(name, []byte(text), 0o600)) }
		read := grant.Operation{Kind: grant.OpFsRead, Path: "/workspace/report.txt"}
		must(c.t, second(c.operate(c.operation(grant.Operation{Kind: grant.OpFsWrite, Path: read.Path, Data: []byte("text")}))))
		var slowest time.Duration
		for _, tt := range []struct {
			what  string
			tight string
			do    grant.Operation
			code  sandbox.Code
		}{
			{"a host", strings.Replace(all, `"`+testenv.Files+`"`, `"elsewhere.test"`, 1), grant.Operation{Kind: grant.OpNetHTTP, Method: "GET", URL: c.net.URL("http", testenv.Files, "/greeting.txt")}, sandbox.CodeCapabilityBlocked},
			{"a path", c.settingsFor(`, "filesystem": {"denyRead": ["/workspace/report.txt"]}`), read, sandbox.CodeCapabilityBlocked},
			{"a tool", strings.Replace(all, `"alsoAllow": ["reporter"]`, `"deny": ["reporter"]`, 1), read, sandbox.CodeDenyTool},
			{"a program", c.settingsFor(`, "commands": {"block": ["echo a:*"]}`), grant.Operation{Kind: grant.OpProcExec, Tool: "echo", Args: []string{"a"}}, sandbox.CodeDenyTool},
		} {
			op := c.operation(tt.do)
			for range 2 { // one call goes on while settings change
				write(all)
				if done, err := c.operate(op); !done.OK {
					c.t.Fatalf("%s, which is allowed: %v", tt.what, err)
				}
				write(tt.tight)
				at := time.Now()
				done, err := c.operate(op)
				slowest = max(slowest, time.Since(at))
				if done.Code != tt.code {
					c.t.Errorf("%s, which was taken away: %v", tt.what, err)
				}
			}
		}
		c.t.Logf("from the write to the refusal it took %v at most (100ms at rest)", slowest.Round(time.Microsecond))
		if slowest > testenv.Patience {
			c.t.Error("that is too long")
		}
		write("{") // the last good ones go on
		echo := grant.Operation{Kind: grant.OpProcExec, Tool: "echo", Args: []string{"a"}}
		if done, _ := c.operate(c.operation(echo)); done.Code != sandbox.CodeDenyTool {
			c.t.Errorf("with a broken file: %+v", done)
		}
		must(c.t, second(c.operate(c.operation(read))))
		must(c.t, c.ctl.Recorder.Close())
		c.verified()
	}, func(c *controlled, o *manager.Options, _ *statedir.Dir) {
		must(c.t, os.WriteFile(name, []byte(c.settingsFor("")), 0o600))
		source, err := config.NewSource(name, config.Parse)
		must(c.t, err)
		o.Reload = source.Current
	})
}

// second is the error of a call that returns something else too.
func second[T any](_ T, err error) error { return err }
