package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tailscale/hujson"

	sandbox "github.com/bulkhead-dev/sandbox"
)

const inDefaults = "agents.defaults.sandbox."

// TestImportForms has one row for each key of the five documents: in which form it
// stands there, what import makes of it, and, where the same file is read as
// settings, what the error names.
func TestImportForms(t *testing.T) {
	for _, tt := range []struct {
		doc, form string
		key       string // in the file
		result    string
		to        string // below agents.defaults.sandbox; the first of several
		value     string // there, as JSON
		native    bool   // the file is a settings file as it stands
	}{
		// 000: sandbox.json of a provider architecture.
		{"000", `{"enabled": true}`, "enabled", ImportSet, "enabled", `true`, false},
		{"000", `{"provider": "local"}`, "provider", ImportSet, "provider", `"local"`, false},
		{"000", `{"policy": {"filesystem": {"whitelist": ["/home/user/projects", "/var/data"]}}}`, "policy.filesystem.whitelist", ImportSet, "filesystem.allowRead", `["/home/user/projects","/var/data"]`, false},
		{"000", `{"policy": {"filesystem": {"whitelist": ["/var/data"]}}}`, "policy.filesystem.whitelist", ImportSet, "filesystem.allowWrite", `["/var/data"]`, false},
		{"000", `{"policy": {"filesystem": {"blacklist": ["~/.kube", "~/.docker"]}}}`, "policy.filesystem.blacklist", ImportSet, "filesystem.denyRead", `["~/.kube","~/.docker"]`, false},
		{"000", `{"policy": {"filesystem": {"blacklist": ["**/.env.local"]}}}`, "policy.filesystem.blacklist", ImportSet, "filesystem.denyWrite", `["**/.env.local"]`, false},
		{"000", `{"policy": {"network": {"allowNetwork": false}}}`, "policy.network.allowNetwork", ImportDefault, "network.allowedDomains", ``, false},
		{"000", `{"policy": {"network": {"allowNetwork": true}}}`, "policy.network.allowNetwork", ImportLeft, "network.allowedDomains", ``, false},
		{"000", `{"provider": "local", "providerOptions": {}}`, "providerOptions", ImportSet, "providerOptions", `{}`, false},
		{"000", `{"cwd": "/home/user/project"}`, "cwd", ImportLeft, "workspaceAccess", ``, false},

		// 001: grants, profiles and their limits.
		{"001", `{"limits": {"max_bytes_in": 1048576}}`, "limits.max_bytes_in", ImportSet, "profile.maxBytesIn", `1048576`, false},
		{"001", `{"limits": {"max_bytes_out": 1048576}}`, "limits.max_bytes_out", ImportSet, "profile.maxBytesOut", `1048576`, false},
		{"001", `{"limits": {"max_files": 7}}`, "limits.max_files", ImportSet, "profile.maxFiles", `7`, false},
		{"001", `{"limits": {"max_depth": 3}}`, "limits.max_depth", ImportSet, "profile.maxDepth", `3`, false},
		{"001", `{"limits": {"max_concurrency": 2}}`, "limits.max_concurrency", ImportSet, "profile.maxConcurrency", `2`, false},
		{"001", `{"whitelists": {"domains": ["example.com"]}}`, "whitelists.domains", ImportSet, "network.allowedDomains", `["example.com"]`, false},
		{"001", `{"whitelists": {"paths": ["/workspace/src"]}}`, "whitelists.paths", ImportSet, "profile.paths", `["/workspace/src"]`, false},
		{"001", `{"whitelists": {"tools": ["git"]}}`, "whitelists.tools", ImportSet, "profile.tools", `["git"]`, false},
		{"001", `{"whitelists": {"mime_allow": ["application/json"]}}`, "whitelists.mime_allow", ImportSet, "profile.mime", `["application/json"]`, false},
		{"001", `{"whitelists": {"methods": ["GET"]}}`, "whitelists.methods", ImportSet, "profile.methods", `["GET"]`, false},
		{"001", `{"mappings": {"root_fs": "/srv/root"}}`, "mappings.root_fs", ImportLeft, "workspaceAccess", ``, false},
		{"001", `{"mappings": {"tmp_dir": "/srv/tmp"}}`, "mappings.tmp_dir", ImportLeft, "docker.tmpfs", ``, false},
		{"001", `{"timeout_ms": 1500}`, "timeout_ms", ImportSet, "profile.timeout", `"1.5s"`, false},
		{"001", `{"budget": {"calls": 5}}`, "budget.calls", ImportLeft, "budgets.session.calls", ``, false},
		{"001", `{"budget": {"bytes_out": 5}}`, "budget.bytes_out", ImportLeft, "budgets.session.bytesOut", ``, false},
		{"001", `{"budget": {"bytes_in": 5}}`, "budget.bytes_in", ImportLeft, "budgets.session.bytesIn", ``, false},
		{"001", `{"budget": {"cpu_ms": 5}}`, "budget.cpu_ms", ImportLeft, "budgets.session.cpuMs", ``, false},
		{"001", `{"budget": {"gpu_ms": 5}}`, "budget.gpu_ms", ImportLeft, "budgets.session.gpuMs", ``, false},
		{"001", `{"budget": {"file_count": 5}}`, "budget.file_count", ImportLeft, "budgets.session.files", ``, false},
		{"001", `{"tenant": "acme"}`, "tenant", ImportLeft, "", ``, false},
		{"001", `{"subject_id": "user"}`, "subject_id", ImportLeft, "", ``, false},
		{"001", `{"tool_name": "fetch"}`, "tool_name", ImportLeft, "", ``, false},
		{"001", `{"call_id": "c1"}`, "call_id", ImportLeft, "", ``, false},
		{"001", `{"capabilities": [{"NetHttp": {"host": "example.com", "port": null, "methods": ["GET"]}}]}`, "capabilities", ImportLeft, "", ``, false},
		{"001", `{"expires_at": 1790000000000}`, "expires_at", ImportLeft, "", ``, false},
		{"001", `{"decision_key_fingerprint": "x"}`, "decision_key_fingerprint", ImportLeft, "", ``, false},
		{"001", `{"safety": "Low"}`, "safety", ImportLeft, "", ``, false},
		{"001", `{"side_effect": "Read"}`, "side_effect", ImportLeft, "", ``, false},
		{"001", `{"profile_hash": "x"}`, "profile_hash", ImportLeft, "", ``, false},

		// 002: the field sandbox of an agent's settings.json.
		{"002", `{"sandbox": {"enabled": true}}`, "sandbox.enabled", ImportSet, "enabled", `true`, false},
		{"002", `{"sandbox": {"autoAllowBashIfSandboxed": true}}`, "sandbox.autoAllowBashIfSandboxed", ImportSet, "commands.autoAllowIfSandboxed", `true`, false},
		{"002", `{"sandbox": {"allowUnsandboxedCommands": true}}`, "sandbox.allowUnsandboxedCommands", ImportSet, "commands.allowUnsandboxed", `true`, false},
		{"002", `{"sandbox": {"failIfUnavailable": false}}`, "sandbox.failIfUnavailable", ImportSet, "failIfUnavailable", `false`, false},
		{"002", `{"sandbox": {"network": {"allowedDomains": ["github.com"]}}}`, "sandbox.network.allowedDomains", ImportSet, "network.allowedDomains", `["github.com"]`, false},
		{"002", `{"sandbox": {"network": {"deniedDomains": []}}}`, "sandbox.network.deniedDomains", ImportSet, "network.deniedDomains", `[]`, false},
		{"002", `{"sandbox": {"network": {"allowLocalBinding": true}}}`, "sandbox.network.allowLocalBinding", ImportSet, "network.allowLocalBinding", `true`, false},
		{"002", `{"sandbox": {"network": {"httpProxyPort": 8888}}}`, "sandbox.network.httpProxyPort", ImportSet, "network.httpProxyPort", `8888`, false},
		{"002", `{"sandbox": {"network": {"allowUnixSockets": ["/run/x.sock"]}}}`, "sandbox.network.allowUnixSockets", ImportSet, "filesystem.allowUnixSockets", `["/run/x.sock"]`, false},
		{"002", `{"sandbox": {"filesystem": {"allowWrite": ["~/projects"]}}}`, "sandbox.filesystem.allowWrite", ImportSet, "filesystem.allowWrite", `["~/projects"]`, false},
		{"002", `{"sandbox": {"filesystem": {"denyWrite": ["~/.ssh"]}}}`, "sandbox.filesystem.denyWrite", ImportSet, "filesystem.denyWrite", `["~/.ssh"]`, false},
		{"002", `{"sandbox": {"filesystem": {"denyRead": []}}}`, "sandbox.filesystem.denyRead", ImportSet, "filesystem.denyRead", `[]`, false},
		{"002", `{"sandbox": {"filesystem": {"allowRead": []}}}`, "sandbox.filesystem.allowRead", ImportSet, "filesystem.allowRead", `[]`, false},
		{"002", `{"sandbox": {"excludedCommands": ["docker", "npm:*"]}}`, "sandbox.excludedCommands", ImportSet, "commands.excluded", `["docker","npm:*"]`, false},
		{"002", `{"sandbox": {"enabledPlatforms": ["linux"]}}`, "sandbox.enabledPlatforms", ImportSet, "enabledPlatforms", `["linux"]`, false},
		{"002", `{"sandbox": {"dangerouslyDisableSandbox": true}}`, "sandbox.dangerouslyDisableSandbox", ImportLeft, "commands.allowUnsandboxed", ``, false},
		{"002", `{"permissions": {"allow": ["WebFetch(domain:example.com)"]}}`, "permissions.allow", ImportSet, "permissions.allow", `["WebFetch(domain:example.com)"]`, false},
		{"002", `{"permissions": {"deny": ["Edit(~/x/**)", "Read(~/y)"]}}`, "permissions.deny", ImportSet, "permissions.deny", `["Edit(~/x/**)","Read(~/y)"]`, false},

		// 003: a container system.
		{"003", `{"agents": {"defaults": {"sandbox": {"docker": {"setupCommand": "apt-get install -y jq"}}}}}`, inDefaults + "docker.setupCommand", ImportSet, "docker.setup", `["apt-get install -y jq"]`, false},
		{"003", `{"agents": {"defaults": {"sandbox": {"docker": {"setupCommand": ""}}}}}`, inDefaults + "docker.setupCommand", ImportDefault, "docker.setup", ``, false},
		{"003", `{"agents": {"defaults": {"sandbox": {"mode": "non-main"}}}}`, inDefaults + "mode", ImportSet, "mode", `"non-main"`, true},
		{"003", `{"agents": {"defaults": {"sandbox": {"scope": "agent"}}}}`, inDefaults + "scope", ImportSet, "scope", `"agent"`, true},
		{"003", `{"agents": {"defaults": {"sandbox": {"workspaceAccess": "ro"}}}}`, inDefaults + "workspaceAccess", ImportSet, "workspaceAccess", `"ro"`, true},
		{"003", `{"agents": {"defaults": {"sandbox": {"workspaceRoot": "/data/sandboxes"}}}}`, inDefaults + "workspaceRoot", ImportSet, "workspaceRoot", `"/data/sandboxes"`, true},
		{"003", `{"agents": {"defaults": {"sandbox": {"docker": {"image": "debian:bookworm-slim"}}}}}`, inDefaults + "docker.image", ImportSet, "docker.image", `"debian:bookworm-slim"`, true},
		{"003", `{"agents": {"defaults": {"sandbox": {"docker": {"env": {"A": "b"}}}}}}`, inDefaults + "docker.env", ImportSet, "docker.env", `{"A":"b"}`, true},
		{"003", `{"agents": {"defaults": {"sandbox": {"docker": {"ulimits": {"nofile": 64}}}}}}`, inDefaults + "docker.ulimits", ImportSet, "docker.ulimits", `{"nofile":64}`, true},
		{"003", `{"agents": {"defaults": {"sandbox": {"docker": {"binds": ["/srv/data:/data:ro"]}}}}}`, inDefaults + "docker.binds", ImportSet, "docker.binds", `["/srv/data:/data:ro"]`, true},
		{"003", `{"agents": {"defaults": {"sandbox": {"docker": {"readOnlyRoot": true, "tmpfs": ["/tmp:size=64m"]}}}}}`, inDefaults + "docker.readOnlyRoot", ImportSet, "docker.readOnlyRoot", `true`, true},
		{"003", `{"agents": {"defaults": {"sandbox": {"docker": {"network": "none", "capDrop": ["ALL"]}}}}}`, inDefaults + "docker.network", ImportSet, "docker.network", `"none"`, true},
		{"003", `{"agents": {"defaults": {"sandbox": {"docker": {"pidsLimit": 256, "memory": "1g", "cpus": 1}}}}}`, inDefaults + "docker.pidsLimit", ImportSet, "docker.pidsLimit", `256`, true},
		{"003", `{"agents": {"defaults": {"sandbox": {"browser": {"enabled": true}}}}}`, inDefaults + "browser.enabled", ImportSet, "browser.enabled", `true`, true},
		{"003", `{"agents": {"defaults": {"sandbox": {"tools": {"allow": ["exec"], "deny": ["browser"]}}}}}`, inDefaults + "tools.allow", ImportSet, "tools.allow", `["exec"]`, true},
		{"003", `{"agents": {"defaults": {"sandbox": {"prune": {"idle": "24h"}}}}}`, inDefaults + "prune.idle", ImportSet, "prune.idle", `"24h"`, true},
		{"003", `{"agents": {"defaults": {"sandbox": {"prune": {"age": "7d"}}}}}`, inDefaults + "prune.age", ImportSet, "prune.maxAge", `"7d"`, false},
		{"003", `{"agents": {"defaults": {"sandbox": {"prune": {"idleHours": 24}}}}}`, inDefaults + "prune.idleHours", ImportSet, "prune.idle", `"24h0m0s"`, false},
		{"003", `{"agents": {"defaults": {"sandbox": {"prune": {"maxAgeDays": 7}}}}}`, inDefaults + "prune.maxAgeDays", ImportSet, "prune.maxAge", `"168h0m0s"`, false},

		// 004: a policy guide.
		{"004", `{"enabled": false}`, "enabled", ImportSet, "enabled", `false`, false},
		{"004", `{"mode": "Permissive"}`, "mode", ImportSet, "preset", `"permissive"`, false},
		{"004", `{"mode": "strict"}`, "mode", ImportSet, "preset", `"strict"`, false},
		{"004", `{"agents": {"defaults": {"sandbox": {"mode": "Restricted"}}}}`, inDefaults + "mode", ImportSet, "preset", `"restricted"`, false},
		{"004", `{"working_dir": "/srv/work"}`, "working_dir", ImportLeft, "workspaceAccess", ``, false},
		{"004", `{"working_dir": null}`, "working_dir", ImportDefault, "workspaceAccess", ``, false},
		{"004", `{"allowed_read_paths": ["/srv"]}`, "allowed_read_paths", ImportSet, "filesystem.allowRead", `["/srv"]`, false},
		{"004", `{"allowed_write_paths": ["/srv/out"]}`, "allowed_write_paths", ImportSet, "filesystem.allowWrite", `["/srv/out"]`, false},
		{"004", `{"allowed_commands": ["ls"]}`, "allowed_commands", ImportSet, "commands.allow", `["ls:*"]`, false},
		{"004", `{"blocked_commands": ["rm -rf", "curl*"]}`, "blocked_commands", ImportSet, "commands.block", `["rm -rf:*","curl*"]`, false},
		{"004", `{"allow_network": false}`, "allow_network", ImportDefault, "network.allowPublic", ``, false},
		{"004", `{"allow_network": true}`, "allow_network", ImportSet, "network.allowPublic", `true`, false},
		{"004", `{"timeout": 30}`, "timeout", ImportSet, "limits.timeout", `"30s"`, false},
		{"004", `{"timeout": {"secs": 30, "nanos": 500000000}}`, "timeout", ImportSet, "limits.timeout", `"30.5s"`, false},
		{"004", `{"agents": {"defaults": {"sandbox": {"limits": {"timeout": 30}}}}}`, inDefaults + "limits.timeout", ImportSet, "limits.timeout", `"30s"`, false},
		{"004", `{"limits": {"max_memory_bytes": 104857600}}`, "limits.max_memory_bytes", ImportSet, "limits.memory", `104857600`, false},
		{"004", `{"limits": {"max_cpu_seconds": 10}}`, "limits.max_cpu_seconds", ImportSet, "limits.cpuSeconds", `10`, false},
		{"004", `{"limits": {"max_output_bytes": 1000}}`, "limits.max_output_bytes", ImportSet, "limits.maxOutputBytes", `1000`, false},
		{"004", `{"limits": {"max_file_size_bytes": 1000}}`, "limits.max_file_size_bytes", ImportSet, "limits.fileSize", `1000`, false},
		{"004", `{"limits": {"max_processes": 10}}`, "limits.max_processes", ImportSet, "limits.processes", `10`, false},
		{"004", `{"limits": {"max_open_files": 10}}`, "limits.max_open_files", ImportSet, "limits.openFiles", `10`, false},
		{"004", `{"limits": {"max_open_files": null}}`, "limits.max_open_files", ImportDefault, "limits.openFiles", ``, false},
		{"004", `{"strictness": "Strict"}`, "strictness", ImportSet, "commands.strictness", `"strict"`, false},
		{"004", `{"agents": {"defaults": {"sandbox": {"commands": {"strictness": "Strict"}}}}}`, inDefaults + "commands.strictness", ImportSet, "commands.strictness", `"strict"`, false},
		{"004", `{"strict_sensitive_files": true}`, "strict_sensitive_files", ImportLeft, "preset", ``, false},
		{"004", `{"allow_all_reads": true}`, "allow_all_reads", ImportLeft, "preset", ``, false},
		{"004", `{"max_violations": 100}`, "max_violations", ImportLeft, "", ``, false},

		{"none", `{"sandbox": {"excludedCommand": ["x"]}}`, "sandbox.excludedCommand", ImportUnknown, "", ``, false},
		{"none", `{"polcy": {"filesystem": {"whitelist": ["x"]}}}`, "polcy", ImportUnknown, "", ``, false},
		{"none", `{"policy": {"extra": {"a": 1}}}`, "policy.extra", ImportUnknown, "", ``, false},
		{"none", `{"agents": {"extra": 1}}`, "agents.extra", ImportUnknown, "", ``, false},
	} {
		t.Run(tt.doc+" "+tt.form, func(t *testing.T) {
			got, err := Import("/x/old.json", []byte(tt.form))
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			for _, k := range got.Keys {
				if k.Key != tt.key {
					continue
				}
				n++
				to := ""
				if tt.to != "" {
					to = inDefaults + tt.to
				}
				if k.Result != tt.result || to == "" != (k.To == "") || !strings.Contains(k.To, to) {
					t.Errorf("%+v; want %s, %s", k, tt.result, to)
				}
				if k.Note == "" && k.Result != ImportSet {
					t.Errorf("%+v does not say why", k)
				}
			}
			if n != 1 {
				t.Errorf("%s is listed %d times: %+v", tt.key, n, got.Keys)
			}
			if complete := tt.result == ImportSet || tt.result == ImportDefault; got.Complete() != complete {
				t.Errorf("Complete() = %v", got.Complete())
			}
			if text := jsonAt(t, got.Settings, inDefaults+tt.to); tt.to != "" && text != tt.value {
				t.Errorf("%s is %s, want %s in\n%s", tt.to, text, tt.value, got.Settings)
			}

			// The same as a settings file.
			_, err = Parse("/x/sandbox.json", []byte(tt.form))
			if tt.native {
				if err != nil {
					t.Errorf("as settings: %v", err)
				}
				return
			}
			if sandbox.CodeOf(err) != sandbox.CodeValidation {
				t.Fatalf("as settings: %v", err)
			}
			if tt.doc == "none" || strings.Contains(tt.form, "null") {
				return
			}
			hint := hints(err)
			if !strings.Contains(hint, `"sandbox config import FILE"`) {
				t.Errorf("as settings, the hint is %q", hint)
			}
			want := inDefaults + tt.to
			if root, _, _ := strings.Cut(tt.key, "."); root == "sandbox" {
				want = strings.TrimSuffix(inDefaults, ".")
			} else if nested := strings.HasPrefix(tt.form, `{"limits"`) || strings.HasPrefix(tt.form, `{"permissions"`); nested {
				want = inDefaults + root
			}
			if tt.to != "" && !strings.Contains(hint, want) {
				t.Errorf("as settings, the hint does not name %s: %q", want, hint)
			}
		})
	}
}

