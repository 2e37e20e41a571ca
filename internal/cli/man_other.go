//go:build urfave_cli_no_docs

package cli

import ucli "github.com/urfave/cli/v2"

// manCommands returns none: programs without the library's documentation write no
// manual pages.
func (a *app) manCommands(*ucli.App) []*ucli.Command { return nil }
