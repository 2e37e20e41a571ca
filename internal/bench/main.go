//go:build linux

// Command bench measures what commands and files in a sandbox cost, beside
// the plain engine API on the same container and in the same run. See
// docs/performance.md for the method, and "make bench" for the usual call.
//
// All ways of an operation are measured in the same rounds, so that noise of
// the machine hits all alike. Every sample is verified after its clock has
// stopped (exit code, content, number of entries), and a failure ends the
// run: no number comes from an operation that did not work.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"
	"time"

	"github.com/bulkhead-dev/sandbox/internal/statedir"
)

// within bounds a whole run, whatever hangs.
const within = 15 * time.Minute

func main() {
	if len(os.Args) > 1 && os.Args[1] == loadCommand {
		if err := load(os.Args[2:], os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "bench load:", err)
			os.Exit(1)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// options are the flags.
type options struct {
	quick, check              bool
	slack                     float64
	json, doc                 string
	image, guest, program, in string
	only                      string
	effort                    Effort
}

// run is the program; its result is the exit status: 0 done, 1 failed or,
// with --check, a budget missed, 2 wrong usage.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		return 2
	}
	ctx, done := context.WithTimeout(ctx, within)
	defer done()
	say := func(format string, args ...any) { fmt.Fprintf(stderr, "bench: "+format+"\n", args...) }
	rep, err := o.measure(ctx, say)
	if err == nil {
		err = o.hand(rep, stdout)
	}
	if err != nil {
		say("%v", err)
		return 1
	}
	return o.judge(rep, say)
}

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.BoolVar(&o.quick, "quick", false, "a few minutes; the 99th percentiles are only hints then")
	f.BoolVar(&o.check, "check", false, "exit with 1 when a budget is missed or was not measured")
	f.Float64Var(&o.slack, "slack", 1, "with --check, relax every budget by this `factor`")
	f.StringVar(&o.json, "json", "", "write the report as JSON to this `file`")
	f.StringVar(&o.doc, "doc", "", "put the report between the markers of this `document`")
	f.StringVar(&o.only, "only", "", "measure only operations whose name matches this `pattern`, a regular expression")
	f.StringVar(&o.image, "image", "sandbox:bookworm-slim", "`image` of the sandbox; see make image")
	f.StringVar(&o.guest, "guest", "", "`path` of the guest; default as sandbox(1) finds it")
	f.StringVar(&o.program, "sandbox", "", "`path` of sandbox(1), whose start is measured; default the one beside this program, if any")
	f.StringVar(&o.in, "dir", "", "`folder` for the state and the workspace; default that for temporary files")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 || o.slack < 1 || o.doc != "" && (o.quick || o.only != "") {
		fmt.Fprintln(stderr, "bench: no arguments are taken, --slack is at least 1, and --doc wants a full run")
		return o, errors.New("wrong usage")
	}
	if _, err := regexp.Compile(o.only); err != nil {
		fmt.Fprintf(stderr, "bench: --only: %v\n", err)
		return o, err
	}
	o.effort = Full()
	if o.quick {
		o.effort = Quick()
	}
	return o, nil
}

// measure makes the sandbox, measures, and takes it away again.
func (o options) measure(ctx context.Context, say func(string, ...any)) (rep Report, err error) {
	if o.guest == "" {
		if o.guest, err = statedir.FindGuest(); err != nil {
			return rep, err
		}
	}
	// Managers of this program look for the guest there.
	if err := os.Setenv("SANDBOX_GUEST", o.guest); err != nil {
		return rep, err
	}
	r, err := New(ctx, Options{Image: o.image, Guest: o.guest, Dir: o.in, Log: say})
	if err != nil {
		return rep, err
	}
	defer func() {
		if ctx.Err() != nil {
			say("removing the container")
		}
		err = errors.Join(err, r.Close())
	}()
	s := Session{Rig: r, Effort: o.effort, Program: o.sandbox(), Guest: o.guest, Log: say}
	if o.only != "" {
		s.Only = regexp.MustCompile(o.only).MatchString // parse has compiled it
	}
	return s.Run(ctx)
}

// sandbox is the path of sandbox(1), or empty when none is known.
func (o options) sandbox() string {
	if o.program != "" {
		return o.program
	}
	self, err := os.Executable()
	if err != nil {
		return ""
	}
	beside := filepath.Join(filepath.Dir(self), "sandbox")
	if _, err := os.Stat(beside); err != nil {
		return ""
	}
	return beside
}

// judge says which budgets are missed and returns the exit status.
func (o options) judge(rep Report, say func(string, ...any)) int {
	status := 0
	for _, v := range rep.Verdicts {
		if o.check && !v.Holds(o.slack) {
			say("%s: %s, must be %s (slack %g)", v.Budget, v.ValueText(), v.LimitText(), o.slack)
			status = 1
		}
	}
	return status
}
