package dialect

import (
	"strings"

	"github.com/bulkhead-dev/sandbox/guest/server/hold"
)

// Prelude returns what a new shell reads before its first line. With
// restore it takes up the state that lies in the holder's slot for it.
func (d Dialect) Prelude(restore bool) string {
	text := shPrelude
	more := shRestore
	if d.bash {
		text, more = bashPrelude, bashRestore
	}
	if restore {
		text += more
	}
	return strings.NewReplacer(
		"@CONTROL@", d.slot(hold.SlotControl), "@STATE@", d.slot(hold.SlotState), "@RESTORE@", d.slot(hold.SlotRestore),
	).Replace(text)
}

// bashPrelude defines how bash answers. A trap on DEBUG prints wherever it
// is at that moment, so the state is written by a function of its own which
// inherits no traps; functrace, with which it would, is off meanwhile. The
// state's parts are in an order in which they can be read again: aliases
// must be there before functions could change what their commands mean, and
// options that change how a script is read come last.
//
// An answer keeps the line's status for the next line to see, except under
// errexit, where it would end the shell.
const bashPrelude = `\builtin shopt -s expand_aliases
__sandbox() {
case $- in
*T*) builtin set +T; __sandbox_state "$1" "$2" :functrace </dev/null >|@STATE@ 2>|@CONTROL@; builtin set -T;;
*) __sandbox_state "$1" "$2" '' </dev/null >|@STATE@ 2>|@CONTROL@;;
esac
case $- in *e*) builtin return 0;; esac
builtin return "$1"
}
__sandbox_state() {
builtin printf '\0%s %d\n' "$2" "$1" >&2
builtin printf '__sandbox_begin %q %q\n' "$PWD" "$BASHOPTS"
builtin declare -p
builtin alias -p
builtin trap -p
builtin umask -p
builtin declare -f
builtin declare -Fx
builtin printf '__sandbox_end %q %q\n' "$BASHOPTS" "$SHELLOPTS$3"
builtin printf '\0%s.\n' "$2" >&2
}
\builtin readonly -f __sandbox __sandbox_state
`

// bashRestore reads the state. What cannot be set again (read-only
// variables of bash itself) fails and is passed over. A function named
// builtin is left out: nothing could go on with it.
const bashRestore = `__sandbox_begin() {
builtin cd -- "$1"
local IFS=: o
for o in $BASHOPTS; do case :$2: in *:"$o":*) ;; *) builtin shopt -u "$o";; esac; done
for o in $2; do builtin shopt -s "$o"; done
builtin shopt -u expand_aliases
}
__sandbox_end() {
POSIXLY_CORRECT=y
unset -f builtin
unset POSIXLY_CORRECT
local IFS=: o
[[ . -ef $PWD ]] || builtin cd -P .
case :$1: in *:expand_aliases:*) builtin shopt -s expand_aliases;; esac
for o in $SHELLOPTS; do case :$2: in *:"$o":*) ;; *) builtin set +o "$o";; esac; done
for o in $2; do builtin set -o "$o"; done
}
. @RESTORE@
\builtin unset -f __sandbox_begin __sandbox_end
`

// shPrelude defines how a POSIX shell answers. It has no functions in it:
// there is no way to list them.
const shPrelude = `__sandbox() {
__sandbox_state "$1" "$2" </dev/null >|@STATE@ 2>|@CONTROL@
case $- in *e*) return 0;; esac
return "$1"
}
__sandbox_state() {
command printf '\000%s %d\n' "$2" "$1" >&2
set
export -p
command printf 'umask '
command umask
command printf "__sandbox_alias <<'%s'\n" "$2"
command alias
command printf '%s\n' "$2"
trap
command printf '__sandbox_cd\n'
readonly -p
set +o
command printf '\000%s.\n' "$2" >&2
}
`

// shRestore reads the state. An alias is listed without its command's
// name; one of several lines ends where a line ends with a quote.
const shRestore = `__sandbox_alias() {
__sandbox_a=
while IFS= read -r __sandbox_l; do
__sandbox_a="$__sandbox_a${__sandbox_a:+
}$__sandbox_l"
case $__sandbox_a in *\') eval "command alias $__sandbox_a"; __sandbox_a=;; esac
done
unset __sandbox_a __sandbox_l
}
__sandbox_cd() {
__sandbox_o=${OLDPWD-}
command cd -- "$PWD" || command cd -P .
OLDPWD=$__sandbox_o
unset __sandbox_o
}
command . @RESTORE@
unset -f __sandbox_alias __sandbox_cd
`
