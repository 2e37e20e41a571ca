package command

import (
	"slices"
	"strings"
)

// commandReaders are programs that read commands of their own from their
// standard input or their arguments, among them one that runs a shell.
const commandReaders = "ed red ex vi vim nvim view rvim vimdiff mail mailx Mail s-nail mutt ftp lftp sftp telnet tnftp " +
	"sqlite3 sqlite duckdb psql mysql mariadb gdb lldb dc gnuplot octave maxima R m4 ghci irb tclsh wish expect"

// escapes are what these commands begin with or contain, by program; other
// programs have "!".
func escapes(program string) []string {
	switch program {
	case "sqlite3", "sqlite", "duckdb":
		return []string{".sh", ".sy", ".read", ".once", ".output", ".import", ".load", "edit(", "writefile(", "load_extension", ".excel", ".www", ".archive"}
	case "psql":
		return []string{`\!`, `\o`, `\g`, `\w`, `\i`, `\e`, `\set`, `\copy`, "PROGRAM", "program", "`"}
	case "mysql", "mariadb":
		return []string{`\!`, "system", "SYSTEM", `\P`, "pager", `\.`, "source", `\e`, "tee"}
	case "mail", "mailx", "Mail", "s-nail", "mutt":
		return []string{"~"}
	case "gdb", "lldb":
		return []string{"shell", "!", "python", "pipe ", "source", "make ", "system", "platform"}
	case "m4":
		return []string{"syscmd", "esyscmd"}
	case "gnuplot", "octave", "maxima", "R", "ghci", "irb":
		return []string{"system", "shell", "!", "`", "spawn", "exec", "popen", "load"}
	case "tclsh", "wish", "expect":
		return []string{"exec", "open", "spawn", "system", "eval", "subst", "source"}
	case "ftp", "tnftp", "lftp":
		return []string{"!", "|"}
	case "ed", "red", "ex", "vi", "vim", "nvim", "view", "rvim", "vimdiff":
		return []string{"!", "system(", ":sh", "term", "python", "lua", "source"}
	}
	return []string{"!"}
}

// maxEscapes bounds the text in which these are looked for, once a command.
const maxEscapes = 128 << 10

// readsCommands reports whether such a program is given text on its standard
// input, in the line itself, that has a command which may run a shell.
func readsCommands(k *call) bool {
	piped := slices.Contains(k.Via, linePipe)
	fed := piped || slices.ContainsFunc(k.Redirects, func(r lineRedirect) bool {
		return strings.HasPrefix(r.Op, "<<") || strings.HasPrefix(r.Op, "<") && !r.Target.Static
	})
	if !fed {
		return false
	}
	if len(k.whole) > maxEscapes {
		return true
	}
	for _, e := range escapes(k.program) {
		if strings.Contains(k.whole, e) {
			return true
		}
	}
	// printf '\41id' and $'\x21id' write a command without showing it.
	return strings.Contains(k.whole, `\x`) || strings.Contains(k.whole, `\0`) || strings.Contains(k.whole, `\4`) || strings.Contains(k.whole, `\u`)
}

// scriptFromInput reports whether sed or awk takes its script from its standard
// input or from a descriptor.
func scriptFromInput(k *call) bool {
	for _, o := range k.options {
		if o.given && hasWord("-f --file -E --exec --include -i", o.name) && (o.value.Value == "-" || strings.HasPrefix(o.value.Value, "/dev/") || strings.HasPrefix(o.value.Value, "/proc/")) {
			return true
		}
	}
	return false
}
