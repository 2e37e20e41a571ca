package mcp_test

import (
	"context"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/manager"
	servermcp "github.com/bulkhead-dev/sandbox/server/mcp"
)

// TestOwnSandboxOnly holds that a client that is bound to its session neither
// sees nor touches another sandbox of its tenant, and that one that acts for the
// tenant does, but sees nothing of other tenants.
func TestOwnSandboxOnly(t *testing.T) {
	r := newRig(t, settingsWith(""))
	other, err := r.manager.Ready(deadline(t), manager.Request{Who: who("other")})
	must(t, err)
	rival := who("s")
	rival.Tenant = "rival"
	foreign, err := r.manager.Ready(deadline(t), manager.Request{Who: rival})
	must(t, err)
	own := r.connect(bound("s"), nil)
	call(t, own, "sandbox_create", `{}`)
	wide := bound("s")
	wide.Tenant = true
	all := r.connect(wide, nil)

	if got := text(call(t, own, "sandbox_list", `{}`)); strings.Contains(got, other.Name) || strings.Contains(got, foreign.Name) || strings.Count(got, "\n") != 1 {
		t.Errorf("%q", got)
	}
	if got := text(call(t, all, "sandbox_list", `{}`)); !strings.Contains(got, other.Name) || strings.Contains(got, foreign.Name) || strings.Count(got, "\n") != 2 {
		t.Errorf("%q", got)
	}
	for _, tool := range []string{"sandbox_remove", "sandbox_recreate"} {
		none := text(call(t, own, tool, `{"name":"sbx-none-0"}`))
		for _, name := range []string{other.Name, foreign.Name} {
			res := call(t, own, tool, `{"name":"`+name+`"}`)
			if codeOf(t, res) != "SANDBOX.NOT_FOUND" || text(res) != none {
				t.Errorf("%s %s: %q", tool, name, text(res))
			}
		}
		if res := call(t, all, tool, `{"name":"`+foreign.Name+`"}`); codeOf(t, res) != "SANDBOX.NOT_FOUND" {
			t.Errorf("%s: %q", tool, text(res))
		}
	}
	for what, c := range map[string]*mcp.ClientSession{"own": own, "all": all} {
		if got := text(call(t, c, "sandbox_remove", `{"name":"sbx-none-0"}`)); !strings.Contains(got, "sandbox_list says") {
			t.Errorf("%s: the hint is another one's: %q", what, got)
		}
	}
	if res := call(t, own, "sandbox_create", `{"session":"third"}`); codeOf(t, res) != "SANDBOX.PERMISSION_DENY" {
		t.Errorf("%q", text(res))
	}
	if res := call(t, all, "sandbox_create", `{"session":"third"}`); res.IsError || structured(t, res)["created"] != true {
		t.Errorf("%q", text(res))
	}
	if res := call(t, all, "sandbox_remove", `{"name":"`+other.Name+`"}`); res.IsError {
		t.Errorf("%q", text(res))
	}
	if got := len(r.engine.Names()); got != 3 {
		t.Errorf("%d sandboxes are left", got)
	}
}

// TestBusySandboxStays holds that a sandbox in which a command runs is not
// removed, and that the answer says what to do.
func TestBusySandboxStays(t *testing.T) {
	r := newRig(t, settingsWith(""))
	c := r.connect(bound("s"), nil)
	res := call(t, c, "exec", `{"command":"sleep 1000","background":true}`)
	id, _ := structured(t, res)["id"].(string)
	if res := call(t, c, "sandbox_remove", `{}`); codeOf(t, res) != "SANDBOX.BUSY" || !strings.Contains(text(res), "process") {
		t.Errorf("%q", text(res))
	}
	if res := call(t, c, "process", `{"action":"kill","id":"`+id+`"}`); res.IsError {
		t.Errorf("%q", text(res))
	}
	if res := call(t, c, "sandbox_remove", `{}`); res.IsError {
		t.Errorf("%q", text(res))
	}
}

