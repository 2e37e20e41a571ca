package client_test

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/client"
	"github.com/bulkhead-dev/sandbox/guest/wire"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// perl returns a command that runs text. Debian and Ubuntu always have perl.
func perl(t *testing.T, text string) sandbox.Command {
	path, err := exec.LookPath("perl")
	if err != nil {
		testenv.Lack(t, "perl", "it is not installed")
	}
	return sandbox.Command{Args: []string{path, "-e", text}}
}

// undumpable is the perl call that makes a process not dumpable, so that no
// other process can inspect it.
func undumpable() string {
	number := map[string]int{"amd64": 157, "arm64": 167}[runtime.GOARCH]
	return "syscall(" + strconv.Itoa(number) + ", 4, 0, 0, 0, 0) == 0 or die;"
}

// headless is perl text that runs text in a second thread while the first one
// ends, by which /proc takes the process for a zombie.
func headless(text string) string {
	exit := map[string]int{"amd64": 60, "arm64": 93}[runtime.GOARCH]
	return `$| = 1; use threads; threads->create(sub { my $state = ""; while ($state ne "Z") { open(my $f, "<", "/proc/$$/stat"); (undef, undef, $state) = split " ", <$f>; close $f } ` +
		text + ` }); syscall(` + strconv.Itoa(exit) + `, 0);`
}

// TestLimitsAreNotDodged has commands try to use more than they may.
func TestLimitsAreNotDodged(t *testing.T) {
	long(t)
	const hog = `my $x = "a" x (160 << 20); sleep 1000;`
	memory, cpu, processes := sandbox.Limits{Memory: 80 << 20}, sandbox.Limits{CPUSeconds: 1}, sandbox.Limits{Processes: 16}
	const burn = `my $end = (times)[0] + 0.3; while ((times)[0] < $end) {}`
	g := startGuest(t)
	c := g.client(client.Options{})
	for _, tt := range []struct {
		name, text string
		bounds     sandbox.Limits
		want       string
	}{
		{"a name that looks like fields of stat", `$0 = "x) R 1 1 1"; ` + hog, memory, sandbox.LimitMemory},
		{"a name of newlines", `$0 = "a\nRssAnon: 0 kB\n"; ` + hog, memory, sandbox.LimitMemory},
		{"a process that cannot be looked at", undumpable() + hog, memory, sandbox.LimitMemory},
		{"two such processes", undumpable() + `fork; my $x = "a" x (60 << 20); sleep 1000;`, memory, sandbox.LimitMemory},
		{"memory in sessions of their own", `use POSIX; for (1..4) { if (!fork) { setsid; if (!fork) { my $x = "a" x (40 << 20); sleep 1000 } exit } } sleep 1000;`, memory, sandbox.LimitMemory},
		{"a process whose first thread has ended", headless(`my $n = 160 << 20; my $x = "a" x $n; sleep 1000;`), memory, sandbox.LimitMemory},
		{"two such threads' processes", `fork; ` + headless(`my $n = 60 << 20; my $x = "a" x $n; sleep 1000;`), memory, sandbox.LimitMemory},
		{"step by step", `my @x; for (1..160) { push @x, "a" x (1 << 20) } sleep 1000;`, memory, sandbox.LimitMemory},
		{"short processes", `while (1) { if (!fork) { ` + burn + ` exit } wait }`, cpu, sandbox.LimitCPUSeconds},
		{"short processes that nobody waits for", `$SIG{CHLD} = "IGNORE"; while (1) { if (!fork) { ` + burn + ` exit } select(undef, undef, undef, 0.25) }`, cpu, sandbox.LimitCPUSeconds},
		{"short orphans", `while (1) { if (!fork) { if (!fork) { ` + burn + `} exit } wait; select(undef, undef, undef, 0.25) }`, cpu, sandbox.LimitCPUSeconds},
		{"one process", `while (1) {}`, cpu, sandbox.LimitCPUSeconds},
		{"one that ignores XCPU", `$SIG{XCPU} = "IGNORE"; while (1) {}`, cpu, sandbox.LimitCPUSeconds},
		{"zombies", `for (1..40) { my $child = fork; exit if defined $child && !$child } sleep 1000`, processes, sandbox.LimitProcesses},
		{"daemons", `use POSIX; for (1..40) { if (!fork) { setsid; if (!fork) { sleep 1000 } exit } } sleep 1000`, processes, sandbox.LimitProcesses},
		{"a fork bomb", `fork while 1`, processes, sandbox.LimitProcesses},
		{"a fork bomb that ignores signals", `$SIG{$_} = "IGNORE" for keys %SIG; fork while 1`, processes, sandbox.LimitProcesses},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cmd := perl(t, tt.text)
			cmd.Limits = tt.bounds
			g, c := g, c
			if strings.HasPrefix(tt.name, "a fork bomb") {
				// It has the machine while a guest without a second bound stands still.
				g = startGuest(t, inCgroup(pidsCgroup(t, 512)))
				c = g.client(client.Options{})
			}
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			start := time.Now()
			r := runContext(t, ctx, c, cmd)
			t.Logf("after %v: %v", time.Since(start), r.exit.Limit)
			h := r.exit.Limit
			if h == nil || h.Limit != tt.want || h.Current < h.Bound || r.exit.Signal == "" {
				t.Errorf("%+v, limit %v, stderr %.200q", r.exit, h, r.stderr)
			}
			g.empty(10 * time.Second)
		})
	}
}

