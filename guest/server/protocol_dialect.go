package server

import (
	"strconv"
	"strings"
)

const (
	// TokenLen is the length of a token: hexadecimal digits.
	tokenLen = 16
	// inline is how long a quoted line may be to be part of bash's script,
	// which it reads byte by byte, at about 0.2 µs each. A longer one is
	// read from a file, which takes about 15 µs.
	inline = 256
	// packet is how large a packet of the script may be for other shells.
	// busybox reads at most 1023 bytes at once, and what is left of a
	// packet is lost.
	packet = 1000
)

// A Dialect is the language of one running shell.
type protocolShell struct {
	bash bool
	dir  string // of the store's descriptors, with a slash
}

// For returns the shell protocol of the program, which is "bash" or "sh", with
// the descriptor store that has the process number holder. It reports false for
// any other name.
func forProtocol(program string, fdstoreClient int) (protocolShell, bool) {
	d := protocolShell{bash: program == "bash", dir: "/proc/" + strconv.Itoa(fdstoreClient) + "/fd/"}
	return d, d.bash || program == "sh"
}

// Packets reports whether the script's pipe has to keep packets apart.
func (d protocolShell) Packets() bool { return !d.bash }

// Outputs says where a line of bash has its outputs from.
type protocolOutputs uint8

const (
	// Opened are opened for the line, by the path of the descriptor store.
	protocolOpened protocolOutputs = iota
	// Taken are the same, and the shell opens them for itself too when the
	// line has ended, and says whether it could.
	protocolTaken
	// Own are those that the shell has opened for itself. It says whether it
	// has them yet when the line has ended.
	protocolOwn
)

// Descriptors of bash for its own outputs. They are beyond what people write,
// and beneath 255, which bash takes for itself. The programs of a line do not
// get them.
const (
	ownStdout = "250"
	ownStderr = "251"
)

// A Line is one line to run.
type protocolLine struct {
	Outputs protocolOutputs // other shells than bash have Opened alone
	Drop    bool            // bash is to close its own first
	Enter   string          // not empty: the shell is to enter its working directory by its name first, or this folder
	Untrap  bool            // bash is to remove its traps on DEBUG, ERR and RETURN first, see [MayEnd]
	Effect  protocolEffect  // what it does at most
	Traps   bool            // bash is to tell the traps that it has for itself too, see [MayTrap]
	Text    string          // without NUL
	Token   string
	Stdin   bool // from the descriptor store; /dev/null otherwise
	Stdout  bool
	Stderr  bool
	Merge   bool // standard error goes where standard output goes
}

// A Script is what to write into the pipe of a shell's script for one line.
type protocolScript struct {
	Writes []string // one write each
	Slot   bool     // Text is to be put into the store's slot for it first
	Text   string   // what is run
	// Silent is whether the shell writes its state alone, and no message after
	// it, so that the guest is not woken up.
	Silent bool
	Effect protocolEffect // the shell tells its state if that is Changes

	rest int // how much of it, at its end, a shell has not read yet when it begins the line
}

// Script returns what to write for l.
func (d protocolShell) Script(l protocolLine) protocolScript {
	s := d.script(l)
	switch {
	case l.Enter == "":
	case d.bash:
		s.Writes[0] = askProtocol("__sandbox", "enter", l.Token+" "+quote(l.Enter)) + s.Writes[0]
	default:
		s.Writes = append([]string{`\__sandbox_enter ` + l.Token + " " + quote(l.Enter) + "\n"}, s.Writes...)
	}
	return s
}

func (d protocolShell) script(l protocolLine) protocolScript {
	redirect := d.redirections(l)
	if !d.bash {
		// Not "command eval", which would outlive errors in the line's syntax:
		// in busybox, a subshell that fails then goes on as a second shell.
		l.Text += closing(l.Text)
		run := `\eval ` + quote(l.Text) + redirect + "\n"
		slot := len(run) > packet
		if slot {
			run = d.fromSlot() + redirect + "\n"
		}
		ask := asking + l.Token + "\n"
		return protocolScript{Writes: []string{run, ask, "\n"}, Slot: slot, Text: l.Text, rest: len(ask) + 1}
	}
	if l.Outputs == protocolTaken {
		l.Effect = protocolChanges // it is heard to the end
	}
	if l.Effect == protocolPrints && l.Outputs == protocolOwn && !l.Stdin && l.Stdout && (l.Stderr || l.Merge) && len(l.Text) <= inline {
		return protocolScript{Writes: []string{d.print(l)}, Silent: true, Effect: protocolPrints, rest: 1}
	}
	l.Effect = min(l.Effect, protocolLeaves)
	l.Text += closing(l.Text)
	run := `\builtin eval ` + quote(l.Text)
	slot := len(run) > inline
	if slot {
		run = d.fromSlot()
	}
	run += redirect + "; "
	if l.Effect == protocolLeaves {
		run += askProtocol("__sandboX", l.Outputs.word(), l.Token)
	} else {
		run += d.askAll(l.Outputs.word(), mend(l.Text), l.Token, l.Traps)
	}
	if l.Untrap {
		run = `\builtin trap - DEBUG ERR RETURN; ` + run
	}
	if l.Drop {
		run = askProtocol("__sandbox", "drop", l.Token) + run
	}
	return protocolScript{Writes: []string{run + "\n"}, Slot: slot, Text: l.Text, Silent: l.Outputs != protocolTaken, Effect: l.Effect, rest: 1}
}

