package sandbox

import (
	"context"
	"io"
	"strconv"
	"strings"
	"time"
)

// A Command describes one program run inside a sandbox.
type Command struct {
	Args []string          // program and arguments; a name without slash is looked up in PATH inside
	Env  map[string]string // laid over the sandbox's own environment
	Bare bool              // Env is all there is: nothing of the sandbox's own environment
	Dir  string            // working directory inside; see [Spec.DirOf]

	// Stdin is read until its end; nil is an empty input. Stdout and Stderr
	// receive the output while the command runs and may block: the program then
	// waits, and nothing is buffered without bound. Nil discards. With a TTY
	// all output arrives on Stdout. A read of Stdin may be under way when Wait
	// returns, because it cannot be interrupted.
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer

	TTY    *TTY          // not nil: run on a pseudo-terminal
	Limits Limits        // Timeout and MaxOutputBytes are the caller's business
	Grace  time.Duration // between SIGTERM and SIGKILL when ctx ends; zero kills at once
	Detach bool          // the command outlives the handle that started it

	// AsOf is the time since which changes on the host count for the paths that
	// are closed to the command. A provider that examines the host before each
	// command need not do so again if it has examined the host at or after
	// AsOf. Zero is the time of Start.
	AsOf time.Time
}

// A TTY is the size of a pseudo-terminal in characters.
type TTY struct {
	Rows, Cols uint16
}

// A Process is a command that was started. Its methods are safe for
// concurrent use.
type Process interface {
	// Wait returns when the program has ended, its process tree is gone and all
	// output has been delivered. An error means that the result is not known
	// (the sandbox was stopped, the guest died), never that the program failed.
	// Wait may be called many times.
	Wait() (Exit, error)

	// Signal sends the signal named as in signal(7) ("TERM", "INT").
	Signal(ctx context.Context, name string) error

	// Resize changes the size of the pseudo-terminal.
	Resize(ctx context.Context, t TTY) error

	// Kill ends the whole process tree, escapees included, at once.
	Kill(ctx context.Context) error
}

// Identified is implemented by processes whose number is known. A provider that
// does not know it does not implement it, or returns 0.
type Identified interface {
	// PID returns the number that the program has inside of its sandbox, or 0
	// where it is not known. The kernel gives a number again to another program
	// when this one has ended.
	PID() int
}

// Metered is implemented by processes that report what they have used so far. A
// provider that cannot determine the usage does not implement it, or returns
// [CodeUnsupported].
type Metered interface {
	// Used returns what all processes of the command have used until now: those
	// that run, escapees included, and those that have ended. The figures may
	// lag by some hundredths of a second. The kernel does not count children
	// whose parent ignores SIGCHLD when they end; of those that start and end
	// between two calls Used knows a part, the larger the more there are. The
	// sum of both times never goes down; the memory is that of the largest
	// process that was seen. After the end of the command Used returns the last
	// figures. It returns an error, within 15 seconds or when ctx ends, if the
	// usage cannot be determined.
	Used(ctx context.Context) (Rusage, error)
}

// An Exit describes how a program ended.
type Exit struct {
	Code   int    // exit status; 128+n when signal n ended it
	Signal string // name of that signal ("KILL"), or empty
	Usage  Rusage

	// Limit is the limit of the command that was reached, nil when none is
	// known to be. One of memory, processor time or processes has ended the
	// whole tree; for the others see [Limits].
	Limit *LimitHit

	// Left describes the processes that were still running when the command's
	// program ended, and which were then killed; nil for none.
	Left *Left

	// Restarted is set for a line of a [Shell] that ended the shell, or that
	// found it gone. The state is then that of the last line before it that ran
	// to its end, and after a rollback that of the checkpoint.
	Restarted bool

	// LostDir is the working directory in which a line of a [Shell] would have
	// begun, when another file system was put at its mount (see [Remounter]) in
	// which there is no such folder. The line began in the root of the mount.
	// Empty for any other.
	LostDir string
}

// Left describes processes that were killed at the end of the command that had
// started them.
type Left struct {
	Count int      `json:"count"`
	Names []string `json:"names"` // of the first ones: "sleep (41)"
}

// String returns the processes in one line for people.
func (l Left) String() string {
	text := strconv.Itoa(l.Count) + " background processes were ended with the command"
	if l.Count == 1 {
		text = "1 background process was ended with the command"
	}
	if text += ": " + strings.Join(l.Names, ", "); l.Count > len(l.Names) {
		text += " and more"
	}
	return text
}

// Rusage is what one command cost: all its processes, but for children whose
// parent did not wait for them because it ignored SIGCHLD, and for what a
// detached command left running.
type Rusage struct {
	User   time.Duration // processor time in user mode
	System time.Duration // processor time in the kernel
	MaxRSS int64         // bytes, of the largest process
}

// Usage is what a sandbox costs as a whole.
type Usage struct {
	CPU         time.Duration // processor time since start
	Memory      int64         // bytes in use
	MemoryLimit int64         // bytes; 0 is unbounded
	PIDs        int64
	PIDsLimit   int64
	DiskRead    int64 // bytes since start
	DiskWritten int64 // bytes since start
	NetReceived int64 // bytes since start
	NetSent     int64 // bytes since start
}

