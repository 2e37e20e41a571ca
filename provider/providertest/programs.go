package providertest

import (
	"fmt"
	"strconv"

	"github.com/bulkhead-dev/sandbox"
)

// Programs build the commands that checks run inside. A nil field is the
// portable shell script. A marker is a number that no other process carries;
// programs that stay keep it visible in the process table, by default as the
// argument of sleep.
type Programs struct {
	True         func() sandbox.Command                      // ends with 0
	Exit         func(code int) sandbox.Command              // ends with code
	Raise        func(signal string) sandbox.Command         // sends itself the signal
	Echo         func(stdout, stderr string) sandbox.Command // writes exactly these texts
	Copy         func() sandbox.Command                      // standard input to output
	CopyToStderr func() sandbox.Command                      // standard input to error
	Zeros        func(n int64) sandbox.Command               // n zero bytes to output
	Endless      func() sandbox.Command                      // writes until it is ended
	Env          func() sandbox.Command                      // NAME=value lines
	Pwd          func() sandbox.Command                      // the working directory and a newline
	OpenFiles    func() sandbox.Command                      // the limit of open files as a number

	Sleep  func(marker int) sandbox.Command // one process that stays
	Tree   func(marker int) sandbox.Command // TreeSize processes with the marker, then "ready"
	Orphan func(marker int) sandbox.Command // leaves a child that holds the outputs and ends with 0
	OnTerm func(marker, code int) sandbox.Command
	Deaf   func(marker int) sandbox.Command // "ready", then ignores TERM
	Count  func(marker int) sandbox.Command // the number of live processes with the marker

	// Terminal prints "ROWS COLUMNS", reads a line and prints them again.
	Terminal func() sandbox.Command

	// Note is a line for Spec.OnStart that leaves a trace which lasts until
	// the sandbox stops; Notes prints how many traces there are.
	Note  func() string
	Notes func() sandbox.Command
	// Fail is a line for Spec.OnStart that fails.
	Fail func() string
}

// TreeSize is how many processes carry the marker of a Tree: the program's
// own child, a background child, one with its streams closed, one in a
// session of its own and two whose parents are gone.
const TreeSize = 6

const (
	treeScript = `sleep "$1" &
setsid sleep "$1" &
(setsid sh -c 'sleep "$0" & sleep "$0"' "$1" &)
(sleep "$1" </dev/null >/dev/null 2>&1 &)
echo ready
sleep "$1"
wait`
	// The pattern does not match itself, nor the shell that holds it.
	countScript = `cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\000' ' ' | LC_ALL=C grep -a -o "slee[p] $1 " | wc -l`
	traceFile   = "/tmp/.providertest-note"
)

// script returns a command that runs text in sh with args as $1, $2, ….
func script(text string, args ...string) sandbox.Command {
	return sandbox.Command{Args: append([]string{"sh", "-c", text, "sh"}, args...)}
}

func scripts() Programs {
	marked := func(text string) func(int) sandbox.Command {
		return func(marker int) sandbox.Command { return script(text, strconv.Itoa(marker)) }
	}
	fixed := func(args ...string) func() sandbox.Command {
		return func() sandbox.Command { return sandbox.Command{Args: args} }
	}
	return Programs{
		True:  fixed("true"),
		Exit:  func(code int) sandbox.Command { return script(`exit "$1"`, strconv.Itoa(code)) },
		Raise: func(signal string) sandbox.Command { return script(`kill -"$1" $$; exit 99`, signal) },
		Echo: func(stdout, stderr string) sandbox.Command {
			return script(`printf %s "$1"; printf %s "$2" >&2`, stdout, stderr)
		},
		Copy:         fixed("cat"),
		CopyToStderr: func() sandbox.Command { return script(`exec cat >&2`) },
		Zeros: func(n int64) sandbox.Command {
			return sandbox.Command{Args: []string{"head", "-c", fmt.Sprint(n), "/dev/zero"}}
		},
		Endless:   fixed("yes"),
		Env:       fixed("env"),
		Pwd:       fixed("pwd"),
		OpenFiles: func() sandbox.Command { return script(`ulimit -n`) },
		Sleep: func(marker int) sandbox.Command {
			return sandbox.Command{Args: []string{"sleep", strconv.Itoa(marker)}}
		},
		Tree:   marked(treeScript),
		Orphan: marked(`sleep "$1" & echo left`),
		OnTerm: func(marker, code int) sandbox.Command {
			return script(`trap 'echo term; exit "$2"' TERM; echo ready; while :; do sleep "$1" & wait $!; done`,
				strconv.Itoa(marker), strconv.Itoa(code))
		},
		Deaf:     marked(`trap '' TERM; echo ready; while :; do sleep "$1"; done`),
		Count:    marked(countScript),
		Terminal: func() sandbox.Command { return script(`stty size; read -r line; stty size`) },
		Note:     func() string { return "echo x >>" + traceFile },
		Notes:    func() sandbox.Command { return script(`if [ -e "$1" ]; then wc -l <"$1"; else echo 0; fi`, traceFile) },
		Fail:     func() string { return "exit 3" },
	}
}

// orScripts fills what p leaves nil.
func (p Programs) orScripts() Programs {
	s := scripts()
	fill(&p.True, s.True)
	fill(&p.Exit, s.Exit)
	fill(&p.Raise, s.Raise)
	fill(&p.Echo, s.Echo)
	fill(&p.Copy, s.Copy)
	fill(&p.CopyToStderr, s.CopyToStderr)
	fill(&p.Zeros, s.Zeros)
	fill(&p.Endless, s.Endless)
	fill(&p.Env, s.Env)
	fill(&p.Pwd, s.Pwd)
	fill(&p.OpenFiles, s.OpenFiles)
	fill(&p.Sleep, s.Sleep)
	fill(&p.Tree, s.Tree)
	fill(&p.Orphan, s.Orphan)
	fill(&p.OnTerm, s.OnTerm)
	fill(&p.Deaf, s.Deaf)
	fill(&p.Count, s.Count)
	fill(&p.Terminal, s.Terminal)
	fill(&p.Note, s.Note)
	fill(&p.Notes, s.Notes)
	fill(&p.Fail, s.Fail)
	return p
}

// fill sets *f to def when it is nil. F is a function type.
func fill[F func() sandbox.Command | func(int) sandbox.Command | func(int, int) sandbox.Command |
	func(int64) sandbox.Command | func(string) sandbox.Command | func(string, string) sandbox.Command |
	func() string](f *F, def F) {
	if *f == nil {
		*f = def
	}
}
