package cli

import (
	"runtime/debug"
	"syscall"

	ucli "github.com/urfave/cli/v2"
)

// A Serving says where the daemon listens.
type Serving struct {
	Listen  []string        // unix:PATH or tcp:HOST:PORT; none is what systemd hands over, or the socket in the state folder
	Hangups <-chan struct{} // each asks for the settings to be read anew
	Version string
	Ready   func(addresses []string) // is called when requests are taken
}

func (a *app) serveCommand() *ucli.Command {
	listen := &texts{check: notEmpty}
	return &ucli.Command{
		Name:      "serve",
		Usage:     "serve sandboxes over HTTP",
		UsageText: "sandbox serve [--listen ADDRESS]…",
		Description: "An ADDRESS is unix:PATH or tcp:HOST:PORT; without any it is a socket in the state folder that only its user can\n" +
			"use, or what systemd hands over. Over TCP every request needs a token, see sandbox token. The interface is\n" +
			"described at /openapi.json. Settings are read anew by themselves, and at SIGHUP; SIGTERM ends it: requests that\n" +
			"run have until daemon.drainTimeout to end.",
		Flags: []ucli.Flag{&ucli.GenericFlag{Name: "listen", Usage: "listen at this `ADDRESS`; may be repeated", Value: listen}},
		Action: func(c *ucli.Context) error {
			if err := noArguments(c); err != nil {
				return err
			}
			hangups, back := a.interrupts.lend(syscall.SIGHUP)
			defer back()
			return a.Backend.Serve(c.Context, a.options(), Serving{
				Listen: listen.values, Hangups: hangups, Version: versionOf(debug.ReadBuildInfo()).Version,
				Ready: func(addresses []string) {
					for _, at := range addresses {
						a.say("listening at %s", at)
					}
				},
			})
		},
	}
}
