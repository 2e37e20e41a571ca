package program_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/budget"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/internal/testenv/wall"
)

// walls are the real ones, each with a sandbox of its own.
func walls(t testing.TB, each func(name string, sb sandbox.Sandbox)) {
	t.Helper()
	docker, _ := wall.New(t).Open("program")
	each("docker", docker)
	local := wall.NewLocal(t)
	s := local.Spec("program")
	_, err := local.P.Create(t.Context(), s)
	must(t, err)
	sb, err := local.P.Open(t.Context(), s)
	must(t, err)
	t.Cleanup(func() { sb.Close() })
	each("local", sb)
}

// mark is in the command line of all that tests leave running if they can.
const mark = "operation-program-test"

// left counts the marked processes inside.
func left(t testing.TB, sb sandbox.Sandbox) string {
	t.Helper()
	var out bytes.Buffer
	p, err := sb.Start(t.Context(), sandbox.Command{
		Args:   []string{"sh", "-c", `for f in /proc/[0-9]*/cmdline; do tr '\0' ' ' <$f 2>/dev/null; echo; done | grep "[o]peration-program-test"`},
		Stdout: &out,
	})
	must(t, err)
	_, err = p.Wait()
	must(t, err)
	return out.String()
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

// TestCPUBudgetOfTrees holds that processor time counts of all processes, and
// that all of them end. The bound is for a machine that others use too; what it
// is at rest BenchmarkStop tells.
func TestCPUBudgetOfTrees(t *testing.T) {
	walls(t, func(name string, sb sandbox.Sandbox) {
		for shape, text := range burners {
			t.Run(name+"/"+shape, func(t *testing.T) {
				r := newRig(sb)
				r.budget = bound(budget.CPUMs, 300)
				d := r.do(t, t.Context(), script(text))
				codeIs(t, d.err, sandbox.CodeBudgetExceeded)
				t.Logf("used %d ms, dead %v after the stop", d.used.CPUMs, d.dying)
				if d.used.CPUMs < 300 || d.used.CPUMs > 1000 {
					t.Errorf("used %d ms of 300", d.used.CPUMs)
				}
				if l := left(t, sb); l != "" {
					t.Errorf("left: %s", l)
				}
			})
		}
	})
}

// TestByteBudgetOfTrees holds that the bytes of the budget are the last ones,
// whichever process writes them.
func TestByteBudgetOfTrees(t *testing.T) {
	walls(t, func(name string, sb sandbox.Sandbox) {
		for shape, text := range map[string]string{
			"one":        `while :; do echo operation-program-test; done`,
			"both":       `(while :; do echo e >&2; done) & while :; do echo o; done`,
			"an escapee": `setsid sh -c 'while :; do echo x; done' operation-program-test & sleep 1000`,
		} {
			t.Run(name+"/"+shape, func(t *testing.T) {
				r := newRig(sb)
				r.budget = bound(budget.BytesIn, 100_000)
				d := r.do(t, t.Context(), script(text))
				codeIs(t, d.err, sandbox.CodeBudgetExceeded)
				t.Logf("dead %v after the stop", d.dying)
				size := d.out.Digest.Size + d.out.Exit.StderrDigest.Size
				if size != 100_000 || d.used.BytesIn != 100_000 || d.dying > 10*time.Second {
					t.Errorf("delivered %d, used %d, dead after %v", size, d.used.BytesIn, d.dying)
				}
				if l := left(t, sb); l != "" {
					t.Errorf("left: %s", l)
				}
			})
		}
	})
}

// TestRealPrograms holds what else is to be so behind real walls: the bare
// environment, exits, programs that are missing, stops.
func TestRealPrograms(t *testing.T) {
	walls(t, func(name string, sb sandbox.Sandbox) {
		r := newRig(sb)
		d := r.do(t, t.Context(), run("env"))
		must(t, d.err)
		lines := strings.Split(strings.TrimSpace(string(d.out.Data)), "\n")
		slices.Sort(lines)
		if want := []string{"HOME=/tmp", "LANG=C", "PATH=/usr/local/bin:/usr/bin:/bin"}; !slices.Equal(lines, want) {
			t.Errorf("%s: environment %q", name, lines)
		}
		d = r.do(t, t.Context(), script("echo out; echo err >&2; pwd; exit 7"))
		must(t, d.err)
		if e := d.out.Exit; e.Code != 7 || string(d.out.Data) != "out\n/workspace\n" || string(e.Stderr) != "err\n" {
			t.Errorf("%s: %+v, %q", name, e, d.out.Data)
		}
		codeIs(t, r.do(t, t.Context(), run("nobody")).err, sandbox.CodeExecution)

		ctx, cancel := context.WithTimeoutCause(t.Context(), 200*time.Millisecond, &sandbox.Error{Code: sandbox.CodePermissionDeny})
		defer cancel()
		d = r.do(t, ctx, script("trap '' TERM INT HUP; (setsid sleep 1000 &); while :; do sleep 1; done"))
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
	walls(b, func(name string, sb sandbox.Sandbox) {
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
	r := newRig(sb)
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
