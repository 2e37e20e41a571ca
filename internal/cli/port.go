package cli

import (
	"context"
	"net"
	"strconv"
	"time"

	ucli "github.com/urfave/cli/v2"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/server/api"
)

// A PortStore reaches ports inside the sandboxes of sessions: those of this
// machine, or a daemon's. No method makes a sandbox: without one the error is
// [sandbox.CodeNotFound].
type PortStore interface {
	// Find returns the sandbox.
	Find(ctx context.Context, r manager.Request) (PortPlace, error)

	// List returns the ports at which programs inside listen.
	List(ctx context.Context, r manager.Request) (PortPlace, []api.Port, error)

	// Dial connects to a port inside. The caller closes the connection, also when
	// ctx ends, which may end it.
	Dial(ctx context.Context, r manager.Request, port int) (net.Conn, error)

	// Share makes a link to a port, Shares lists the links, and Revoke ends one
	// and cuts its connections. They need a daemon, and are
	// [sandbox.CodeUnsupported] without.
	Share(ctx context.Context, r manager.Request, s api.SharePort) (api.NewShare, error)
	Shares(ctx context.Context, r manager.Request) (name string, shares []api.Share, err error)
	Revoke(ctx context.Context, r manager.Request, id string) error
}

// A PortPlace is a sandbox in which ports are.
type PortPlace struct {
	Sandbox string // its name
	Alone   bool   // no program that others have started runs in it; see [app.warnAlone]
}

// warnAlone says that the programs of other commands are not to be seen. A local
// sandbox is the namespaces of the program that uses it: each command has its own,
// with what docker.onStart starts in it.
func (a *app) warnAlone(p PortPlace) {
	if p.Alone {
		a.say("warning: without a daemon each command has a local sandbox of its own, in which programs of other commands do not run; start one (sandbox serve), and name it with --server to all of them")
	}
}

// longestShare is how long a link is in force at most.
const longestShare = 30 * 24 * time.Hour

func (a *app) portCommand() *ucli.Command {
	return &ucli.Command{
		Name:      "port",
		Usage:     "reach programs that listen inside the session's sandbox",
		UsageText: "sandbox port (forward | list | share | shares | revoke) [flags]",
		Description: "The sandbox must exist. It publishes no port and gets no route: connections are made inside, to its loopback\n" +
			"interface. share, shares and revoke need a daemon, see --server.",
		Subcommands: []*ucli.Command{
			a.portForwardCommand(), a.portListCommand(), a.portShareCommand(), a.portSharesCommand(), a.portRevokeCommand(),
		},
	}
}

// portRequest is the request of every command about ports.
func (a *app) portRequest() manager.Request {
	return manager.Request{Who: a.globals.who(), Flags: a.globals.layer(), MustExist: true}
}

// withPorts calls fn with what reaches ports, and lets go of it afterwards.
func (a *app) withPorts(fn func(PortStore) error) error {
	o, err := a.hosted()
	if err != nil {
		return err
	}
	s, release, err := a.Backend.Ports(o)
	if err != nil {
		return err
	}
	defer release()
	return fn(s)
}

// portOf reads a port.
func portOf(command, s string, least int) (int, error) {
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil || int(n) < least || s != strconv.FormatUint(n, 10) {
		return 0, usagef(command, "%q is no port: it must be a number from %d to 65535", s, least)
	}
	return int(n), nil
}

// onePort reads the only argument of a command, which is a port.
func onePort(c *ucli.Context, command string) (int, error) {
	if c.Args().Len() != 1 {
		return 0, usagef(command, "exactly one port is needed")
	}
	return portOf(command, c.Args().First(), 1)
}

func (a *app) portListCommand() *ucli.Command {
	return &ucli.Command{
		Name:        "list",
		Usage:       "show the TCP ports at which programs inside listen",
		UsageText:   "sandbox port list [flags]",
		Description: "What it shows comes from inside and may be forged by programs there.",
		Action: func(c *ucli.Context) error {
			if err := noArguments(c); err != nil {
				return err
			}
			return a.withPorts(func(s PortStore) error {
				at, ports, err := s.List(c.Context, a.portRequest())
				if err != nil {
					return err
				}
				a.warnAlone(at)
				return a.showPorts(at.Sandbox, ports)
			})
		},
	}
}

func (a *app) showPorts(name string, ports []api.Port) error {
	if a.globals.json() {
		return writeJSON(a.Stdout, struct {
			Sandbox string     `json:"sandbox"`
			Ports   []api.Port `json:"ports"`
		}{name, notNil(ports)})
	}
	t := a.newTable([]string{"PORT", "ADDRESS", "PID", "COMMAND"}, "PID")
	for _, p := range ports {
		pid := ""
		if p.PID > 0 {
			pid = strconv.Itoa(p.PID)
		}
		t.add(strconv.Itoa(p.Port), p.Address, pid, p.Command)
	}
	return t.write(a.Stdout)
}

