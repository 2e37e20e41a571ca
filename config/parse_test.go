package config_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
)

// all takes joined errors apart.
func all(err error) []*sandbox.Error {
	var out []*sandbox.Error
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			out = append(out, all(e)...)
		}
		return out
	}
	var e *sandbox.Error
	if errors.As(err, &e) {
		out = append(out, e)
	}
	return out
}

// inDefaults wraps the members of a sandbox object into a whole file.
func inDefaults(members string) string {
	return `{"agents":{"defaults":{"sandbox":{` + members + `}}}}`
}

const defaultsPath = "agents.defaults.sandbox."

func TestParseEveryKey(t *testing.T) {
	data, err := os.ReadFile("testdata/every-key.json")
	if err != nil {
		t.Fatal(err)
	}
	s, err := config.Parse("every-key.json", data)
	if err != nil {
		t.Fatal(err)
	}
	if got := *s.Agents.List[0].ID; got != "researcher" {
		t.Errorf("first agent is %q", got)
	}
	fs := s.Agents.List[1].Sandbox.Filesystem
	want := &config.FilesystemSettings{
		AllowRead: []string{"/srv/ro", "/srv/w"}, AllowWrite: []string{"/srv/w"},
		DenyRead: []string{"/srv/x"}, DenyWrite: []string{"/srv/x"},
	}
	if diff := cmp.Diff(want, fs); diff != "" {
		t.Errorf("whitelist and blacklist (-want +got):\n%s", diff)
	}
}

