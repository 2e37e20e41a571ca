package secret

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/policy/network"
)

// A Binding names the variable of a stand-in, the source of its value and the
// hosts that get the value. It holds no value.
type Binding struct {
	Name  string   `json:"name"`  // of the variable inside
	Hosts []string `json:"hosts"` // HOST or HOST:PORT; no wildcards
	From  Source   `json:"from"`
}

// A Source is the source of a value: exactly one field is set.
type Source struct {
	Env     string   `json:"env,omitempty"`     // a variable of the orchestrator
	File    string   `json:"file,omitempty"`    // absolute, or below ~/
	Command []string `json:"command,omitempty"` // a program and its arguments; its output is the value
}

// String names the source, without the arguments of a command.
func (s Source) String() string {
	switch {
	case len(s.Command) > 0:
		return "command:" + s.Command[0]
	case s.File != "":
		return "file:" + s.File
	}
	return "env:" + s.Env
}

// A target is a host to which a value may be sent. Port 0 means port 443 and
// TLS only; with an explicit port, plain HTTP may carry the value too.
type target struct {
	host network.Host
	port uint16
}

func (t target) matches(h network.Host, port uint16) bool {
	return t.host == h && (t.port == port || t.port == 0 && port == 443)
}

// The bounds of bindings.
const (
	maxBindings = 64
	maxHosts    = 64
	maxName     = 128
)

// targets checks the binding and returns its hosts, canonical.
func (b Binding) targets() ([]target, error) {
	if err := CheckName(b.Name); err != nil {
		return nil, err
	}
	if err := b.From.check(); err != nil {
		return nil, b.wrong(err.Error(), "name an env, a file or a command")
	}
	if len(b.Hosts) == 0 || len(b.Hosts) > maxHosts {
		return nil, b.wrong(fmt.Sprintf("needs 1 to %d hosts", maxHosts), "write NAME@HOST")
	}
	var out []target
	for _, text := range b.Hosts {
		t, err := parseTarget(text)
		if err != nil {
			if strings.Contains(text, "*") {
				return nil, b.wrong("is bound to a wildcard", "name each host: a value must not go to one that was not thought of")
			}
			return nil, &sandbox.Error{Code: sandbox.CodeValidation, Op: "bind secret", Field: field(b.Name), Message: b.Name + " cannot be bound to its host", Err: err}
		}
		if !slices.Contains(out, t) {
			out = append(out, t)
		}
	}
	return out, nil
}

// parseTarget parses HOST or HOST:PORT.
func parseTarget(text string) (target, error) {
	if h, err := network.Canonical(text); err == nil {
		return target{host: h}, nil
	} else if !strings.Contains(text, ":") {
		return target{}, err
	}
	h, port, err := network.ParseTarget(text)
	return target{host: h, port: port}, err
}

// check returns an error for an invalid source; its text completes "NAME …".
func (s Source) check() error {
	set := 0
	for _, is := range []bool{s.Env != "", s.File != "", len(s.Command) > 0} {
		if is {
			set++
		}
	}
	switch {
	case set == 0:
		return fmt.Errorf("has no source")
	case set > 1:
		return fmt.Errorf("has more than one source")
	case s.Env != "" && !variable(s.Env):
		return fmt.Errorf("has a source that is no name of a variable")
	case s.File != "" && !strings.HasPrefix(s.File, "/") && !strings.HasPrefix(s.File, "~/"):
		return fmt.Errorf("has a file whose path is not absolute")
	case len(s.Command) > 0 && s.Command[0] == "":
		return fmt.Errorf("has a command without a program")
	case strings.ContainsRune(s.File+strings.Join(s.Command, ""), 0):
		return fmt.Errorf("has a source with a NUL in it")
	}
	return nil
}

// CheckName returns an error if name cannot be the name of a secret: it has to
// be a valid shell variable.
func CheckName(name string) error {
	if variable(name) {
		return nil
	}
	return malformed("the name is not that of a variable", "use letters, digits and _, and no digit first")
}

func variable(name string) bool {
	if name == "" || len(name) > maxName || '0' <= name[0] && name[0] <= '9' {
		return false
	}
	for _, c := range []byte(name) {
		if c != '_' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return true
}

func field(name string) string { return "network.secrets." + name }

func (b Binding) wrong(message, hint string) error {
	return &sandbox.Error{Code: sandbox.CodeValidation, Op: "bind secret", Field: field(b.Name), Message: b.Name + " " + message, Hint: hint}
}

func malformed(message, hint string) error {
	return &sandbox.Error{Code: sandbox.CodeValidation, Op: "read secret", Field: "network.secrets", Message: message, Hint: hint}
}
