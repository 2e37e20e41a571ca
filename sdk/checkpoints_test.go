package sdk_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/sdk"
)

// TestEgressAfterRollback holds that the rules for hosts hold on in a sandbox after
// a checkpoint and after a rollback, for which a local sandbox is started again, and
// in a fork; that what no rule allows stays closed; and that the next line of a shell
// which a rollback has ended says so.
func TestEgressAfterRollback(t *testing.T) {
	inBothWays(t, func(t *testing.T, c *sdk.Client) {
		testenv.UnmountBelow(t, filepath.Dir(t.TempDir())) // the state folder lies below it, too
		ctx := t.Context()
		serve := func() string {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }))
			t.Cleanup(s.Close)
			return strings.TrimPrefix(s.URL, "http://")
		}
		open, closed := serve(), serve()
		reaches := func(when string, sb *sdk.Sandbox) {
			t.Helper()
			if r, err := sb.Run(ctx, "curl", "-sS", "http://"+open+"/"); err != nil || r.ExitCode != 0 || string(r.Stdout) != "hello" {
				t.Errorf("%s: %+v, %v", when, r, err)
			}
			if r, err := sb.Run(ctx, "curl", "-sSf", "http://"+closed+"/"); err != nil || r.ExitCode == 0 || string(r.Stdout) == "hello" {
				t.Errorf("%s, a host that no rule allows: %+v, %v", when, r, err)
			}
		}
		sb := ready(t, c, "s", sdk.AllowDomain(open))
		reaches("at first", sb)
		first, err := sb.Checkpoint(ctx, "first")
		if err != nil {
			t.Fatal(err)
		}
		reaches("after a checkpoint", sb)
		sh, err := sb.Shell(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer sh.Close()
		if r, err := sh.Run(ctx, "mkdir later && cd later"); err != nil || r.ExitCode != 0 {
			t.Fatalf("%+v, %v", r, err)
		}
		if _, err := sb.Rollback(ctx, first.ID); err != nil {
			t.Fatal(err)
		}
		reaches("after a rollback", sb)
		if r, err := sh.Run(ctx, "pwd"); err != nil || r.ExitCode != 0 || string(r.Stdout) != "/workspace\n" || !r.Restarted {
			t.Errorf("a line after the rollback: %+v, %v", r, err)
		}
		forks, err := sb.Fork(ctx, sdk.ForkOptions{Count: 1, From: first.ID})
		if err != nil || len(forks) != 1 || forks[0].Problem != nil {
			t.Fatalf("%+v, %v", forks, err)
		}
		reaches("in a fork", ready(t, c, forks[0].Session, sdk.AllowDomain(open)))
	})
}