// TestParseEndsInAComment holds that a comment may be the last of a file, with a
// newline behind it or without.
func TestParseEndsInAComment(t *testing.T) {
	for _, end := range []string{"// end", "//", "\n// end\r\n", "/* end */", " /**/ // [", ""} {
		if _, err := config.Parse("x.json", []byte("{} "+end)); err != nil {
			t.Errorf("%q: %v", end, err)
		}
	}
	for _, bad := range []string{"/* end", "/", "// end\n}", "/*/"} {
		if _, err := config.Parse("x.json", []byte("{} "+bad)); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func TestParseNamesPathAndProblem(t *testing.T) {
	deep := strings.Repeat("[", 40) + strings.Repeat("]", 40)
	tests := []struct{ name, in, field, message string }{
		{"unknown key in a list", `{"agents":{"list":[{"id":"a"},{"id":"b","sandbox":{"docker":{"memroy":"1g"}}}]}}`, "agents.list[1].sandbox.docker.memroy", `did you mean "memory"?`},
		{"unknown key at the top", `{"agent":{}}`, "agent", `did you mean "agents"?`},
		{"key in wrong case", inDefaults(`"ReadOnlyRoot":true`), defaultsPath + "ReadOnlyRoot", "unknown key"},
		{"key in wrong case is near", inDefaults(`"docker":{"readonlyroot":true}`), defaultsPath + "docker.readonlyroot", `did you mean "readOnlyRoot"?`},
		{"unknown key that is near to nothing", inDefaults(`"zzzzzz":1`), defaultsPath + "zzzzzz", "unknown key"},
		{"unknown key with odd characters", "{\"a b\\u001b\":1}", `["a b\x1b"]`, "unknown key"},
		{"duplicate key", inDefaults(`"mode":"all","mode":"off"`), defaultsPath + "mode", "appears twice"},
		{"duplicate key by escape", inDefaults(`"mode":"all","m\u006fde":"off"`), defaultsPath + "mode", "appears twice"},
		{"duplicate variable", inDefaults(`"docker":{"env":{"A":"1","A":"2"}}`), defaultsPath + "docker.env.A", "appears twice"},
		{"duplicate key in free options", inDefaults(`"providerOptions":{"a":{"b":1,"b":2}}`), defaultsPath + "providerOptions.a.b", "appears twice"},
		{"null", inDefaults(`"docker":null`), defaultsPath + "docker", "null is not a value"},
		{"string for bool", inDefaults(`"enabled":"yes"`), defaultsPath + "enabled", `must be true or false, not "yes"`},
		{"number for string", inDefaults(`"docker":{"image":5}`), defaultsPath + "docker.image", "must be a string, not 5"},
		{"string for list", inDefaults(`"docker":{"binds":"/a:/b"}`), defaultsPath + "docker.binds", "must be a list"},
		{"number in list", inDefaults(`"docker":{"setup":["a",1]}`), defaultsPath + "docker.setup[1]", "must be a string, not 1"},
		{"list for object", `{"agents":[]}`, "agents", "must be an object, not a list"},
		{"fraction for whole number", inDefaults(`"docker":{"pidsLimit":1.5}`), defaultsPath + "docker.pidsLimit", "whole number, not 1.5"},
		{"string for number", inDefaults(`"docker":{"cpus":"2"}`), defaultsPath + "docker.cpus", "must be a number"},
		{"number for variable", inDefaults(`"docker":{"env":{"A":1}}`), defaultsPath + "docker.env.A", "put it in quotes"},
		{"bad word", inDefaults(`"mode":"nonmain"`), defaultsPath + "mode", `did you mean "non-main"?`},
		{"bad word lists the good ones", inDefaults(`"scope":"everything"`), defaultsPath + "scope", "none of session, agent, shared"},
		{"bad preset", inDefaults(`"preset":"strikt"`), defaultsPath + "preset", `did you mean "strict"?`},
		{"bad provider", inDefaults(`"provider":"dokcer"`), defaultsPath + "provider", `did you mean "docker"?`},
		{"bad word in list", inDefaults(`"enabledPlatforms":["linux","beos"]`), defaultsPath + "enabledPlatforms[1]", "none of"},
		{"bad size", inDefaults(`"docker":{"memory":"2 gig"}`), defaultsPath + "docker.memory", "is no size"},
		{"negative size", inDefaults(`"docker":{"memory":-1}`), defaultsPath + "docker.memory", "is no size"},
		{"huge size", inDefaults(`"docker":{"memory":"9999999999g"}`), defaultsPath + "docker.memory", "too large"},
		{"unlimited swap", inDefaults(`"docker":{"memorySwap":-1}`), defaultsPath + "docker.memorySwap", "is no size"},
		{"small memory", inDefaults(`"docker":{"memory":"4m"}`), defaultsPath + "docker.memory", "at least 32m"},
		{"swap below memory", inDefaults(`"docker":{"memorySwap":"1g"}`), defaultsPath + "docker.memorySwap", "below docker.memory"},
		{"no processors", inDefaults(`"docker":{"cpus":0}`), defaultsPath + "docker.cpus", "too small"},
		{"unlimited processes", inDefaults(`"docker":{"pidsLimit":-1}`), defaultsPath + "docker.pidsLimit", "too small"},
		{"port", inDefaults(`"browser":{"cdpPort":70000}`), defaultsPath + "browser.cdpPort", "too large"},
		{"bad duration", inDefaults(`"prune":{"idle":"1 day"}`), defaultsPath + "prune.idle", "no duration"},
		{"duration without unit", inDefaults(`"prune":{"idle":24}`), defaultsPath + "prune.idle", "has no unit"},
		{"negative duration", inDefaults(`"limits":{"timeout":"-1s"}`), defaultsPath + "limits.timeout", "out of range"},
		{"image with dash in front", inDefaults(`"docker":{"image":"--privileged"}`), defaultsPath + "docker.image", "not valid"},
		{"prefix", inDefaults(`"docker":{"containerPrefix":"Sbx_"}`), defaultsPath + "docker.containerPrefix", "not valid"},
		{"relative workdir", inDefaults(`"docker":{"workdir":"src"}`), defaultsPath + "docker.workdir", "not absolute"},
		{"name of a variable", inDefaults(`"docker":{"env":{"A-B":"1"}}`), defaultsPath + "docker.env.A-B", "no name of a variable"},
		{"variable with NUL", inDefaults(`"docker":{"env":{"A":"\u0000"}}`), defaultsPath + "docker.env.A", "NUL"},
		{"unknown limit", inDefaults(`"docker":{"ulimits":{"nofiles":5}}`), defaultsPath + "docker.ulimits.nofiles", `did you mean "nofile"?`},
		{"nproc", inDefaults(`"docker":{"ulimits":{"nproc":5}}`), defaultsPath + "docker.ulimits.nproc", "across all containers"},
		{"soft above hard", inDefaults(`"docker":{"ulimits":{"nofile":"9:5"}}`), defaultsPath + "docker.ulimits.nofile", "above the hard one"},
		{"soft unlimited", inDefaults(`"docker":{"ulimits":{"nofile":"-1:5"}}`), defaultsPath + "docker.ulimits.nofile", "above the hard one"},
		{"unknown key in a limit", inDefaults(`"docker":{"ulimits":{"nofile":{"sfot":1}}}`), defaultsPath + "docker.ulimits.nofile.sfot", `did you mean "soft"?`},
		{"name server", inDefaults(`"docker":{"dns":["dns.example"]}`), defaultsPath + "docker.dns[0]", "no address"},
		{"the host by its gateway", inDefaults(`"docker":{"extraHosts":["h:host-gateway"]}`), defaultsPath + "docker.extraHosts[0]", "no name with an address"},
		{"tmpfs without size", inDefaults(`"docker":{"tmpfs":["/tmp"]}`), defaultsPath + "docker.tmpfs[0]", "has no size"},
		{"tmpfs option", inDefaults(`"docker":{"tmpfs":["/tmp:size=1m,suid"]}`), defaultsPath + "docker.tmpfs[0]", "not known"},
		{"tmpfs without tmp", inDefaults(`"docker":{"tmpfs":["/run:size=1m"]}`), defaultsPath + "docker.tmpfs", "/tmp must be among them"},
		{"tmpfs too large", inDefaults(`"docker":{"tmpfs":["/tmp:size=1g"]}`), defaultsPath + "docker.tmpfs", "more than half"},
		{"shm too large", inDefaults(`"docker":{"shmSize":"1g"}`), defaultsPath + "docker.shmSize", "more than half"},
		{"range of addresses", inDefaults(`"browser":{"cdpSourceRange":"10.0.0.1"}`), defaultsPath + "browser.cdpSourceRange", "no range"},
		{"scheme of a domain", inDefaults(`"network":{"allowedDomains":["ftp://x"]}`), defaultsPath + "network.allowedDomains[0]", "none of http"},
		{"path in TLS", inDefaults(`"network":{"allowedDomains":["https://x/y"]}`), defaultsPath + "network.allowedDomains[0]", "cannot be seen"},
		{"half an address denied", inDefaults(`"network":{"deniedDomains":["http://10.0.0.1"]}`), defaultsPath + "network.deniedDomains[0]", "one protocol"},
		{"requests at once", inDefaults(`"network":{"limits":{"connections":-1}}`), defaultsPath + "network.limits.connections", "too small"},
		{"name of a secret", inDefaults(`"network":{"secrets":{"A-B":{"hosts":["x"]}}}`), defaultsPath + "network.secrets.A-B", "no name of a variable"},
		{"variable that acts", inDefaults(`"network":{"secrets":{"https_proxy":{"hosts":["x"]}}}`), defaultsPath + "network.secrets.https_proxy", "act upon"},
		{"secret without hosts", inDefaults(`"network":{"secrets":{"A":{}}}`), defaultsPath + "network.secrets.A.hosts", "is missing"},
		{"secret for no hosts", inDefaults(`"network":{"secrets":{"A":{"hosts":[]}}}`), defaultsPath + "network.secrets.A.hosts", "no host"},
		{"secret for a wildcard", inDefaults(`"network":{"secrets":{"A":{"hosts":["x","*.y"]}}}`), defaultsPath + "network.secrets.A.hosts[1]", "host 2 is none"},
		{"secret written out", inDefaults(`"network":{"secrets":{"A":{"hosts":["x"],"value":"v"}}}`), defaultsPath + "network.secrets.A.value", "unknown key"},
		{"secret with two sources", inDefaults(`"network":{"secrets":{"A":{"hosts":["x"],"from":{"env":"B","file":"/c"}}}}`), defaultsPath + "network.secrets.A.from", "more than one source"},
		{"secret of a relative file", inDefaults(`"network":{"secrets":{"A":{"hosts":["x"],"from":{"file":"c"}}}}`), defaultsPath + "network.secrets.A.from.file", "not absolute"},
		{"secret of an odd variable", inDefaults(`"network":{"secrets":{"A":{"hosts":["x"],"from":{"env":"sk-1234"}}}}`), defaultsPath + "network.secrets.A.from.env", "no name"},
		{"characters of a domain", inDefaults(`"network":{"deniedDomains":["a b"]}`), defaultsPath + "network.deniedDomains[0]", "not valid"},
		{"range of addresses", inDefaults(`"network":{"allowedDomains":["a.example","10.0.0.1/8"]}`), defaultsPath + "network.allowedDomains[1]", "beyond its length"},
		{"every domain", inDefaults(`"network":{"allowedDomains":["*"]}`), defaultsPath + "network.allowedDomains[0]", "allows every host"},
		{"escape sequence in a string", inDefaults(`"docker":{"runtime":"\u001b[2J"}`), defaultsPath + "docker.runtime", "control or invisible"},
		{"agent without id", `{"agents":{"list":[{}]}}`, "agents.list[0].id", "is missing"},
		{"agent twice", `{"agents":{"list":[{"id":"a"},{"id":"a"}]}}`, "agents.list[1].id", "agents.list[0]"},
		{"agent with odd id", `{"agents":{"list":[{"id":"../x"}]}}`, "agents.list[0].id", "not valid"},
		{"empty main session", `{"agents":{"list":[{"id":"a","mainSession":""}]}}`, "agents.list[0].mainSession", "empty"},
		{"too many agents", `{"agents":{"list":[` + strings.TrimSuffix(strings.Repeat(`{"id":"a","sandbox":{}},`, 2001), ",") + `]}}`, "agents.list", "has 2001 agents"},
		{"not JSON", `{`, "", "is not valid"},
		{"two values", `{} {}`, "", "is not valid"},
		{"empty file", " \n", "", "is empty"},
		{"not UTF-8", "{\"a\":\"\xff\"}", "", "not UTF-8"},
		{"too deep", inDefaults(`"providerOptions":{"a":` + deep + `}`), "", "nested more than"},
		{"too deep behind a comment", `/* " */ ` + deep, "", "nested more than"},
		{"too large", "{}" + strings.Repeat(" ", 1<<20), "", "are allowed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := config.Parse("test.json", []byte(tt.in))
			for _, e := range all(err) {
				if e.Code == sandbox.CodeValidation && e.Field == tt.field && strings.Contains(e.Error(), tt.message) {
					return
				}
			}
			t.Fatalf("Parse says %v; want %s of %q with %q", err, sandbox.CodeValidation, tt.field, tt.message)
		})
	}
}

func TestParseRefusesWhatHardeningRefuses(t *testing.T) {
	bind := func(s string) string { return inDefaults(`"docker":{"binds":["/data/ok:/ok","` + s + `"]}`) }
	tests := []struct{ name, in, field, value, reason string }{
		{"host network", inDefaults(`"docker":{"network":"Host"}`), "docker.network", "Host", "network of the host"},
		{"host network of the browser", inDefaults(`"browser":{"network":"host"}`), "browser.network", "host", "network of the host"},
		{"own network in upper case", inDefaults(`"docker":{"network":"Own"}`), "docker.network", "Own", "that others may be on"},
		{"another container", inDefaults(`"docker":{"network":"container:db"}`), "docker.network", "container:db", "another container"},
		{"seccomp", inDefaults(`"docker":{"seccompProfile":"Unconfined"}`), "docker.seccompProfile", "Unconfined", "unconfined"},
		{"apparmor", inDefaults(`"docker":{"apparmorProfile":"unconfined"}`), "docker.apparmorProfile", "unconfined", "unconfined"},
		{"privileged", inDefaults(`"docker":{"privileged":true}`), "docker.privileged", "true", "privileged"},
		{"capabilities", inDefaults(`"docker":{"capAdd":["SYS_ADMIN"]}`), "docker.capAdd", "SYS_ADMIN", "never given"},
		{"host pids", inDefaults(`"docker":{"pid":"host"}`), "docker.pid", "host", "pid namespace of the host"},
		{"host ipc", inDefaults(`"docker":{"ipc":"HOST"}`), "docker.ipc", "HOST", "ipc namespace of the host"},
		{"host users", inDefaults(`"docker":{"userns":"host"}`), "docker.userns", "host", "user namespace of the host"},
		{"root", inDefaults(`"docker":{"user":"0:0"}`), "docker.user", "0:0", "root"},
		{"runtime", inDefaults(`"docker":{"runtime":"/bin/sh"}`), "docker.runtime", "/bin/sh", "runtime"},
		{"capabilities kept", inDefaults(`"docker":{"capDrop":[]}`), "docker.capDrop", "", "lacks ALL"},
		{"writable root", inDefaults(`"docker":{"readOnlyRoot":false}`), "docker.readOnlyRoot", "false", "writable root"},
		{"bind of etc", bind("/etc/:/x"), "docker.binds[1]", "/etc/", "configuration"},
		{"writable bind of programs", bind("/usr/local/bin:/x:rw"), "docker.binds[1]", "/usr/local/bin", "writable"},
		{"bind of logs", bind("/var/log/app:/x"), "docker.binds[1]", "/var/log/app", "logs"},
		{"bind of the home", bind("~:/x"), "docker.binds[1]", "~", "whole home"},
		{"bind of keys", bind("~/.ssh:/x:ro"), "docker.binds[1]", "~/.ssh", "credentials"},
		{"bind of another home's keys", bind("~bob/.ssh:/x"), "docker.binds[1]", "~bob/.ssh", "not expanded"},
		{"bind of a volume", bind("data:/x"), "docker.binds[1]", "data", "volume"},
		{"bind over the workspace", bind("/data/x:/workspace/x"), "docker.binds[1]", "/workspace/x", "workspace lies there"},
		{"browser bind", inDefaults(`"browser":{"binds":["/run:/x"]}`), "browser.binds[0]", "/run", "sockets"},
		{"tmpfs over the guest", inDefaults(`"docker":{"tmpfs":["/tmp:size=1m","/.sandbox/x:size=1m"]}`), "docker.tmpfs[1]", "/.sandbox/x", "guest"},
		{"workspace root", inDefaults(`"workspaceRoot":"/etc/ws"`), "workspaceRoot", "/etc/ws", "configuration"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := config.Parse("test.json", []byte(tt.in))
			es := all(err)
			if len(es) != 1 || es[0].Code != sandbox.CodeCapabilityBlocked || es[0].Field != defaultsPath+tt.field ||
				es[0].Resource != tt.value || !strings.Contains(es[0].Message, tt.reason) {
				t.Fatalf("Parse says %v; want one refusal of %s with %q", err, tt.field, tt.reason)
			}
		})
	}
}

