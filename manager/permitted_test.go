package manager_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/provider/fake"
)

// TestRoundsAreBounded holds that one command asks eight questions at most,
// and never the same one twice.
func TestRoundsAreBounded(t *testing.T) {
	t.Parallel()
	g := newGuarded(t, sandbox.AllowOnce)
	_, o := g.try(g.manager(guardedSettings), someone, strings.Fields("HOST/1 HOST/2 HOST/3 HOST/4 HOST/5 HOST/6 HOST/7 HOST/8 HOST/9 HOST/10"))
	if len(g.asked) != 8 || g.runs != 9 || !o.Blocked || o.BlockedResource != g.host+"/9" || !strings.Contains(o.BlockedReason, "8 questions") {
		t.Errorf("asked %d times, %d runs, %+v", len(g.asked), g.runs, o)
	}
	g = newGuarded(t, sandbox.AllowSession)
	g.wall = fake.New(fake.Options{Name: "local", Programs: map[string]fake.Program{"reach": g.reach}, Rules: func(s sandbox.Spec, op sandbox.Operation, p string) sandbox.Verdict {
		return rulesOf(sandbox.Spec{}, op, p) // grants do not work
	}})
	_, o = g.try(g.manager(guardedSettings), someone, []string{"HOST/x"})
	if len(g.asked) != 1 || g.runs != 2 || !strings.Contains(o.BlockedReason, "denied all the same") {
		t.Errorf("asked %d times, %d runs, %+v", len(g.asked), g.runs, o)
	}
}

// TestPermissionsOutlastSandboxes holds that a session's permissions are there
// after its sandbox was made anew, and end with the program.
func TestPermissionsOutlastSandboxes(t *testing.T) {
	t.Parallel()
	g := newGuarded(t, sandbox.AllowSession)
	m := g.manager(guardedSettings)
	g.try(m, someone, []string{"HOST/x"})
	rows, err := m.Select(context.Background(), "", manager.Selector{Session: "s"}, false)
	must(t, err)
	if r := m.Recreate(context.Background(), rows); len(r.Removed) != 1 {
		t.Fatalf("%+v", r)
	}
	if _, o := g.try(m, someone, []string{"HOST/x"}); o.Exit.Code != 0 || len(g.asked) != 1 {
		t.Errorf("%+v", o)
	}
	next := g.manager(guardedSettings)
	if _, o := g.try(next, someone, []string{"HOST/x"}, func(r *manager.Request) { r.Ask = false }); o.Exit.Code == 0 {
		t.Errorf("in the next program: %+v", o)
	}
}

// TestPermittedPathsAreExposed holds that what code was permitted to write
// counts as writable for all sessions, also after the permission has ended.
func TestPermittedPathsAreExposed(t *testing.T) {
	t.Parallel()
	for _, answer := range []sandbox.Permission{sandbox.AllowOnce, sandbox.AllowSession, sandbox.AllowPermanent, sandbox.Deny} {
		t.Run(string(answer), func(t *testing.T) {
			g := newGuarded(t, answer)
			m := g.manager(guardedSettings)
			g.try(m, someone, []string{"HOST/x"})
			req := manager.Request{Who: config.Who{Agent: "main", Session: "other"}}
			must(t, m.Files(context.Background(), req, func(s manager.Share) error {
				if got := slices.Contains(s.Exposed, g.host+"/x"); got != (answer != sandbox.Deny) {
					t.Errorf("%q", s.Exposed)
				}
				return nil
			}))
		})
	}
}

// TestPermanentPermissions holds what is written where, and that a tenant's
// permission opens nothing for others.
func TestPermanentPermissions(t *testing.T) {
	t.Parallel()
	mute := func(r *manager.Request) { r.Ask = false }
	for _, tt := range []struct {
		name, tenant string
		err          error
		note         string
	}{
		{"kept", "", nil, ""},
		{"not to be kept", "", errors.New("the file has changed"), "the file has changed"},
		{"of a tenant", "acme", nil, "shared by all tenants"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := newGuarded(t, sandbox.AllowPermanent)
			g.keepErr = tt.err
			m := g.manager(guardedSettings)
			who := config.Who{Tenant: tt.tenant, Agent: "main", Session: "s"}
			_, o := g.try(m, who, []string{"HOST/x"})
			if o.Exit.Code != 0 || len(o.Answers) != 1 || !strings.Contains(o.Answers[0].Note, tt.note) || (o.Answers[0].Note == "") != (tt.note == "") {
				t.Fatalf("%+v", o)
			}
			if tt.note != "" && !strings.Contains(g.log.String(), tt.note) {
				t.Errorf("the log says %q", g.log)
			}
			if _, o := g.try(m, who, []string{"HOST/x"}, mute); o.Exit.Code != 0 {
				t.Errorf("the session itself: %+v", o)
			}
			who.Session = "other"
			if _, o := g.try(m, who, []string{"HOST/x"}, mute); (o.Exit.Code == 0) != (tt.note == "") {
				t.Errorf("another session: %+v", o)
			}
		})
	}
}

