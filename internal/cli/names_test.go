package cli

import (
	"slices"
	"testing"

	ucli "github.com/urfave/cli/v2"
)

// TestNamed holds that every flag of every command has the names that the
// library would give it, and does not look for them again.
func TestNamed(t *testing.T) {
	root := (&app{globals: newGlobals()}).cli()
	seen := 0
	check := func(of string, flags []ucli.Flag) {
		for _, f := range flags {
			if f == ucli.HelpFlag { // the library's own, which knows it by its pointer
				continue
			}
			var inner ucli.Flag
			switch f := f.(type) {
			case *boolFlag:
				inner = f.BoolFlag
			case *genericFlag:
				inner = f.GenericFlag
			case *ucli.BoolFlag, *ucli.GenericFlag:
				t.Errorf("%s: --%s has no names at hand", of, f.Names()[0])
				continue
			default:
				continue
			}
			seen++
			if got, want := f.Names(), inner.Names(); !slices.Equal(got, want) {
				t.Errorf("%s: %q, want %q", of, got, want)
			}
		}
	}
	var below func(of string, list []*ucli.Command)
	below = func(of string, list []*ucli.Command) {
		for _, c := range list {
			check(of+" "+c.Name, c.Flags)
			below(of+" "+c.Name, c.Subcommands)
		}
	}
	check("sandbox", root.Flags)
	below("sandbox", root.Commands)
	if seen < 100 {
		t.Errorf("only %d flags", seen)
	}
}