// hints joins the hints of all errors in err.
func hints(err error) string {
	var e *sandbox.Error
	if list, ok := err.(interface{ Unwrap() []error }); ok {
		var out []string
		for _, one := range list.Unwrap() {
			out = append(out, hints(one))
		}
		return strings.Join(out, "\n")
	}
	if errors.As(err, &e) {
		return e.Hint
	}
	return ""
}

// jsonAt returns the value at a path of keys as JSON, or "".
func jsonAt(t *testing.T, text []byte, path string) string {
	t.Helper()
	var at any
	if err := json.Unmarshal(text, &at); err != nil {
		t.Fatal(err)
	}
	for key := range strings.SplitSeq(path, ".") {
		m, _ := at.(map[string]any)
		next, ok := m[key]
		if !ok {
			return ""
		}
		at = next
	}
	out, err := json.Marshal(at)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// TestImportDocuments reads the files that the documents show as a whole.
func TestImportDocuments(t *testing.T) {
	for name, tt := range map[string]struct{ file, want string }{
		"000": {`{
  "enabled": true, "provider": "local",
  "policy": {"filesystem": {"whitelist": ["/home/user/projects", "/var/data"], "blacklist": ["~/.kube", "~/.docker"]}},
  "providerOptions": {}
}`, `{"agents":{"defaults":{"sandbox":{"enabled":true,"filesystem":{"allowRead":["/home/user/projects","/var/data"],"allowWrite":["/home/user/projects","/var/data"],
"denyRead":["~/.kube","~/.docker"],"denyWrite":["~/.kube","~/.docker"]},"provider":"local","providerOptions":{}}}}}`},
		"002": {`{
  "sandbox": { // of an agent
    "enabled": true, "autoAllowBashIfSandboxed": true, "allowUnsandboxedCommands": true, "failIfUnavailable": false,
    "network": {"allowedDomains": ["github.com"], "deniedDomains": [], "allowLocalBinding": true, "httpProxyPort": 8888},
    "filesystem": {"allowWrite": ["~/projects"], "denyWrite": ["~/.ssh"], "denyRead": [], "allowRead": []},
    "excludedCommands": ["docker", "npm:*"],
  }
}`, `{"agents":{"defaults":{"sandbox":{"commands":{"allowUnsandboxed":true,"autoAllowIfSandboxed":true,"excluded":["docker","npm:*"]},"enabled":true,"failIfUnavailable":false,
"filesystem":{"allowRead":[],"allowWrite":["~/projects"],"denyRead":[],"denyWrite":["~/.ssh"]},
"network":{"allowLocalBinding":true,"allowedDomains":["github.com"],"deniedDomains":[],"httpProxyPort":8888}}}}}`},
		"003": {`{"agents": {
  "defaults": {"sandbox": {"mode": "all", "scope": "session", "docker": {"env": {"A": "b"}, "setupCommand": "apt-get install -y jq"}}},
  "list": {"researcher": {"workspace": "~/agents/researcher", "sandbox": {"workspaceAccess": "ro", "docker": {"setupCommand": "true"}}}}
}}`, `{"agents":{"defaults":{"sandbox":{"docker":{"env":{"A":"b"},"setup":["apt-get install -y jq"]},"mode":"all","scope":"session"}},
"list":[{"id":"researcher","sandbox":{"docker":{"setup":["true"]},"workspaceAccess":"ro"},"workspace":"~/agents/researcher"}]}}`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Import("/x/old.json", []byte(tt.file))
			if err != nil {
				t.Fatal(err)
			}
			var a, b any
			if err := errors.Join(json.Unmarshal(got.Settings, &a), json.Unmarshal([]byte(tt.want), &b)); err != nil {
				t.Fatal(err)
			}
			if fmt.Sprint(a) != fmt.Sprint(b) {
				t.Errorf("got %s, want %s", got.Settings, tt.want)
			}
			if !got.Complete() {
				t.Errorf("%+v", got.Keys)
			}
			if again, err := Import("/x/new.json", got.Settings); err != nil || string(again.Settings) != string(got.Settings) {
				t.Errorf("imported again: %s, %v", again.Settings, err)
			}
		})
	}
}

