package cli

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"

	ucli "github.com/urfave/cli/v2"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/internal/hostpath"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
	"github.com/bulkhead-dev/sandbox/manager"
)

// prefixFlags are the flags of sandbox shell-prefix.
type prefixFlags struct {
	*runFlags
	bashOnly, noSnapshot bool
}

func (a *app) shellPrefixCommand() *ucli.Command {
	f := prefixFlags{runFlags: newRunFlags("shell-prefix")}
	return &ucli.Command{
		Name:      "shell-prefix",
		Usage:     "run the shell commands of Claude Code in a sandbox",
		UsageText: `SANDBOX_PROJECT="$PWD" CLAUDE_CODE_SHELL_PREFIX="sandbox --session=KEY shell-prefix" claude`,
		Description: "Claude Code calls the program that the variable names with each command line of its Bash tool, its hooks, and its servers of\n" +
			"the Model Context Protocol on standard input and output. The line runs in the session's sandbox, in the folder in which it would\n" +
			"have run here; where there is no sandbox it does not run. The project is in the sandbox at its own path and at /workspace.\n" +
			"Claude Code takes all text before the last blank with a dash for the program: the variable has exactly one flag, which stands\n" +
			"before shell-prefix. Servers do not start then. For them, and for more flags, let it name a script that ends with:\n" +
			"exec sandbox shell-prefix FLAGS -- \"$1\"\n" +
			"\n" +
			"The folder in which a command of the Bash tool ends is reported to Claude Code where it lies in the project. The functions and\n" +
			"aliases that Claude Code has taken from your shell are defined inside, but for the search path, unless --no-snapshot is given.\n" +
			"Hooks and servers get standard input; with --bash-only they are refused.\n" +
			"Of our environment the command gets what -e names and the variables that say that Claude Code calls, no keys.\n" +
			"Files that Claude Code's own tools (Read, Edit, Write) change are changed here, without the sandbox.\n" +
			"\n" +
			"The exit status is that of sandbox run.",
		Flags: append([]ucli.Flag{
			&ucli.GenericFlag{Name: "workspace", Usage: "`FOLDER` of the project; default $SANDBOX_PROJECT, else $CLAUDE_PROJECT_DIR, which hooks have", Value: &f.workspace},
			&ucli.BoolFlag{Name: "bash-only", Usage: "refuse what is no command of the Bash tool: hooks and servers", Destination: &f.bashOnly},
			&ucli.BoolFlag{Name: "no-snapshot", Usage: "leave out the functions and aliases of your shell", Destination: &f.noSnapshot},
			&ucli.GenericFlag{Name: "image", Usage: "`IMAGE` of the sandbox", Value: &f.image},
			&ucli.GenericFlag{Name: "e", Usage: "set `NAME=VALUE` in the command's environment; NAME alone takes it from ours", Value: &f.env},
			&ucli.GenericFlag{Name: "timeout", Usage: "end each command after this `DURATION`, such as 90s, 10m or 1d", Value: &f.timeout},
		}, f.hostFlags.flags()...),
		Action: func(c *ucli.Context) error { return a.shellPrefix(c, f) },
	}
}

// projectVariable names the project: Claude Code's commands start in its folders.
const projectVariable = "SANDBOX_PROJECT"

// callerVariables are those of Claude Code that a command gets; programs act
// differently where an agent runs them.
var callerVariables = []string{"CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_SESSION_ID", "CLAUDE_PROJECT_DIR", "AI_AGENT", "GIT_EDITOR", "NO_COLOR"}

