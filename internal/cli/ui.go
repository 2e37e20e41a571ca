package cli

import (
	"context"
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"

	ucli "github.com/urfave/cli/v2"

	"github.com/bulkhead-dev/sandbox"
)

// A ConsoleStore makes links to the web console of a daemon.
type ConsoleStore interface {
	// Open makes a link that logs one browser in. Where the daemon listens at no
	// address that a browser reaches, port is that of this machine at which
	// [ConsoleAccess].Serve listens, and 0 is any free one.
	Open(ctx context.Context, readOnly bool, port int) (ConsoleAccess, error)
}

// A ConsoleAccess is a link to the console.
type ConsoleAccess struct {
	URL     string    `json:"url"` // holds a secret that is good once
	Expires time.Time `json:"expires"`

	// Serve passes requests of browsers on to the daemon until ctx ends. Nil where
	// browsers reach the daemon by themselves.
	Serve func(ctx context.Context) error `json:"-"`
}

func (a *app) uiCommand() *ucli.Command {
	var open, readOnly bool
	port := text{value: "0", check: func(s string) error { _, err := portOf("ui", s, 0); return err }}
	return &ucli.Command{
		Name:      "ui",
		Usage:     "print a link to the web console of a daemon",
		UsageText: "sandbox ui [--open] [--read-only] [--port PORT] [flags]",
		Description: "The link works once, within a minute. The browser that opens it has the rights of the token that the command has, or\n" +
			"of the user of the daemon's socket, for at most twelve hours, and no longer than the token is good. Without --server\n" +
			"the daemon is that of the state folder. Where it listens at a unix socket alone, the command listens at a port of the\n" +
			"loopback interface for the browser, and stays until it is interrupted.",
		Flags: []ucli.Flag{
			&ucli.BoolFlag{Name: "open", Usage: "open the link in the browser of this user's desktop", Destination: &open},
			&ucli.BoolFlag{Name: "read-only", Usage: "the login may look at everything and change nothing", Destination: &readOnly},
			&ucli.GenericFlag{Name: "port", Usage: "listen at this `PORT` where the daemon has a unix socket alone; any free one without", Value: &port},
		},
		Action: func(c *ucli.Context) error {
			if err := noArguments(c); err != nil {
				return err
			}
			o, err := a.hosted()
			if err != nil {
				return err
			}
			s, release, err := a.Backend.Console(o)
			if err != nil {
				return err
			}
			defer release()
			number, err := portOf("ui", port.value, 0)
			if err != nil {
				return err
			}
			at, err := s.Open(c.Context, readOnly, number)
			if err != nil {
				return err
			}
			return a.showConsole(c.Context, at, open)
		},
	}
}

// showConsole prints the link, opens it if that is wanted, and serves it where that
// is needed.
func (a *app) showConsole(ctx context.Context, at ConsoleAccess, open bool) error {
	var err error
	if a.globals.json() {
		err = writeJSONLine(a.Stdout, at)
	} else {
		_, err = fmt.Fprintln(a.Stdout, cell(at.URL))
	}
	if err != nil {
		return err
	}
	a.say("the link works once, until %s", shownTime(at.Expires))
	done := func() {}
	if open {
		if done, err = openPage(ctx, at.URL); err != nil {
			a.report(err) // the link is good all the same
			done = func() {}
		}
	}
	defer done()
	if at.Serve == nil {
		if open && err == nil { // the browser reads a file that goes with this program
			select {
			case <-ctx.Done():
			case <-time.After(openWithin):
			}
		}
		return nil
	}
	a.say("the console is there until this command is interrupted")
	if err := at.Serve(ctx); err != nil {
		return err
	}
	return WatchEnd(ctx)
}

// openWithin is how long the browser of the desktop may take to read the file that
// sends it to the link.
const openWithin = 5 * time.Second

// openPage opens an address in the browser of the desktop, and returns what removes
// the file that it is written to: every user of the machine can read the arguments
// of a program, and a file of this user can be read by this user alone.
func openPage(ctx context.Context, address string) (done func(), err error) {
	fail := func(err error) error {
		return &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "open browser", Message: "no browser could be opened", Hint: "open the link by hand", Err: err}
	}
	dir, err := os.MkdirTemp("", "sandbox-ui-")
	if err != nil {
		return nil, fail(err)
	}
	done = func() { _ = os.RemoveAll(dir) }
	page := filepath.Join(dir, "open.html")
	text := `<!doctype html><meta charset="utf-8"><meta name="referrer" content="no-referrer"><meta http-equiv="refresh" content="0;url=` + html.EscapeString(address) + `">`
	if err := os.WriteFile(page, []byte(text), 0o600); err != nil {
		done()
		return nil, fail(err)
	}
	program := "xdg-open"
	if runtime.GOOS == "darwin" {
		program = "open"
	}
	if err := exec.CommandContext(ctx, program, page).Run(); err != nil {
		done()
		return nil, fail(err)
	}
	return done, nil
}
