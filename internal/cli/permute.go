package cli

import (
	"slices"
	"strings"

	ucli "github.com/urfave/cli/v2"
)

// arrange rewrites the arguments of a call, the program's name first, into
// the order that the library understands: "help fs rm" as "fs rm --help", and
// flags before other arguments where people write them anywhere.
func arrange(args []string, find func(path string) words) []string {
	for i := 1; i < len(args); i++ {
		switch {
		case args[i] == "help" && i+1 < len(args) && !isFlag(args[i+1]):
			return append(slices.Delete(slices.Clone(args), i, i+1), "--help")
		case args[i] == "--", !isFlag(args[i]):
			return permute(args, find)
		case find("").takesValue(args[i]):
			i++
		}
	}
	return args
}

// permute puts the flags of a call of a command that [permuted] names before its
// other arguments, so that they may stand anywhere, as people write them: "fs rm
// old -r". What follows -- stays as it is. Calls of other commands are returned unchanged,
// since the arguments of run are the program's own.
func permute(args []string, find func(path string) words) []string {
	path, at := "", 1
	w := find(path)
	for ; at < len(args); at++ {
		switch {
		case args[at] == "--":
			return args
		case isFlag(args[at]):
			if w.takesValue(args[at]) {
				at++
			}
			continue
		case slices.Contains(w.commands, args[at]):
			path = strings.TrimSpace(path + " " + args[at])
			if !permuted(path) {
				return args
			}
			w = find(path)
			continue
		}
		break
	}
	if !permuted(path) || path == "fs" || path == "browser" || path == "token" || path == "port" || path == "checkpoint" || at > len(args) {
		return args
	}
	flags, rest := slices.Clone(args[:at]), []string(nil)
	for ; at < len(args); at++ {
		switch {
		case args[at] == "--":
			return slices.Concat(flags, []string{"--"}, rest, args[at+1:])
		case !isFlag(args[at]):
			rest = append(rest, args[at])
		default:
			flags = append(flags, args[at])
			if w.takesValue(args[at]) && at+1 < len(args) {
				at++
				flags = append(flags, args[at])
			}
		}
	}
	return slices.Concat(flags, []string{"--"}, rest)
}

// permuted reports whether the flags of the command may stand anywhere.
func permuted(path string) bool {
	first, _, _ := strings.Cut(path, " ")
	return slices.Contains([]string{"cp", "fs", "browser", "token", "port", "agent", "checkpoint", "rollback", "fork", "diff", "apply", "discard", "undo"}, first)
}

// isFlag reports whether arg is a flag. A dash alone is a name for a stream.
func isFlag(arg string) bool { return len(arg) > 1 && arg[0] == '-' }

// lookup returns what finds the words of one command; those of commands that
// are not asked for are never collected. An unknown command has none.
func lookup(root *ucli.App) func(path string) words {
	return func(path string) words {
		flags, list := root.Flags, root.Commands
		for name := range strings.FieldsSeq(path) {
			at := slices.IndexFunc(list, func(c *ucli.Command) bool { return c.HasName(name) })
			if at < 0 {
				return words{}
			}
			flags, list = list[at].Flags, list[at].Subcommands
		}
		w := words{path: path}
		w.flags, w.valued = flagWords(flags)
		for _, c := range list {
			w.commands = append(w.commands, c.Name)
		}
		return w
	}
}

// takesValue reports whether the argument after flag belongs to it. Of short
// flags written together only the last can have one.
func (w words) takesValue(flag string) bool {
	if strings.Contains(flag, "=") {
		return false
	}
	if slices.Contains(w.valued, flag) {
		return true
	}
	return !strings.HasPrefix(flag, "--") && slices.Contains(w.valued, "-"+flag[len(flag)-1:])
}
