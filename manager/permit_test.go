package manager_test

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/manager"
)

// TestAnswersAreCarriedOut holds what each answer opens, and for how long.
func TestAnswersAreCarriedOut(t *testing.T) {
	t.Parallel()
	other := config.Who{Agent: "main", Session: "other"}
	tests := []struct {
		answer              sandbox.Permission
		first, again, else_ bool // whether a run succeeds: this, the next without asking, another session's
		kept                int
	}{
		{sandbox.AllowOnce, true, false, false, 0},
		{sandbox.AllowSession, true, true, false, 0},
		{sandbox.AllowPermanent, true, true, true, 1},
		{sandbox.Deny, false, false, false, 0},
		{"perhaps", false, false, false, 0},
	}
	for _, tt := range tests {
		t.Run(string(tt.answer), func(t *testing.T) {
			g := newGuarded(t, tt.answer)
			m := g.manager(guardedSettings)
			mute := func(r *manager.Request) { r.Ask = false }
			out, o := g.try(m, someone, []string{"HOST/x"})
			if (o.Exit.Code == 0) != tt.first || (out == "done") != tt.first || o.Blocked == tt.first || len(g.asked) != 1 || len(o.Answers) != 1 {
				t.Errorf("%q, %+v; asked %+v", out, o, g.asked)
			}
			for who, want := range map[config.Who]bool{someone: tt.again, other: tt.else_, {Tenant: "t", Agent: "main", Session: "s"}: tt.else_} {
				if out, o := g.try(m, who, []string{"HOST/x"}, mute); (o.Exit.Code == 0) != want {
					t.Errorf("later, %+v: %q, %+v", who, out, o)
				}
			}
			if len(g.kept) != tt.kept {
				t.Errorf("kept %q", g.kept)
			}
		})
	}
}

// TestRequestSaysWhatIsAsked holds every part of a request.
func TestRequestSaysWhatIsAsked(t *testing.T) {
	t.Parallel()
	g := newGuarded(t, sandbox.Deny)
	_, o := g.try(g.manager(guardedSettings), config.Who{Tenant: "acme", Agent: "a", Session: "s"}, []string{"seen:HOST/x"})
	r := g.asked[0]
	if len(r.ID) != 32 || r.Expires.IsZero() || r.Sandbox != o.Name {
		t.Errorf("%+v", r)
	}
	want := sandbox.PermissionRequest{
		ID: r.ID, Expires: r.Expires, Sandbox: r.Sandbox, Tenant: "acme", Agent: "a", Session: "s", Kind: sandbox.ResourcePath, Operation: sandbox.OpWrite,
		Resource: g.host + "/x", Inside: g.host + "/x", Command: []string{"reach", "seen:HOST/x"}, Reason: "write " + g.host + "/x: denied: allowWrite (seen by the sandbox)",
	}
	if d := cmp.Diff(want, r); d != "" {
		t.Errorf("request (-want +got):\n%s", d)
	}
	if !o.Blocked || o.BlockedResource != g.host+"/x" || !strings.Contains(o.BlockedReason, "asked for and denied") || len(o.Violations) != 1 || o.Violations[0].PID == 0 {
		t.Errorf("%+v", o)
	}
}

// TestNobodyIsAskedInVain holds when there is no question.
func TestNobodyIsAskedInVain(t *testing.T) {
	t.Parallel()
	endless, w, err := os.Pipe()
	must(t, err)
	defer w.Close()
	tests := []struct {
		name   string
		args   []string
		change func(*manager.Request)
		reason string
	}{
		{"on a list of denials", []string{"/secret/x"}, nil, "SANDBOX.CAPABILITY_BLOCKED"},
		{"seen, on a list of denials", []string{"seen:/secret/x"}, nil, "SANDBOX.CAPABILITY_BLOCKED"},
		{"nothing of the host", []string{"/nowhere/x"}, nil, "no path of the host"},
		{"not wanted", []string{"HOST/x"}, func(r *manager.Request) { r.Ask = false }, "denied: allowWrite"},
		{"input too long", []string{"HOST/x"}, func(r *manager.Request) { r.Command.Stdin = io.LimitReader(zeros{}, 1<<20+1) }, "input cannot be given again"},
		{"input without end", []string{"HOST/x"}, func(r *manager.Request) {
			r.Command.Stdin, r.Command.Args = endless, []string{"sh", "-c", "reach HOST/x </dev/null"}
		}, "input cannot be given again"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := newGuarded(t, sandbox.AllowSession)
			if tt.change == nil {
				tt.change = func(*manager.Request) {}
			}
			_, o := g.try(g.manager(guardedSettings), someone, tt.args, tt.change)
			if len(g.asked) != 0 || g.runs != 1 || !o.Blocked || o.Exit.Code != 1 || !strings.Contains(o.BlockedReason, tt.reason) {
				t.Errorf("asked %d times, %d runs, %+v", len(g.asked), g.runs, o)
			}
		})
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// TestTroubleIsADenial holds that no error of the approver opens anything.
func TestTroubleIsADenial(t *testing.T) {
	t.Parallel()
	g := newGuarded(t, sandbox.AllowSession)
	g.fails = errors.New("the terminal burned down")
	_, o := g.try(g.manager(guardedSettings), someone, []string{"HOST/x"})
	if o.Exit.Code == 0 || !strings.Contains(o.BlockedReason, "burned down") || o.Answers[0].Permission != sandbox.Deny {
		t.Errorf("%+v", o)
	}
	g = newGuarded(t)
	_, o = g.try(g.manager(guardedSettings), someone, []string{"HOST/x"})
	if o.Exit.Code == 0 || !strings.Contains(o.BlockedReason, "approvals cannot be asked for") {
		t.Errorf("%+v", o)
	}
}

// TestInputIsGivenAgain holds that every run gets the whole input.
func TestInputIsGivenAgain(t *testing.T) {
	t.Parallel()
	file, err := os.Create(t.TempDir() + "/in")
	must(t, err)
	defer file.Close()
	_, err = file.WriteString("skipped, then read")
	must(t, err)
	_, err = file.Seek(7, io.SeekStart)
	must(t, err)
	for name, in := range map[string]io.Reader{
		"none": nil, "a buffer": strings.NewReader(", then read"), "a stream": io.LimitReader(strings.NewReader(", then read"), 99), "a file": file,
	} {
		t.Run(name, func(t *testing.T) {
			g := newGuarded(t, sandbox.AllowOnce)
			again := 0
			out, o := g.try(g.manager(guardedSettings), someone, []string{"HOST/a", "HOST/b", "HOST/c"}, func(r *manager.Request) {
				r.Command.Stdin = in
				r.Again = func() { again++ }
			})
			want := "done"
			if in != nil {
				want = "done, then read"
			}
			if out != want || g.runs != 4 || again != 3 || len(o.Answers) != 3 || o.Blocked {
				t.Errorf("%q after %d runs: %+v", out, g.runs, o)
			}
		})
	}
}
