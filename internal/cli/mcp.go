package cli

import (
	"os"
	"runtime/debug"

	ucli "github.com/urfave/cli/v2"

	"github.com/bulkhead-dev/sandbox/config"
)

// A MCPSession says whose tools a client of the Model Context Protocol gets,
// and where it speaks.
type MCPSession struct {
	Who      config.Who
	Flags    *config.SandboxSettings
	Subagent bool
	Tenant   bool // sandbox_* reach every sandbox of the tenant
	Version  string
	In, Out  *os.File // which belong to the protocol
}

func (a *app) mcpCommand() *ucli.Command {
	place := newPlaceFlags()
	var subagent, tenant bool
	flags := append([]ucli.Flag{
		&ucli.BoolFlag{Name: "subagent", Usage: "a sub-agent calls: commands.subagentBlock counts, too", Destination: &subagent},
		&ucli.BoolFlag{Name: "manage-tenant", Usage: "let sandbox_create, _list, _recreate and _remove reach every sandbox of --tenant, and not only the session's", Destination: &tenant},
	}, place.flags()...)
	return &ucli.Command{
		Name:      "mcp",
		Usage:     "serve the tools of a session to an agent, over standard input and output",
		UsageText: "sandbox mcp [flags]",
		Description: "An agent's program starts this as a server of the Model Context Protocol (stdio). The tools of --agent and\n" +
			"--session work inside its sandbox, which is made when it is first needed. Standard output belongs to the\n" +
			"protocol; logs go to standard error. What --ask would ask is asked through the client where it can do that.\n" +
			"The server ends with its standard input, or at SIGTERM, and with it all that its calls have left running.",
		Flags: flags,
		Action: func(c *ucli.Context) error {
			if err := noArguments(c); err != nil {
				return err
			}
			layer, err := place.layer(a.globals)
			if err != nil {
				return err
			}
			return a.Backend.MCP(c.Context, a.options(), MCPSession{
				Who: a.globals.who(), Flags: layer, Subagent: subagent, Tenant: tenant, Version: versionOf(debug.ReadBuildInfo()).Version, In: a.Stdin, Out: a.Stdout,
			})
		},
	}
}
