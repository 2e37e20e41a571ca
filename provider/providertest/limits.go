package providertest

import (
	"context"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox"
)

// limitChecks check that each limit of a command is enforced, and that the end
// of the command names it. The caller of a provider, package manager, bounds
// the length of the output and the duration of a command.
func limitChecks() []Check {
	return []Check{
		{Name: "a command beyond its memory is ended and reported", run: limitMemory},
		{Name: "memory is counted over all processes of a command", run: limitMemoryOfMany},
		{Name: "a command beyond its processor time is ended and reported", run: limitCPU},
		{Name: "a command with too many processes is ended and reported", run: limitProcesses},
		{Name: "a fork bomb is ended and reported", run: limitBomb},
		{Name: "the bound of processes holds for those that live for a moment", run: limitBurst},
		{Name: "a file beyond its size is not written and reported", run: limitFileSize},
		{Name: "a command that failed with all files open is reported", run: limitOpenFiles},
		{Name: "limits that were not reached are not reported", run: limitsNotReached},
		{Name: "a line of a shell beyond its memory is ended and reported", run: limitLine},
		{Name: "limits of a handle hold for its commands", run: limitOfHandle},
	}
}

const mib = 1 << 20

// limited runs c, whose end has to name the limit with its bound.
func (r *rig) limited(sb sandbox.Sandbox, c sandbox.Command, limit, unit string, bound int64) sandbox.Exit {
	r.Helper()
	exit := r.slowExit(r.start(r.ctx, sb, c))
	r.holdHit(exit, limit, unit, bound)
	return exit
}

// slowExit is exit for what needs much of a processor that others use too.
func (r *rig) slowExit(p sandbox.Process) sandbox.Exit {
	r.Helper()
	var exit sandbox.Exit
	var err error
	r.within(5*r.h.Patience, "a command that has to be ended", func() { exit, err = p.Wait() })
	if err != nil {
		r.Fatalf("Wait: %v", err)
	}
	return exit
}

func (r *rig) holdHit(exit sandbox.Exit, limit, unit string, bound int64) {
	r.Helper()
	h := exit.Limit
	if h == nil {
		r.Fatalf("%+v names no limit, want %s", exit, limit)
	}
	if h.Limit != limit || h.Unit != unit || h.Bound != bound || h.Current < bound {
		r.Errorf("the end names %+v, want %s of %d %s", *h, limit, bound, unit)
	}
	if exit.Code == 0 {
		r.Errorf("%+v: a success", exit)
	}
}

// ended holds that a command was ended from outside and left nothing.
func (r *rig) ended(sb sandbox.Sandbox, exit sandbox.Exit, marker int) {
	r.Helper()
	if exit.Signal == "" || exit.Code <= 128 {
		r.Errorf("the command ended with %+v, want it ended by a signal", exit)
	}
	r.nothingLeft(sb, marker)
}

// nothingLeft holds that nothing of a command is left.
func (r *rig) nothingLeft(sb sandbox.Sandbox, marker int) {
	r.Helper()
	if n := r.count(sb, marker); n != 0 {
		r.Errorf("Wait returned and %d processes of the tree run on", n)
	}
	r.works(sb)
}

func limitMemory(r *rig) {
	_, sb := r.box("a")
	marker := newMarker()
	c := r.h.Programs.Hog(marker, 160*mib)
	c.Limits.Memory = 48 * mib
	exit := r.limited(sb, c, sandbox.LimitMemory, sandbox.UnitBytes, 48*mib)
	r.ended(sb, exit, marker)
}

func limitMemoryOfMany(r *rig) {
	_, sb := r.box("a")
	marker := newMarker()
	c := r.h.Programs.Hogs(marker, 4, 30*mib)
	c.Limits.Memory = 64 * mib
	exit := r.limited(sb, c, sandbox.LimitMemory, sandbox.UnitBytes, 64*mib)
	r.ended(sb, exit, marker)
}

func limitCPU(r *rig) {
	_, sb := r.box("a")
	c := r.h.Programs.Burn()
	c.Limits.CPUSeconds = 1
	exit := r.limited(sb, c, sandbox.LimitCPUSeconds, sandbox.UnitSeconds, 1)
	r.ended(sb, exit, newMarker())
}

func limitProcesses(r *rig) {
	_, sb := r.box("a")
	marker := newMarker()
	c := r.h.Programs.Tree(marker)
	c.Limits.Processes = TreeSize - 2
	exit := r.limited(sb, c, sandbox.LimitProcesses, sandbox.UnitProcesses, TreeSize-2)
	r.ended(sb, exit, marker)
}

func limitBomb(r *rig) {
	_, sb := r.box("a")
	marker := newMarker()
	c := r.h.Programs.Bomb(marker)
	c.Limits.Processes = 24
	start := time.Now()
	exit := r.limited(sb, c, sandbox.LimitProcesses, sandbox.UnitProcesses, 24)
	if took := time.Since(start); took > r.h.Patience {
		r.Errorf("it burnt for %v", took)
	}
	// The first process may give up by itself when it cannot fork any more.
	if exit.Code == 0 {
		r.Errorf("the bomb ended well: %+v", exit)
	}
	r.nothingLeft(sb, marker)
}

