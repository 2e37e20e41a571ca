package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/hostpath"
	"github.com/bulkhead-dev/sandbox/policy/network"
)

// Bounds of the secrets of one sandbox, all of which are looked for in every
// header of a request to their hosts.
const (
	maxSecrets     = 64
	maxSecretHosts = 64
)

// ParseSecret reads the flag form of a secret:
//
//	NAME@HOST[:PORT][,HOST[:PORT]…]       from the variable NAME of the orchestrator
//	NAME=env:VAR@HOST…                    from another variable
//	NAME=file:PATH@HOST…                  from a file
//
// The last @ is the one that counts. A secret itself cannot be written, and a
// program that prints one can be named in the settings file alone. Errors are
// [sandbox.CodeValidation] and repeat nothing of the text, as it may hold a
// secret that was put there by mistake.
func ParseSecret(text string) (name string, s SecretSettings, err error) {
	bad := func(why string) (string, SecretSettings, error) {
		e := sandbox.Errorf(sandbox.CodeValidation, "read secret", "%s", why)
		e.Hint = "write NAME@HOST, NAME=env:VARIABLE@HOST or NAME=file:PATH@HOST"
		return "", SecretSettings{}, e
	}
	i := strings.LastIndexByte(text, '@')
	if i < 0 {
		return bad("it names no host")
	}
	name, source, given := strings.Cut(text[:i], "=")
	s.Hosts = strings.Split(text[i+1:], ",")
	kind, value, _ := strings.Cut(source, ":")
	switch {
	case !given:
	case kind == "command":
		return bad("a program that prints a secret can be named in the settings file only")
	case kind != "env" && kind != "file":
		return bad("what comes after = is neither env:VARIABLE nor file:PATH; a secret itself cannot be given")
	case value == "":
		return bad("what comes after " + kind + ": is missing")
	case kind == "env":
		s.From.Env = value
	default:
		s.From.File = value
	}
	if why, _ := badSecretName(name); why != "" {
		return bad("the name " + why)
	}
	if why, _, _ := s.wrong(); why != "" {
		return bad(why)
	}
	return name, s, nil
}

// wrong says what is wrong with s by itself, and where in it. What may be a
// secret by mistake is not repeated.
func (s SecretSettings) wrong() (why, hint, where string) {
	given := 0
	for _, is := range []bool{s.From.Env != "", s.From.File != "", len(s.From.Command) > 0} {
		if is {
			given++
		}
	}
	switch {
	case given > 1:
		return "it has more than one source", "name one of env, file and command", ".from"
	case s.From.Env != "" && !isVariable(s.From.Env):
		return "the variable that it comes from has no name of one", "use letters, digits and _; a secret itself cannot be given", ".from.env"
	case strings.ContainsFunc(s.From.File, hidden):
		return "the file holds a control or invisible character", "", ".from.file"
	case s.From.File != "" && !rooted(s.From.File):
		return "the file that it comes from is not absolute", "write /… or ~/…", ".from.file"
	case len(s.From.Command) > 0 && s.From.Command[0] == "":
		return "the program has no name", "", ".from.command"
	case slices.ContainsFunc(s.From.Command, func(a string) bool { return strings.IndexByte(a, 0) >= 0 }):
		return "the program has an argument with a NUL byte", "", ".from.command"
	case len(s.Hosts) == 0:
		return "it names no host", "name the hosts that get it", ".hosts"
	case len(s.Hosts) > maxSecretHosts:
		return fmt.Sprintf("it names %d hosts; %d are allowed", len(s.Hosts), maxSecretHosts), "", ".hosts"
	}
	for i, host := range s.Hosts {
		if _, _, err := secretHost(host); err != nil {
			return fmt.Sprintf("host %d is none: a name or address is needed, with or without a port", i+1), "write api.example.com or api.example.com:8443; wildcards and ranges get no secret", ".hosts[" + strconv.Itoa(i) + "]"
		}
	}
	return "", "", ""
}

// rooted reports whether a path is absolute once ~ and variables are replaced,
// as far as it shows.
func rooted(p string) bool {
	return strings.HasPrefix(p, "/") || strings.HasPrefix(p, "~/") || strings.HasPrefix(p, "$")
}

// secretHost reads a host to which a secret is bound. Port 0 is none.
func secretHost(text string) (h network.Host, port uint16, err error) {
	if h, err = network.Canonical(text); err == nil {
		return h, 0, nil
	}
	return network.ParseTarget(text)
}

