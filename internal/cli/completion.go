package cli

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	ucli "github.com/urfave/cli/v2"

	"github.com/bulkhead-dev/sandbox/manager"
)

const completionName = "completion"

// completionCommand prints scripts that complete commands and flags. They
// hold these words themselves. Only to complete a session or an agent they run
// the program, which prints what is on record.
func (a *app) completionCommand(root *ucli.App) *ucli.Command {
	return &ucli.Command{
		Name:      completionName,
		Usage:     "print a completion script for bash, zsh or fish",
		UsageText: "sandbox completion (bash | zsh | fish)",
		Description: "bash: source <(sandbox completion bash)\n" +
			"zsh:  source <(sandbox completion zsh)\n" +
			"fish: sandbox completion fish | source",
		Action: func(c *ucli.Context) error {
			if words := c.Args().First(); c.Args().Len() == 1 && (words == completeSessions || words == completeAgents) {
				return a.completeRecorded(c.Context, words)
			}
			if c.Args().Len() != 1 {
				return usagef("completion", "exactly one of bash, zsh and fish is needed")
			}
			words := wordsOf(root)
			var script string
			switch shell := c.Args().First(); shell {
			case "bash":
				script = bashScript(words)
			case "zsh":
				script = "autoload -U +X bashcompinit && bashcompinit\n" + bashScript(words)
			case "fish":
				script = fishScript(words)
			default:
				return usagef("completion", "there is no script for %q; it must be one of bash, zsh, fish", shell)
			}
			_, err := io.WriteString(a.Stdout, script)
			return err
		},
	}
}

// The arguments of completion that scripts use.
const (
	completeSessions = "sessions"
	completeAgents   = "agents"
)

// maxComplete is how long looking for sessions may take while a person waits
// for a word to be completed.
const maxComplete = 2 * time.Second

// completeRecorded prints the sessions or agents that sandboxes are on record
// for, a line each. Names that a shell might take for something else are left
// out.
func (a *app) completeRecorded(ctx context.Context, which string) error {
	ctx, cancel := context.WithTimeout(ctx, maxComplete)
	defer cancel()
	return a.useManager(a.options(), func(m Manager) error {
		l, _ := m.List(ctx, manager.ListOptions{Tenant: a.globals.tenant.value}) // what is known is offered also when the engine is down
		names := map[string]bool{}
		for _, r := range l.Containers {
			name := r.Session
			if which == completeAgents {
				name = r.Agent
			}
			if name != "" && !strings.ContainsFunc(name, func(c rune) bool { return !plainLetter(c) }) {
				names[name] = true
			}
		}
		for _, name := range slices.Sorted(maps.Keys(names)) {
			if _, err := fmt.Fprintln(a.Stdout, name); err != nil {
				return err
			}
		}
		return nil
	})
}

// plainLetter reports whether a shell takes c for itself.
func plainLetter(c rune) bool {
	return c < 0x80 && (c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || strings.ContainsRune("._:@/+-", c))
}

// words is what can follow one command.
type words struct {
	path     string // "images build"; empty for the program itself
	usage    map[string]string
	commands []string
	flags    []string // without those of the program itself, with dashes
	valued   []string // those of flags that take a value
}

// wordsOf collects the words of every command, the program itself first.
func wordsOf(root *ucli.App) []words {
	top := words{usage: map[string]string{}}
	top.flags, top.valued = flagWords(root.Flags)
	out := []words{top}
	var visit func(path string, list []*ucli.Command)
	visit = func(path string, list []*ucli.Command) {
		at := slices.IndexFunc(out, func(w words) bool { return w.path == path })
		for _, c := range list {
			if c.Name == "help" || c.Hidden {
				continue
			}
			out[at].commands = append(out[at].commands, c.Name)
			out[at].usage[c.Name] = c.Usage
			w := words{path: strings.TrimSpace(path + " " + c.Name), usage: map[string]string{}}
			w.flags, w.valued = flagWords(c.Flags)
			out = append(out, w)
			visit(w.path, c.Subcommands)
		}
	}
	visit("", root.Commands)
	for i := range out {
		if out[i].path == "completion" {
			out[i].commands = []string{"bash", "fish", "zsh"}
		}
	}
	return out
}

func flagWords(flags []ucli.Flag) (all, valued []string) {
	for _, f := range flags {
		if v, ok := f.(ucli.VisibleFlag); ok && !v.IsVisible() {
			continue
		}
		reported, ok := f.(ucli.DocGenerationFlag)
		takes := !ok || reported.TakesValue()
		for _, n := range f.Names() {
			dashed := "--" + n
			if len(n) == 1 {
				dashed = "-" + n
			}
			all = append(all, dashed)
			if takes {
				valued = append(valued, dashed)
			}
		}
	}
	slices.Sort(all)
	slices.Sort(valued)
	return slices.Compact(all), slices.Compact(valued)
}