func limitBurst(r *rig) {
	_, sb := r.box("a")
	for range 10 {
		c := r.h.Programs.Burst(90)
		c.Limits.Processes = 30
		r.limited(sb, c, sandbox.LimitProcesses, sandbox.UnitProcesses, 30)
		c = r.h.Programs.Burst(28)
		c.Limits.Processes = 30
		if exit := r.exit(r.start(r.ctx, sb, c)); exit.Limit != nil || exit.Code != 0 {
			r.Errorf("28 processes below one, bound 30: %+v, limit %v", exit, exit.Limit)
		}
	}
	r.works(sb)
}

func limitFileSize(r *rig) {
	_, sb := r.box("a")
	const bound = 64 << 10
	c := r.h.Programs.Fill("/tmp/filled", 1*mib)
	c.Limits.FileSize = bound
	exit := r.limited(sb, c, sandbox.LimitFileSize, sandbox.UnitBytes, bound)
	if exit.Code != 128+25 {
		r.Errorf("%+v, want it ended by XFSZ", exit)
	}
	c = script(`wc -c <"$1"`, "/tmp/filled")
	if n, err := strconv.Atoi(r.output(sb, c)); err != nil || n != bound {
		r.Errorf("the file has %d bytes, %v; want %d", n, err, bound)
	}
}

func limitOpenFiles(r *rig) {
	_, sb := r.box("a")
	const bound = 8
	c := r.h.Programs.Holder(bound)
	c.Limits.OpenFiles = bound
	pr, pw := io.Pipe()
	defer pw.Close()
	c.Stdin = pr
	p := r.start(r.ctx, sb, c)
	r.await(p.stdout, "full")
	r.lookedAt(p)
	go io.WriteString(pw, "go\n")
	exit := r.exit(p)
	r.holdHit(exit, sandbox.LimitOpenFiles, sandbox.UnitFiles, bound)
}

// lookedAt waits until the sandbox has measured what p holds. The contract is
// that this is seen while it lasts, and no event says when; but the code that
// measures answers questions about the use of p too, each with another look,
// and what is bounded is due in one that comes long after the last. The first
// such look may have begun long ago, and the answer may come in the middle of the
// second: the third answer after a while says that this is over.
func (r *rig) lookedAt(p running) {
	r.Helper()
	_, metered := p.Process.(sandbox.Metered)
	if metered {
		r.used(p)
	}
	time.Sleep(2 * time.Second)
	for i := 0; metered && i < 3; i++ {
		r.used(p)
	}
}

func limitsNotReached(r *rig) {
	_, sb := r.box("a")
	bounds := sandbox.Limits{
		Memory: 512 * mib, CPUSeconds: 60, FileSize: mib, OpenFiles: 64, Processes: 64,
	}
	for _, code := range []int{0, 3} {
		c := r.h.Programs.Exit(code)
		c.Limits = bounds
		if exit := r.exit(r.start(r.ctx, sb, c)); exit.Limit != nil || exit.Code != code {
			r.Errorf("status %d within all limits: %+v, limit %v", code, exit, exit.Limit)
		}
	}
	c := r.h.Programs.Raise("TERM")
	c.Limits = bounds
	if exit := r.exit(r.start(r.ctx, sb, c)); exit.Limit != nil || exit.Signal != "TERM" {
		r.Errorf("ended by TERM within all limits: %+v, limit %v", exit, exit.Limit)
	}
	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	marker := newMarker()
	c = r.h.Programs.Tree(marker)
	c.Limits = bounds
	p := r.start(ctx, sb, c)
	r.await(p.stdout, "ready")
	cancel()
	if exit := r.exit(p); exit.Limit != nil || exit.Signal != "KILL" {
		r.Errorf("killed within all limits: %+v, limit %v", exit, exit.Limit)
	}
}

func limitLine(r *rig) {
	r.needShells()
	s := r.spec("a")
	r.create(s)
	s.Limits.Memory = 48 * mib
	sb := r.open(s)
	sh := r.shell(sb, sandbox.ShellOptions{})
	r.says(sh, "x=kept; echo $x", "kept\n")
	marker := newMarker()
	exit := r.slowExit(r.line(r.ctx, sh, r.h.Programs.HogLine(marker, 160*mib), sandbox.Command{}))
	r.holdHit(exit, sandbox.LimitMemory, sandbox.UnitBytes, 48*mib)
	if !exit.Restarted {
		r.Errorf("%+v does not say that the shell ended with it", exit)
	}
	if n := r.count(sb, marker); n != 0 {
		r.Errorf("%d processes of the line run on", n)
	}
	if exit, out, _ := r.runLine(sh, "echo $x"); exit.Code != 0 || exit.Limit != nil || strings.TrimSpace(out) != "kept" {
		r.Errorf("the next line: %+v, %q", exit, out)
	}
}

func limitOfHandle(r *rig) {
	s := r.spec("a")
	r.create(s)
	s.Limits.Processes = TreeSize - 2
	sb := r.open(s)
	c := r.h.Programs.Tree(newMarker())
	c.Limits.Processes = 64 // a command cannot have more than its sandbox allows
	r.limited(sb, c, sandbox.LimitProcesses, sandbox.UnitProcesses, TreeSize-2)
}
