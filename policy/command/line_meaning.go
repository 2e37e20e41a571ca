package command

import (
	"strings"

	"github.com/bulkhead-dev/sandbox/policy"
)

// meanings are the variables that change what the names or the text mean that
// follow, with what they do.
var meanings = map[string]string{
	"PATH":                "decides which programs the names mean",
	"EXECIGNORE":          "decides which programs the names mean",
	"BASH_ENV":            "names a file that every bash runs",
	"ENV":                 "names a file that every sh runs",
	"BASH_ALIASES":        "makes names mean other commands",
	"BASH_CMDS":           "decides which programs the names mean",
	"BASHOPTS":            "changes how bash reads its text",
	"SHELLOPTS":           "changes how bash reads its text",
	"BASH_COMPAT":         "changes how bash reads its text",
	"POSIXLY_CORRECT":     "changes how bash reads its text",
	"BASH_LOADABLES_PATH": "decides which builtins are loaded",
	"PROMPT_COMMAND":      "is run before every prompt",
	"SHELL":               "decides which shell other programs start",
	"LD_PRELOAD":          "loads code into every program",
	"LD_AUDIT":            "loads code into every program",
	"LD_LIBRARY_PATH":     "decides which libraries programs load",
	"TEXTDOMAIN":          "decides how texts are translated, and so run",
	"TEXTDOMAINDIR":       "decides how texts are translated, and so run",
}

// prompts are the variables whose substitutions run when bash shows them.
var prompts = map[string]bool{"PS0": true, "PS1": true, "PS2": true, "PS4": true}

// integers are the variables that bash evaluates what they are set to for.
var integers = map[string]bool{"RANDOM": true, "SRANDOM": true, "OPTIND": true, "HISTCMD": true, "SECONDS": true, "LINENO": true, "BASHPID": true}

// meaning notes when setting name to value changes what runs.
func (w *walker) meaning(name string, value lineWord, span policy.Span) {
	name, _, _ = strings.Cut(name, "[")
	switch {
	case strings.HasPrefix(name, "BASH_FUNC_"):
		w.job.unknown(span, name+" defines a function")
	case prompts[name]:
		if !value.Static || strings.ContainsAny(value.Value, "$`\\") {
			w.job.unknown(span, name+" is evaluated when bash shows it")
		}
	case integers[name]:
		if !value.number && !(value.Static && decimal(value.Value)) {
			w.job.unknown(span, name+" is a number, so that what it is set to is evaluated, which can run commands")
		}
	case name == "PATH" && extendsPath(value):
	default:
		if why := meanings[name]; why != "" {
			w.job.unknown(span, name+" "+why)
		}
	}
}
