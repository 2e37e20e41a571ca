package operation_test

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/grant/budget"
	"github.com/bulkhead-dev/sandbox/internal/testenv/dockertest"
)

// programSandboxes runs each over the real providers, with a sandbox of its own for
// each.
func programSandboxes(t testing.TB, each func(name string, sb sandbox.Sandbox)) {
	t.Helper()
	docker, _ := dockertest.New(t).Open("program")
	each("docker", docker)
	local := dockertest.NewLocal(t)
	s := local.Spec("program")
	_, err := local.P.Create(t.Context(), s)
	programMust(t, err)
	sb, err := local.P.Open(t.Context(), s)
	programMust(t, err)
	t.Cleanup(func() { sb.Close() })
	each("local", sb)
}

// mark is in the command line of all that tests leave running if they can.
const mark = "operation-program-test"

// left lists the marked processes inside.
func left(t testing.TB, sb sandbox.Sandbox) string {
	t.Helper()
	list, err := marked(t.Context(), sb)
	programMust(t, err)
	return list
}

// marked lists the command lines that have the mark.
func marked(ctx context.Context, sb sandbox.Sandbox) (string, error) {
	var out bytes.Buffer
	p, err := sb.Start(ctx, sandbox.Command{
		Args:   []string{"sh", "-c", `for f in /proc/[0-9]*/cmdline; do tr '\0' ' ' <$f 2>/dev/null; echo; done | grep "[o]peration-program-test"`},
		Stdout: &out,
	})
	if err != nil {
		return "", err
	}
	_, err = p.Wait()
	return out.String(), err
}

// stopped returns a context that ends with cause once a marked process of this
// command line runs, or with an error when that cannot be determined. The
// returned function waits until the check has ended.
func stopped(t testing.TB, sb sandbox.Sandbox, line string, cause error) (context.Context, func()) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	var looking sync.WaitGroup
	looking.Go(func() {
		for ctx.Err() == nil {
			list, err := marked(ctx, sb)
			if err != nil {
				cancel(err)
			} else if strings.Contains("\n"+list, "\n"+line) {
				cancel(cause)
			}
		}
	})
	return ctx, func() { cancel(nil); looking.Wait() }
}

func script(text string) grant.Operation {
	return grant.Operation{Tool: "sh", Args: []string{"-c", text, mark}}
}

// burners use processor time without end, in trees of all shapes.
var burners = map[string]string{
	"busy loop":      `while :; do :; done`,
	"children":       `for i in 1 2; do sh -c 'while :; do :; done' operation-program-test & done; wait`,
	"double fork":    `(setsid sh -c 'sh -c "while :; do :; done" operation-program-test & exit' &) ; sleep 1000`,
	"setsid":         `setsid sh -c 'while :; do :; done' operation-program-test & sleep 1000`,
	"short children": `while :; do (i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done); done`,
	"short orphans":  `while :; do ( (i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done) & ); sleep 0.02; done`,
}

// watched is a sandbox that notes when the processor time of its program was
// last found to be below a bound.
type watched struct {
	sandbox.Sandbox
	bound time.Duration
	below atomic.Pointer[time.Time]
}

type seen struct {
	sandbox.Process
	w *watched
}

// Start implements sandbox.Sandbox.
func (w *watched) Start(ctx context.Context, c sandbox.Command) (sandbox.Process, error) {
	at := time.Now()
	w.below.Store(&at)
	p, err := w.Sandbox.Start(ctx, c)
	if err != nil {
		return nil, err
	}
	return seen{p, w}, nil
}

// Used implements sandbox.Metered.
func (s seen) Used(ctx context.Context) (sandbox.Rusage, error) {
	at := time.Now()
	u, err := s.Process.(sandbox.Metered).Used(ctx)
	if err == nil && u.User+u.System < s.w.bound {
		s.w.below.Store(&at)
	}
	return u, err
}

// most is how much may have been used until end, in milliseconds: what a busy
// machine needs when we look in time, and otherwise what all processors have
// done since it was less than the bound; looks lag behind a little.
func (w *watched) most(end time.Time) int64 {
	const lag = 100 * time.Millisecond
	since := end.Sub(*w.below.Load()) + lag
	return max(1000, (w.bound + time.Duration(runtime.NumCPU())*since).Milliseconds())
}

// TestCPUBudgetOfTrees checks that the processor time of all processes counts,
// and that all of them end. The bound leaves room for a machine that others use
// too; BenchmarkStop measures the time on an idle one.
func TestCPUBudgetOfTrees(t *testing.T) {
	programSandboxes(t, func(name string, sb sandbox.Sandbox) {
		for shape, text := range burners {
			t.Run(name+"/"+shape, func(t *testing.T) {
				const most = 150
				w := &watched{Sandbox: sb, bound: most * time.Millisecond}
				r := programNewRig(w)
				r.budget = bound(budget.CPUMs, most)
				d := r.do(t, t.Context(), script(text))
				codeIs(t, d.err, sandbox.CodeBudgetExceeded)
				t.Logf("used %d ms, dead %v after the stop", d.used.CPUMs, d.dying)
				if could := w.most(d.at); d.used.CPUMs < most || d.used.CPUMs > could {
					t.Errorf("used %d ms of %d, at most %d could be", d.used.CPUMs, most, could)
				}
				if l := left(t, sb); l != "" {
					t.Errorf("left: %s", l)
				}
			})
		}
	})
}

