package providertest

import (
	"fmt"
	"strconv"
	"strings"

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
	Writer func(marker int) sandbox.Command // writes until it is ended
	Count  func(marker int) sandbox.Command // the number of live processes with the marker

	// Hog takes so many bytes of memory and stays; Hogs does so in each of n
	// processes, which are not its children any more. HogLine is Hog as a line
	// of a shell.
	Hog     func(marker int, bytes int64) sandbox.Command
	Hogs    func(marker, n int, bytes int64) sandbox.Command
	HogLine func(marker int, bytes int64) string
	// Burn uses processor time without end, in processes of which each uses
	// far less than a second.
	Burn func() sandbox.Command
	// Bomb starts processes without end, which do the same.
	Bomb func(marker int) sandbox.Command
	// Burst has n children, all at one moment, which then end at once.
	Burst func(n int) sandbox.Command
	// Fill writes so many bytes to a file in one process.
	Fill func(path string, bytes int64) sandbox.Command
	// Holder opens files until it has n, prints "full", reads a line, and
	// fails to open one more.
	Holder func(n int) sandbox.Command

	// Interfaces prints the names of the network interfaces, one a line, and
	// the routes.
	Interfaces func() sandbox.Command

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
	traceFile   = `${TMPDIR:-/tmp}/.providertest-note`

	// What comes through a pipe is kept until its end, which does not come.
	hogScript  = `{ head -c "$2" /dev/zero; sleep "$1"; } | tail -c "$2"`
	hogsScript = `i=0; while [ $i -lt "$3" ]; do
(setsid sh -c '{ head -c "$1" /dev/zero; sleep "$0"; } | tail -c "$1"' "$1" "$2" &)
i=$((i+1)); done; sleep "$1"`
	burnScript  = `while :; do (i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done); done`
	bombScript  = `while :; do sleep "$2" & sh -c "$1" sh "$1" "$2" & done`
	burstScript = `f=${TMPDIR:-/tmp}/burst.$$; mkfifo "$f" && exec 3<>"$f" && rm "$f" || exit 9
i=0; while [ $i -lt "$1" ]; do read -r x <&3 & i=$((i+1)); done
while [ $i -gt 0 ]; do echo >&3; i=$((i-1)); done; wait`
	holdScript = `n=$1; shift; i=3; while [ $i -lt $n ]; do eval "exec $i</dev/null"; i=$((i+1)); done
echo full; read -r line; eval "exec $i</dev/null"; exit 0`
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
		Deaf: marked(`trap '' TERM; echo ready; while :; do sleep "$1"; done`),
		Writer: func(marker int) sandbox.Command { // whose command line is also that of a sleep
			return sandbox.Command{Args: []string{"yes", "sleep", strconv.Itoa(marker)}}
		},
		Count: marked(countScript),
		Hog:   func(marker int, bytes int64) sandbox.Command { return script(hogScript, number(marker), number(bytes)) },
		Hogs: func(marker, n int, bytes int64) sandbox.Command {
			return script(hogsScript, number(marker), number(bytes), number(n))
		},
		HogLine: func(marker int, bytes int64) string {
			return strings.NewReplacer(`"$1"`, number(marker), `"$2"`, number(bytes)).Replace(hogScript)
		},
		Burn:  func() sandbox.Command { return script(burnScript) },
		Bomb:  func(marker int) sandbox.Command { return script(bombScript, bombScript, number(marker)) },
		Burst: func(n int) sandbox.Command { return script(burstScript, number(n)) },
		Fill: func(path string, bytes int64) sandbox.Command {
			return script(`exec head -c "$2" /dev/zero >"$1"`, path, number(bytes))
		},
		Holder: func(n int) sandbox.Command { return script(holdScript, number(n)) },
		Interfaces: func() sandbox.Command {
			return script(`sed -n 's/^ *\([^:]*\):.*/\1/p' /proc/net/dev; tail -n +2 /proc/net/route`)
		},
		Terminal: func() sandbox.Command { return script(`stty size; read -r line; stty size`) },
		Note:     func() string { return "echo x >>" + traceFile },
		Notes: func() sandbox.Command {
			return script("if [ -e " + traceFile + " ]; then wc -l <" + traceFile + "; else echo 0; fi")
		},
		Fail: func() string { return "exit 3" },
	}
}

func number[N int | int64](n N) string { return strconv.FormatInt(int64(n), 10) }

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
	fill(&p.Writer, s.Writer)
	fill(&p.Count, s.Count)
	fill(&p.Hog, s.Hog)
	fill(&p.Hogs, s.Hogs)
	fill(&p.HogLine, s.HogLine)
	fill(&p.Burn, s.Burn)
	fill(&p.Bomb, s.Bomb)
	fill(&p.Burst, s.Burst)
	fill(&p.Fill, s.Fill)
	fill(&p.Holder, s.Holder)
	fill(&p.Interfaces, s.Interfaces)
	fill(&p.Terminal, s.Terminal)
	fill(&p.Note, s.Note)
	fill(&p.Notes, s.Notes)
	fill(&p.Fail, s.Fail)
	return p
}

// fill sets *f to def when it is nil. F is a function type.
func fill[F func() sandbox.Command | func(int) sandbox.Command | func(int, int) sandbox.Command |
	func(int64) sandbox.Command | func(int, int64) sandbox.Command | func(int, int, int64) sandbox.Command | func(int, int64) string |
	func(string, int64) sandbox.Command | func(string) sandbox.Command | func(string, string) sandbox.Command |
	func() string](f *F, def F) {
	if *f == nil {
		*f = def
	}
}
