package command

import (
	"strings"
)

// checkInterpreter looks for programs that run code which the syntax of the
// shell does not show.
func checkInterpreter(s *subject) {
	for i := range s.calls {
		k := &s.calls[i]
		s.tables.interpreter.find(k, s.report)
		for _, w := range k.Wrappers {
			if s.tables.classes[base(w)]&isShell == 0 { // what a shell was given is judged itself
				s.tables.interpreter.wrapper(w, k.lineCommand, s.report)
			}
		}
	}
}

// readsCode reports whether an interpreter takes its code from its standard
// input: no code, no module and no file is named.
func readsCode(k *call) bool {
	if _, ok := k.given("-c -e -E -m -r -p -i --eval --print -V -v -h --version --help -l -q"); ok {
		return false
	}
	return len(k.operands) == 0 && !k.open || len(k.operands) > 0 && (k.operands[0].Value == "-" || k.operands[0].Value == "/dev/stdin")
}

// scripts returns the scripts of sed or the program of awk: the values of the
// options, or else the first operand.
func (k *call) scripts(options, file string) []lineWord {
	var out []lineWord
	for _, o := range k.options {
		if o.given && hasWord(options, o.name) {
			out = append(out, o.value)
		}
	}
	if _, ok := k.given(file); ok || len(out) > 0 || len(k.operands) == 0 {
		return out
	}
	return k.operands[:1]
}

// scriptUnreported reports whether a variable is part of the script of sed or the
// program of awk.
func scriptUnreported(k *call) bool {
	for _, w := range k.scripts("-e --expression --source", "-f --file") {
		if !w.Static {
			return true
		}
	}
	return false
}

// sedScript reads the script of sed; of one with a variable in it nothing is
// known, which scriptUnreported tells.
func sedScript(k *call) sedReader {
	var text strings.Builder
	for _, w := range k.scripts("-e --expression", "-f --file") {
		if !w.Static {
			return sedReader{}
		}
		text.WriteString(w.Value)
		text.WriteByte('\n')
	}
	return readSed(text.String())
}

// sedActs reports whether a script of sed runs a command or writes a file, or
// cannot be read.
func sedActs(k *call) bool {
	r := sedScript(k)
	return r.acts || r.failed
}

// sedRuns reports whether a script of sed runs a command.
func sedRuns(k *call) bool { r := sedScript(k); return r.runs }

// gitRuns reports whether an option of git before its command sets something
// that git runs or obeys. Plain settings such as user.name are spared.
func gitRuns(k *call) bool {
	for _, o := range k.options {
		switch o.name {
		case "--exec-path":
			return o.span.Value != "--exec-path" // alone it only prints
		case "--config-env":
			return true
		case "-c":
			if !o.value.Static || !isPlainSetting(o.value.Value) {
				return true
			}
		}
	}
	return false
}

// plainSettings are settings of git that change how it speaks, not what it
// runs.
const plainSettings = "user.name user.email color.* advice.* core.quotepath core.abbrev core.autocrlf core.eol core.ignorecase " +
	"core.precomposeunicode core.filemode core.longpaths core.safecrlf core.whitespace core.compression core.preloadindex " +
	"diff.renames diff.context diff.noprefix diff.mnemonicprefix diff.algorithm diff.colormoved diff.statgraphwidth " +
	"commit.gpgsign tag.gpgsign log.* merge.conflictstyle merge.ff pull.rebase pull.ff push.default push.autosetupremote rebase.autosquash rebase.autostash " +
	"init.defaultbranch fetch.prune gc.auto http.postbuffer http.lowspeedlimit http.lowspeedtime protocol.version status.* column.* feature.* pack.* index.* branch.autosetuprebase"

// isPlainSetting reports whether a setting, with or without a value, is one
// of those. Names of git's settings know no case.
func isPlainSetting(setting string) bool {
	plain := newNameSet(plainSettings)
	name, _, _ := strings.Cut(setting, "=")
	return plain.has(strings.ToLower(name))
}

// gitSets reports whether git config writes a setting that is not plain.
func gitSets(k *call) bool {
	rest := grammar{short: "f", long: "--file --blob --type --default"}.parse(k.operands[1:], k.Open)
	if _, reads := rest.given("--get --get-all --get-regexp --get-urlmatch --list -l --get-color --get-colorbool"); reads {
		return false
	}
	if _, edits := rest.given("-e --edit"); edits {
		return true
	}
	names := rest.operands
	if len(names) > 0 && hasWord("get list set unset edit remove-section rename-section", names[0].Value) {
		switch names[0].Value {
		case "get", "list":
			return false
		case "edit":
			return true
		}
		names = names[1:]
		if len(names) == 0 {
			return false
		}
		return !names[0].Static || !isPlainSetting(names[0].Value)
	}
	if len(names) == 0 {
		return rest.open
	}
	_, unsets := rest.given("--unset --unset-all --remove-section --rename-section --add --replace-all")
	if len(names) == 1 && !unsets {
		return false // prints the setting
	}
	return !names[0].Static || !isPlainSetting(names[0].Value)
}

// gitStarts reports whether a command of git has an option that names a
// program.
func gitStarts(k *call) bool {
	if len(k.operands) == 0 {
		return false
	}
	rest := grammar{}.parse(k.operands[1:], k.Open)
	options := "--upload-pack --receive-pack --exec --extcmd --open-files-in-pager --template --upload-archive --config --separate-git-dir"
	switch k.operands[0].Value {
	case "clone", "ls-remote", "fetch", "pull", "push", "archive", "init":
		if k.operands[0].Value == "clone" {
			options += " -u -c"
		}
	case "grep":
		options += " -O"
	case "rebase":
		options += " -x"
	case "difftool", "mergetool":
		options += " -x --extcmd"
	case "diff", "log", "show", "format-patch":
		options = "--ext-diff"
	default:
		return false
	}
	_, ok := rest.given(options)
	return ok
}

// gitOrders reports whether a git command that can run other commands is given
// any to run.
func gitOrders(k *call) bool {
	words := make([]string, 0, len(k.operands))
	for _, w := range k.operands {
		words = append(words, w.Value)
	}
	switch text := strings.Join(words, " "); words[0] {
	case "rebase":
		return strings.Contains(text, "-i") || strings.Contains(text, "-x") || strings.Contains(text, "--exec")
	case "bisect":
		return len(words) > 1 && words[1] == "run"
	case "submodule":
		return len(words) > 1 && words[1] == "foreach"
	}
	return true
}

// sourcesOther reports whether a file is run in this shell that does not
// activate a virtual environment of the work.
func sourcesOther(k *call) bool {
	return len(k.Words) != 2 || !activatesEnvironment(k.Words[1])
}

// readsWritten reports whether an interpreter takes its code from a
// here-document whose delimiter is quoted, so that the line tells all of it.
func readsWritten(k *call) bool {
	if !readsCode(k) {
		return false
	}
	found := false
	for _, r := range k.Redirects {
		if r.Read {
			found = strings.HasPrefix(r.Op, "<<") && r.Op != "<<<" && strings.ContainsAny(r.Target.Raw, `'"\`)
		}
	}
	return found
}

// readsUnwritten reports whether an interpreter takes its code from elsewhere
// on its standard input.
func readsUnwritten(k *call) bool { return readsCode(k) && !readsWritten(k) }
