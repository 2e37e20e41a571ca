package cli

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	ucli "github.com/urfave/cli/v2"

	"github.com/bulkhead-dev/sandbox/config"
)

// The words of --format.
const (
	formatTable = "table"
	formatJSON  = "json"
	formatShort = "o" // the flag's other name
)

// globals are the values of the flags that every command has. They may be
// given before or after the command's name; the last one counts.
type globals struct {
	config, stateDir, provider, tenant, agent, session, format, logLevel, server, tokenFile text
}

func newGlobals() *globals {
	return &globals{
		config:    text{check: notEmpty},
		stateDir:  text{check: notEmpty},
		tokenFile: text{check: notEmpty},
		provider:  text{check: providerName},
		agent:     text{value: config.DefaultAgent, check: notEmpty},
		session:   text{value: config.DefaultSession, check: notEmpty},
		format:    text{value: formatTable, check: oneOf(formatTable, formatJSON)},
		logLevel:  text{value: "warning", check: oneOf("error", "warning", "info", "debug")},
	}
}

// flagsFor returns the flags of the command c: one that has an -o of its own
// keeps it, and --format is written out behind its name. One that asks about a
// --host (explain, for one) keeps that too: behind its name that flag does not
// mean the daemon.
func (g *globals) flagsFor(c *ucli.Command) []ucli.Flag {
	own := map[string]bool{}
	for _, f := range c.Flags {
		own[f.Names()[0]] = true
	}
	flags := slices.DeleteFunc(g.flags(), func(f ucli.Flag) bool { return own[f.Names()[0]] })
	for _, f := range c.Flags {
		if !slices.Contains(f.Names(), formatShort) {
			continue
		}
		for _, global := range flags {
			if f, ok := global.(*ucli.GenericFlag); ok && slices.Contains(f.Aliases, formatShort) {
				f.Aliases = nil
			}
		}
	}
	return flags
}

// flags returns flags that set g. Every call returns new ones, because each
// command needs its own.
func (g *globals) flags() []ucli.Flag {
	var out []ucli.Flag
	for _, f := range []struct {
		value   *text
		name    string
		aliases []string
		usage   string
	}{
		{&g.config, "config", nil, "settings `FILE`; default $SANDBOX_CONFIG, else sandbox/sandbox.json in the user's configuration folder, else /etc/sandbox/sandbox.json"},
		{&g.stateDir, "state-dir", nil, "`FOLDER` of our records; default $SANDBOX_STATE_DIR, else sandbox in the user's state folder"},
		{&g.provider, "provider", nil, "`KIND` of sandbox: docker, local, landlock, kubernetes or auto; default from the settings"},
		{&g.tenant, "tenant", nil, "`ID` of the tenant"},
		{&g.agent, "agent", nil, "`ID` of the agent"},
		{&g.session, "session", nil, "`KEY` of the conversation"},
		{&g.format, "format", []string{formatShort}, "`FORM` of the output, table or json"},
		{&g.server, "server", nil, "`ADDRESS` of the daemon to use: unix:PATH, tcp:HOST:PORT or https://HOST; default $SANDBOX_SERVER"},
		{&g.server, oldServerFlag, nil, "another name of --server"},
		{&g.tokenFile, "token-file", nil, "`FILE` with the token for --server; default the token in $SANDBOX_TOKEN"},
		{&g.logLevel, "log-level", nil, "least `LEVEL` of log lines on standard error: error, warning, info, debug"},
	} {
		out = append(out, &ucli.GenericFlag{Name: f.name, Aliases: f.aliases, Usage: f.usage, Category: "Global", Value: f.value, Hidden: f.name == oldServerFlag})
	}
	return out
}

// providerWords are the values of --provider for this program.
func providerWords() []string { return []string{"docker", "local", "landlock", "kubernetes", "auto"} }

// providerName checks the form of a value of --provider: a daemon may have more
// providers than this program, and whether there is one is known when all flags
// are read. See [globals.checkProvider].
func providerName(name string) error {
	err := oneOf(providerWords()...)(name)
	if err == nil || config.CheckProviderName(name) == nil && !slices.Contains(config.BuiltinProviders(), name) {
		return nil
	}
	return err
}

// checkProvider refuses a --provider that this program does not have, where this
// program is to carry the command out.
func (g *globals) checkProvider(command string) error {
	if g.provider.value == "" || slices.Contains(providerWords(), g.provider.value) || g.address() != "" {
		return nil
	}
	return &usageError{
		command: command, message: fmt.Sprintf("--provider cannot be %q: it must be one of %s", g.provider.value, strings.Join(providerWords(), ", ")),
		hint: "a Go program adds a provider with orchestrator.Options.Providers; see docs/providers.md",
	}
}

// who says for whom a command is.
func (g *globals) who() config.Who {
	return config.Who{Tenant: g.tenant.value, Agent: g.agent.value, Session: g.session.value}
}

// where returns the flags of this call that say where settings and state lie
// and who provides sandboxes, names and values in turn. Paths are absolute.
func (g *globals) where() []string {
	var out []string
	for _, f := range []struct {
		name  string
		value *text
		path  bool
	}{{"--config", &g.config, true}, {"--state-dir", &g.stateDir, true}, {"--provider", &g.provider, false}} {
		if !f.value.given {
			continue
		}
		value := f.value.value
		if abs, err := filepath.Abs(value); f.path && err == nil {
			value = abs
		}
		out = append(out, f.name, value)
	}
	return out
}

// connection returns the flags of this call that say where it is carried out, as
// words for another call of this program.
func (g *globals) connection() []string {
	var out []string
	for _, f := range []struct {
		name  string
		value *text
	}{{"config", &g.config}, {"state-dir", &g.stateDir}, {"provider", &g.provider}, {"server", &g.server}, {"token-file", &g.tokenFile}, {"log-level", &g.logLevel}} {
		if f.value.given {
			out = append(out, "--"+f.name+"="+f.value.value)
		}
	}
	return out
}

// layer returns what the global flags say as settings of this call, nil
// when they say nothing.
func (g *globals) layer() *config.SandboxSettings {
	return config.Overrides{Provider: g.provider.value}.Layer()
}

func (g *globals) json() bool { return g.format.value == formatJSON }