// TestImportRefuses holds that what cannot be taken over as it stands is an error
// that names the key, and that there is no result then.
func TestImportRefuses(t *testing.T) {
	for _, tt := range []struct{ form, field string }{
		{`{"excludedCommands": ["a"], "excludedCommands": ["b"]}`, "excludedCommands"},
		{`{"sandbox": {"enabled": true}, "enabled": false}`, "enabled"},
		{`{"timeout_ms": "soon"}`, "timeout_ms"}, {`{"timeout_ms": -1}`, "timeout_ms"}, {`{"timeout_ms": 1e300}`, "timeout_ms"},
		{`{"timeout": {"secs": 1, "x": 1}}`, "timeout"}, {`{"timeout": "soon"}`, "agents.defaults.sandbox.limits.timeout"},
		{`{"mode": "Loose"}`, "mode"}, {`{"mode": 1}`, "mode"}, {`{"allow_network": "yes"}`, "allow_network"},
		{`{"allowed_commands": "ls"}`, "allowed_commands"}, {`{"blocked_commands": [1]}`, "blocked_commands"},
		{`{"agents": {"defaults": {"sandbox": {"docker": {"setupCommand": 1}}}}}`, "agents.defaults.sandbox.docker.setupCommand"},
		{`{"agents": {"defaults": {"sandbox": {"docker": {"binds": ["/etc:/x"]}}}}}`, "agents.defaults.sandbox.docker.binds[0]"},
		{`{"whitelists": {"domains": ["not a host"]}}`, "agents.defaults.sandbox.network.allowedDomains[0]"},
		{`{"sandbox": []}`, "sandbox"}, {`{"agents": {"list": [1]}}`, "agents.list[0]"}, {`[]`, ""}, {``, ""}, {`{`, ""},
		{strings.Repeat(`{"policy":`, 40) + `1` + strings.Repeat(`}`, 40), ""},
	} {
		got, err := Import("old.json", []byte(tt.form))
		if code := sandbox.CodeOf(err); code != sandbox.CodeValidation && code != sandbox.CodeCapabilityBlocked || got.Settings != nil {
			t.Errorf("%s: %s, %v", tt.form, got.Settings, err)
			continue
		}
		if !strings.Contains(fmt.Sprint(fieldsIn(err)), tt.field) {
			t.Errorf("%s: the error names %q: %v", tt.form, fieldsIn(err), err)
		}
	}
}

