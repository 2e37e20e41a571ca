package config_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/policy"
	"github.com/bulkhead-dev/sandbox/policy/command"
	"github.com/bulkhead-dev/sandbox/policy/network"
	"github.com/bulkhead-dev/sandbox/policy/path"
)

// noon is when these tests take place.
func noon() time.Time { return time.Date(2030, 5, 17, 12, 0, 0, 0, time.UTC) }

// wishes is the manifest of a tool that wants everything.
func wishes(hosts ...string) grant.Manifest {
	caps := []grant.Capability{
		{Kind: grant.FSRead, Path: "/"}, {Kind: grant.FSList, Path: "/"}, {Kind: grant.FSWrite, Path: "/"},
		{Kind: grant.NetHTTP, Host: "*", Methods: []string{"*"}},
		{Kind: grant.Browser, Actions: []string{"open", "screenshot", "extract", "pdf", "wait", "click", "type", "upload", "download"}},
		{Kind: grant.Process, Tool: "git"}, {Kind: grant.Process, Tool: "make"}, {Kind: grant.Process, Tool: "git"},
		{Kind: grant.Temp},
	}
	for _, h := range hosts {
		for _, port := range []int{0, 22, 442} {
			caps = append(caps, grant.Capability{Kind: grant.NetHTTP, Host: h, Port: port, Methods: []string{"*"}})
		}
	}
	return grant.Manifest{Tool: "all", Version: "1.0.0", Capabilities: caps, Safety: grant.SafetyLow}
}

// guarding returns the guard of a grant that asks for everything.
func guarding(t testing.TB, p grant.Policy, hosts ...string) *grant.Guard {
	t.Helper()
	m := wishes(hosts...)
	g := grant.Grant{
		ID: "g", Tenant: "acme", Subject: "ann", Tool: m.Tool, Call: "c", Capabilities: m.Capabilities, DecisionKey: "k",
		Budget: grant.Budget{Calls: grant.Unlimited}, Issued: noon(), Expires: noon().Add(time.Hour),
		Consent: &grant.Consent{By: "ann", At: noon(), Expires: noon().Add(time.Hour)},
	}
	profile, err := grant.Build(g, m, p, noon())
	if err != nil {
		t.Fatal(err)
	}
	guard, err := grant.Compile(profile)
	if err != nil {
		t.Fatal(err)
	}
	return guard
}

// someSettings writes settings at random, out of few words, so that they meet.
func someSettings(r *rand.Rand) string {
	pick := func(words ...string) string {
		var out []string
		for _, w := range words {
			if r.IntN(4) == 0 {
				out = append(out, `"`+w+`"`)
			}
		}
		return "[" + strings.Join(out, ",") + "]"
	}
	one := func(words ...string) string { return words[r.IntN(len(words))] }
	folders := []string{"/", "/workspace", "/workspace/a", "a", "~/a", "/tmp/x", "/workspace/{a,b}", "**/a", "/workspace/a/**", "/agent", "/srv"}
	domains := []string{"a.example", "*.a.example", "https://b.example", "http://a.example/pub", "GET http://c.example", "b.example:8000-9000", "tcp://a.example:22", "10.0.0.0/8", "10.1.2.3:442", "b.example:440-444"}
	public := one("true", "false")
	if public == "true" {
		domains = append(domains, "*")
	}
	return fmt.Sprintf(`"preset": %q, "workspaceAccess": %q, "filesystem": {"allowRead": %s, "denyRead": %s, "allowWrite": %s, "denyWrite": %s},
		"network": {"allowedDomains": %s, "deniedDomains": %s, "allowPublic": %s, "allowPrivate": %s, "ask": %s},
		"commands": {"block": %s, "allow": %s}, "browser": {"enabled": %s, "allowDownloads": %s}, "docker": {"tmpfs": ["/tmp:size=2m"]}`,
		one("strict", "restricted", "normal", "permissive"), one("none", "ro", "rw"), pick(folders...), pick(folders...), pick(folders...), pick(folders...),
		pick(domains...), pick("a.example", "*.a.example", "b.example:442", "10.1.0.0/16", "http://a.example/pub", "tcp://b.example:22"), public, one("true", "false"), one("true", "false"),
		pick("git", "make"), pick("git"), one("true", "false"), one("true", "false"))
}

// TestGrantPolicyNeverAllowsMore holds over many settings that whatever a
// guard lets pass of a grant for everything, no policy of the settings denies.
func TestGrantPolicyNeverAllowsMore(t *testing.T) {
	rounds := testenv.Rounds(30, 30, 300)
	random := rand.New(rand.NewPCG(8, 15))
	passed := map[string]int{}
	for range rounds {
		settings := someSettings(random)
		r := resolvedFor(t, settings)
		in := config.Inside{Home: []string{"", "/home/me"}[random.IntN(2)]}
		p, err := config.GrantPolicy(r, in, wishes())
		if err != nil {
			t.Fatalf("%s: %v", settings, err)
		}
		o := oracleOf(t, r, in)
		guard := guarding(t, p, "10.1.2.3", "10.9.9.9", "93.184.216.34", "127.0.0.1", "a.example", "b.example")
		for name, c := range o.questions() {
			for _, op := range c.ops {
				if guard.Validate(op, grant.State{Now: noon()}) != nil {
					continue
				}
				passed[name]++
				if why := c.denied(op); why != "" {
					t.Errorf("%s\nlets %s %s%s%s pass: %s", settings, op.Kind, op.Path, op.URL, op.Tool, why)
				}
			}
		}
	}
	for _, name := range []string{"files", "hosts", "programs", "browser"} {
		if passed[name] == 0 {
			t.Errorf("nothing of %s passed, so that nothing was held", name)
		}
	}
}

