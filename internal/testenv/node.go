package testenv

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
)

// A nodeProgram is one that a script installs into the bin folder of this tree,
// together with the node that runs it.
type nodeProgram struct {
	what string // it is, for who lacks it
	name string // of the need, the target of make, and the folder
	file string // below its node_modules
}

var (
	inspector = nodeProgram{"the inspector", "inspector", "@modelcontextprotocol/inspector/clients/launcher/build/index.js"}
	e2b       = nodeProgram{"the client of E2B", "e2b", "e2b/dist/index.mjs"}
	agents    = nodeProgram{"the OpenAI Agents SDK", "agents", "@openai/agents/dist/index.mjs"}
	adapters  = nodeProgram{"what the adapters of clients/typescript are for", "adapters", "openclaw/openclaw.mjs"}
	pyClient  = nodeProgram{"the type checker of clients/python", "pyclient", "pyright/index.js"}
	tsClient  = nodeProgram{"what clients/typescript is tested with", "tsclient", "typescript/bin/tsc"}
	console   = nodeProgram{"what the page of the web console is built with", "webconsole", "vite/bin/vite.js"}
	redocly   = nodeProgram{"the linter", "redocly", "@redocly/cli/bin/cli.js"}
)

// Inspector returns a command of the official inspector of the Model Context
// Protocol, as scripts/inspector.sh installs it, with these arguments. Its own
// settings lie in a folder of the test's.
func Inspector(ctx context.Context, t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	cmd := inspector.command(ctx, t, append([]string{"--cli"}, args...))
	cmd.Env = append(cmd.Env, "MCP_AUTO_OPEN_ENABLED=false")
	return cmd
}

// E2B returns a command that runs a script, in JavaScript or Python by its ending,
// with the clients of E2B that scripts/clients.sh installs.
func E2B(ctx context.Context, t testing.TB, script string, args ...string) *exec.Cmd {
	t.Helper()
	return e2b.client(ctx, t, "E2B_CLIENTS", script, args)
}

// E2BModules returns the folder of packages of the clients that [E2B] uses.
func E2BModules() string { return e2b.modules() }

// Agents is [E2B] for the OpenAI Agents SDK.
func Agents(ctx context.Context, t testing.TB, script string, args ...string) *exec.Cmd {
	t.Helper()
	return agents.client(ctx, t, "AGENTS_CLIENTS", script, args)
}

// SWERex returns a command that runs a script in Python with the client of SWE-ReX
// that scripts/clients.sh installs.
func SWERex(ctx context.Context, t testing.TB, script string, args ...string) *exec.Cmd {
	t.Helper()
	Require(t, "swerex")
	cmd := exec.CommandContext(ctx, swerexPython(), append([]string{script}, args...)...)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	return cmd
}

func swerexPython() string { return filepath.Join(root(), "bin", "swerex", "python", "bin", "python") }

// swerexMissing says what of what the script installs is not there.
func swerexMissing() string {
	if _, err := os.Stat(filepath.Join(root(), "bin", "swerex", ".installed")); err != nil {
		return "the client of SWE-ReX is not installed, which `make swerex` does: " + err.Error()
	}
	return ""
}

// AgentsModules returns the folder of packages of the clients that [Agents] uses.
func AgentsModules() string { return agents.modules() }

// Adapters returns a command of Node with the arguments, where the frameworks are
// installed that have adapters in clients/typescript.
func Adapters(ctx context.Context, t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	Require(t, adapters.name)
	_, node := adapters.files()
	cmd := exec.CommandContext(ctx, node, args...)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	return cmd
}

// AdaptersModules returns the folder of packages of [Adapters].
func AdaptersModules() string { return adapters.modules() }

// PyClient returns the Python that clients/python is tested with.
func PyClient(t testing.TB) (python string) {
	t.Helper()
	Require(t, pyClient.name)
	return filepath.Join(root(), "bin", pyClient.name, "python", "bin", "python")
}

// Pyright returns a command of the type checker of Python, with these arguments.
func Pyright(ctx context.Context, t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	return pyClient.command(ctx, t, args)
}