func (a *app) shellPrefix(c *ucli.Context, f prefixFlags) error {
	if c.NArg() != 1 || c.Args().First() == "" {
		return usagef("shell-prefix", "Claude Code calls it with one command line; there are %d arguments", c.NArg())
	}
	line := parsePrefixed(c.Args().First())
	if line.cwdFile == "" && f.bashOnly {
		return &sandbox.Error{
			Code: sandbox.CodeDenyTool, Op: "shell-prefix", Message: "this is no command of the Bash tool, and --bash-only refuses hooks and servers",
			Hint: "leave --bash-only out to run them in the sandbox",
		}
	}
	named := f.workspace.value
	if !f.workspace.given {
		if named = cmp.Or(os.Getenv(projectVariable), os.Getenv("CLAUDE_PROJECT_DIR")); named == "" {
			return usagef("shell-prefix", "which folder is the project? set %s to it, or give --workspace", projectVariable)
		}
	}
	project, err := projectFolder(named)
	if err != nil {
		return err
	}
	dir, err := os.Getwd()
	if err == nil {
		dir, err = hostpath.Canonical(dir)
	}
	if err != nil {
		return &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "shell-prefix", Message: "the current folder cannot be found", Err: err}
	}
	if !hostpath.Within(dir, project) {
		return &sandbox.Error{
			Code: sandbox.CodeCapabilityBlocked, Op: "shell-prefix", Field: "workspace", Resource: termsafe.Line(dir), Message: "the current folder lies outside of the project " + project,
			Hint: "name a project with --workspace that holds it",
		}
	}
	f.workspace = text{value: project, given: true}
	req, err := a.request(f.runFlags)
	if err != nil {
		return err
	}
	req.Flags = onlySandboxed(req.Flags)
	if req.Flags.Docker == nil {
		req.Flags.Docker = &config.DockerSettings{}
	}
	req.Flags.Docker.Binds = append(req.Flags.Docker.Binds, project+":"+project+":rw")
	for _, name := range callerVariables {
		if value, ok := os.LookupEnv(name); ok {
			if _, given := req.Command.Env[name]; !given {
				req.Command.Env[name] = value
			}
		}
	}
	text := line.text
	if line.snapshot != "" {
		text = a.withSnapshot(line, req.Command.Env, f.noSnapshot)
	}
	marker := newMarker()
	if line.cwdFile != "" {
		text = "exec 7>&1; " + text + " && " + marker.command()
	}
	if sameFile(a.Stdout, a.Stderr) {
		text = "exec 2>&1; " + text // two streams have no order among them
	}
	req.Command.Args, req.Command.Dir = []string{"-c", text}, dir
	f.stdin = !isTerminal(a.Stdin)
	return a.start(c.Context, f.runFlags, req, func(m Manager, ctx context.Context, r manager.Request) (manager.Outcome, error) {
		marker.to = r.Command.Stdout
		r.Command.Stdout = marker
		out, err := m.Shell(ctx, r)
		if flushErr := marker.flush(); err == nil {
			err = flushErr
		}
		// They say what strictness strict would refuse of a line, which Claude Code
		// has written; the model would read them with each command.
		out.Warnings = nil
		if folder, ended := marker.folder(); err == nil && ended && line.cwdFile != "" {
			a.reportFolder(folder, line, project)
		}
		return out, err
	})
}

// sameFile reports whether two files are one.
func sameFile(x, y *os.File) bool {
	a, err := x.Stat()
	if err != nil {
		return false
	}
	b, err := y.Stat()
	return err == nil && os.SameFile(a, b)
}

// onlySandboxed returns layer with what keeps a command from running outside of a
// sandbox, whatever the settings say.
func onlySandboxed(layer *config.SandboxSettings) *config.SandboxSettings {
	out := config.SandboxSettings{}
	if layer != nil {
		out = *layer
	}
	out.Enabled, out.FailIfUnavailable, out.Mode = new(true), new(true), new(sandbox.ModeAll)
	commands := config.CommandSettings{}
	if out.Commands != nil {
		commands = *out.Commands
	}
	commands.AllowUnsandboxed = new(false)
	out.Commands = &commands
	return &out
}

// A prefixed line is what Claude Code calls its prefix with.
type prefixed struct {
	text     string // without the parts below
	snapshot string // host file with functions and aliases, or empty
	cwdFile  string // host file that gets the folder in which the command ends; empty but for the Bash tool
}

var (
	// cwdPart ends each line of the Bash tool.
	cwdPart = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^((?s).*) && pwd -P >\| '?(/[^\s'"]*/claude-[0-9a-zA-Z]+-cwd)'?$`)
	})
	// snapshotPart begins it, where a snapshot was taken.
	snapshotPart = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^source '?(/[^'"\n;&|<>$` + "`" + `\\]*/shell-snapshots/snapshot-[0-9a-zA-Z_.-]+\.sh)'? 2>/dev/null \|\| true && `)
	})
)

// parsePrefixed takes apart a line. One of another form stays whole.
func parsePrefixed(line string) prefixed {
	p := prefixed{text: line}
	m := cwdPart().FindStringSubmatch(line)
	if m == nil {
		return p
	}
	p.text, p.cwdFile = m[1], m[2]
	if s := snapshotPart().FindStringSubmatch(p.text); s != nil {
		p.text, p.snapshot = strings.TrimPrefix(p.text, s[0]), s[1]
	}
	return p
}

// snapshotVariable holds the snapshot until the line has defined what is in it.
const snapshotVariable = "SANDBOX_SHELL_SNAPSHOT"

// maxSnapshot is the longest snapshot in bytes; a variable holds 128 KiB at most.
const maxSnapshot = 120 << 10

