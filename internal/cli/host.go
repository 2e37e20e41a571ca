package cli

import (
	"cmp"
	"os"
	"slices"
	"strings"

	ucli "github.com/urfave/cli/v2"

	"github.com/bulkhead-dev/sandbox"
)

// The variables that stand for --server and for what --token-file holds, and the
// older names of the flag and its variable, which are accepted too.
const (
	serverVariable    = "SANDBOX_SERVER"
	oldServerVariable = "SANDBOX_HOST"
	oldServerFlag     = "host"
	tokenVariable     = "SANDBOX_TOKEN"
)

// maxToken is the most bytes that a file with a token may have.
const maxToken = 4 << 10

// A Host is a daemon that carries a command out; the zero value is none.
type Host struct {
	Address string // see sdk.NewAPI; empty is no daemon
	Token   string // empty is none
}

// Remote reports whether a daemon is to carry the command out.
func (h Host) Remote() bool { return h.Address != "" }

// anywhere are the commands that a daemon can carry out, with all below them,
// and local those that have nothing to do with one.
var (
	anywhere = []string{
		"run", "exec", "shell", "code", "fs", "cp", "media", "list", "recreate", "prune", "checkpoint", "rollback", "fork", "diff", "apply", "discard", "undo",
		"explain", "stats", "top", "pool",
		"violations", "evidence list", "evidence verify", "token", "port", "ui", "browser start", "browser list", "browser screenshot", "browser stop",
	}
	local = []string{"serve", "version", "completion"}
)

// reasons say of commands that a daemon does not carry out why that is so.
var reasons = map[string]string{
	"browser open":          "its link is good on the daemon's machine alone; run it there, without --server and $" + serverVariable,
	"browser start --serve": "its address is good on the daemon's machine alone; run it there, without --server and $" + serverVariable,
	"evidence replay":       "its settings are what records are held against; run it on the daemon's machine, without --server and $" + serverVariable,
}

// address is that of the daemon, or empty. An empty --server is none, whatever
// the variables say; SANDBOX_SERVER counts before the older name.
func (g *globals) address() string {
	if g.server.given {
		return g.server.value
	}
	return cmp.Or(os.Getenv(serverVariable), os.Getenv(oldServerVariable))
}

// daemon is where the command is carried out.
func (g *globals) daemon() (Host, error) {
	h := Host{Address: g.address()}
	if !h.Remote() {
		return Host{}, nil
	}
	if !g.tokenFile.given {
		h.Token = os.Getenv(tokenVariable)
		return h, nil
	}
	b, err := os.ReadFile(g.tokenFile.value)
	if err != nil {
		return h, &sandbox.Error{Code: sandbox.CodeValidation, Op: "read token", Field: "token-file", Resource: g.tokenFile.value, Message: "the file cannot be read", Err: err}
	}
	h.Token = strings.TrimSpace(string(b))
	if h.Token == "" || len(h.Token) > maxToken || strings.ContainsAny(h.Token, " \t\r\n") {
		return h, &sandbox.Error{Code: sandbox.CodeValidation, Op: "read token", Field: "token-file", Resource: g.tokenFile.value, Message: "the file holds no token, or more than one"}
	}
	return h, nil
}

// guard makes the action of a command refuse a daemon where none can carry the
// command out: done here instead it would tell of another machine than was
// asked for.
func (a *app) guard(name string, do ucli.ActionFunc) ucli.ActionFunc {
	top, _, _ := strings.Cut(name, " ")
	if do == nil {
		return do
	}
	if slices.Contains(local, top) {
		return func(c *ucli.Context) error {
			if err := a.globals.checkProvider(name); err != nil {
				return err
			}
			return do(c)
		}
	}
	return func(c *ucli.Context) error {
		if err := a.globals.checkProvider(name); err != nil {
			return err
		}
		if a.globals.address() == "" {
			return do(c)
		}
		if !slices.Contains(anywhere, top) && !slices.Contains(anywhere, name) {
			return notRemote(name)
		}
		for _, f := range []struct {
			name string
			text *text
		}{{"config", &a.globals.config}, {"state-dir", &a.globals.stateDir}} {
			if f.text.given {
				return usagef(name, "--%s is for this machine and cannot be combined with --server or $%s", f.name, serverVariable)
			}
		}
		return do(c)
	}
}

// notRemote is the error of a command that no daemon carries out.
func notRemote(name string) error {
	return &sandbox.Error{
		Code: sandbox.CodeUnsupported, Op: name, Field: "server", Message: `"sandbox ` + name + `" is not possible through a daemon`,
		Hint: cmp.Or(reasons[name], "run it on the daemon's machine, without --server and $"+serverVariable),
	}
}
