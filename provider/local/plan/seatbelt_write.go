package plan

import (
	"fmt"
	"strings"
)

// A writer builds the text of a profile.
type writer struct {
	b   strings.Builder
	tag string
}

func (w *writer) text(s string) { w.b.WriteString(s) }

func (w *writer) line(format string, args ...any) { fmt.Fprintf(&w.b, format+"\n", args...) }

// message returns the modifier that adds the tag to the log line of a refusal.
func (w *writer) message() string { return "(with message " + quote(w.tag) + ")" }

// rule writes one rule with any of the filters. Without filters it writes
// nothing, because a rule without filters applies to everything.
func (w *writer) rule(what string, filters []string, modifiers ...string) {
	if len(filters) == 0 {
		return
	}
	w.line("(%s", what)
	for _, f := range append(filters, modifiers...) {
		w.line("  %s", f)
	}
	w.line(")")
}

// each writes a filter of the kind for each path.
func each(kind string, paths []string) []string {
	var out []string
	for _, p := range paths {
		out = append(out, "("+kind+" "+quote(p)+")")
	}
	return out
}

func regex(expression string) string { return "(regex " + quote("^"+expression+"$") + ")" }

// quote writes s as a string of the profile language, which TinyScheme's reader
// parses: it escapes backslashes and quotes and writes control characters as
// two hex digits, so that no content of s can end the string or the line. It
// does not use raw strings (#"…"), because they cannot contain a quote.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < ' ' || c == 0x7f:
			fmt.Fprintf(&b, `\x%02x`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// head begins every profile.
const head = `(version 1)
`

// systemFolders and systemFiles are the paths that every program may read.
var (
	systemFolders = []string{
		"/System", "/Library/Apple", "/Library/Developer/CommandLineTools", "/usr", "/bin", "/sbin", "/opt/homebrew",
		"/private/etc/ssl", "/private/var/db/dyld", "/private/var/db/timezone",
	}
	systemFiles = []string{
		"/", "/dev/autofs_nowait", "/dev/dtracehelper", "/dev/random", "/dev/urandom",
		"/private/etc/hosts", "/private/etc/localtime", "/private/etc/protocols", "/private/etc/services",
	}
)

// systemText writes the rules that every program needs.
func systemText(w *writer) {
	w.text(system)
	w.rule("allow file-read*", append(each("literal", systemFiles), each("subpath", systemFolders)...))
	w.text(systemRest)
}

// system holds the rules that every program needs to start, to fork, to signal
// its own kind, and to load the system's libraries. None of them names a user's
// files.
const system = `(allow process-fork)
(allow process-exec)
(allow process-info* (target same-sandbox))
(allow signal (target same-sandbox))
(allow sysctl-read
  (sysctl-name-prefix "hw.")
  (sysctl-name-prefix "machdep.cpu.")
  (sysctl-name "kern.argmax")
  (sysctl-name "kern.hostname")
  (sysctl-name "kern.maxfilesperproc")
  (sysctl-name "kern.ngroups")
  (sysctl-name "kern.osproductversion")
  (sysctl-name "kern.osrelease")
  (sysctl-name "kern.ostype")
  (sysctl-name "kern.osversion")
  (sysctl-name "kern.secure_kernel")
  (sysctl-name "kern.usrstack64")
  (sysctl-name "kern.version")
  (sysctl-name "vm.loadavg")
)
(allow mach-lookup
  (global-name "com.apple.system.opendirectoryd.libinfo")
  (global-name "com.apple.bsd.dirhelper")
)
(allow ipc-posix-sem)
`

const systemRest = `(allow file-read-metadata
  (literal "/etc")
  (literal "/tmp")
  (literal "/var")
  (literal "/private")
  (literal "/private/etc")
  (literal "/private/tmp")
  (literal "/private/var")
  (literal "/dev")
)
(allow file-read* file-write*
  (literal "/dev/null")
  (literal "/dev/zero")
  (subpath "/dev/fd")
)
(allow file-ioctl file-read* file-write*
  (regex "^/dev/ttys[0-9]+$")
  (literal "/dev/tty")
)
`