// withSnapshot returns the line with what defines the functions and aliases of the
// snapshot before it, which env gets. One that cannot be used is named.
func (a *app) withSnapshot(line prefixed, env map[string]string, none bool) string {
	if none {
		return line.text
	}
	leave := func(why string) string {
		a.say("shell-prefix: the functions and aliases of your shell are left out: %s; --no-snapshot leaves them out in silence", why)
		return line.text
	}
	dir, err := hostpath.Canonical(filepath.Dir(line.snapshot))
	if err != nil {
		return leave("their folder cannot be found")
	}
	data, err := hostpath.File(filepath.Join(dir, filepath.Base(line.snapshot)), 1<<20)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return line.text // as without us: Claude Code goes on without it
	case err != nil:
		return leave("their file cannot be read")
	}
	var kept bytes.Buffer
	for l := range bytes.Lines(data) {
		if !bytes.HasPrefix(l, []byte("export PATH=")) { // of this machine
			kept.Write(l)
		}
	}
	switch {
	case kept.Len() > maxSnapshot:
		return leave("they are longer than 120 KiB")
	case bytes.IndexByte(kept.Bytes(), 0) >= 0:
		return leave("they hold a NUL byte")
	case config.LooksSecret(kept.String()):
		return leave("they look as if they held a credential")
	}
	env[snapshotVariable] = kept.String()
	return `eval "$` + snapshotVariable + `" 2>/dev/null; unset ` + snapshotVariable + "; " + line.text
}

// reportFolder writes the folder in which a command has ended to the file that
// Claude Code reads, where it lies in the project on this machine too. A command
// that has failed says none, and leaves no file, as without us.
func (a *app) reportFolder(folder string, line prefixed, project string) {
	canonical, err := hostpath.Canonical(folder)
	fi, statErr := os.Stat(canonical)
	switch {
	case !strings.HasPrefix(folder, "/") || len(folder) > 4096 || strings.ContainsAny(folder, "\n\x00"):
		a.say("shell-prefix: the command's folder is not known; Claude Code stays where it is")
		return
	case folder == sandbox.WorkspaceDir || strings.HasPrefix(folder, sandbox.WorkspaceDir+"/"):
		canonical, err = hostpath.Canonical(project + strings.TrimPrefix(folder, sandbox.WorkspaceDir))
		fi, statErr = os.Stat(canonical)
	}
	if err != nil || statErr != nil || !fi.IsDir() || !hostpath.Within(canonical, project) {
		a.say("shell-prefix: Claude Code stays where it is: %s is no folder of the project", termsafe.Line(folder))
		return
	}
	f, err := os.OpenFile(line.cwdFile, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|syscall.O_NOFOLLOW, 0o600)
	if err == nil {
		_, err = f.WriteString(canonical + "\n")
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		a.say("shell-prefix: the command's folder cannot be reported to Claude Code: %s", termsafe.Line(err.Error()))
	}
}

// A marker takes out of the output of a command what the shell says at its end: the
// folder in which it is. The folder comes that way since the sandbox may be another
// one at the next call, or have ended. Code inside can forge it.
type marker struct {
	begin string
	to    io.Writer

	mu   sync.Mutex
	held []byte // under mu; may be the beginning of a mark
	last []byte // under mu; the folder of the last mark
	seen bool   // under mu
}

// markerEnd ends a mark, and longestMark is how many bytes one may have.
const (
	markerEnd   = '\x1e'
	longestMark = 4200
)

func newMarker() *marker {
	var b [16]byte
	rand.Read(b[:]) // never fails
	return &marker{begin: string(markerEnd) + hex.EncodeToString(b[:]) + ":"}
}

// command makes the shell say where it is, in one write so that nothing comes
// between.
func (m *marker) command() string {
	return `printf '\036%s:%s\036' ` + m.begin[1:len(m.begin)-1] + ` "$(pwd -P)" >&7`
}

// Write implements io.Writer.
func (m *marker) Write(p []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held = append(m.held, p...)
	for {
		at := bytes.IndexByte(m.held, markerEnd)
		if at < 0 {
			at = len(m.held)
		}
		if at > 0 {
			if _, err := m.to.Write(m.held[:at]); err != nil {
				return 0, err
			}
			m.held = m.held[at:]
		}
		n := min(len(m.held), len(m.begin))
		switch {
		case n == 0:
			m.held = nil
			return len(p), nil
		case string(m.held[:n]) != m.begin[:n]: // of the command
			if _, err := m.to.Write(m.held[:1]); err != nil {
				return 0, err
			}
			m.held = m.held[1:]
			continue
		}
		end := -1
		if n == len(m.begin) {
			end = bytes.IndexByte(m.held[n:], markerEnd)
		}
		switch {
		case end >= 0 && n+end < longestMark:
			m.last, m.seen = bytes.Clone(m.held[n:n+end]), true
			m.held = m.held[n+end+1:]
		case end < 0 && len(m.held) <= longestMark:
			return len(p), nil
		default: // no mark of ours has so much
			if _, err := m.to.Write(m.held[:n]); err != nil {
				return 0, err
			}
			m.held = m.held[n:]
		}
	}
}

// flush writes what is held, of which no more will come.
func (m *marker) flush() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	held := m.held
	m.held = nil
	if len(held) == 0 || m.to == nil {
		return nil
	}
	_, err := m.to.Write(held)
	return err
}

// folder returns what the shell has said, and whether it did.
func (m *marker) folder() (string, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return string(m.last), m.seen
}
