package server

import (
	"bytes"
	"slices"
	"strings"
)

// maxLooked is how long a line is looked at, in bytes.
const maxLooked = 4 << 10

// An Effect is what a line does to its shell at most: to its variables,
// functions, aliases, options, traps, working directory and umask. What bash
// changes by itself with each command does not count: $_, PIPESTATUS and
// RANDOM, and how old SECONDS is.
type protocolEffect uint8

const (
	// Changes is anything.
	protocolChanges protocolEffect = iota
	// Leaves is nothing, so that the shell need not tell its state again. The
	// line is of commands of words that nothing is put into, which are
	// programs, or builtins that change nothing; in lists and pipelines, with
	// plain redirections.
	protocolLeaves
	// Prints is nothing either, and all that the line does is to write to its
	// outputs. It makes no process, and reads nothing.
	protocolPrints
)

// Effect returns what is known of a line for a shell whose state is Usual.
func (d protocolShell) Effect(text string) protocolEffect {
	if !d.bash || len(text) > maxLooked {
		return protocolChanges
	}
	l := leaver{text: text, effect: protocolPrints}
	for l.next() {
	}
	if !l.whole {
		return protocolChanges
	}
	return l.effect
}

// A leaver reads a line from its beginning for as long as it leaves everything
// as it was.
type leaver struct {
	text   string   // what is left
	words  []string // of the command so far, with their quotes
	more   bool     // a command has to follow
	some   bool     // there was a command
	whole  bool     // the end was reached
	effect protocolEffect
}

// next reads an operator or a word, and reports whether there may be more.
func (l *leaver) next() bool {
	l.text = strings.TrimLeft(l.text, " \t")
	if l.text == "" {
		l.whole = l.command() && l.some && !l.more
		return false
	}
	switch c := l.text[0]; c {
	case '\n':
		l.text = l.text[1:]
		return !l.more && l.command()
	case ';':
		l.text = l.text[1:]
		return len(l.words) > 0 && l.command()
	case '&', '|':
		twice := len(l.text) > 1 && l.text[1] == c
		l.text = l.text[1:]
		if twice {
			l.text = l.text[1:]
		} else {
			l.effect = protocolLeaves // a pipeline is of processes
		}
		ok := len(l.words) > 0 && l.command() && (twice || c == '|')
		l.more = true
		return ok && !strings.HasPrefix(l.text, "&")
	case '<', '>':
		return l.redirect()
	}
	word, ok := l.word()
	if ok && l.text != "" && strings.IndexByte("<>", l.text[0]) >= 0 && strings.Trim(word, "0123456789") == "" {
		return (word == "0" || word == "1" || word == "2") && l.redirect()
	}
	l.words = append(l.words, word)
	return ok
}

// redirect reads a redirection of the three descriptors that every command has.
// There is no number in front any more.
func (l *leaver) redirect() bool {
	if len(l.words) == 0 { // it would not be the first word that is the command
		return false
	}
	if to, ok := strings.CutPrefix(l.text, ">&"); ok {
		l.text = to
		word, ok := l.word()
		return ok && (word == "1" || word == "2")
	}
	l.effect = protocolLeaves // a line that opens a file may have to wait, or get at what the shell reads
	if to, ok := strings.CutPrefix(l.text, ">>"); ok {
		l.text = to
	} else {
		l.text = l.text[1:]
	}
	l.text = strings.TrimLeft(l.text, " \t")
	_, ok := l.word()
	return ok
}

// word reads a word. It must have no part that is put in place of another, but
// for the names of files.
func (l *leaver) word() (word string, ok bool) {
	for i := 0; ; i++ {
		if i == len(l.text) || strings.IndexByte(" \t\n;&|<>", l.text[i]) >= 0 {
			word, l.text = l.text[:i], l.text[i:]
			return word, i > 0
		}
		switch c := l.text[i]; {
		case c == '\'', c == '"':
			n := strings.IndexByte(l.text[i+1:], c)
			if n < 0 || c == '"' && !isPlain(l.text[i+1:i+1+n]) {
				return "", false
			}
			i += n + 1
		case !isName(c) && strings.IndexByte(",@%=^~*?", c) < 0:
			return "", false
		}
	}
}

// isPlain reports whether what stands between double quotes, up to the first
// that may be the second, is what it means.
func isPlain(quoted string) bool {
	return !strings.ContainsAny(quoted, "$`") && !strings.Contains(quoted, `\\`) && !strings.HasSuffix(quoted, `\`)
}

// isName reports whether c may be in the name of a command.
func isName(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("_./:+-", c) >= 0
}

// command ends the command, and reports whether it leaves everything as it was.
func (l *leaver) command() bool {
	words := l.words
	if len(words) == 0 {
		return true
	}
	l.words, l.more, l.some = words[:0], false, true
	name, args := words[0], words[1:]
	if strings.ContainsFunc(name, func(r rune) bool { return r > 127 || !isName(byte(r)) }) || strings.IndexByte("+-", name[0]) >= 0 {
		return false
	}
	switch name {
	case ":", "true", "false", "echo":
		return true
	case "pwd":
		return len(args) == 0
	case "test": // evaluates the index of an array
		l.effect = protocolLeaves // it may ask for the standard input
		return !slices.ContainsFunc(args, func(a string) bool { return strings.Contains(a, "[") })
	case "printf": // can write to a variable
		return len(args) > 0 && printsOnly(args[0])
	}
	l.effect = protocolLeaves
	return !isBash(name)
}

// printsOnly reports whether printf with that format, as it was written, sets
// nothing.
func printsOnly(format string) bool {
	if strings.HasPrefix(strings.TrimLeft(format, `'"`), "-") {
		return false
	}
	for _, after := range strings.Split(strings.ReplaceAll(format, "%%", ""), "%")[1:] {
		if after == "" || strings.IndexByte("sbqdx", after[0]) < 0 {
			return false
		}
	}
	return true
}