// TestLimitsCountOnce holds what does not count against a limit.
func TestLimitsCountOnce(t *testing.T) {
	long(t)
	c := startGuest(t).client(client.Options{})
	for _, tt := range []struct {
		name, text string
		bounds     sandbox.Limits
	}{
		{"memory that processes share", `my $n = 60 << 20; my $x = "a" x $n; for (1..4) { if (!fork) { sleep 1; exit } } 1 while wait > 0`, sandbox.Limits{Memory: 160 << 20}},
		{"memory that was given back", `for (1..8) { if (!fork) { my $x = "a" x (32 << 20); select(undef, undef, undef, 0.1); exit } wait }`, sandbox.Limits{Memory: 128 << 20}},
		{"processes one after the other", `for (1..100) { fork or exit; wait }`, sandbox.Limits{Processes: 4}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cmd := perl(t, tt.text)
			cmd.Limits = tt.bounds
			if r := run(t, c, cmd); r.exit.Code != 0 || r.exit.Limit != nil {
				t.Errorf("%+v, limit %v, stderr %.200q", r.exit, r.exit.Limit, r.stderr)
			}
		})
	}
}

// TestMemoryAtOnce holds that more than the second line allows is not to be had,
// however fast it is asked for.
func TestMemoryAtOnce(t *testing.T) {
	c := startGuest(t).client(client.Options{})
	cmd := perl(t, `my $x = "a" x (2 << 30); print "had it\n"`)
	cmd.Limits.Memory = 64 << 20
	if r := run(t, c, cmd); r.exit.Code == 0 || r.stdout != "" || r.exit.Usage.MaxRSS > 64<<20+512<<20 {
		t.Errorf("%+v, stdout %q, stderr %.200q", r.exit, r.stdout, r.stderr)
	}
}

// TestDetachedLimits holds that what a detached command has left running is
// bounded as the command was.
func TestDetachedLimits(t *testing.T) {
	g := startGuest(t)
	dir := openDir(t)
	cmd := perl(t, `use POSIX; if (!fork) { setsid; my $n = 160 << 20; select(undef, undef, undef, 0.01) until -e "`+dir+`/go"; my $x = "a" x $n; sleep 1000 }`)
	cmd.Limits.Memory, cmd.Detach = 80<<20, true
	c := g.client(client.Options{})
	if r := run(t, c, cmd); r.exit.Code != 0 || r.exit.Limit != nil {
		t.Errorf("%+v", r.exit)
	}
	c.Close()
	if len(g.inside()) == 0 {
		t.Error("it has left nothing running")
	}
	must(t, os.WriteFile(filepath.Join(dir, "go"), nil, 0o644))
	g.empty(patience)
}

