package cli

import (
	"context"
	"fmt"
	"time"

	ucli "github.com/urfave/cli/v2"

	"github.com/bulkhead-dev/sandbox/browser/display"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
)

func (a *app) browserStartCommand() *ucli.Command {
	f := newBrowserFlags()
	var serve bool
	limit := span{positive: true}
	return &ucli.Command{
		Name:      "start",
		Usage:     "bring the browser up and wait until it answers; with --serve, let clients of the DevTools protocol in",
		UsageText: "sandbox browser start [flags]\n" + "sandbox browser start --serve [--for DURATION] [flags]",
		Description: "Without --serve the browser stays when the command has ended, until browser stop or prune.\n" +
			"With --serve the command prints an address for clients such as Playwright's connectOverCDP, and stays until it is\n" +
			"interrupted, the time is over (both exit 0), or the browser is removed (125). A program that has the token can do in\n" +
			"the browser what its policies allow: it is printed once, on standard output, and kept nowhere.",
		Flags: append([]ucli.Flag{
			&ucli.BoolFlag{Name: "headed", Usage: "with a display, which browser open shows", Destination: &f.headed},
			&ucli.BoolFlag{Name: "serve", Usage: "stay, and let clients in at an address of this host", Destination: &serve},
			&ucli.GenericFlag{Name: "for", Usage: "serve for this `DURATION`, such as 90s, 10m or 1d; default until interrupted", Value: &limit},
		}, f.flags()...),
		Action: func(c *ucli.Context) error {
			if err := noArguments(c); err != nil {
				return err
			}
			if limit.given && !serve {
				return usagef("browser start", "--for needs --serve: without it nothing stays")
			}
			if serve && a.globals.address() != "" {
				return notRemote("browser start --serve")
			}
			r, err := f.request(a.globals)
			if err != nil {
				return err
			}
			return a.atDisplay(func(d BrowserDisplay) error {
				if serve {
					return a.serveBrowser(c.Context, d, r, limit.value)
				}
				s, err := d.Start(c.Context, r)
				if err != nil {
					return err
				}
				return a.showStarted(s)
			})
		},
	}
}

// startedView is the output of browser start. How a browser of the host was
// started is unknown: the keys are null then.
type startedView struct {
	Name            string  `json:"name"`
	Version         string  `json:"version"`
	Created         bool    `json:"created"`
	ReadyMS         int64   `json:"readyMs"`
	ChromiumSandbox *bool   `json:"chromiumSandbox"`
	Isolated        bool    `json:"isolated"`
	Headless        *bool   `json:"headless"`
	Network         *string `json:"network"`
}

func (a *app) showStarted(s display.Started) error {
	v := startedView{Name: s.Name, Version: s.Version, Created: s.Created, ReadyMS: s.Ready.Milliseconds(), Isolated: !s.NotIsolated}
	if v.Isolated {
		v.ChromiumSandbox, v.Headless, v.Network = &s.Sandbox, &s.Headless, &s.Network
	}
	if a.globals.json() {
		return writeJSON(a.Stdout, v)
	}
	_, err := a.Stdout.WriteString(startedText(s))
	return err
}

func startedText(s display.Started) string {
	ready := fmt.Sprintf("after %d ms", s.Ready.Milliseconds())
	if s.NotIsolated {
		return fields("browser", s.Version, "ready", ready, "isolated", notIsolated)
	}
	made, own, display := "was there", "on", "none (headless)"
	if s.Created {
		made = "made now"
	}
	if !s.Sandbox {
		own = "OFF (browser.dangerouslyNoSandbox)"
	}
	if !s.Headless {
		display = "yes; sandbox browser open shows it"
	}
	return fields("name", s.Name, "browser", s.Version, "container", made, "ready", ready, "chromium's own sandbox", own, "display", display, "network", s.Network)
}

// notIsolated is said wherever a browser of the host is used.
const notIsolated = "NO: it is a browser of this host (browser.hostCdpUrl)"

// servedView is what browser start --serve prints.
type servedView struct {
	Name                 string `json:"name"`
	URL                  string `json:"url"`
	WebSocketDebuggerURL string `json:"webSocketDebuggerUrl"`
	Token                string `json:"token"`
	Isolated             bool   `json:"isolated"`
	PID                  int    `json:"pid"` // of the process that serves
}

// serveBrowser lets clients in until something ends it. What is to be said is
// said when they can come, and before anything else.
func (a *app) serveBrowser(ctx context.Context, d BrowserDisplay, r display.Request, limit time.Duration) error {
	if _, err := d.Start(ctx, r); err != nil { // also where settings start none on use
		return err
	}
	s, err := d.Serve(ctx, r)
	if err != nil {
		return err
	}
	isolated := ""
	if s.NotIsolated {
		isolated = notIsolated
	}
	v := servedView{Name: s.Name, URL: s.HTTPURL, WebSocketDebuggerURL: s.WebSocketDebuggerURL, Token: s.Token, Isolated: !s.NotIsolated, PID: pid()}
	err = a.tell(v, fields("name", s.Name, "url", s.HTTPURL, "websocket", s.WebSocketDebuggerURL, "token", s.Token, "isolated", isolated))
	if err != nil {
		return closeAfter(s, err)
	}
	a.sayStaying("clients are let in", limit)
	return a.stay(ctx, s, limit)
}

// sayStaying tells a person what goes on, on standard error.
func (a *app) sayStaying(what string, limit time.Duration) {
	if !isTerminal(a.Stderr) {
		return
	}
	until := "until Ctrl-C"
	if limit > 0 {
		until = "for " + config.Duration(limit).String() + ", or " + until
	}
	a.say("%s %s", termsafe.Line(what), until)
}
