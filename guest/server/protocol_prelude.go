package server

import (
	"strings"
)

// Prelude returns what a new shell reads before its first line. With restore it
// takes up the state that lies in the slot for it.
func (d protocolShell) Prelude(restore bool) string {
	text := shPrelude
	more := shRestore
	if d.bash {
		text, more = bashPrelude, bashRestore
	}
	if restore {
		text += more
	}
	return strings.NewReplacer(
		"@STDOUT@", d.slot(slotStdout), "@STDERR@", d.slot(slotStderr), "@RESTORE@", d.slot(slotRestore),
		"@OUT@", ownStdout, "@ERR@", ownStderr,
	).Replace(text)
}

// bashPrelude defines how bash answers, in several functions, because bash
// copies the whole of a function each time that it is called: __Sandbox has what
// is rare, __sandboX is for lines that leave the state as it is, which it does
// not tell, and __SandboX for those that only print, after which nearly nothing of
// what follows is of matter. The others are called with the status of the line, a
// word, and a token. The word is of the line's outputs:
//
//	new    they were opened for it, and are closed by now
//	take   the same, and the shell is to open them for itself
//	own    they are the shell's own
//	begin  there was no line
//	drop   the shell is to close its own, and not to answer
//	enter  the shell is to enter its working directory by its name, or the folder
//	       after the token where there is none, which it says; and not to answer
//
// With a plus after it, and after a line that could not be parsed, it mends: it
// makes an error of syntax, the one thing after which bash forgets all that its
// parser has in hand.
//
// Five arguments say that the state was begun already, with the traps that bash
// has for itself (DEBUG, ERR and RETURN), which are gone in a function, see askAll.
// The last one goes on from there, in place of the mark of the beginning.
//
// A trap on DEBUG prints wherever it is at that moment, so the state is
// written where no traps are inherited: functrace, with which they would
// be, is off meanwhile. The state's parts are in an order in which they can be
// read again: aliases must be there before functions could change what their
// commands mean, and options come last. Between the umask and those there is
// nothing in a usual shell, see [Usual].
//
// To list functions takes bash long even when there are only these, so it
// is asked first whether there are others, or builtins that are disabled: those
// are not kept, but make a shell unusual. That compgen is there to be asked is
// what it says when called for nothing. The names it prints are comments.
// Under nocasematch it would not tell __SANDBOX from these functions.
//
// The state goes to standard output and what else it says to the guest to
// standard error, which are pipes of the shell itself: it opens nothing. What
// it says first takes as many descriptors as a line, though. What it has for
// standard input cannot be read by a trap, and is not the script.
//
// Some shells do not answer: those in which no line can have its outputs,
// because the descriptor store is gone, their own are, or they are restricted
// (r); those that end now (onecmd); those of which the line has closed what
// bash keeps its descriptors in, so that their standard output still is the
// line's; and those without eval, in which nothing would run.
//
// With "take" the shell opens its outputs last of all, when nothing waits for
// it, unless their numbers are in use, and says whether it has them. Under
// builtin instead of command, exec would keep nothing; and without either a
// posix shell would end where that fails.
//
// An answer keeps the line's status for the next line to see. Before that it
// sets errexit and nounset off, which would end the shell in a later line: they
// hold for the line that sets them. __SandboX with one argument does that alone;
// see [closing].
const bashPrelude = `\builtin shopt -s expand_aliases
__sandbox() {
case $-:$1:$2:$# in
*[rtT]*:*:*:*|*:2:*:*|*+:*|*:drop:*|*:enter:*) __Sandbox "$@";;
esac && case $- in *[eu]*) builtin set +eu;; esac && builtin eval && ` + bashAnswer + ` && {
builtin printf "${5-\0%s\n}__sandbox_begin %q\n" "$3" "${DIRSTACK:-${PWD-}}"
builtin declare -p
builtin umask -p
[[ -o posix ]] && builtin printf 'builtin set +o posix\n'
builtin alias -p
builtin trap -p
[[ a != A ]] && builtin compgen && ! builtin compgen -A function -A disabled -P '#' -X '__[sS]andbo[xX]' || {
builtin declare -f
builtin declare -Fx
}
builtin printf '__sandbox_end %s %s\n\0' "$BASHOPTS" "$SHELLOPTS${4-}"
case $2 in
take*) __Sandbox "$3" || builtin printf '\0%s.\n' "$3" >&2;;
begin) builtin printf '\0%s.\n' "$3" >&2;;
esac
}
builtin return "$1"
} <&1
__sandboX() {
` + bashAnswer + `
builtin return "$1"
} <&1
__SandboX() {
case $# in
1) builtin set +eu;;
*) builtin printf '\0%s %d\n' "$2" "$1" >&2;;
esac
builtin return "$1"
}
__Sandbox() {
case $#:$- in
1:*)
[[ ! -e /proc/self/fd/@OUT@ && ! -e /proc/self/fd/@ERR@ ]] && command exec @OUT@>|@STDOUT@ @ERR@>|@STDERR@ &&
[[ -e /proc/self/fd/@OUT@ && -e /proc/self/fd/@ERR@ ]] && builtin printf '\0%s+\n' "$1" >&2
builtin return;;
*r*) builtin return 1;;
esac
[[ -o onecmd ]] && builtin return 1
case $#:$- in
[35]:*T*)
builtin set +T
__sandbox "$1" "$2" "$3" :functrace ${5+"$5"}
builtin set -T
builtin return 1;;
esac
case $1:$2 in 2:*|*+) [[ -o posix ]] || builtin eval ')' 2>|/dev/null;; esac
case $2 in
drop) command exec @OUT@>&- @ERR@>&-; builtin return 1;;
enter)
builtin set -- "$3" "$4" "${OLDPWD-}" "${OLDPWD+x}"
builtin cd -- "${PWD:-$2}" || { builtin cd -- "$2"; builtin printf '\0%s!\n' "$1" >&2; }
[[ $4 ]] && builtin declare -g OLDPWD="$3" || builtin unset OLDPWD
builtin return 1;;
esac
builtin return 0
}
\builtin readonly -f __sandbox __Sandbox __sandboX __SandboX
`