// TestLimitsCostLittle holds what looking at 64 commands costs the guest, and
// that it does not look without limits. One of them is busy; the others sleep,
// because 64 that are busy would slow down the tests beside this one. The bounds are what a crowded
// machine needs; alone it is a third of that.
func TestLimitsCostLittle(t *testing.T) {
	long(t)
	for _, tt := range []struct {
		name   string
		bounds sandbox.Limits
		most   float64 // of one processor
	}{
		{"limited", sandbox.Limits{Memory: 1 << 30, CPUSeconds: 3600, Processes: 100}, 0.03},
		{"unlimited", sandbox.Limits{}, 0.005},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := startGuest(t)
			c := g.client(client.Options{})
			ctx, cancel := context.WithCancel(t.Context())
			var all []sandbox.Process
			for range 64 {
				cmd := sh("exec sleep 600")
				if len(all) == 0 {
					cmd = sh("while :; do :; done")
				}
				cmd.Limits = tt.bounds
				p, err := c.Start(ctx, cmd)
				must(t, err)
				all = append(all, p)
			}
			// Who looks all the time does so in each of three windows; what else
			// there is to do, and what is put down to it while others have the
			// processors, comes and goes.
			least := 1.0
			for window := 0; window < 3 && least > tt.most; window++ {
				before, start := guestTime(t, g.pid()), time.Now()
				<-time.After(1500 * time.Millisecond) // what is measured
				spent, passed := guestTime(t, g.pid())-before, time.Since(start)
				least = min(least, spent.Seconds()/passed.Seconds())
			}
			cancel()
			for _, p := range all {
				if exit, err := p.Wait(); err != nil || exit.Limit != nil {
					t.Errorf("%+v, %v", exit, err)
				}
			}
			t.Logf("%.2f %% of a processor", 100*least)
			if least > tt.most {
				t.Errorf("the guest took %.2f %% of a processor at best, more than %.2f %%", 100*least, 100*tt.most)
			}
		})
	}
}

// guestTime is the processor time of a process.
func guestTime(t *testing.T, pid int) time.Duration {
	t.Helper()
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/schedstat")
	must(t, err)
	ns, err := strconv.ParseInt(strings.Fields(string(b))[0], 10, 64)
	must(t, err)
	// The file is of the first thread alone.
	tasks, err := os.ReadDir("/proc/" + strconv.Itoa(pid) + "/task")
	must(t, err)
	for _, e := range tasks {
		if e.Name() == strconv.Itoa(pid) {
			continue
		}
		b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/task/" + e.Name() + "/schedstat")
		must(t, err)
		n, err := strconv.ParseInt(strings.Fields(string(b))[0], 10, 64)
		must(t, err)
		ns += n
	}
	return time.Duration(ns)
}

// TestLimitsOfOtherGuests checks that a guest which reports a limit that was
// not asked for loses its connection, and that Start returns CodeUnsupported
// for limits of a whole command if the guest cannot enforce them.
func TestLimitsOfOtherGuests(t *testing.T) {
	asked := sandbox.Limits{Memory: 100, Processes: 5, OpenFiles: 9, FileSize: 7, CPUSeconds: 3}
	for _, tt := range []struct {
		name string
		hit  wire.LimitHit
		want string // the limit, or empty: a violation
	}{
		{"memory", wire.LimitHit{Kind: wire.LimitTreeMemory, Current: 101, Bound: 100}, sandbox.LimitMemory},
		{"processor time", wire.LimitHit{Kind: wire.LimitTreeCPU, Current: 3, Bound: 3}, sandbox.LimitCPUSeconds},
		{"files", wire.LimitHit{Kind: wire.LimitOpenFiles, Current: 9, Bound: 9}, sandbox.LimitOpenFiles},
		{"file size", wire.LimitHit{Kind: wire.LimitFileSize, Current: 7, Bound: 7}, sandbox.LimitFileSize},
		{"another bound", wire.LimitHit{Kind: wire.LimitTreeMemory, Current: 101, Bound: 99}, ""},
		{"below its bound", wire.LimitHit{Kind: wire.LimitTreeProcesses, Current: 4, Bound: 5}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := endingGuest(t, []string{wire.FeatureLimits}, wire.Exit{Code: 1, Limit: &tt.hit})
			p, err := c.Start(t.Context(), sandbox.Command{Args: []string{"x"}, Limits: asked})
			must(t, err)
			exit, err := p.Wait()
			switch {
			case tt.want == "" && sandbox.CodeOf(err) != sandbox.CodeUnavailable:
				t.Errorf("%+v, %v", exit, err)
			case tt.want != "" && (err != nil || exit.Limit == nil || exit.Limit.Limit != tt.want):
				t.Errorf("%+v, %v", exit, err)
			}
		})
	}
	old := endingGuest(t, nil, wire.Exit{})
	for name, bounds := range map[string]sandbox.Limits{"memory": {Memory: 1}, "cpu": {CPUSeconds: 1}, "processes": {Processes: 1}} {
		if _, err := old.Start(t.Context(), sandbox.Command{Args: []string{"x"}, Limits: bounds}); sandbox.CodeOf(err) != sandbox.CodeUnsupported {
			t.Errorf("%s on an old guest: %v", name, err)
		}
	}
	p, err := old.Start(t.Context(), sandbox.Command{Args: []string{"x"}, Limits: sandbox.Limits{OpenFiles: 5, FileSize: 5}})
	must(t, err)
	if exit, err := p.Wait(); err != nil || exit.Limit != nil {
		t.Errorf("%+v, %v", exit, err)
	}
}

