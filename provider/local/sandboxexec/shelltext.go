//go:build linux || darwin

package sandboxexec

import (
	"bytes"
	"strings"
)

// shellProgram is the shell of macOS, bash 3.2. What is written here keeps to
// what that has.
const shellProgram = "/bin/bash"

// maxState bounds the state of a shell in bytes.
const maxState = 16 << 20

// firstState is that of a shell in which no line has run.
const firstState = "builtin shopt -s expand_aliases\n"

// lineScript runs one line of a shell. It reads from descriptor 3 the state that
// the line before has left and the line, each with NUL at its end. To descriptor
// 4 it writes "R" when it has taken the state up, and when the line has come to
// its end "x" and "v" as these options are set, LF, the new state and NUL. The
// line does not have the descriptors. A line that ends the shell leaves no state.
//
// The options x and v hold for the line alone and not for what stands around it,
// which would be written to the error output of the line.
const lineScript = `LC_ALL=C IFS= builtin read -r -d '' -u 3 __sandbox_state
LC_ALL=C IFS= builtin read -r -d '' -u 3 __sandbox_line
exec 3<&-
builtin eval "$__sandbox_state" </dev/null >/dev/null 2>&1 4>&-
[ -z "${__sandbox_lost-}" ] || builtin printf 'sandbox: the folder %s is gone: the shell is in %s\n' "$__sandbox_lost" "$PWD" >&2
builtin unset -v __sandbox_state __sandbox_lost __sandbox_status
builtin printf R >&4
[ "${__sandbox_last-0}" = 0 ] || (exit "$__sandbox_last")
\builtin eval "$__sandbox_line" 4>&-
{
__sandbox_status=${__sandbox_status-$?}
__sandbox_flags=$-
\builtin set +exuv
\builtin printf '%s\n' "${__sandbox_flags//[^xv]/}"
\builtin printf '__sandbox_last=%s\n' "$__sandbox_status"
\builtin printf 'builtin cd -- %q || __sandbox_lost=%q\n' "$PWD" "$PWD"
\builtin shopt -p
\builtin set +o
\builtin declare -f
\builtin declare -F
\builtin compgen -A variable | while IFS= \builtin read -r __sandbox_name; do
case $__sandbox_name in
__sandbox_*|BASH|BASHOPTS|BASHPID|BASH_ALIASES|BASH_ARGC|BASH_ARGV|BASH_ARGV0|BASH_CMDS|BASH_COMMAND|BASH_EXECUTION_STRING|BASH_LINENO|BASH_MONOSECONDS|BASH_REMATCH|BASH_SOURCE|BASH_SUBSHELL|BASH_TRAPSIG|BASH_VERSINFO|BASH_VERSION|COMP_WORDBREAKS|DIRSTACK|EPOCHREALTIME|EPOCHSECONDS|EUID|FUNCNAME|GROUPS|HISTCMD|LINENO|PIPESTATUS|PPID|PWD|RANDOM|SECONDS|SHELLOPTS|SHLVL|SRANDOM|UID|_) ;;
*) \builtin declare -p "$__sandbox_name" ;;
esac
done
\builtin alias -p
\builtin printf 'builtin umask '
\builtin umask
\builtin trap -p EXIT HUP INT QUIT PIPE ALRM TERM USR1 USR2 CHLD CONT TSTP TTIN TTOU WINCH
\builtin trap - EXIT
\builtin printf 'builtin set --'
[ $# = 0 ] || \builtin printf ' %q' "$@"
\builtin printf '\n\0'
} 2>/dev/null >&4
exit "$__sandbox_status"`

// lineInput is what lineScript reads for one line.
func lineInput(state string, line string) []byte {
	flags, rest := "", state
	if first, after, ok := strings.Cut(state, "\n"); ok && strings.Trim(first, "xv") == "" {
		flags, rest = first, after
	}
	line += closing(line)
	if strings.HasSuffix(line, `\`) {
		line += "\n\n" // else bash takes what follows its own eval for a part of the line
	}
	if flags != "" {
		line = "builtin set -" + flags + " 2>/dev/null\n" + line
	}
	return []byte(rest + "\x00" + line + "\x00")
}

// closing follows a line that may set errexit or nounset, so that neither ends
// the shell after the line: bash would end it when the eval around the line has
// failed. What may take the next line for a part of itself has none.
func closing(line string) string {
	if !strings.Contains(line, "set") || strings.HasSuffix(line, `\`) || strings.Contains(line, "<<") {
		return ""
	}
	return "\n" + `{ __sandbox_status=$?; \builtin set +eu; } 2>/dev/null`
}

// An answer is what lineScript has written to descriptor 4.
type answer []byte

// began reports whether the shell has taken up its state.
func (a answer) began() bool { return len(a) > 0 && a[0] == 'R' }

// state returns the state that the line has left; ok is false when the shell has
// ended with the line.
func (a answer) state() (state string, ok bool) {
	if !a.began() || len(a) < 3 || a[len(a)-1] != 0 {
		return "", false
	}
	text := a[1 : len(a)-1]
	flags, _, ok := bytes.Cut(text, []byte("\n"))
	if !ok || bytes.IndexByte(text, 0) >= 0 || len(bytes.Trim(flags, "xv")) > 0 {
		return "", false
	}
	return string(text), true
}