func TestParseRefusesInAgents(t *testing.T) {
	in := `{"agents":{
		"defaults":{"sandbox":{"scope":"shared","docker":{"binds":["/data/a:/a"]}}},
		"list":[
			{"id":"one","workspace":"/root"},
			{"id":"two","sandbox":{"docker":{"binds":["/data/b:/b","/proc:/p"],"privileged":true}}}]}}`
	_, err := config.Parse("f", []byte(in))
	var fields []string
	for _, e := range all(err) {
		fields = append(fields, e.Field)
	}
	want := []string{"agents.list[0].workspace", "agents.list[1].sandbox.docker.privileged", "agents.list[1].sandbox.docker.binds[1]"}
	if diff := cmp.Diff(want, fields); diff != "" {
		t.Fatalf("refused fields (-want +got):\n%s", diff)
	}
}

// TestParseRefusesWithTenantNamespaces holds that settings which need an object of the
// sandboxes' one namespace are refused where each tenant has its own.
func TestParseRefusesWithTenantNamespaces(t *testing.T) {
	for in, want := range map[string][]string{
		`"imagePullSecrets":["s"]`:                         {"kubernetes.imagePullSecrets"},
		`"wayFromLabels":{"a":"b"}`:                        {"kubernetes.wayFromNamespace"},
		`"wayFromLabels":{"a":"b"},"wayFromNamespace":"n"`: nil,
		`"wayFromCIDRs":["192.0.2.0/24"]`:                  nil,
	} {
		for set, want := range map[string][]string{`"tenantNamespaces":true`: want, `"tenantNamespaces":false`: nil} {
			_, err := config.Parse("f", []byte(`{"kubernetes":{`+set+`,`+in+`}}`))
			var fields []string
			for _, e := range all(err) {
				fields = append(fields, e.Field)
			}
			if diff := cmp.Diff(want, fields); diff != "" {
				t.Errorf("%s, %s: refused fields (-want +got):\n%s", set, in, diff)
			}
		}
	}
}