// TestNewRulesNeedNoNewSandbox holds that settings which only open single
// paths take effect in a sandbox that is in use, whatever the drift policy.
func TestNewRulesNeedNoNewSandbox(t *testing.T) {
	t.Parallel()
	g := newGuarded(t, sandbox.Deny)
	const refuse = `{"agents": {"defaults": {"sandbox": {"provider": "local", "driftPolicy": "refuse"%s}}}}`
	before := strings.Replace(refuse, "%s", "", 1)
	after := strings.Replace(refuse, "%s", `, "filesystem": {"allowWrite": ["`+g.host+`"]}`, 1)
	_, first := g.try(g.manager(before), someone, nil)
	m := g.manager(after)
	for range 2 {
		if _, o := g.try(m, someone, []string{"HOST/x"}); o.Exit.Code != 0 || o.Created || o.Name != first.Name {
			t.Errorf("%+v", o)
		}
	}
	e, err := m.Explain(context.Background(), someone, nil, manager.Questions{})
	must(t, err)
	if !strings.HasPrefix(e.Next, "use") {
		t.Errorf("next: %s", e.Next)
	}
	for line := range strings.Lines(g.log.String()) {
		if !strings.Contains(line, "the sweep was given up") { // which a machine that stands still has it be
			t.Errorf("the log says %q", line)
		}
	}
	// Taken back, it is a difference again that nothing overlooks.
	if _, o := g.try(g.manager(before), someone, []string{"HOST/x"}); o.Exit.Code == 0 {
		t.Errorf("%+v", o)
	}
}

// TestWhatIsPermitted holds what stands in the request when a path is not
// there yet, or is reached by a link.
func TestWhatIsPermitted(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, path string
		want       string // below the folder of the host, or empty for no question
		reason     string
	}{
		{"there", "HOST/x", "/x", ""},
		{"to be made", "HOST/new", "/", ""},
		{"to be made deeper", "HOST/none/new", "", "nothing to permit"},
		{"below a file", "HOST/x/new", "", "to permit"},
		{"through a link", "HOST/link/x", "/x", ""},
		{"to be made at the root", "/askhasnosuchpath", "", "everything can be permitted"},
		{"to be made beside a denial", "/secret", "", "list of denials"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := newGuarded(t, sandbox.Deny)
			must(t, os.Symlink(g.host, g.host+"/link"))
			_, o := g.try(g.manager(guardedSettings), someone, []string{tt.path})
			if tt.want == "" {
				if len(g.asked) != 0 || !strings.Contains(o.BlockedReason, tt.reason) {
					t.Errorf("asked %+v: %s", g.asked, o.BlockedReason)
				}
				return
			}
			if len(g.asked) != 1 || g.asked[0].Resource != filepath.Clean(g.host+tt.want) {
				t.Errorf("asked %+v: %s", g.asked, o.BlockedReason)
			}
		})
	}
}

// TestHiddenFiles holds that a command which finds no file where the host has
// one is asked about, and one that just names what is missing is not.
func TestHiddenFiles(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		path   string
		answer sandbox.Permission
		asked  int
		code   int
	}{{"HOST/x", sandbox.AllowOnce, 1, 0}, {"HOST/x", sandbox.Deny, 1, 2}, {"HOST/none", sandbox.AllowOnce, 0, 2}, {"/secret/x", sandbox.AllowOnce, 0, 2}} {
		g := newGuarded(t, tt.answer)
		path := strings.Replace(tt.path, "HOST", g.host, 1)
		look := func(p *fake.Proc) int {
			if p.Judge(sandbox.OpRead, path).Allowed {
				return 0
			}
			io.WriteString(p.Stderr, "cat: "+path+": No such file or directory\n")
			return 2
		}
		g.wall = fake.New(fake.Options{Name: "local", Rules: rulesOf, Programs: map[string]fake.Program{"look": look}})
		_, o := g.try(g.manager(guardedSettings), someone, nil, func(r *manager.Request) { r.Command.Args = []string{"look"} })
		if len(g.asked) != tt.asked || o.Exit.Code != tt.code || o.Blocked != (tt.asked == 1 && tt.answer == sandbox.Deny) {
			t.Errorf("%s, %s: asked %+v, %+v", tt.path, tt.answer, g.asked, o)
		}
		if o.Blocked && (o.BlockedResource != path || !strings.Contains(o.BlockedReason, "asked for and denied")) {
			t.Errorf("%+v", o)
		}
	}
}
