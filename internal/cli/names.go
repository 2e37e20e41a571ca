package cli

import ucli "github.com/urfave/cli/v2"

// named returns flags that have their names at hand. The library's find them
// with a regular expression each time, and each call asks each flag for them as
// often as there are flags, which took as long as reading the settings.
func named(flags []ucli.Flag) []ucli.Flag {
	out := make([]ucli.Flag, len(flags))
	for i, f := range flags {
		switch f := f.(type) {
		case *ucli.BoolFlag:
			out[i] = &boolFlag{f, append([]string{f.Name}, f.Aliases...)}
		case *ucli.GenericFlag:
			out[i] = &genericFlag{f, append([]string{f.Name}, f.Aliases...)}
		default:
			out[i] = f
		}
	}
	return out
}

type boolFlag struct {
	*ucli.BoolFlag
	names []string
}

// Names implements [ucli.Flag].
func (f *boolFlag) Names() []string { return f.names }

type genericFlag struct {
	*ucli.GenericFlag
	names []string
}

// Names implements [ucli.Flag].
func (f *genericFlag) Names() []string { return f.names }

// String implements [ucli.Flag]: the line of the help, for which the inner
// flag would look for its names. The library keeps flags by it.
func (f *genericFlag) String() string { return ucli.FlagStringer(f) }

var (
	_ ucli.DocGenerationFlag = (*boolFlag)(nil)
	_ ucli.DocGenerationFlag = (*genericFlag)(nil)
)
