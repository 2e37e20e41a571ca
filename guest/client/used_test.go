package client_test

import (
	"context"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/client"
	"github.com/bulkhead-dev/sandbox/guest/wire"
)

// burning returns perl text that defines burn(seconds of processor time).
const burning = `use POSIX; $| = 1; sub burn { my $end = (times)[0] + (times)[1] + $_[0]; 1 while (times)[0] + (times)[1] < $end } `

func used(t testing.TB, p sandbox.Process) sandbox.Rusage {
	t.Helper()
	u, err := askUsed(p)
	must(t, err)
	return u
}

// askUsed asks again where the guest has not answered in its time, as it
// may not on a busy machine.
func askUsed(p sandbox.Process) (sandbox.Rusage, error) {
	for end := time.Now().Add(patience); ; {
		u, err := p.(sandbox.Metered).Used(context.Background())
		if sandbox.CodeOf(err) != sandbox.CodeUnavailable || time.Now().After(end) {
			return u, err
		}
	}
}

func cpuOf(u sandbox.Rusage) time.Duration { return u.User + u.System }

// TestUsedKnowsAll has trees of all shapes use 200 ms of processor time and
// then rest. What is reported then is what the exit says, which is exact, and
// what another command of the same shim has used before does not count.
func TestUsedKnowsAll(t *testing.T) {
	long(t)
	g := startGuest(t)
	c := g.client(client.Options{})
	run(t, c, perl(t, burning+`if (!fork) { burn(0.1); exit } wait; burn(0.1)`))
	for _, tt := range []struct{ name, text string }{
		{"one process", `burn(0.2);`},
		{"a child that lives", `if (!fork) { burn(0.2); print "ready\n"; sleep 1000 } sleep 1000;`},
		{"a child that was waited for", `if (!fork) { burn(0.2); exit } wait;`},
		{"many short children", `for (1..10) { if (!fork) { burn(0.02); exit } wait }`},
		{"a zombie", `pipe(R, W); if (!fork) { burn(0.2); exit } close W; <R>;`},
		{"a session of its own", `if (!fork) { setsid; if (!fork) { burn(0.2); print "ready\n"; sleep 1000 } exit } wait; sleep 1000;`},
		{"an orphan that has ended", `pipe(R, W); if (!fork) { setsid; if (!fork) { burn(0.2); exit } exit } wait; close W; <R>;`},
		{"grandchildren", `if (!fork) { for (1..2) { if (!fork) { burn(0.05); exit } wait } burn(0.1); print "ready\n"; sleep 1000 } sleep 1000;`},
		{"one that nobody can look at", undumpable() + `burn(0.2);`},
		{"a false name", `$0 = "x) R 1 1 1 9999 9999 9999"; burn(0.2);`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, _ := start(t, context.Background(), c, perl(t, burning+tt.text+`print "ready\n"; sleep 1000`))
			seen := used(t, p)
			must(t, p.Kill(context.Background()))
			exit, err := p.Wait()
			must(t, err)
			if end := used(t, p); cpuOf(end) < cpuOf(seen) || cpuOf(end) != max(cpuOf(seen), cpuOf(exit.Usage)) {
				t.Errorf("at the end %v, seen %v, exit %v", end, seen, exit.Usage)
			}
			off := cpuOf(exit.Usage) - cpuOf(seen)
			t.Logf("seen %v, in the end %v: %v", cpuOf(seen), cpuOf(exit.Usage), off)
			if cpuOf(exit.Usage) < 200*time.Millisecond {
				t.Errorf("the exit says %v", exit.Usage)
			}
			if off < -5*time.Millisecond || off > 45*time.Millisecond { // two hundredths each of the root and of a parent
				t.Errorf("seen %v, in the end %v", seen, exit.Usage)
			}
			if seen.MaxRSS < 1<<20 || seen.User == 0 {
				t.Errorf("seen %+v", seen)
			}
		})
	}
}

// TestUsedNeverGoesDown looks at a tree that changes all the time.
func TestUsedNeverGoesDown(t *testing.T) {
	c := startGuest(t).client(client.Options{})
	p, _ := start(t, context.Background(), c, perl(t, burning+`print "ready\n"; while (1) { if (!fork) { if (!fork) { burn(0.005); exit } burn(0.003); exit } wait }`))
	last := sandbox.Rusage{}
	for range 150 {
		u := used(t, p)
		if cpuOf(u) < cpuOf(last) || u.User < last.User || u.System < last.System || u.MaxRSS < last.MaxRSS {
			t.Fatalf("%+v after %+v", u, last)
		}
		last = u
	}
	must(t, p.Kill(context.Background()))
	if _, err := p.Wait(); err != nil {
		t.Fatal(err)
	}
	if u := used(t, p); cpuOf(u) < cpuOf(last) {
		t.Errorf("%+v at the end after %+v", u, last)
	}
}

