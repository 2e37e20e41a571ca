package providertest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox"
)

// raceChecks hold what several callers at once see.
func raceChecks() []Check {
	return []Check{
		{Name: "concurrent creates of one name make one", run: createRace},
		{Name: "concurrent opens share one sandbox", run: openRace},
		{Name: "create and remove at once end in one truth", run: createRemoveRace},
		{Name: "many commands run at once", run: manyCommands},
		{Name: "many commands one after another leave nothing", run: manyInRow},
	}
}

func createRace(r *rig) {
	const callers = 6
	s := r.spec("a")
	errs := make([]error, callers)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() { _, errs[i] = r.p.Create(r.ctx, s) })
	}
	wg.Wait()
	made := 0
	for i, err := range errs {
		if err == nil {
			made++
			continue
		}
		r.wantCode(fmt.Sprintf("Create %d", i), err, sandbox.CodeBusy)
	}
	if made != 1 {
		r.Errorf("%d creates succeeded, want 1", made)
	}
	// The losers' clean-up must not have taken the winner's sandbox.
	r.works(r.open(s))
}

func openRace(r *rig) {
	const callers = 6
	s := r.spec("a")
	s.OnStart = []string{r.h.Programs.Note()}
	r.create(s)
	handles := make([]sandbox.Sandbox, callers)
	errs := make([]error, callers)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() { handles[i], errs[i] = r.p.Open(r.ctx, s) })
	}
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			r.Errorf("Open %d: %v", i, err)
			continue
		}
		r.Cleanup(func() { handles[i].Close() })
		if got := r.output(handles[i], r.h.Programs.Notes()); got != "1" {
			r.Errorf("handle %d sees %s runs of the OnStart line, want 1", i, got)
		}
	}
}

func createRemoveRace(r *rig) {
	s := r.spec("a")
	for range 4 {
		var createErr, removeErr error
		var wg sync.WaitGroup
		wg.Go(func() { _, createErr = r.p.Create(r.ctx, s) })
		wg.Go(func() { removeErr = r.p.Remove(r.ctx, s.Name) })
		wg.Wait()
		if removeErr != nil {
			r.Errorf("Remove during Create: %v", removeErr)
		}
		if createErr != nil {
			// Removed under its hands: an error is right, a Busy is not.
			r.wantCode("Create during Remove", createErr, sandbox.CodeUnavailable, sandbox.CodeNotFound, sandbox.CodeTimeout)
			r.absent(s.Name)
			continue
		}
		// Remove came before, or it came after Create was done.
		if _, err := r.p.Inspect(r.ctx, s.Name); err != nil && !sandbox.IsNotFound(err) {
			r.Errorf("Inspect: %v", err)
		}
		if err := r.p.Remove(r.ctx, s.Name); err != nil {
			r.Fatalf("Remove: %v", err)
		}
	}
}

func manyCommands(r *rig) {
	const n = 32
	_, sb := r.box("a")
	started := make([]running, n)
	for i := range n {
		c := r.h.Programs.Echo(fmt.Sprintf("out %d", i), fmt.Sprintf("err %d", i))
		started[i] = r.start(r.ctx, sb, c)
	}
	for i, p := range started {
		exit := r.exit(p)
		out, errOut := p.stdout.String(), p.stderr.String()
		if exit.Code != 0 || out != fmt.Sprintf("out %d", i) || errOut != fmt.Sprintf("err %d", i) {
			r.Errorf("command %d: %+v, stdout %q, stderr %q", i, exit, out, errOut)
		}
	}
}

func manyInRow(r *rig) {
	_, sb := r.box("a")
	var before sandbox.Usage
	for i := range 100 {
		exit := r.exit(r.start(r.ctx, sb, r.h.Programs.Exit(i%3)))
		if exit.Code != i%3 {
			r.Fatalf("command %d ended with %+v", i, exit)
		}
		if i == 10 {
			before = r.usage(sb)
		}
	}
	if !r.p.Features().Usage {
		return
	}
	// Processes that end are reaped: their number does not grow with that of
	// the commands. Threads that a guest keeps ready count too.
	r.eventually(func() (bool, string) {
		now := r.usage(sb)
		return now.PIDs <= before.PIDs+30, fmt.Sprintf("%d processes and threads, %d before", now.PIDs, before.PIDs)
	})
}

// usage returns what sb costs, or nothing when the provider cannot tell.
func (r *rig) usage(sb sandbox.Sandbox) sandbox.Usage {
	r.Helper()
	if !r.p.Features().Usage {
		return sandbox.Usage{}
	}
	u, err := sb.Usage(r.ctx)
	if err != nil {
		r.Fatalf("Usage: %v", err)
	}
	return u
}

// contextEnding returns a child of parent that ends after d, at once for 0.
func contextEnding(parent context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if d == 0 {
		ctx, cancel := context.WithCancel(parent)
		cancel()
		return ctx, cancel
	}
	return context.WithTimeout(parent, d)
}
