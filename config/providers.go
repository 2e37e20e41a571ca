package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/bulkhead-dev/sandbox"
)

// Providers lists the providers that the settings name at any level, including
// "auto". Settings that name none mean the default.
func Providers(s *Settings) []string {
	var out []string
	for _, who := range everybody(s) {
		r, err := Resolve(s, who, nil)
		if err == nil && !slices.Contains(out, r.Provider) {
			out = append(out, r.Provider)
		}
	}
	return out
}

// everybody is one session of each agent that the settings list, and of one
// that they do not.
func everybody(s *Settings) []Who {
	out := []Who{{Agent: DefaultAgent, Session: DefaultSession}}
	if s == nil || s.Agents == nil {
		return out
	}
	for _, a := range s.Agents.List {
		if a.ID != nil && *a.ID != DefaultAgent {
			out = append(out, Who{Agent: *a.ID, Session: DefaultSession})
		}
	}
	return out
}

// ownProviders is the hint for a name that no provider has.
const ownProviders = "a Go program adds a provider with orchestrator.Options.Providers; see docs/providers.md"

// maxProviderName is the most letters that the name of a provider may have.
const maxProviderName = 32

// BuiltinProviders are the names that a program cannot give to a provider of
// its own: those that settings know anyway, and "host", which stands for
// commands that run without a sandbox.
func BuiltinProviders() []string {
	return []string{"docker", "local", "landlock", "kubernetes", "auto", "fake", "host"}
}

// CheckProviderName returns an error with [sandbox.CodeValidation] unless name
// may be that of a provider: it begins with a lower-case letter of ASCII, has
// lower-case letters, digits and single dashes between them, and at most 32
// letters in all, so that it can be part of a file's name, of a flag and of a
// URL as it is.
func CheckProviderName(name string) error {
	ok := name != "" && len(name) <= maxProviderName && name[0] >= 'a' && name[0] <= 'z' &&
		!strings.HasSuffix(name, "-") && !strings.Contains(name, "--")
	for i := range len(name) {
		c := name[i]
		ok = ok && (c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-')
	}
	if ok {
		return nil
	}
	return &sandbox.Error{
		Code: sandbox.CodeValidation, Op: "register provider", Field: "provider", Resource: name,
		Message: fmt.Sprintf("%q cannot be the name of a provider", name),
		Hint:    "use lower-case letters, digits and single dashes, a letter first, at most 32 in all",
	}
}

// ParseLayer reads settings of one call, written as agents.defaults.sandbox of a
// settings file has them, by the rules of [Parse]. The provider may have any
// name: [Resolve] refuses one that the settings do not know, under which the
// layer is laid.
func ParseLayer(name string, data []byte) (*SandboxSettings, error) {
	root, err := parseTree(data)
	if err != nil {
		return nil, &sandbox.Error{Code: sandbox.CodeValidation, Op: "load settings", Resource: name, Message: printable(name) + " is not valid", Err: err}
	}
	s := Settings{Dir: folderOf(name), Agents: &Agents{Defaults: &AgentDefaults{Sandbox: &SandboxSettings{}}}}
	d := decoder{problems: problems{file: name, anyName: true}}
	d.value(root, reflect.ValueOf(s.Agents.Defaults.Sandbox).Elem(), "agents.defaults.sandbox")
	if err := d.judge(&s); err != nil {
		return nil, err
	}
	return s.Agents.Defaults.Sandbox, nil
}