// An oracle asks the settings' own policies.
type oracle struct {
	r        config.Resolved
	paths    *path.Policy
	hosts    *network.Policy
	commands *command.Policy
}

// A question is a list of operations and what speaks against one.
type question struct {
	ops    []grant.Operation
	denied func(grant.Operation) string
}

func oracleOf(t *testing.T, r config.Resolved, in config.Inside) oracle {
	t.Helper()
	paths, err := config.PathPolicy(r, in)
	if err != nil {
		t.Fatal(err)
	}
	hosts, err := config.HostPolicy(r)
	if err != nil {
		t.Fatal(err)
	}
	commands, err := config.CommandPolicy(r, paths)
	if err != nil {
		t.Fatal(err)
	}
	return oracle{r, paths, hosts, commands}
}

func (o oracle) questions() map[string]question {
	files, hosts, browser := question{denied: o.file}, question{denied: o.host}, question{denied: o.browse}
	for _, path := range []string{"/workspace/a", "/workspace/a/f", "/workspace/b/f", "/workspace/c", "/tmp/x", "/tmp/y/z", "/agent/f", "/srv/f", "/home/sandbox/a/f", "/etc/passwd"} {
		for _, kind := range []grant.OpKind{grant.OpFsRead, grant.OpFsWrite, grant.OpFsList} {
			files.ops = append(files.ops, grant.Operation{Kind: kind, Path: path})
		}
		browser.ops = append(browser.ops, grant.Operation{Kind: grant.OpBrowserDownload, Selector: "a", Path: path})
	}
	browser.ops = append(browser.ops, grant.Operation{Kind: grant.OpBrowserScreenshot}, grant.Operation{Kind: grant.OpBrowserClick, Selector: "a"})
	for _, host := range []string{"a.example", "x.a.example", "b.example", "c.example", "z.example", "10.1.2.3", "10.9.9.9", "93.184.216.34", "127.0.0.1", "[fd00::1]"} {
		for _, rest := range []string{"", ":22", ":442", ":8080", "/pub/x", "/pub/../x"} {
			for _, scheme := range []string{"http", "https"} {
				hosts.ops = append(hosts.ops, grant.Operation{Kind: grant.OpNetHTTP, Method: "GET", URL: scheme + "://" + host + rest}, grant.Operation{Kind: grant.OpNetHTTP, Method: "POST", URL: scheme + "://" + host + rest})
			}
		}
	}
	programs := question{ops: []grant.Operation{{Kind: grant.OpProcExec, Tool: "git"}, {Kind: grant.OpProcExec, Tool: "make"}}, denied: o.program}
	return map[string]question{"files": files, "hosts": hosts, "programs": programs, "browser": browser}
}

// file says what rule that names a place speaks against an operation.
func (o oracle) file(op grant.Operation) string {
	do := sandbox.OpRead
	if op.Kind == grant.OpFsWrite || op.Kind == grant.OpBrowserDownload {
		do = sandbox.OpWrite
		opens := func(rule string) bool {
			return rule == "a" || rule == "/workspace/a" || rule == "/workspace/a/**" || rule == "/workspace/{a,b}"
		}
		if o.r.WorkspaceAccess == sandbox.AccessRO && strings.HasPrefix(op.Path, "/workspace/") && !slices.ContainsFunc(o.r.Filesystem.AllowWrite, opens) {
			return "the workspace is not to be written"
		}
	}
	d := o.paths.Judge(do, op.Path)
	_, rule, _ := strings.Cut(d.Rule, ": ")
	if d.Verdict == policy.Deny && d.Category == path.CategoryRule && !strings.ContainsAny(strings.TrimSuffix(rule, "/**"), "*?[") {
		return d.Rule
	}
	return ""
}

func (o oracle) host(op grant.Operation) string {
	scheme, rest, _ := strings.Cut(op.URL, "://")
	target, path, _ := strings.Cut(rest, "/")
	port := map[string]string{"http": ":80", "https": ":443"}[scheme]
	if strings.LastIndexByte(target, ':') > strings.LastIndexByte(target, ']') {
		port = ""
	}
	h, n, err := network.ParseTarget(target + port)
	if err != nil {
		return err.Error()
	}
	protocol := network.TLS
	if scheme == "http" {
		protocol = network.HTTP
	}
	if d := o.hosts.JudgeRequest(network.Request{Host: h, Port: n, Protocol: protocol, Method: op.Method, Path: "/" + path}); d.Verdict != policy.Allow {
		return d.Rule + ": " + d.Message
	}
	return ""
}

func (o oracle) program(op grant.Operation) string {
	if d := o.commands.Judge(command.Input{Text: op.Tool, Dir: "/workspace"}); d.Verdict == policy.Deny {
		return d.Reasons[0].Message
	}
	return ""
}

func (o oracle) browse(op grant.Operation) string {
	switch {
	case !o.r.Browser.Enabled:
		return "there is no browser"
	case op.Kind != grant.OpBrowserDownload:
		return ""
	case !o.r.Browser.AllowDownloads:
		return "there are no downloads"
	}
	return o.file(op)
}