// endingGuest returns a client of a guest with which every command ends so at once.
func endingGuest(t *testing.T, features []string, exit wire.Exit) *client.Client {
	t.Helper()
	ours, theirs := net.Pipe()
	go func() {
		w, r := wire.NewWriter(theirs), wire.NewReader(theirs, wire.MaxRequest)
		for {
			f, err := r.Next()
			if err != nil {
				return
			}
			switch f.Type {
			case wire.TypeBye:
				theirs.Close()
				return
			case wire.TypeHello:
				_ = w.Write(wire.Frame{Type: wire.TypeHello, Payload: wire.Hello{Version: wire.Version, Features: features}.Encode()})
			case wire.TypeStart:
				_ = w.Write(wire.Frame{Type: wire.TypeStarted, Stream: f.Stream, Payload: wire.Started{PID: 7}.Encode()})
				_ = w.Write(wire.Frame{Type: wire.TypeExit, Stream: f.Stream, Payload: exit.Encode()})
			}
		}
	}()
	c, err := client.New(t.Context(), ours, client.Options{Name: "box"})
	must(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// TestProcessesOfAMoment holds that the bound of processes is exact however
// short they live and by whatever call they are made, that threads do not count,
// and that a line of a shell is bound like a command.
func TestProcessesOfAMoment(t *testing.T) {
	long(t)
	c := startGuest(t).client(client.Options{})
	// All children are there before one of them ends.
	const burst = `pipe(R, W); for (1..%) { my $p = fork; defined $p or exit 7; if (!$p) { close W; <R>; exit } } close W; 1 while wait > 0;`
	of := func(n string) string { return strings.ReplaceAll(burst, "%", n) }
	const orphans = `for (1..90) { my $p = fork; defined $p or exit 7; if (!$p) { fork // exit; select(undef, undef, undef, 0.2); exit } } 1 while wait > 0;`
	const threads = `use threads; my @t = map { threads->create(sub { select(undef, undef, undef, 0.1) }) } 1..40; $_->join for @t;`
	for _, tt := range []struct {
		name, text string
		bound      int64
		hit        bool // with one process more than the bound, or, where several make some at once, a few more
	}{
		{"90 at a bound of 30", of("90"), 30, true},
		{"one too many", of("30"), 30, true},
		{"as many as there may be", of("29"), 30, false},
		{"each makes another", orphans, 30, true},
		{"threads", threads, 4, false},
		{"alone", `exit 0`, 1, false},
		{"a child at a bound of one", of("1"), 1, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for range 4 {
				cmd := perl(t, tt.text)
				cmd.Limits.Processes = tt.bound
				r := run(t, c, cmd)
				h := r.exit.Limit
				exact := tt.text != orphans
				if tt.hit && (h == nil || h.Limit != sandbox.LimitProcesses || h.Current <= tt.bound || exact && h.Current != tt.bound+1 || h.Current > 2*tt.bound) {
					t.Fatalf("%+v, limit %v", r.exit, h)
				}
				if !tt.hit && (h != nil || r.exit.Code != 0) {
					t.Fatalf("%+v, limit %v, stderr %q", r.exit, h, r.stderr)
				}
			}
		})
	}
	t.Run("a line", func(t *testing.T) {
		s, err := c.OpenShell(t.Context(), sandbox.ShellOptions{}, sandbox.Limits{Processes: 30})
		must(t, err)
		defer s.Close()
		for range 2 {
			if r := line(t, s, "perl -e '"+of("27")+"'"); r.exit.Code != 0 || r.exit.Limit != nil {
				t.Fatalf("%+v, limit %v", r.exit, r.exit.Limit)
			}
			if r := line(t, s, "perl -e '"+of("90")+"'"); r.exit.Limit == nil || r.exit.Limit.Limit != sandbox.LimitProcesses {
				t.Fatalf("%+v names no limit", r.exit)
			}
		}
	})
}