// isBash reports whether name is a word or a builtin of bash, and so no program.
func isBash(name string) bool {
	switch name {
	case "if", "then", "else", "elif", "fi", "case", "esac", "for", "select", "while", "until", "do", "done", "in", "function", "time", "coproc",
		".", ":", "alias", "bg", "bind", "break", "builtin", "caller", "cd", "command", "compgen", "complete", "compopt", "continue", "declare",
		"dirs", "disown", "echo", "enable", "eval", "exec", "exit", "export", "false", "fc", "fg", "getopts", "hash", "help", "history", "jobs",
		"kill", "let", "local", "logout", "mapfile", "popd", "printf", "pushd", "pwd", "read", "readarray", "readonly", "return", "set", "shift",
		"shopt", "source", "suspend", "test", "times", "trap", "true", "type", "typeset", "ulimit", "umask", "unalias", "unset", "wait":
		return true
	}
	return false
}

// trapsHead begins the state of a shell that has listed the traps that it has
// for itself; in what the shell prints, \n is a newline. They follow line by
// line, and a brace.
const trapsHead = `__sandbox_traps() {\nbuiltin unset -f __sandbox_traps\n`

// MayTrap reports whether a line can give a usual shell of bash a trap on DEBUG,
// ERR or RETURN, going by its words. A shell does not tell those unless it is
// asked to, and is to be asked after such a line, and for as long as it is not
// usual: what is in its functions and aliases is not looked at. A name of the
// builtin that is only put together by the shell is not seen; such a trap is lost
// with its shell.
func mayTrap(text string) bool { return strings.Contains(text, "trap") || mend(text) != "" }

// HasTraps reports whether a state that begins with head has a function for the
// traps that bash has for itself, and whether there is one in it.
func hasTraps(head []byte) (reported, some bool) {
	rest, reported := bytes.CutPrefix(head, []byte(strings.ReplaceAll(trapsHead, `\n`, "\n")))
	return reported, reported && !bytes.HasPrefix(rest, []byte("}\n"))
}

// MayEnd reports whether one of the traps on DEBUG, ERR and RETURN in a state
// that begins with head could end the shell in a later line. One that only
// prints and assigns does not; of any other that is not known.
func mayEnd(head []byte) bool {
	traps, reported := bytes.CutPrefix(head, []byte(strings.ReplaceAll(trapsHead, `\n`, "\n")))
	if !reported {
		return false
	}
	list, _, whole := strings.Cut("\n"+string(traps), "\n}\n")
	if !whole {
		return true
	}
	for _, trap := range strings.Split(list, "\ntrap -- ")[1:] {
		if strings.HasPrefix(trap, "- ") { // none, as a posix shell lists it
			continue
		}
		end := strings.LastIndex(trap, "' ")
		if end < 0 {
			return true
		}
		text := strings.ReplaceAll(strings.ReplaceAll(trap[:end], `'\''`, "'"), ">&", ">")
		for _, command := range strings.FieldsFunc(strings.TrimPrefix(text, "'"), func(r rune) bool { return strings.ContainsRune(";&|\n", r) }) {
			if !protocolHarmless(strings.TrimSpace(command)) {
				return true
			}
		}
	}
	return false
}

// harmless reports whether a command of a trap prints, does nothing, or assigns.
func protocolHarmless(command string) bool {
	word, _, _ := strings.Cut(command, " ")
	switch word {
	case "", ":", "echo", "printf", "true":
		return true
	}
	name, _, assigns := strings.Cut(command, "=")
	return assigns && name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789") == "" &&
		!strings.ContainsAny(command, " \t")
}

// trapsHeadLen is how many bytes at the beginning of a state are enough for
// [MayEnd]. Traps that are longer are taken for ones that may end the shell.
const trapsHeadLen = 8 << 10

// UsualHead and UsualTail are how many bytes at the beginning and at the end of a
// state say whether it is usual.
const (
	usualHead = 128
	usualTail = 1 << 10
)

// Usual reports whether the state of a shell of bash that begins with head and ends
// with tail has neither functions nor aliases nor traps nor disabled builtins, with
// which a line could be more than its words say, and no option of which that is so.
// It does not tell a builtin that was loaded in the place of another (enable -f).
func usualProtocol(head, tail []byte) bool {
	if _, some := hasTraps(head); some {
		return false
	}
	tail, whole := bytes.CutSuffix(tail, []byte{'\n'})
	lines := bytes.Split(tail, []byte{'\n'})
	if !whole || len(lines) < 3 {
		return false
	}
	// Anything else in the state would be between these two.
	mask, end := lines[len(lines)-2], strings.Split(string(lines[len(lines)-1]), " ")
	digits, ok := bytes.CutPrefix(mask, []byte("umask "))
	if !ok || len(bytes.Trim(digits, "01234567")) > 0 || len(end) != 3 || end[0] != "__sandbox_end" {
		return false
	}
	for _, o := range strings.Split(end[1], ":") {
		switch o {
		case "lastpipe", "extdebug", "failglob": // the last one has bash forget more than the line
			return false
		}
	}
	for _, o := range strings.Split(end[2], ":") {
		switch o {
		case "braceexpand", "hashall", "interactive-comments", "errexit", "nounset", "pipefail", "noglob", "noclobber":
		default:
			return false
		}
	}
	return true
}