// TestNameOfTwoProviders holds that a name which two providers have means the
// sandbox of the provider in the server's flags or else in the settings, and
// that the parameter provider selects the other.
func TestNameOfTwoProviders(t *testing.T) {
	r := newRig(t, settingsWith(""))
	other, flagged := "fake", bound("s")
	flagged.Flags = &config.SandboxSettings{Provider: &other}
	c, f := r.connect(bound("s"), nil), r.connect(flagged, nil)
	both := func() {
		t.Helper()
		for _, client := range []*mcp.ClientSession{f, c} {
			if res := call(t, client, "sandbox_create", `{}`); res.IsError {
				t.Fatalf("%q", text(res))
			}
		}
	}
	for _, tt := range []struct {
		client      *mcp.ClientSession
		input, left string
	}{
		{c, `{}`, "fake"}, {f, `{}`, "local"}, {c, `{"provider":"fake"}`, "local"}, {f, `{"provider":"local"}`, "fake"},
	} {
		both()
		if res := call(t, tt.client, "sandbox_remove", tt.input); res.IsError {
			t.Fatalf("%s: %q", tt.input, text(res))
		}
		list, err := r.manager.List(context.Background(), manager.ListOptions{})
		must(t, err)
		if len(list.Containers) != 1 || list.Containers[0].Provider != tt.left {
			t.Errorf("%s: left are %+v", tt.input, list.Containers)
		}
	}
	both()
	if res := call(t, c, "sandbox_remove", `{"provider":"docker"}`); codeOf(t, res) != "SANDBOX.NOT_FOUND" {
		t.Errorf("%q", text(res))
	}
}

// panicking is a manager that panics.
type panicking struct{ servermcp.Manager }

func (panicking) List(context.Context, manager.ListOptions) (manager.Listing, error) {
	panic("a secret of ours")
}

// TestMistakesStayInside holds that a panic ends one request, and that the
// client receives no details of it.
func TestMistakesStayInside(t *testing.T) {
	r := newRig(t, settingsWith(""), func(o *servermcp.Options) { o.Manager = panicking{o.Manager} })
	c := r.connect(bound("s"), nil)
	_, err := c.CallTool(deadline(t), &mcp.CallToolParams{Name: "sandbox_list"})
	if err == nil || !strings.Contains(err.Error(), "UNKNOWN.INTERNAL") || strings.Contains(err.Error(), "secret") {
		t.Errorf("%v", err)
	}
	if res := call(t, c, "exec", `{"command":"echo on"}`); !strings.Contains(text(res), "on") {
		t.Errorf("%q", text(res))
	}
}

// TestSharedSandboxesStay holds that a client that is bound to its session
// cannot remove a sandbox that other sessions share, and that a client that acts
// for all of them can.
func TestSharedSandboxesStay(t *testing.T) {
	for _, scope := range []string{"agent", "shared"} {
		t.Run(scope, func(t *testing.T) {
			r := newRig(t, settingsWith(`"scope": "`+scope+`"`))
			shared, err := r.manager.Ready(deadline(t), manager.Request{Who: who("first")})
			must(t, err)
			c := r.connect(bound("second"), nil)
			if res := call(t, c, "exec", `{"command":"echo kept > /tmp/mark"}`); res.IsError {
				t.Fatalf("%q", text(res))
			}
			for _, tool := range []string{"sandbox_remove", "sandbox_recreate"} {
				for _, input := range []string{`{}`, `{"name":"` + shared.Name + `"}`} {
					if res := call(t, c, tool, input); codeOf(t, res) != "SANDBOX.PERMISSION_DENY" || !strings.Contains(text(res), "others share") {
						t.Errorf("%s %s: %q", tool, input, text(res))
					}
				}
			}
			if got := text(call(t, c, "exec", `{"command":"cat /tmp/mark"}`)); !strings.Contains(got, "kept") {
				t.Errorf("the sandbox is another one: %q", got)
			}
			if got := text(call(t, c, "sandbox_list", `{}`)); !strings.Contains(got, shared.Name) || strings.Contains(got, "first") {
				t.Errorf("it is listed as %q", got)
			}
			wide, owner := bound("second"), bound("third")
			wide.Tenant = true
			owner.Owns = func(row manager.Row) bool { return row.Name == shared.Name }
			for _, b := range []servermcp.Binding{wide, owner} {
				own := r.connect(b, nil)
				for _, tool := range []string{"sandbox_recreate", "sandbox_remove", "sandbox_create"} {
					if res := call(t, own, tool, `{}`); res.IsError {
						t.Errorf("%s: %q", tool, text(res))
					}
				}
			}
			none := bound("fourth")
			none.Tenant, none.Owns = true, func(manager.Row) bool { return false }
			if res := call(t, r.connect(none, nil), "sandbox_remove", `{}`); codeOf(t, res) != "SANDBOX.PERMISSION_DENY" {
				t.Errorf("%q", text(res))
			}
		})
	}
}
