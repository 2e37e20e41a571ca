package cli

import (
	"errors"
	"strings"

	ucli "github.com/urfave/cli/v2"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
)

// hostFlags say what a sandbox reaches beyond its settings. They belong to the
// sandbox: every call that uses it has to give the same ones.
type hostFlags struct {
	command          string // that they are flags of
	domains, secrets texts
	registries       names
}

func newHostFlags(command string) hostFlags {
	return hostFlags{command: command, domains: texts{check: notEmpty}, registries: names{allowed: config.Registries(), word: config.Registry}}
}

func (f *hostFlags) flags() []ucli.Flag {
	return []ucli.Flag{
		&ucli.GenericFlag{Name: "allow-domain", Usage: "let the sandbox reach `HOST`, written as in network.allowedDomains", Value: &f.domains},
		&ucli.GenericFlag{Name: "allow", Usage: "let the sandbox reach package `REGISTRIES`: " + strings.Join(config.Registries(), ","), Value: &f.registries},
		&ucli.GenericFlag{Name: "secret", Usage: "put our variable NAME into requests to a host: `NAME[=env:VAR|=file:PATH]@HOST[:PORT][,HOST]`; inside, NAME holds a stand-in", Value: &f.secrets},
	}
}

// add puts what the flags say into o.
func (f *hostFlags) add(o *config.Overrides) error {
	o.AllowDomains, o.Registries = f.domains.values, f.registries.values
	for _, text := range f.secrets.values {
		name, s, err := config.ParseSecret(text)
		var e *sandbox.Error
		if errors.As(err, &e) {
			return usagef(f.command, "--secret: %s; %s", e.Message, e.Hint)
		}
		if _, twice := o.Secrets[name]; twice {
			return usagef(f.command, "--secret %s is given twice; write its hosts in one: %s@HOST,HOST", name, name)
		}
		if o.Secrets == nil {
			o.Secrets = map[string]config.SecretSettings{}
		}
		o.Secrets[name] = s
	}
	return nil
}