// closing returns what follows a line that may set errexit or nounset. An eval
// whose last status is not zero ends a shell under errexit, even where the list
// in it would not (test -f x && y); so errexit is set off before eval ends.
// What may take the next line for a part of itself has none.
func closing(text string) string {
	if !setsErrexit(text) || strings.HasSuffix(text, `\`) || strings.Contains(text, "<<") || strings.Contains(text, "trap") {
		return ""
	}
	return "\n" + `{ \__SandboX "$?" && \:; } 2>/dev/null`
}

// setsErrexit reports whether a line may set errexit, going by its words.
func setsErrexit(text string) bool {
	_, text, some := strings.Cut(text, "set")
	for ; some; _, text, some = strings.Cut(text, "set") {
		for _, word := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" \t\n;&|\"'", r) }) {
			if word == "errexit" || strings.HasPrefix(word, "-") && strings.Contains(word, "e") {
				return true
			}
		}
	}
	return false
}

// print is the script of a line that only writes, as short as it can be. The
// line can be read as it is, and what it has to write to needs not be closed.
func (d protocolShell) print(l protocolLine) string {
	errOut := ownStderr
	if l.Merge {
		errOut = ownStdout
	}
	return "{ " + l.Text + "\n}>&" + ownStdout + " 2>&" + errOut + ";__SandboX \"$?\" " + l.Token + "\n\n"
}

// mend has bash set its parser right, before that reads anything else. After a
// command substitution that was not closed, bash 5.2 is about to write beside
// its memory. A failed parse shows in the line's status; one in what the line
// evaluates may be followed by something that succeeds.
func mend(text string) string {
	for _, word := range []string{"eval", "source", ". "} {
		if strings.Contains(text, word) {
			return "+"
		}
	}
	return ""
}

// word is what the line's ask says of its outputs.
func (o protocolOutputs) word() string {
	switch o {
	case protocolTaken:
		return "take"
	case protocolOwn:
		return "own"
	}
	return "new"
}

func (d protocolShell) fromSlot() string {
	slot := d.slot(slotText)
	if d.bash {
		return `\builtin eval "$(<` + slot + `)"`
	}
	return `\. ` + slot
}

func (d protocolShell) redirections(l protocolLine) string {
	in, out, errOut, closed := "/dev/null", "|/dev/null", "|/dev/null", ""
	if l.Stdin {
		in = d.slot(slotStdin)
	}
	if l.Stdout {
		out = "|" + d.slot(slotStdout)
	}
	if l.Stderr {
		errOut = "|" + d.slot(slotStderr)
	}
	if l.Outputs == protocolOwn {
		// One that is moved is closed too.
		if l.Stdout {
			out = "&" + ownStdout + "-"
		} else {
			closed += " " + ownStdout + ">&-"
		}
		if l.Stderr && !l.Merge {
			errOut = "&" + ownStderr + "-"
		} else {
			closed += " " + ownStderr + ">&-"
		}
	}
	if l.Merge {
		errOut = "&1"
	}
	return " <" + in + " >" + out + " 2>" + errOut + closed
}

// Begin returns what to write to have the shell read the prelude, which has
// been put into the slot for text. With traps it tells those for itself, see
// [MayTrap].
func (d protocolShell) Begin(token string, traps bool) protocolScript {
	null := " </dev/null >|/dev/null 2>&1\n"
	if d.bash {
		return protocolScript{Writes: []string{`\builtin . ` + d.slot(slotText) + null + d.askAll("begin", "", token, traps) + "\n"}}
	}
	return protocolScript{Writes: []string{`\. ` + d.slot(slotText) + null, asking + token + "\n", "\n"}}
}

func (d protocolShell) slot(n int) string { return d.dir + strconv.Itoa(n) }

// quote makes s one word of any POSIX shell.
func quote(s string) string {
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

const asking = `\__sandbox `

// ask is how bash is asked for its answer by a function of the prelude.
func askProtocol(function, word, token string) string {
	return `\` + function + ` "$?" ` + word + " " + token + "\n"
}

// askAll asks for the state too. The traps that functions do not inherit can be
// listed outside of any only. They begin the state, as a function, since a trap
// would else have a part in what reads the rest; one on DEBUG that prints
// meanwhile does so elsewhere. A shell that cannot answer must not begin either:
// what bashAnswer looks at is looked at here. No [[ stands here, which bash 5.2
// does not parse after one that was wrong, until something else was.
func (d protocolShell) askAll(word, mend, token string, traps bool) string {
	if !traps {
		return askProtocol("__sandbox", word+mend, token)
	}
	outputs := d.slot(slotStdout)
	able, has := `\builtin test -e `+outputs+` && \builtin test ! /proc/self/fd/1 -ef `+outputs+` && `, ""
	if word == protocolOwn.word() {
		able, has = "", ` 4>&`+ownStdout+` 5>&`+ownStderr
	}
	return `\builtin eval '` + able + `{ \builtin printf "\0%s\n` + trapsHead + `" ` + token + ` >&3; \builtin trap -p DEBUG ERR RETURN >&3; } 3>&1 >&2` + has + `; ` +
		`\__sandbox '"$?"' ` + word + mend + " " + token + ` "" "}\n%.0s"'` + "\n"
}

// Unread reports whether a shell that has ended, and left that much of what
// was written, had not read the line to its end. Such a shell has run nothing
// of it: a shell runs a command once it has read the whole of it. The empty
// line that ends the script before may be left too.
func (s protocolScript) Unread(left string) bool {
	return len(left) > s.rest && strings.HasSuffix("\n"+strings.Join(s.Writes, ""), left)
}

// Size is how much there is to be read.
func (s protocolScript) Size() (n int) {
	for _, w := range s.Writes {
		n += len(w)
	}
	return n
}