func (a *app) portShareCommand() *ucli.Command {
	limit := span{positive: true, written: "1h", value: time.Hour}
	var public bool
	return &ucli.Command{
		Name:      "share",
		Usage:     "make a link to a port inside, and print it",
		UsageText: "sandbox port share PORT [--for DURATION] [--public] [flags]",
		Description: "A program that has the link may connect to that port of that sandbox until it expires, is revoked, or the token that made\n" +
			"it is not good any more. The link holds a secret, which cannot be shown again. It needs a daemon, see --server.",
		Flags: []ucli.Flag{
			&ucli.GenericFlag{Name: "for", Usage: "for this `DURATION`, such as 90s, 10m or 1d; at most 30d", Value: &limit},
			&ucli.BoolFlag{Name: "public", Usage: "the address alone is enough, and holds no secret", Destination: &public},
		},
		Action: func(c *ucli.Context) error {
			port, err := onePort(c, "port share")
			if err != nil {
				return err
			}
			if limit.value > longestShare {
				return usagef("port share", "--for must be at most 30d")
			}
			in := api.SharePort{Port: port, TTLSeconds: int64((limit.value + time.Second - 1) / time.Second), Public: public}
			return a.withPorts(func(s PortStore) error {
				made, err := s.Share(c.Context, a.portRequest(), in)
				if err != nil {
					return err
				}
				return a.showMadeShare(made)
			})
		},
	}
}

func (a *app) showMadeShare(made api.NewShare) error {
	if a.globals.json() {
		return writeJSON(a.Stdout, made)
	}
	if _, err := a.Stdout.WriteString(cell(made.URL) + "\n"); err != nil {
		return err
	}
	a.say("this is link %s to port %d of %s, in force until %s; it cannot be shown again", cell(made.Share.ID), made.Share.Port, cell(made.Share.Sandbox), shownTime(made.Share.Expires))
	return nil
}

func (a *app) portSharesCommand() *ucli.Command {
	return &ucli.Command{
		Name:      "shares",
		Usage:     "show the links to ports that are in force, the oldest first, without their secrets",
		UsageText: "sandbox port shares [flags]",
		Action: func(c *ucli.Context) error {
			if err := noArguments(c); err != nil {
				return err
			}
			return a.withPorts(func(s PortStore) error {
				name, shares, err := s.Shares(c.Context, a.portRequest())
				if err != nil {
					return err
				}
				return a.showShares(name, shares)
			})
		},
	}
}

func (a *app) showShares(name string, shares []api.Share) error {
	if a.globals.json() {
		return writeJSON(a.Stdout, struct {
			Sandbox string      `json:"sandbox"`
			Shares  []api.Share `json:"shares"`
		}{name, notNil(shares)})
	}
	t := a.newTable([]string{"ID", "PORT", "HOST", "PUBLIC", "CREATED", "EXPIRES"}, "CREATED", "PUBLIC")
	for _, s := range shares {
		port, public := strconv.Itoa(s.Port), "no"
		if s.Port == 0 {
			port = "every"
		}
		if s.Public {
			public = "yes"
		}
		t.add(s.ID, port, s.Host, public, shownTime(s.Created), shownTime(s.Expires))
	}
	return t.write(a.Stdout)
}

func (a *app) portRevokeCommand() *ucli.Command {
	return &ucli.Command{
		Name:        "revoke",
		Usage:       "end links to ports, and cut their connections",
		UsageText:   "sandbox port revoke ID…",
		Description: "Ids are those of shares; an id is no secret.",
		Action: func(c *ucli.Context) error {
			ids := c.Args().Slice()
			if len(ids) == 0 {
				return usagef("port revoke", "name the id of at least one link, see sandbox port shares")
			}
			for _, id := range ids {
				if err := notEmpty(id); err != nil {
					return usagef("port revoke", "an id is empty")
				}
			}
			return a.withPorts(func(s PortStore) error { return a.revokeShares(c.Context, s, ids) })
		},
	}
}

// revokeShares ends the links in their order, and stops at the first that fails.
func (a *app) revokeShares(ctx context.Context, s PortStore, ids []string) error {
	revoked := []string{}
	var failed error
	for _, id := range ids {
		if failed = s.Revoke(ctx, a.portRequest(), id); failed != nil {
			break
		}
		revoked = append(revoked, id)
	}
	err := a.showRevoked(revoked)
	if failed != nil {
		return failed
	}
	return err
}

func (a *app) showRevoked(ids []string) error {
	if a.globals.json() {
		return writeJSON(a.Stdout, struct {
			Revoked []string `json:"revoked"`
		}{ids})
	}
	for _, id := range ids {
		if _, err := a.Stdout.WriteString("revoked " + cell(id) + "\n"); err != nil {
			return err
		}
	}
	return nil
}

// NeedsDaemon returns the error of what only a daemon can do with ports.
func NeedsDaemon(op string) error {
	return &sandbox.Error{
		Code: sandbox.CodeUnsupported, Op: op, Field: "server", Message: "a link to a port is served by a daemon, and this command has none",
		Hint: `start one ("sandbox serve") and name it with --server or $` + serverVariable + `; "sandbox port forward" needs none`,
	}
}
