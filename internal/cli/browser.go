package cli

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	ucli "github.com/urfave/cli/v2"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/browser"
	"github.com/bulkhead-dev/sandbox/browser/display"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
)

// A BrowserDisplay keeps the browsers of scopes: those of this machine, or a
// daemon's.
type BrowserDisplay interface {
	// Start brings the browser up and returns when it answers.
	Start(ctx context.Context, r display.Request) (display.Started, error)

	// Serve brings it up and lets clients of the DevTools protocol in.
	Serve(ctx context.Context, r display.Request) (display.Served, error)

	// Watch brings it up and lets one person look at its display, and with
	// control use it.
	Watch(ctx context.Context, r display.Request, control bool) (display.Watched, error)

	// Shoot brings it up, opens a page in a clean profile of which nothing is
	// left afterwards, and takes a picture of it.
	Shoot(ctx context.Context, r display.Request, target string, shot browser.Shot) (browser.Page, browser.Picture, error)

	// Stop removes the container with all that is in it. One that is in use
	// is [sandbox.CodeBusy] unless force. None is no failure.
	Stop(ctx context.Context, r display.Request, force bool) (removed bool, name string, err error)

	// Folders names the folders of the host that pictures and pages of the
	// workspace depend on. Without a workspace no path of this host is in it.
	Folders(ctx context.Context, r display.Request) (display.Folders, error)
}

func (a *app) browserCommand() *ucli.Command {
	return &ucli.Command{
		Name:      "browser",
		Usage:     "use the browser of a session: Chromium in a container of its own",
		UsageText: "sandbox browser (start | list | screenshot | open | stop) [flags]",
		Description: "The settings have to allow a browser: \"browser\": {\"enabled\": true}. Its pages reach what the rules of\n" +
			"\"network\" allow, and nothing else. docs/browser.md says what holds them.",
		Subcommands: []*ucli.Command{
			a.browserStartCommand(), a.browserListCommand(), a.browserScreenshotCommand(), a.browserOpenCommand(), a.browserStopCommand(),
		},
	}
}

func (a *app) browserListCommand() *ucli.Command {
	c := a.listing(new(true))
	c.Name, c.Usage, c.UsageText = "list", "show browsers, compared with what is recorded of them, as list --browser does", "sandbox browser list [flags]"
	return c
}

func (a *app) browserStopCommand() *ucli.Command {
	var force bool
	return &ucli.Command{
		Name:        "stop",
		Usage:       "remove the browser with all profiles in it; the workspace stays",
		UsageText:   "sandbox browser stop [flags]",
		Description: "One that is in use is left alone unless --force. That there is none is no failure.",
		Flags: []ucli.Flag{
			&ucli.BoolFlag{Name: "force", Usage: "also when it is in use", Destination: &force},
		},
		Action: func(c *ucli.Context) error {
			if err := noArguments(c); err != nil {
				return err
			}
			r := display.Request{Who: a.globals.who(), Flags: a.globals.layer()}
			return a.atDisplay(func(d BrowserDisplay) error {
				removed, name, err := d.Stop(c.Context, r, force)
				if err != nil {
					return err
				}
				return a.showStopped(removed, name)
			})
		},
	}
}

// stoppedView is what browser stop prints.
type stoppedView struct {
	Removed []string `json:"removed"`
}

func (a *app) showStopped(removed bool, name string) error {
	v, text := stoppedView{Removed: []string{}}, "there is none\n"
	if removed {
		v.Removed, text = append(v.Removed, name), "removed "+termsafe.Line(name)+"\n"
	}
	if a.globals.json() {
		return writeJSON(a.Stdout, v)
	}
	_, err := a.Stdout.WriteString(text)
	return err
}

// atDisplay calls fn with what keeps browsers and lets go of it afterwards.
func (a *app) atDisplay(fn func(BrowserDisplay) error) error {
	o, err := a.hosted()
	if err != nil {
		return err
	}
	d, release, err := a.Backend.Browsers(o)
	if err != nil {
		return err
	}
	defer release()
	return fn(d)
}

// browserFlags are those of the commands that bring a browser up. They belong
// to the browser: one that runs with other settings is not changed by them.
type browserFlags struct {
	domains   texts
	workspace text
	headed    bool
}

func newBrowserFlags() *browserFlags {
	return &browserFlags{domains: texts{check: notEmpty}, workspace: text{check: notEmpty}}
}

func (f *browserFlags) flags() []ucli.Flag {
	return []ucli.Flag{
		&ucli.GenericFlag{Name: "allow-domain", Usage: "let pages reach `HOST`, written as in network.allowedDomains", Value: &f.domains},
		&ucli.GenericFlag{Name: "workspace", Usage: "host `FOLDER` that is the workspace", Value: &f.workspace},
	}
}

// request returns the session that is meant and the flags as a layer of
// settings. A browser with a display is always created watchable, so that
// start --headed and open mean the same one; watching still needs a password,
// which is created later.
func (f *browserFlags) request(g *globals) (display.Request, error) {
	o := config.Overrides{Provider: g.provider.value, AllowDomains: f.domains.values}
	if f.workspace.given {
		dir, err := filepath.Abs(f.workspace.value)
		if err != nil {
			return display.Request{}, &sandbox.Error{Code: sandbox.CodeValidation, Op: "browser", Field: "--workspace", Message: "the folder cannot be found", Err: err}
		}
		o.Workspace = dir
	}
	s := o.Layer()
	if f.headed {
		if s == nil {
			s = &config.SandboxSettings{}
		}
		s.Browser = &config.BrowserSettings{Headless: new(false), EnableNoVNC: new(true)}
	}
	return display.Request{Who: g.who(), Flags: s}, nil
}

// stay returns when life ends, when d has passed unless that is 0, or when the
// call is interrupted, and then ends life. To be interrupted from the keyboard
// or by SIGTERM, like the end of the time, is no failure: it is how this ends.
func (a *app) stay(ctx context.Context, life display.Life, d time.Duration) error {
	var over <-chan time.Time
	if d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		over = t.C
	}
	select {
	case <-life.Done():
		return gone(life)
	case <-over:
		return life.Close()
	case <-ctx.Done():
	}
	err := life.Close()
	var sig signalError
	if errors.As(context.Cause(ctx), &sig) && (sig.number == syscall.SIGINT || sig.number == syscall.SIGTERM) {
		return err
	}
	return errors.Join(ctx.Err(), err)
}

// gone is what is said when life has ended by itself.
func gone(life display.Life) error {
	err := life.Err()
	var known *sandbox.Error
	if err != nil && errors.As(err, &known) {
		return errors.Join(err, life.Close())
	}
	return errors.Join(&sandbox.Error{
		Code: sandbox.CodeUnavailable, Op: "browser", Message: "the browser has gone", Err: err, Retryable: true,
		Hint: "see sandbox browser list, and start it again",
	}, life.Close())
}

// tell writes what a command that stays has to say at once: one line of JSON,
// or text.
func (a *app) tell(v any, text string) error {
	if a.globals.json() {
		return writeJSONLine(a.Stdout, v)
	}
	_, err := a.Stdout.WriteString(text)
	return err
}

// pid returns the id of this process, for a user who wants to end it.
func pid() int { return os.Getpid() }

// fields writes one line for each pair of name and value; empty values are
// left out.
func fields(pairs ...string) string {
	t := &table{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			t.add(pairs[i], pairs[i+1])
		}
	}
	var b strings.Builder
	_ = t.write(&b) // a strings.Builder never fails
	return b.String()
}
