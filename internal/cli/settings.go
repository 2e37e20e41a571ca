package cli

import (
	ucli "github.com/urfave/cli/v2"

	"github.com/bulkhead-dev/sandbox/config"
)

func (a *app) configCommand() *ucli.Command {
	return &ucli.Command{
		Name:      "config",
		Usage:     "show the settings or their schema",
		UsageText: "sandbox config (schema | show) [flags]",
		Subcommands: []*ucli.Command{
			{
				Name:      "schema",
				Usage:     "print the JSON Schema of the settings file",
				UsageText: "sandbox config schema",
				Action: func(c *ucli.Context) error {
					if err := noArguments(c); err != nil {
						return err
					}
					_, err := a.Stdout.Write(append(config.Schema(), '\n'))
					return err
				},
			},
			a.configShowCommand(),
		},
	}
}

func (a *app) configShowCommand() *ucli.Command {
	var origins, values bool
	return &ucli.Command{
		Name:        "show",
		Usage:       "print the effective settings of --agent and --session as JSON",
		UsageText:   "sandbox config show [flags]",
		Description: "Values of variables that the settings set are masked unless --show-env is given.",
		Flags: []ucli.Flag{
			&ucli.BoolFlag{Name: "origins", Usage: "add the layer that each value came from", Destination: &origins},
			&ucli.BoolFlag{Name: "show-env", Usage: "show the values of variables", Destination: &values},
		},
		Action: func(c *ucli.Context) error {
			if err := noArguments(c); err != nil {
				return err
			}
			s, err := a.Backend.Settings(a.options())
			if err != nil {
				return err
			}
			r, err := config.Resolve(s, a.globals.who(), a.globals.layer())
			if err != nil {
				return err
			}
			if !values {
				r = r.Redact()
			}
			return writeJSON(a.Stdout, settingsOf(r, origins))
		},
	}
}

// settingsView is what config show prints.
type settingsView struct {
	config.Who
	Sandboxed bool              `json:"sandboxed"`
	Reason    string            `json:"reason"`
	ScopeKey  string            `json:"scopeKey"`
	Sandbox   config.Values     `json:"sandbox"`
	NoEffect  []config.Notice   `json:"noEffect"`
	Origins   map[string]string `json:"origins,omitempty"`
}

func settingsOf(r config.Resolved, origins bool) settingsView {
	v := settingsView{Who: r.Who, Sandboxed: r.Sandboxed, Reason: r.Reason, ScopeKey: r.ScopeKey, Sandbox: r.Values, NoEffect: notNil(r.NoEffect)}
	if origins {
		v.Origins = r.Origins
	}
	return v
}