// TestByteBudgetOfTrees checks that the bytes of the budget are the last ones,
// whichever process writes them.
func TestByteBudgetOfTrees(t *testing.T) {
	programSandboxes(t, func(name string, sb sandbox.Sandbox) {
		for shape, text := range map[string]string{
			"one":        `while :; do echo operation-program-test; done`,
			"both":       `(while :; do echo e >&2; done) & while :; do echo o; done`,
			"an escapee": `setsid sh -c 'while :; do echo x; done' operation-program-test & sleep 1000`,
		} {
			t.Run(name+"/"+shape, func(t *testing.T) {
				r := programNewRig(sb)
				r.budget = bound(budget.BytesIn, 100_000)
				d := r.do(t, t.Context(), script(text))
				codeIs(t, d.err, sandbox.CodeBudgetExceeded)
				t.Logf("dead %v after the stop", d.dying)
				size := d.out.Digest.Size + d.out.Exit.StderrDigest.Size
				if size != 100_000 || d.used.BytesIn != 100_000 || d.dying > time.Minute {
					t.Errorf("delivered %d, used %d, dead after %v", size, d.used.BytesIn, d.dying)
				}
				if l := left(t, sb); l != "" {
					t.Errorf("left: %s", l)
				}
			})
		}
	})
}

// TestRealPrograms checks the remaining behavior in real sandboxes: the bare
// environment, exits, programs that are missing, stops.
func TestRealPrograms(t *testing.T) {
	programSandboxes(t, func(name string, sb sandbox.Sandbox) {
		r := programNewRig(sb)
		d := r.do(t, t.Context(), run("env"))
		programMust(t, d.err)
		lines := strings.Split(strings.TrimSpace(string(d.out.Data)), "\n")
		slices.Sort(lines)
		if want := []string{"HOME=/tmp", "LANG=C", "PATH=/usr/local/bin:/usr/bin:/bin"}; !slices.Equal(lines, want) {
			t.Errorf("%s: environment %q", name, lines)
		}
		d = r.do(t, t.Context(), script("echo out; echo err >&2; pwd; exit 7"))
		programMust(t, d.err)
		if e := d.out.Exit; e.Code != 7 || string(d.out.Data) != "out\n/workspace\n" || string(e.Stderr) != "err\n" {
			t.Errorf("%s: %+v, %q", name, e, d.out.Data)
		}
		codeIs(t, r.do(t, t.Context(), run("nobody")).err, sandbox.CodeExecution)

		ctx, done := stopped(t, sb, "sh -c sleep 1000;", &sandbox.Error{Code: sandbox.CodePermissionDeny})
		defer done()
		d = r.do(t, ctx, script("trap '' TERM INT HUP; (setsid sh -c 'sleep 1000; :' "+mark+" &); while :; do sleep 1; done"))
		codeIs(t, d.err, sandbox.CodePermissionDeny)
		if l := left(t, sb); l != "" {
			t.Errorf("%s: left: %s", name, l)
		}
	})
}

// BenchmarkStop measures, in milliseconds, how far a tree gets beyond its
// processor time, each of its busy processes by itself, and how long after the
// end of the context everything is dead.
func BenchmarkStop(b *testing.B) {
	programSandboxes(b, func(name string, sb sandbox.Sandbox) {
		for shape, text := range burners {
			b.Run(name+"/cpu/"+shape, func(b *testing.B) {
				measure(b, sb, bound(budget.CPUMs, 300), text)
			})
		}
		b.Run(name+"/bytes", func(b *testing.B) {
			measure(b, sb, bound(budget.BytesIn, 100_000), `while :; do echo x; done`)
		})
	})
}

func measure(b *testing.B, sb sandbox.Sandbox, bounds budget.Amount, text string) {
	var over, dying []float64
	r := programNewRig(sb)
	r.budget = bounds
	for b.Loop() {
		d := r.do(b, context.Background(), script(text))
		codeIs(b, d.err, sandbox.CodeBudgetExceeded)
		over = append(over, float64(d.used.CPUMs-bounds.CPUMs))
		dying = append(dying, float64(d.dying.Microseconds())/1000)
	}
	for what, list := range map[string][]float64{"over": over, "dying": dying} {
		slices.Sort(list)
		if what == "over" && bounds.CPUMs == budget.Unlimited {
			continue
		}
		b.ReportMetric(list[len(list)/2], fmt.Sprintf("%s-p50", what))
		b.ReportMetric(list[len(list)-1], fmt.Sprintf("%s-worst", what))
	}
}