func TestParseReportsAllProblemsOnce(t *testing.T) {
	in := `{"agents":{"defaults":{"sandbox":{"docker":{"network":"host","memory":"2g"}}},"list":[{"id":"a"},{"id":"b"}]}}`
	_, err := config.Parse("f", []byte(in))
	if got := len(all(err)); got != 1 {
		t.Errorf("one refusal is reported %d times: %v", got, err)
	}
	_, err = config.Parse("f", []byte(inDefaults(`"mode":"x","scope":"y","docker":{"memory":"z","nope":1}`)))
	if got := len(all(err)); got != 4 {
		t.Errorf("%d problems reported; want 4: %v", got, err)
	}
	many := inDefaults(`"providerOptions":{}` + strings.Repeat(`,"x":1`, 500))
	if got := len(all(func() error { _, err := config.Parse("f", []byte(many)); return err }())); got > 60 {
		t.Errorf("%d problems reported; the number should be bounded", got)
	}
}

func TestParseTakesCommentsAndTrailingCommas(t *testing.T) {
	in := "// one [[[[[[\n{ /* two {{{{ */ \"agents\": {\"defaults\": {\"sandbox\": {\"docker\": {\"memory\": \"1g\", \"cpus\": 0.5,},},},},}\n"
	s, err := config.Parse("f", []byte(in))
	if err != nil {
		t.Fatal(err)
	}
	if d := s.Agents.Defaults.Sandbox.Docker; *d.Memory != 1<<30 || *d.CPUs != 0.5 {
		t.Errorf("docker is %+v", d)
	}
}