// A Result is a finished command with its captured output, as tools and
// remote callers see it.
type Result struct {
	Stdout          []byte
	Stderr          []byte
	StdoutBytes     int64 // written in all, also what was not kept
	StderrBytes     int64
	Truncated       bool
	Waited          *Waited   // what its connections waited for their turn; nil for nothing
	Left            *Left     // processes that were ended with the command; nil for none
	Warnings        []string  // what of the command line strictness strict would refuse, where an approval was needed
	Limit           *LimitHit // the limit that was reached; with Truncated at least that of the output
	ExitCode        int
	Signal          string
	TimedOut        bool
	Restarted       bool   // the shell had gone and was started again
	LostDir         string // working directory of the shell that a rollback has taken away, see [Exit.LostDir]; empty for none
	Blocked         bool   // a policy stopped it, with evidence
	BlockedReason   string
	BlockedResource string
	Violations      []Violation
	Duration        time.Duration
	Usage           Rusage
}

// ShellOptions describe a persistent shell.
type ShellOptions struct {
	ID  string            // for people and logs; empty gets a random one
	Env map[string]string // laid over the sandbox's own environment
	Dir string            // working directory at the start; see [Spec.DirOf]

	// From is the state in which the shell begins, nil for none, as of
	// [Snapshotter]. Env is laid over the variables in it that are not read-only,
	// and Dir is where the shell begins if the working directory of the state is
	// not there. The first line has Exit.Restarted set. A sandbox without the
	// program of the state is [CodeValidation], and one that cannot take it up
	// [CodeUnsupported].
	From *ShellState
}

// A Snapshot says what runs in a sandbox.
type Snapshot struct {
	Shells  []ShellState     // by all programs that have the sandbox open
	Running []RunningCommand // the oldest first; lines of shells are not among them
}

// A ShellState is a persistent shell and what another one can start from. It was
// written by code in the sandbox, so Content is for a sandbox alone, and may hold
// secrets that were in variables.
type ShellState struct {
	ID        string `json:"id"`
	Program   string `json:"program"`             // that can take it up
	Dir       string `json:"dir"`                 // where the shell is; empty where it is not known
	Line      string `json:"line,omitempty"`      // that runs, or the beginning of it; empty for none
	Processes int    `json:"processes,omitempty"` // that its lines have left running, or that the line has started
	Stale     bool   `json:"stale,omitempty"`     // Content is not the state after the last line: one runs, or it is not known
	Content   []byte `json:"content,omitempty"`   // working directory, variables, functions, aliases, options, umask and traps; nil for none
}

// A RunningCommand is a command that has not ended, or has left something running.
type RunningCommand struct {
	PID      int       `json:"pid"`  // inside; 0 where the program has ended
	Args     []string  `json:"args"` // or the beginning of them
	Dir      string    `json:"dir,omitempty"`
	Started  time.Time `json:"started"` // by the clock of the sandbox
	Detached bool      `json:"detached,omitempty"`
	TTY      bool      `json:"tty,omitempty"`
}

// A Shell runs lines one after another and keeps working directory,
// variables, functions, aliases and options between them. Its methods are
// safe for concurrent use.
type Shell interface {
	ID() string

	// Program is the name of the shell inside: "bash", or "sh" where there
	// is no bash. An sh that is started again has lost its functions.
	Program() string

	// Run runs line, which may be many lines, as the shell does. It waits
	// for its turn, at most until ctx ends. Of c only Stdin (nil is empty),
	// Stdout, Stderr and Grace are used; anything else that is set is
	// [CodeValidation], because the line can say it itself.
	//
	// Both outputs hold exactly what the line and its foreground processes
	// wrote. What the line leaves running lives on until the shell is closed or
	// started again; it delays no other line, and what it writes after the end
	// of the line is dropped.
	//
	// The options errexit and nounset hold for the line that sets them, so that
	// neither ends the shell in a later line; nor does a trap on DEBUG, ERR or
	// RETURN, which is removed before the next line unless it only prints and
	// assigns.
	//
	// The end of ctx, Kill and a shell that ends itself end every process of
	// the shell. The next line runs in a new shell with the state after the
	// last line that ran to its end; see Exit.Restarted. Variables that bash
	// sets by itself ($_, PIPESTATUS, RANDOM, SECONDS) may have their values
	// from an earlier line, since which no line could have changed anything
	// else. A state of more than 16 MiB may not be kept; the new shell then has
	// the one before it. Exit.Usage of a line is zero, because the costs of a
	// shell are not divided among its lines.
	//
	// Limits of memory and processes apply to the shell with everything that
	// its lines have left running, and that of processor time to each line.
	// They are checked while a line runs, and a line that exceeds one ends the
	// shell. Between lines only the kernel's limits of single processes apply,
	// of which that of processor time counts all lines of the shell's process.
	Run(ctx context.Context, line string, c Command) (Process, error)

	// Close ends the shell and everything it has left running.
	Close() error
}