// bashScript walks over the line up to the cursor to find which command it
// is in, and offers the words of that. After --, after the first word that is
// no command, and for cp, files are offered.
func bashScript(all []words) string {
	var b strings.Builder
	b.WriteString("# completion of sandbox\n_sandbox() {\n" +
		"  local cur=${COMP_WORDS[COMP_CWORD]} path= i w words valued commands\n" +
		"  COMPREPLY=()\n" +
		"  for ((i = 1; i < COMP_CWORD; i++)); do\n" +
		"    w=${COMP_WORDS[i]}\n" +
		"    _sandbox_words \"$path\"\n" +
		"    case $w in\n" +
		"      --) COMPREPLY=($(compgen -f -- \"$cur\")); return ;;\n" +
		"      -*) [[ \" $valued \" == *\" $w \"* ]] && ((i++)) ;;\n" +
		"      *) [[ \" $commands \" == *\" $w \"* ]] || { COMPREPLY=($(compgen -f -- \"$cur\")); return; }\n" +
		"         path=\"${path:+$path }$w\" ;;\n" +
		"    esac\n" +
		"  done\n" +
		"  if ((i > COMP_CWORD)); then\n" +
		"    case $w in\n" +
		"      --session) _sandbox_recorded sessions ;;\n" +
		"      --agent) _sandbox_recorded agents ;;\n" +
		"      *) COMPREPLY=($(compgen -f -- \"$cur\")) ;;\n" +
		"    esac\n" +
		"    return\n" +
		"  fi\n" +
		"  _sandbox_words \"$path\"\n" +
		"  case $cur in\n" +
		"    -*) COMPREPLY=($(compgen -W \"$words\" -- \"$cur\")) ;;\n" +
		"    *) if [[ $path == cp ]]; then COMPREPLY=($(compgen -f -- \"$cur\")); else COMPREPLY=($(compgen -W \"$commands\" -- \"$cur\")); fi ;;\n" +
		"  esac\n" +
		"}\n" +
		"_sandbox_recorded() {\n" +
		"  while IFS= read -r w; do [[ $w == \"$cur\"* ]] && COMPREPLY+=(\"$w\"); done < <(\"${COMP_WORDS[0]}\" completion \"$1\" 2>/dev/null)\n" +
		"}\n" +
		"_sandbox_words() {\n" +
		"  commands= words= valued=\n" +
		"  case $1 in\n")
	for _, w := range all {
		fmt.Fprintf(&b, "    %q) commands=%q words=%q valued=%q ;;\n", w.path,
			strings.Join(w.commands, " "), strings.Join(append(slices.Clone(w.flags), "--help"), " "), strings.Join(w.valued, " "))
	}
	b.WriteString("  esac\n}\ncomplete -o filenames -F _sandbox sandbox\n")
	return b.String()
}

// fishScript uses fish's own test of which commands were seen.
func fishScript(all []words) string {
	var b strings.Builder
	b.WriteString("# completion of sandbox\ncomplete -c sandbox -f\ncomplete -c sandbox -n '__fish_seen_subcommand_from cp' -F\n")
	for _, w := range all {
		when := "__fish_use_subcommand"
		if w.path != "" {
			names := strings.Fields(w.path)
			tests := make([]string, len(names))
			for i, n := range names {
				tests[i] = "__fish_seen_subcommand_from " + n
			}
			when = strings.Join(tests, "; and ")
		}
		for _, c := range w.commands {
			fmt.Fprintf(&b, "complete -c sandbox -n '%s' -a '%s' -d '%s'\n", when, c, strings.ReplaceAll(w.usage[c], "'", `\'`))
		}
		for _, f := range w.flags {
			value := ""
			if slices.Contains(w.valued, f) {
				value = " -r"
			}
			switch f {
			case "--session":
				value = " -x -a '(sandbox completion sessions 2>/dev/null)'"
			case "--agent":
				value = " -x -a '(sandbox completion agents 2>/dev/null)'"
			}
			if name, long := strings.CutPrefix(f, "--"); long {
				fmt.Fprintf(&b, "complete -c sandbox -n '%s' -l '%s'%s\n", when, name, value)
			} else {
				fmt.Fprintf(&b, "complete -c sandbox -n '%s' -s '%s'%s\n", when, strings.TrimPrefix(f, "-"), value)
			}
		}
	}
	return b.String()
}