func TestSwitchesAllowTheirRule(t *testing.T) {
	for name, in := range map[string]string{
		"writable root":   `"docker":{"readOnlyRoot":false,"dangerouslyAllowWritableRoot":true}`,
		"capabilities":    `"docker":{"capDrop":["NET_RAW"],"dangerouslyKeepCapabilities":true}`,
		"bind source":     `"docker":{"binds":["/etc/ssl:/certs"],"dangerouslyAllowBindSources":["/etc/ssl"]}`,
		"reserved target": `"docker":{"binds":["/data/x:/home/sandbox/.cache"],"dangerouslyAllowReservedTargets":true}`,
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := config.Parse("f", []byte(inDefaults(in))); err != nil {
				t.Fatal(err)
			}
		})
	}
	t.Run("in another layer", func(t *testing.T) {
		in := `{"agents":{"defaults":{"sandbox":{"docker":{"dangerouslyAllowWritableRoot":true}}},
			"list":[{"id":"a","sandbox":{"docker":{"readOnlyRoot":false}}}]}}`
		if _, err := config.Parse("f", []byte(in)); err != nil {
			t.Fatal(err)
		}
	})
}

// FuzzParse holds that parsing never panics, that errors are of our type, and
// that what parses also resolves for every agent without surprise.
func FuzzParse(f *testing.F) {
	if data, err := os.ReadFile("testdata/every-key.json"); err == nil {
		f.Add(data)
	}
	f.Add([]byte(inDefaults(`"docker":{"binds":["~/x:/y:rw"],"tmpfs":["/tmp:size=1m"]}`)))
	f.Add([]byte(`{"agents":{"list":[{"id":"a","sandbox":{"preset":"strict","scope":"shared"}}]}}`))
	f.Add([]byte("/*"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := config.Parse("f", data)
		if err != nil {
			for _, e := range all(err) {
				if e.Code != sandbox.CodeValidation && e.Code != sandbox.CodeCapabilityBlocked {
					t.Fatalf("code %s: %v", e.Code, err)
				}
			}
			if strings.ContainsAny(strings.ReplaceAll(err.Error(), "\n", ""), "\x1b\x00\r") {
				t.Fatalf("control characters in %q", err)
			}
			return
		}
		ids := []string{"nobody"}
		if s.Agents != nil {
			for _, a := range s.Agents.List {
				ids = append(ids, *a.ID)
			}
		}
		for _, id := range ids {
			if _, err := config.Resolve(s, config.Who{Agent: id, Session: "s"}, nil); err != nil {
				t.Fatalf("parsed, but agent %s does not resolve: %v", id, err)
			}
		}
	})
}