// TSClient returns a command of Node with the arguments, where the packages are
// installed that clients/typescript is built and tested with.
func TSClient(ctx context.Context, t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	Require(t, tsClient.name)
	_, node := tsClient.files()
	cmd := exec.CommandContext(ctx, node, args...)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	return cmd
}

// TSClientModules returns the folder of packages of [TSClient].
func TSClientModules() string { return tsClient.modules() }

// ConsolePackages returns the folder of what scripts/clients.sh has installed to build
// and test the page of the web console, for scripts/console.sh.
func ConsolePackages(t testing.TB) string {
	t.Helper()
	Require(t, console.name)
	return filepath.Dir(console.modules())
}

// client returns a command that runs a script with clients that scripts/clients.sh
// installs. The variable names their folder for scripts in JavaScript.
func (p nodeProgram) client(ctx context.Context, t testing.TB, variable, script string, args []string) *exec.Cmd {
	t.Helper()
	Require(t, p.name)
	_, program := p.files()
	if filepath.Ext(script) == ".py" {
		program = filepath.Join(root(), "bin", p.name, "python", "bin", "python")
	}
	cmd := exec.CommandContext(ctx, program, append([]string{script}, args...)...)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), variable+"="+p.modules())
	return cmd
}

func (p nodeProgram) modules() string { return filepath.Join(root(), "bin", p.name, "node_modules") }

// Redocly returns a command of the linter of OpenAPI documents, as
// scripts/redocly.sh installs it, with these arguments.
func Redocly(ctx context.Context, t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	cmd := redocly.command(ctx, t, args)
	cmd.Env = append(cmd.Env, "REDOCLY_TELEMETRY=off", "REDOCLY_SUPPRESS_UPDATE_NOTICE=true", "NO_COLOR=1")
	return cmd
}

func (p nodeProgram) command(ctx context.Context, t testing.TB, args []string) *exec.Cmd {
	t.Helper()
	Require(t, p.name)
	program, node := p.files()
	cmd := exec.CommandContext(ctx, node, append([]string{program}, args...)...)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	return cmd
}

// All ask once a process for what the scripts install.
var (
	inspectorMissing = sync.OnceValue(inspector.missing)
	e2bMissing       = sync.OnceValue(e2b.missing)
	agentsMissing    = sync.OnceValue(agents.missing)
	adaptersMissing  = sync.OnceValue(adapters.missing)
	redoclyMissing   = sync.OnceValue(redocly.missing)
)

func (p nodeProgram) missing() string {
	program, node := p.files()
	for _, file := range []string{program, node} {
		if _, err := os.Stat(file); err != nil {
			return p.what + " is not installed, which `make " + p.name + "` does: " + err.Error()
		}
	}
	return ""
}

// files lie in the bin folder of the module.
func (p nodeProgram) files() (program, node string) {
	modules := p.modules()
	machine := map[string]string{"amd64": "x64"}[runtime.GOARCH]
	if machine == "" {
		machine = runtime.GOARCH
	}
	return filepath.Join(modules, filepath.FromSlash(p.file)), filepath.Join(modules, "node-linux-"+machine, "bin", "node")
}

// PyAdapters returns a command of Python with these arguments, where the frameworks are
// installed that have adapters in clients/python. Packages in folder come before theirs.
func PyAdapters(ctx context.Context, t testing.TB, folder string, args ...string) *exec.Cmd {
	t.Helper()
	Require(t, "pyadapters")
	cmd := exec.CommandContext(ctx, filepath.Join(root(), "bin", "pyadapters", "python", "bin", "python"), args...)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "PYTHONPATH="+folder, "PYTHONDONTWRITEBYTECODE=1")
	return cmd
}

// pyAdaptersMissing asks for what scripts/clients.sh installs.
func pyAdaptersMissing() string {
	if _, err := os.Stat(filepath.Join(root(), "bin", "pyadapters", ".installed")); err != nil {
		return "the frameworks are not installed, which `make pyadapters` does: " + err.Error()
	}
	return ""
}
