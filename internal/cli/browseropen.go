package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	ucli "github.com/urfave/cli/v2"

	"github.com/bulkhead-dev/sandbox/browser/display"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
)

func (a *app) browserOpenCommand() *ucli.Command {
	f := newBrowserFlags()
	f.headed = true
	var control bool
	limit := span{positive: true, written: "1h", value: time.Hour}
	return &ucli.Command{
		Name:      "open",
		Usage:     "let a person look at the browser, in a browser of this host",
		UsageText: "sandbox browser open [--control] [--for DURATION] [flags]",
		Description: "Brings up a browser with a display and prints a link, which can be opened once and soon. The command stays until\n" +
			"it is interrupted or the time is over (both exit 0), and then the display is not shown any more. A headless browser\n" +
			"that was used just now has to be stopped first.",
		Flags: append([]ucli.Flag{
			&ucli.BoolFlag{Name: "control", Usage: "keys and pointer count too, not only eyes", Destination: &control},
			&ucli.GenericFlag{Name: "for", Usage: "for this `DURATION`, such as 90s, 10m or 1d", Value: &limit},
		}, f.flags()...),
		Action: func(c *ucli.Context) error {
			if err := noArguments(c); err != nil {
				return err
			}
			r, err := f.request(a.globals)
			if err != nil {
				return err
			}
			r.For = limit.value + spare
			return a.atDisplay(func(d BrowserDisplay) error { return a.openBrowser(c.Context, d, r, control, limit.value) })
		},
	}
}

// spare is how much longer than this command the display could be seen: long
// enough for the command to be what ends it.
const spare = time.Minute

// watchedView is what browser open prints.
type watchedView struct {
	Name     string    `json:"name"`
	URL      string    `json:"url"`
	Password string    `json:"password"`
	ViewOnly bool      `json:"viewOnly"`
	Expires  time.Time `json:"expires"` // of the link
	PID      int       `json:"pid"`     // of the process that lets in
}

func (a *app) openBrowser(ctx context.Context, d BrowserDisplay, r display.Request, control bool, limit time.Duration) error {
	w, err := d.Watch(ctx, r, control)
	if err != nil {
		return err
	}
	v := watchedView{Name: w.Name, URL: w.URL, Password: w.Password, ViewOnly: w.ViewOnly, Expires: w.Expires.UTC(), PID: pid()}
	if err := a.tell(v, watchedText(w)); err != nil {
		return closeAfter(w, err)
	}
	a.sayStaying("the display can be seen", limit)
	return a.stay(ctx, w, limit)
}

// watchedText says what to do with the link.
func watchedText(w display.Watched) string {
	what := "look at " + w.Name
	if !w.ViewOnly {
		what = "look at " + w.Name + " and use it"
	}
	return fmt.Sprintf("Open this link to %s; it works once, until %s:\n%s\n",
		termsafe.Line(what), w.Expires.Local().Format(time.TimeOnly), termsafe.Line(w.URL))
}

// closeAfter ends life because of err.
func closeAfter(life display.Life, err error) error { return errors.Join(err, life.Close()) }