// TestUsedOfShortChildren looks often at programs whose children are gone
// before the next look. A program that waits for them is charged what they have
// used; one that ignores them is charged too, if not for all of them.
func TestUsedOfShortChildren(t *testing.T) {
	long(t)
	c := startGuest(t).client(client.Options{})
	follow := func(cmd sandbox.Command) (seen, exit time.Duration) {
		p, err := c.Start(context.Background(), cmd)
		must(t, err)
		beat := time.NewTicker(20 * time.Millisecond)
		defer beat.Stop()
		ended := make(chan sandbox.Exit, 1)
		go func() {
			e, _ := p.Wait()
			ended <- e
		}()
		for {
			select {
			case e := <-ended:
				return cpuOf(used(t, p)), cpuOf(e.Usage)
			case <-beat.C:
				used(t, p)
			}
		}
	}
	seen, exit := follow(sh("i=0; while [ $i -lt 200 ]; do /bin/true; i=$((i+1)); done"))
	t.Logf("waited for: %v, of which were told %v", exit, seen)
	if seen > exit+60*time.Millisecond {
		t.Errorf("pays %v for %v", seen, exit)
	}
	seen, exit = follow(perl(t, `$SIG{CHLD} = "IGNORE"; for (1..300) { if (!fork) { for (1..100000) {} exit } select(undef, undef, undef, 0.004) }`))
	t.Logf("ignored: the kernel knows of %v, told were %v", exit, seen)
	if seen < exit+30*time.Millisecond {
		t.Errorf("pays %v, of which the kernel knows %v", seen, exit)
	}
}

// TestUsedIsApart holds that commands do not pay for each other, however many
// ask at once.
func TestUsedIsApart(t *testing.T) {
	long(t)
	c := startGuest(t).client(client.Options{})
	busy, _ := start(t, context.Background(), c, sh("echo ready; while :; do :; done"))
	var idle []sandbox.Process
	for range 20 {
		p, _ := start(t, context.Background(), c, sh("echo ready; read x; sleep 1000"))
		idle = append(idle, p)
	}
	var wg sync.WaitGroup
	for _, p := range idle {
		wg.Go(func() {
			for range 20 {
				if u, err := askUsed(p); err != nil || cpuOf(u) > 200*time.Millisecond {
					t.Errorf("%+v, %v", u, err)
				}
			}
		})
	}
	wg.Wait()
	if u := used(t, busy); cpuOf(u) == 0 {
		t.Error("the busy one has used nothing")
	}
}

// TestUsedOfLines holds that a line of a shell says that it cannot tell.
func TestUsedOfLines(t *testing.T) {
	c := startGuest(t).client(client.Options{})
	s, err := c.OpenShell(context.Background(), sandbox.ShellOptions{}, sandbox.Limits{})
	must(t, err)
	defer s.Close()
	p, err := s.Run(context.Background(), "sleep 1000", sandbox.Command{})
	must(t, err)
	_, err = p.(sandbox.Metered).Used(context.Background())
	codeIs(t, err, sandbox.CodeUnsupported)
	must(t, p.Kill(context.Background()))
}

// TestUsedBeforeTheStart holds that the guest refuses a question about a
// command that does not run, and goes on.
func TestUsedBeforeTheStart(t *testing.T) {
	g := startGuest(t)
	watch := g.client(client.Options{})
	conn := g.connect()
	defer conn.Close()
	use := wire.Frame{Type: wire.TypeUse, Stream: 1, Payload: wire.Use{Number: 1}.Encode()}
	b := wire.AppendFrame(nil, wire.Frame{Type: wire.TypeHello, Payload: wire.ClientHello{Min: 1, Max: 1}.Encode()})
	_, err := conn.Write(wire.AppendFrame(b, use))
	must(t, err)
	r, last := wire.NewReader(conn, wire.MaxData), wire.Frame{}
	for {
		f, err := r.Next()
		if err != nil {
			break
		}
		last = f
	}
	if last.Type != wire.TypeGoAway {
		t.Errorf("no GoAway but %+v", last)
	}
	must(t, watch.Ping(context.Background()))
}

// guestTime is the processor time of the guest's own process.
func (g *guest) guestTime() time.Duration {
	g.t.Helper()
	b, err := os.ReadFile("/proc/" + strconv.Itoa(g.pid()) + "/stat")
	must(g.t, err)
	f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	user, err := strconv.Atoi(f[11])
	must(g.t, err)
	system, err := strconv.Atoi(f[12])
	must(g.t, err)
	return time.Duration(user+system) * 10 * time.Millisecond
}

// BenchmarkUsed asks twenty times a second, as a meter does, and tells what
// share of a processor the guest takes for it, and how long an answer takes.
func BenchmarkUsed(b *testing.B) {
	g := startGuest(b)
	c := g.client(client.Options{})
	p, _ := start(b, context.Background(), c, sh("echo ready; sleep 1000"))
	defer func() { _, _ = p.Wait() }()
	defer p.Kill(context.Background())
	beat := time.NewTicker(50 * time.Millisecond)
	defer beat.Stop()
	before, begin, asking := g.guestTime(), time.Now(), time.Duration(0)
	for b.Loop() {
		<-beat.C
		at := time.Now()
		used(b, p)
		asking += time.Since(at)
	}
	b.ReportMetric(100*float64(g.guestTime()-before)/float64(time.Since(begin)), "%processor")
	b.ReportMetric(float64(asking.Microseconds())/float64(b.N), "µs/answer")
}