func fieldsIn(err error) (out []string) {
	if list, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range list.Unwrap() {
			out = append(out, fieldsIn(one)...)
		}
		return out
	}
	var e *sandbox.Error
	if errors.As(err, &e) {
		out = append(out, e.Field)
	}
	return out
}

// TestFormerKeysLeadToKeys holds that every present key that the table names is one.
func TestFormerKeysLeadToKeys(t *testing.T) {
	for from, f := range formerKeys() {
		for _, to := range f.to {
			value := `{"x": 1}`
			text := value
			parts := strings.Split(to, ".")
			for n := len(parts) - 1; n >= 0; n-- {
				text = fmt.Sprintf("{%q: %s}", parts[n], text)
			}
			_, err := Parse("x", []byte(`{"agents": {"defaults": {"sandbox": `+text+`}}}`))
			for _, field := range fieldsIn(err) {
				if field == inDefaults+to && strings.Contains(err.Error(), "unknown key") && !strings.Contains(err.Error(), inDefaults+to+".") {
					t.Errorf("%s leads to %s, which is no key", from, to)
				}
			}
			if err == nil {
				t.Errorf("%s takes any value", to)
			}
		}
		if f.left == "" && len(f.to) == 0 {
			t.Errorf("%s leads nowhere and does not say why", from)
		}
	}
}