// bashAnswer is the part of a function that tells the end of the line.
const bashAnswer = `case $2 in
own*) builtin printf '\0%s %d\n' "$3" "$1" >&2 3>&@OUT@ 4>&@ERR@;;
*) [[ -e @STDOUT@ && ! /proc/self/fd/1 -ef @STDOUT@ ]] && builtin printf '\0%s %d\n' "$3" "$1" >&2 2>&1 3>&2;;
esac`

// bashRestore reads the state. What cannot be set again (read-only
// variables of bash itself) fails and is passed over. A function named
// builtin is left out: nothing could go on with it.
//
// The traps that bash has for itself are set last, or they would have a part in
// what is read. Their function is read under an alias, so that one of the user
// with the name of trap is not in its way.
//
// It works without variables, because user code may have made any of them
// read-only, and without a builtin that was not asked for by builtin, because
// from its middle on the functions of the user are there. While it reads,
// extglob is on, without which functions that were defined under it cannot
// be parsed, and posix off, under which any error would be the end. When
// __sandbox_end was not reached the status says so.
const bashRestore = `__sandbox_traps() {
builtin unset -f __sandbox_traps
}
alias trap='builtin trap'
__sandbox_begin() {
builtin unalias trap
builtin cd -- "$1" || __sandbox_astray() { :; }
builtin shopt -s extglob
builtin shopt -u expand_aliases
}
__sandbox_each() {
while [[ $3 ]]; do
case :$4: in *:"${3%%:*}":*) ;; *) builtin "$1" "$2" "${3%%:*}";; esac
case $3 in *:*) builtin set -- "$1" "$2" "${3#*:}" "$4";; *) builtin return 0;; esac
done
}
__sandbox_end() {
POSIXLY_CORRECT=y
unset -f builtin
unset POSIXLY_CORRECT
if builtin declare -F __sandbox_astray; then
builtin unset -f __sandbox_astray
builtin cd -P .
fi
__sandbox_each shopt -u "$BASHOPTS" "$1"
__sandbox_each shopt -s "$1" ''
builtin unset -f __sandbox_begin __sandbox_end
__sandbox_each set +o "$SHELLOPTS" "$2"
__sandbox_each set -o "$2" ''
__sandbox_traps
}
__sandbox_rest() {
builtin unset -f __sandbox_each __sandbox_rest
if builtin declare -F __sandbox_end; then
builtin unset -f __sandbox_begin __sandbox_end
builtin return 9
fi
}
. @RESTORE@
\__sandbox_rest
`

// shPrelude defines how a POSIX shell answers. It has no functions in it:
// there is no way to list them.
const shPrelude = `__sandbox() {
set -- "$?" "$1"
command set +eu
__sandbox_state "$1" "$2" <&1
return "$1"
}
__SandboX() {
command set +eu
return "$1"
}
__sandbox_enter() {
set -- "$?" "$1" "$2" "${OLDPWD-}"
command cd -- "${PWD:-$3}" || { command cd -- "$3"; command printf '\000%s!\n' "$2" >&2; }
OLDPWD=$4
return "$1"
}
__sandbox_state() {
command test -e @STDOUT@ || return
command printf '\000%s %d\n' "$2" "$1" >&2 2>&1 3>&2
command printf '\000%s\n' "$2"
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
command printf '__sandbox_end\n\000'
command printf '\000%s.\n' "$2" >&2
}
`

// shRestore reads the state; its status is that of bashRestore. An alias is listed without its command's
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
__sandbox_end() {
unset -f __sandbox_end
}
command . @RESTORE@
unset -f __sandbox_alias __sandbox_cd
if command -v __sandbox_end; then
unset -f __sandbox_end
return 9
fi
`
