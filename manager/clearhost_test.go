//go:build linux

package manager_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/grant"
)

// TestNothingIsClearedOnTheHost holds that the end of a call removes its
// temporary space in the sandbox alone: when settings have put the session onto
// the host meanwhile, what has the same name there is not touched.
func TestNothingIsClearedOnTheHost(t *testing.T) {
	t.Parallel()
	c, _ := onLocal(t, "")
	op := c.operation(grant.Operation{Kind: grant.OpTmpAlloc, Bytes: 64 << 10})
	done, err := c.operate(op)
	must(t, err)
	folder := done.Output.Path
	if _, err := os.Stat(folder); err == nil {
		t.Fatalf("%s is there on the host", folder)
	}
	must(t, os.Mkdir(folder, 0o755))
	t.Cleanup(func() { os.RemoveAll(folder) })
	kept := filepath.Join(folder, "kept")
	must(t, os.WriteFile(kept, []byte("text"), 0o644))
	c.Reload(c.parsed(`, "mode": "off", "commands": {"allowUnsandboxed": true}`))
	if err := c.EndCall(tenant, op.Grant.ID); sandbox.CodeOf(err) != sandbox.CodeUnavailable {
		t.Errorf("%v, want the error that it is left", err)
	}
	if _, err := os.Stat(kept); err != nil {
		t.Error(err)
	}
}