// FuzzImport holds that import ends with a file that is read, or an error, and that
// no key with a value is missing from its list.
func FuzzImport(f *testing.F) {
	for _, s := range []string{`{"policy":{"filesystem":{"whitelist":["a"]}}}`, `{"sandbox":{"x":{"y":1}}}`, `{"agents":{"list":{"a":{}}}}`, `{"":1}`, `{"limits":{"max_files":1,"timeout":3}}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := Import("old.json", []byte(s))
		if err != nil {
			if code := sandbox.CodeOf(err); code != sandbox.CodeValidation && code != sandbox.CodeCapabilityBlocked {
				t.Fatal(err)
			}
			return
		}
		if _, err := Parse("old.json", got.Settings); err != nil {
			t.Fatal(err)
		}
		root, err := hujson.Parse([]byte(s + "\n"))
		if err != nil {
			t.Fatal(err)
		}
		top, ok := root.Value.(*hujson.Object)
		if !ok {
			t.Fatalf("no object: %s", s)
		}
		for _, m := range top.Members {
			name := m.Name.Value.(hujson.Literal).String()
			if o, isObject := m.Value.Value.(*hujson.Object); name == "agents" && isObject && len(o.Members) > 0 {
				continue // whose members are what counts
			}
			listed := false
			for _, k := range got.Keys {
				listed = listed || strings.HasPrefix(k.Key, join("", name))
			}
			if !listed && name != "agents" {
				t.Errorf("%q is not listed: %+v", name, got.Keys)
			}
		}
	})
}
