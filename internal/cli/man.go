//go:build !urfave_cli_no_docs

package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/cpuguy83/go-md2man/v2/md2man"
	ucli "github.com/urfave/cli/v2"
)

// manCommands returns the hidden command that writes the manual pages. Packages
// are made with it; the programs in them are built without it.
func (a *app) manCommands(root *ucli.App) []*ucli.Command {
	return []*ucli.Command{{
		Name:      "man",
		Usage:     "write the manual pages, one for each command, into a folder",
		UsageText: "sandbox man FOLDER",
		Hidden:    true,
		Action: func(c *ucli.Context) error {
			if c.Args().Len() != 1 {
				return usagef("man", "exactly one folder is needed")
			}
			for name, page := range manPages(root) {
				file := filepath.Join(c.Args().First(), name+".1")
				if err := os.WriteFile(file, md2man.Render([]byte(page)), 0o644); err != nil {
					return err
				}
			}
			return nil
		},
	}}
}

// manPages returns the manual pages of section 1 as Markdown in the form that
// md2man reads, by name: that of the program, and one for each of its commands
// with those below it.
func manPages(root *ucli.App) map[string]string {
	var top strings.Builder
	manHead(&top, root.Name, root.Usage, root.UsageText)
	top.WriteString("# DESCRIPTION\n\nsandbox runs commands, code, file operations and browsers in isolation: in containers, by bubblewrap, or in pods.\n\n# COMMANDS\n\n")
	pages, also := map[string]string{}, []string{}
	for _, c := range root.Commands {
		if c.Hidden || c.Name == "help" {
			continue
		}
		name := root.Name + "-" + c.Name
		also = append(also, "**"+name+"**(1)")
		fmt.Fprintf(&top, "**%s**\n: %s\n\n", c.Name, manText(c.Usage))
		var b strings.Builder
		manHead(&b, name, c.Usage, c.UsageText)
		manBody(&b, c, "#")
		b.WriteString("# SEE ALSO\n\n**" + root.Name + "**(1)\n")
		pages[name] = b.String()
	}
	top.WriteString("# GLOBAL OPTIONS\n\n")
	manFlags(&top, root.Flags)
	top.WriteString("# SEE ALSO\n\n" + strings.Join(also, ", ") + "\n")
	pages[root.Name] = top.String()
	return pages
}

func manHead(b *strings.Builder, name, usage, synopsis string) {
	fmt.Fprintf(b, "%% %s 1\n\n# NAME\n\n%s - %s\n\n# SYNOPSIS\n\n", name, name, manText(usage))
	for line := range strings.Lines(synopsis) {
		fmt.Fprintf(b, "**%s**\n\n", manText(strings.TrimSpace(line)))
	}
}

// manBody writes the description and the options of c, and what is below it with
// headings one level down.
func manBody(b *strings.Builder, c *ucli.Command, level string) {
	if c.Description != "" {
		if level == "#" {
			b.WriteString("# DESCRIPTION\n\n")
		}
		b.WriteString(manText(c.Description) + "\n\n")
	}
	if len(c.VisibleFlags()) > 0 {
		if level == "#" {
			b.WriteString("# OPTIONS\n\n")
		}
		manFlags(b, c.Flags)
	}
	for i, sub := range c.VisibleCommands() {
		if i == 0 && level == "#" {
			b.WriteString("# COMMANDS\n\n")
		}
		fmt.Fprintf(b, "%s# %s\n\n%s\n\n", level, manText(sub.UsageText), manText(sub.Usage))
		manBody(b, sub, level+"#")
	}
}

// manFlags writes the flags that help shows, the program's own excepted where the
// command repeats them: the page of the program has those.
func manFlags(b *strings.Builder, flags []ucli.Flag) {
	for _, f := range flags {
		v, ok := f.(ucli.VisibleFlag)
		doc, hasDoc := f.(ucli.DocGenerationFlag)
		if !ok || !v.IsVisible() || !hasDoc {
			continue
		}
		var names []string
		value, usage := manValue(doc.GetUsage())
		for _, n := range f.Names() {
			dashed := "--" + n
			if len(n) == 1 {
				dashed = "-" + n
			}
			names = append(names, "**"+dashed+"**")
		}
		if doc.TakesValue() {
			names[len(names)-1] += " *" + manText(value) + "*"
		}
		fmt.Fprintf(b, "%s\n: %s\n\n", strings.Join(names, ", "), manText(usage))
	}
}

// manValue returns the name of a flag's value, which its usage has in backquotes,
// and the usage without them.
func manValue(usage string) (value, text string) {
	before, rest, found := strings.Cut(usage, "`")
	name, after, closed := strings.Cut(rest, "`")
	if !found || !closed {
		return "VALUE", usage
	}
	return name, before + name + after
}

// manText returns text with what Markdown takes for formatting escaped.
func manText(text string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "_", `\_`, "<", `\<`, "[", `\[`, "`", "\\`", "|", `\|`).Replace(text)
}
