//go:build linux

package sandboxexec

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/provider"
)

// A person answers what the manager asks.
type person struct {
	mu     sync.Mutex
	answer sandbox.Permission
	asked  []sandbox.PermissionRequest
}

// Approve implements [sandbox.Approver].
func (p *person) Approve(_ context.Context, r sandbox.PermissionRequest) (sandbox.Permission, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = append(p.asked, r)
	return p.answer, nil
}

// managed returns a manager whose one provider is that of the rig.
func (r *rig) managed(who *person, rules string) *manager.Manager {
	r.Helper()
	state, err := statedir.Open(r.state)
	must(r, err)
	parsed, err := config.Parse("test", []byte(`{"agents": {"defaults": {"sandbox": {"provider": "local", `+rules+`"docker": {"cpus": 1}}}}}`))
	must(r, err)
	set, err := provider.New(r.p)
	must(r, err)
	log := logrus.New()
	log.SetOutput(testLog{r})
	m, err := manager.New(manager.Options{
		Settings: parsed, State: state, Providers: set, Images: noImages{}, Log: log, Approver: who,
		Host: manager.Host{CPUs: 2, Memory: 8 << 30, Sensitive: []string{r.state},
			Guest: sync.OnceValues(func() (sandbox.GuestRef, error) { return state.InstallGuest(testenv.Guest(r)) })},
	})
	must(r, err)
	r.Cleanup(func() { m.Close() })
	return m
}

type testLog struct{ *rig }

func (l testLog) Write(p []byte) (int, error) {
	l.Log(strings.TrimSpace(string(p)))
	return len(p), nil
}

type noImages struct{}

func (noImages) Volumes(context.Context, string) ([]string, error)         { return nil, nil }
func (noImages) Current(context.Context, string, []string) (string, error) { return "", os.ErrNotExist }
func (noImages) Ensure(context.Context, string, []string) (string, error)  { return "", os.ErrNotExist }

// TestAsk holds that a person is asked about a path that a profile has closed,
// and that the command, or the line in its shell, runs again under a profile
// that shows it. What a rule denies is not asked about.
func TestAsk(t *testing.T) {
	for _, seen := range []bool{true, false} {
		r := newRig(t)
		if !seen {
			r.file("user", "")
		}
		note := filepath.Join(r.home, "note")
		must(t, os.WriteFile(note, []byte("text\n"), 0o600))
		r.file("closed", note)
		who := &person{answer: sandbox.Deny}
		m := r.managed(who, "")
		run := func() sandbox.Result {
			t.Helper()
			out, err := m.Capture(t.Context(), manager.Request{Who: config.Who{Agent: "main", Session: "s"}, Ask: true, Command: sandbox.Command{Args: []string{"cat", note}}})
			must(t, err)
			return out
		}
		if out := run(); !out.Blocked || out.BlockedResource != note || len(who.asked) != 1 || who.asked[0].Resource != note || who.asked[0].Operation != sandbox.OpRead {
			t.Errorf("denied: %+v, asked %+v", out, who.asked)
		}
		who.answer = sandbox.AllowOnce
		if out := run(); string(out.Stdout) != "text\n" || out.ExitCode != 0 || len(who.asked) != 2 {
			t.Errorf("permitted once: %q, %+v", out.Stdout, out)
		}
		who.answer = sandbox.Deny
		if out := run(); !out.Blocked || len(who.asked) != 3 {
			t.Errorf("the permission has outlived its command: %+v", out)
		}

		sh, err := m.OpenShell(t.Context(), manager.Request{Who: config.Who{Agent: "main", Session: "s"}}, sandbox.ShellOptions{})
		must(t, err)
		r.file("closed", note+"/x") // a line is not in the arguments
		if o, err := sh.Run(t.Context(), manager.Line{Text: "x=1"}); err != nil || o.Exit.Code != 0 {
			t.Errorf("%+v, %v", o, err)
		}
		who.answer = sandbox.AllowSession
		line := `if [ -e go ]; then echo $x; else : >go; echo "cat: ` + note + `: Operation not permitted" >&2; false; fi`
		o, err := sh.Run(t.Context(), manager.Line{Text: line, Ask: true})
		if err != nil || o.Exit.Code != 0 || !o.Exit.Restarted || len(who.asked) != 4 {
			t.Errorf("a line: %+v, %v, asked %d times", o, err, len(who.asked))
		}
		if !strings.Contains(r.profile(), `(subpath "`+note+`")`) {
			t.Errorf("the line ran again under\n%s", r.profile())
		}
		must(t, sh.Close())
	}
}

// TestAskOfDenied holds that a deny cannot be granted away.
func TestAskOfDenied(t *testing.T) {
	r := newRig(t)
	note := filepath.Join(r.home, "note")
	must(t, os.WriteFile(note, nil, 0o600))
	who := &person{answer: sandbox.AllowSession}
	m := r.managed(who, `"filesystem": {"denyRead": ["`+note+`"]}, `)
	out, err := m.Capture(t.Context(), manager.Request{Who: config.Who{Agent: "main", Session: "s"}, Ask: true,
		Command: sandbox.Command{Args: []string{"sh", "-c", `d=` + r.home + `; echo "cat: $d/note: Operation not permitted" >&2; exit 1`}}})
	must(t, err)
	if !out.Blocked || out.ExitCode == 0 || len(who.asked) != 0 || !strings.Contains(out.BlockedReason, "denyRead") {
		t.Errorf("%+v, asked %+v", out, who.asked)
	}
}