// badSecretName says why a secret cannot have a name. The name is not repeated.
func badSecretName(name string) (why, hint string) {
	switch {
	case !isVariable(name):
		return "is no name of a variable", "use letters, digits and _"
	case reservedVariable(strings.ToUpper(name)):
		return "is of a variable that programs act upon, or that is set for the proxy", "use a name like API_TOKEN"
	}
	return "", ""
}

// reservedVariable reports whether a placeholder in the variable would break
// the programs inside or their use of the egress proxy. name is in upper case.
func reservedVariable(name string) bool {
	for _, prefix := range []string{"LD_", "DYLD_", "BASH_", "SANDBOX_", "LC_", "GIT_CONFIG_"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	const reserved = " PATH HOME USER LOGNAME SHELL PWD OLDPWD TERM TMPDIR LANG TZ IFS ENV PS0 PS1 PS2 PS4 SHELLOPTS BASHOPTS PROMPT_COMMAND " +
		"HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY FTP_PROXY NODE_USE_ENV_PROXY NODE_OPTIONS PYTHONPATH PYTHONHOME PERL5OPT RUBYOPT " +
		"SSL_CERT_FILE SSL_CERT_DIR CURL_CA_BUNDLE REQUESTS_CA_BUNDLE PIP_CERT GIT_SSL_CAINFO NODE_EXTRA_CA_CERTS NPM_CONFIG_CAFILE " +
		"CARGO_HTTP_CAINFO AWS_CA_BUNDLE DENO_CERT NIX_SSL_CERT_FILE WGETRC YARN_HTTPS_CA_FILE_PATH CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE " +
		"BUNDLE_SSL_CA_CERT COMPOSER_CAFILE HEX_CACERTS_PATH PERL_LWP_SSL_CA_FILE HTTPLIB2_CA_CERTS GRPC_DEFAULT_SSL_ROOTS_FILE_PATH " +
		"JULIA_SSL_CA_ROOTS_PATH "
	return strings.Contains(reserved, " "+name+" ")
}

// secrets checks the secrets of one layer.
func (p *problems) secrets(secrets map[string]SecretSettings, at string) {
	if len(secrets) > maxSecrets {
		p.badly(at, "", "%d secrets are too many; %d are allowed", len(secrets), maxSecrets)
		return
	}
	for _, name := range sortedKeys(secrets) {
		where := join(at, name)
		if why, hint := badSecretName(name); why != "" {
			p.badly(where, hint, "the name %s", why)
		}
		if why, hint, in := secrets[name].wrong(); why != "" {
			p.badly(where+in, hint, "%s", why)
		}
	}
}

// A BoundSecret is one secret of a call, prepared for its reader.
type BoundSecret struct {
	Name  string
	Hosts []string     // canonical, as host or host:port, sorted
	From  SecretSource // with exactly one source; File is absolute
}

// BoundSecrets returns the secrets of the call, sorted by name. home and env
// replace ~ and $VAR in the names of files.
func (r Resolved) BoundSecrets(home string, env map[string]string) ([]BoundSecret, error) {
	var out []BoundSecret
	for _, ref := range secretRefs(r.Network) {
		from := r.Network.Secrets[ref.Name].From
		from.Command = slices.Clone(from.Command)
		switch {
		case from.File != "":
			path, err := hostpath.ExpandVariables(from.File, home, env)
			if err == nil && !strings.HasPrefix(path, "/") {
				err = fmt.Errorf("the file is not absolute")
			}
			if err != nil {
				return nil, invalid(r.field(join("network.secrets", ref.Name)), "the file of the secret cannot be named: %w", err)
			}
			from.File = path
		case from.Env == "" && len(from.Command) == 0:
			from.Env = ref.Name
		}
		out = append(out, BoundSecret{Name: ref.Name, Hosts: ref.Hosts, From: from})
	}
	return out, nil
}

// SecretRefs returns the names of the secrets and the hosts that get them,
// canonical and sorted.
func (r Resolved) SecretRefs() []sandbox.SecretRef { return secretRefs(r.Network) }

// secretRefs returns what a Spec tells of the secrets: names and hosts, sorted.
func secretRefs(n Network) []sandbox.SecretRef {
	var out []sandbox.SecretRef
	for _, name := range sortedKeys(n.Secrets) {
		ref := sandbox.SecretRef{Name: name}
		for _, text := range n.Secrets[name].Hosts {
			h, port, err := secretHost(text)
			switch {
			case err != nil: // was refused before
			case port == 0:
				ref.Hosts = append(ref.Hosts, h.String())
			default:
				ref.Hosts = append(ref.Hosts, h.Target(port))
			}
		}
		slices.Sort(ref.Hosts)
		ref.Hosts = slices.Compact(ref.Hosts)
		out = append(out, ref)
	}
	return out
}
