package cli

import (
	"io"
	"runtime/debug"
	"syscall"

	ucli "github.com/urfave/cli/v2"
)

// A Serving says where the daemon listens.
type Serving struct {
	Listen  []string        // unix:PATH or tcp:HOST:PORT; none is what systemd hands over, or the socket in the state folder
	Hangups <-chan struct{} // each asks for the settings to be read anew
	Version string

	// AdminTokens are host files, each with the secret of a token that is good for
	// every tenant.
	AdminTokens []string

	Ready func(addresses []string) // is called when requests are taken

	// Until, if it is not nil, bounds the daemon's life: it ends when this has ended
	// and no other process needs it. Where a daemon serves the state folder already,
	// its address is passed to Ready, and this process serves when that one has ended.
	Until io.Reader
}

func (a *app) serveCommand() *ucli.Command {
	listen, admins := &texts{check: notEmpty}, &texts{check: notEmpty}
	var embedded bool
	return &ucli.Command{
		Name:      "serve",
		Usage:     "serve sandboxes over HTTP",
		UsageText: "sandbox serve [--listen ADDRESS]… [--admin-token FILE]… [--embedded]",
		Description: "An ADDRESS is unix:PATH or tcp:HOST:PORT; without any it is a socket in the state folder that only its user can\n" +
			"use, or what systemd hands over. Over TCP every request needs a token, see sandbox token. The interface is\n" +
			"described at /openapi.json. Settings are read anew by themselves, and at SIGHUP; SIGTERM ends it: requests that\n" +
			"run have until daemon.drainTimeout to end. With --embedded it lives as long as the program that starts it, however\n" +
			"that ends: it ends when its standard input is closed. Programs with one state folder share one daemon, which ends\n" +
			"with the last of them; so they use one that runs already.",
		Flags: []ucli.Flag{
			&ucli.GenericFlag{Name: "listen", Usage: "listen at this `ADDRESS`; may be repeated", Value: listen},
			&ucli.GenericFlag{Name: "admin-token", Usage: "accept the token in this `FILE` as an admin's, which sandbox token create has made anywhere; may be repeated", Value: admins},
			&ucli.BoolFlag{Name: "embedded", Usage: "end when standard input is closed, and share a daemon that runs already", Destination: &embedded},
		},
		Action: func(c *ucli.Context) error {
			if err := noArguments(c); err != nil {
				return err
			}
			hangups, back := a.interrupts.divert(syscall.SIGHUP)
			defer back()
			s := Serving{
				Listen: listen.values, AdminTokens: admins.values, Hangups: hangups, Version: versionOf(debug.ReadBuildInfo()).Version,
				Ready: func(addresses []string) {
					for _, at := range addresses {
						a.say("listening at %s", at)
					}
				},
			}
			if embedded {
				s.Until = a.Stdin
			}
			return a.Backend.Serve(c.Context, a.options(), s)
		},
	}
}
