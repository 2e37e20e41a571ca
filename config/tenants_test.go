package config_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/tenant"
)

func parsed(t *testing.T, in string) *config.Settings {
	t.Helper()
	s, err := config.Parse("f", []byte(in))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestTenantSettingsHaveTheFieldsOfAll(t *testing.T) {
	all, one := reflect.TypeFor[config.TenantLimits](), reflect.TypeFor[config.TenantSettings]()
	if one.NumField() != all.NumField()+1 {
		t.Errorf("one tenant has %d fields, all have %d and no id", one.NumField(), all.NumField())
	}
	for i := range all.NumField() {
		f := all.Field(i)
		g, ok := one.FieldByName(f.Name)
		if !ok || f.Type != g.Type || f.Tag != g.Tag {
			t.Errorf("%s differs: %v and %v", f.Name, f, g)
		}
	}
}

func TestTenantsOf(t *testing.T) {
	s := parsed(t, `{"tenants": {
		"defaults": {"sandboxes": 10, "memory": "16g", "cpus": 2.5, "disk": "100g", "requestsPerSecond": 50, "requestBurst": 100, "weight": 2, "tokens": 7},
		"list": [
			{"id": "big", "sandboxes": -1, "cpus": -1, "weight": 5},
			{"id": "none", "sandboxes": 0, "commands": 0, "memory": 0, "cpus": 0, "disk": 0, "requestsPerSecond": 0},
			{"id": "slow", "requestsPerSecond": 5, "tokens": -1},
			{"id": "bursts", "requestBurst": 500},
			{"id": "free", "requestsPerSecond": -1, "requestBurst": 3}
		]}}`)
	all := tenant.Limits{Sandboxes: 10, Commands: -1, Memory: 16 << 30, NanoCPUs: 2_500_000_000, Disk: 100 << 30, RequestsPerSecond: 50, RequestBurst: 100}
	with := func(change func(*tenant.Limits)) tenant.Limits {
		l := all
		change(&l)
		return l
	}
	tests := map[string]config.TenantRules{
		"":       {Limits: all, Weight: 2, Tokens: 7},
		"other":  {Limits: all, Weight: 2, Tokens: 7},
		"big":    {Limits: with(func(l *tenant.Limits) { l.Sandboxes, l.NanoCPUs = -1, -1 }), Weight: 5, Tokens: 7, Listed: true},
		"none":   {Weight: 2, Tokens: 7, Listed: true},
		"slow":   {Limits: with(func(l *tenant.Limits) { l.RequestsPerSecond, l.RequestBurst = 5, 0 }), Weight: 2, Tokens: -1, Listed: true},
		"bursts": {Limits: with(func(l *tenant.Limits) { l.RequestBurst = 500 }), Weight: 2, Tokens: 7, Listed: true},
		"free":   {Limits: with(func(l *tenant.Limits) { l.RequestsPerSecond, l.RequestBurst = -1, -1 }), Weight: 2, Tokens: 7, Listed: true},
	}
	for tenant, want := range tests {
		t.Run(tenant, func(t *testing.T) {
			got := config.TenantsOf(s).Of(tenant)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if err := got.Limits.Check(); err != nil {
				t.Errorf("they are no limits: %v", err)
			}
		})
	}
}

func TestTenantsThatAreNotSetAreNotBounded(t *testing.T) {
	want := config.TenantRules{Limits: tenant.NoLimits(), Weight: 1, Tokens: 4096}
	for name, s := range map[string]*config.Settings{"no file": nil, "empty file": parsed(t, "{}"), "empty object": parsed(t, `{"tenants":{}}`)} {
		if got := config.TenantsOf(s).Of("acme"); got != want {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
	}
}

func TestClosedTenants(t *testing.T) {
	tenants := config.TenantsOf(parsed(t, `{"tenants":{"closed":true,"list":[{"id":"acme"}]}}`))
	for tenant, refused := range map[string]bool{"acme": false, "": false, "Acme": true, "other": true} {
		if got := tenants.Of(tenant); got.Refused != refused {
			t.Errorf("%q: %+v, want refused %v", tenant, got, refused)
		}
	}
}

func TestDaemonOf(t *testing.T) {
	defaults := config.Daemon{
		RequestTimeout: 15 * time.Minute, DrainTimeout: 30 * time.Second, MaxBody: 1 << 20, MaxImport: 10 << 30, E2B: true, Agents: true, SWERex: true, Codex: true, PortDomain: "localhost",
		FairSlots: 16, FairWaiting: 1024, FairHold: 100 * time.Millisecond,
	}
	if diff := cmp.Diff(defaults, config.DaemonOf(nil)); diff != "" {
		t.Errorf("nothing set (-want +got):\n%s", diff)
	}
	got := config.DaemonOf(parsed(t, `{"daemon":{"requestTimeout":"1m","drainTimeout":0,"maxBody":"4k","maxImport":"8k","hosts":["a.example"],"fair":{"slots":2,"waiting":0,"hold":"1s"}}}`))
	want := config.Daemon{RequestTimeout: time.Minute, MaxBody: 4096, MaxImport: 8192, E2B: true, Agents: true, SWERex: true, Codex: true, PortDomain: "localhost", Hosts: []string{"a.example"}, FairSlots: 2, FairHold: time.Second}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("all set (-want +got):\n%s", diff)
	}
	for text, want := range map[string][2]bool{`{}`: {true, true}, `{"e2b":false}`: {false, true}, `{"agents":false}`: {true, false}, `{"e2b":false,"agents":true}`: {false, true}} {
		if d := config.DaemonOf(parsed(t, `{"daemon":{"compat":`+text+`}}`)); d.E2B != want[0] || d.Agents != want[1] {
			t.Errorf("compat %s: e2b %v, agents %v", text, d.E2B, d.Agents)
		}
	}
}

func TestMediaOf(t *testing.T) {
	const remote = `{"host":"files","user":"u","keyFile":"/k","knownHosts":"/h","folders":`
	s := parsed(t, `{"media":{"folders":["/srv/{tenant}/in","/srv/own","~/{tenant}"],"maxFile":"1m","maxTotal":"2m","maxFiles":3,"timeout":"4s",
		"remote":[`+remote+`["/m/{tenant}","/m/own"],"port":22},{"host":"mine","user":"u","keyFile":"/k","knownHosts":"/h","folders":["/m"]}]}}`)
	bounds := config.Media{MaxFile: 1 << 20, MaxTotal: 2 << 20, MaxFiles: 3, Timeout: 4 * time.Second}
	files := config.MediaRemote{Host: "files", User: "u", KeyFile: "/k", KnownHosts: "/h", Port: 22}
	mine := config.MediaRemote{Host: "mine", User: "u", KeyFile: "/k", KnownHosts: "/h", Folders: []string{"/m"}}
	tenants := bounds
	tenants.Folders = []string{"/srv/acme/in", "~/acme"}
	tenants.Remote = []config.MediaRemote{files}
	tenants.Remote[0].Folders = []string{"/m/acme"}
	if diff := cmp.Diff(tenants, config.MediaOf(s, "acme")); diff != "" {
		t.Errorf("of a tenant (-want +got):\n%s", diff)
	}
	own := bounds
	own.Folders = []string{"/srv/own"}
	own.Remote = []config.MediaRemote{files, mine}
	own.Remote[0].Folders = []string{"/m/own"}
	if diff := cmp.Diff(own, config.MediaOf(s, "")); diff != "" {
		t.Errorf("without a tenant (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(config.Media{}, config.MediaOf(nil, "acme")); diff != "" {
		t.Errorf("nothing set (-want +got):\n%s", diff)
	}
}

func TestServerSettingsThatAreRefused(t *testing.T) {
	const remote = `"user":"u","keyFile":"/k","knownHosts":"/h"`
	tests := []struct{ name, in, field string }{
		{"request without a limit", `{"daemon":{"requestTimeout":0}}`, "daemon.requestTimeout"},
		{"body of nothing", `{"daemon":{"maxBody":0}}`, "daemon.maxBody"},
		{"host with a port", `{"daemon":{"hosts":["a.example:80"]}}`, "daemon.hosts[0]"},
		{"any host", `{"daemon":{"hosts":["*"]}}`, "daemon.hosts[0]"},
		{"host with two dots", `{"daemon":{"hosts":["a..example"]}}`, "daemon.hosts[0]"},
		{"no slots", `{"daemon":{"fair":{"slots":0}}}`, "daemon.fair.slots"},
		{"slots held for ever", `{"daemon":{"fair":{"hold":"1h"}}}`, "daemon.fair.hold"},
		{"slots held for no time", `{"daemon":{"fair":{"hold":0}}}`, "daemon.fair.hold"},
		{"tenant without an id", `{"tenants":{"list":[{}]}}`, "tenants.list[0].id"},
		{"tenant that is a path", `{"tenants":{"list":[{"id":".."}]}}`, "tenants.list[0].id"},
		{"tenant twice", `{"tenants":{"list":[{"id":"a"},{"id":"a"}]}}`, "tenants.list[1].id"},
		{"less than no processor", `{"tenants":{"defaults":{"cpus":-0.5}}}`, "tenants.defaults.cpus"},
		{"less than no bound", `{"tenants":{"list":[{"id":"a","sandboxes":-2}]}}`, "tenants.list[0].sandboxes"},
		{"memory below nothing", `{"tenants":{"defaults":{"memory":"-2"}}}`, "tenants.defaults.memory"},
		{"burst without a bound", `{"tenants":{"defaults":{"requestBurst":-1}}}`, "tenants.defaults.requestBurst"},
		{"no weight", `{"tenants":{"defaults":{"weight":0}}}`, "tenants.defaults.weight"},
		{"media from everywhere", `{"media":{"folders":["/"]}}`, "media.folders[0]"},
		{"media from the keys of a person", `{"media":{"folders":["~/.ssh"]}}`, "media.folders[0]"},
		{"media from a system folder", `{"media":{"folders":["/etc"]}}`, "media.folders[0]"},
		{"tenant as a piece of a name", `{"media":{"folders":["/srv/x{tenant}"]}}`, "media.folders[0]"},
		{"another word in braces", `{"media":{"folders":["/srv/{agent}"]}}`, "media.folders[0]"},
		{"machine without a folder", `{"media":{"remote":[{"host":"a",` + remote + `,"folders":[]}]}}`, "media.remote[0].folders"},
		{"machine that is an option of ssh", `{"media":{"remote":[{"host":"-oProxyCommand=x",` + remote + `,"folders":["/m"]}]}}`, "media.remote[0].host"},
		{"user that is an option", `{"media":{"remote":[{"host":"a","user":"-x","keyFile":"/k","knownHosts":"/h","folders":["/m"]}]}}`, "media.remote[0].user"},
		{"key in the working folder", `{"media":{"remote":[{"host":"a","user":"u","keyFile":"k","knownHosts":"/h","folders":["/m"]}]}}`, "media.remote[0].keyFile"},
		{"all of a machine", `{"media":{"remote":[{"host":"a",` + remote + `,"folders":["/"]}]}}`, "media.remote[0].folders[0]"},
		{"folder that leads up", `{"media":{"remote":[{"host":"a",` + remote + `,"folders":["/m/../.."]}]}}`, "media.remote[0].folders[0]"},
		{"machine twice", `{"media":{"remote":[{"host":"a",` + remote + `,"folders":["/m"]},{"host":"a",` + remote + `,"folders":["/n"]}]}}`, "media.remote[1].host"},
		{"unknown key", `{"daemon":{"listen":"tcp"}}`, "daemon.listen"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := config.Parse("f", []byte(tt.in))
			var e *sandbox.Error
			if !errors.As(err, &e) || !strings.Contains(err.Error(), tt.field+":") {
				t.Errorf("got %v, want a problem of %s", err, tt.field)
			}
		})
	}
}
