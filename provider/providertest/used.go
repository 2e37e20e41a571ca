package providertest

import (
	"time"

	"github.com/bulkhead-dev/sandbox"
)

// usedWhileRunning holds that a command tells what it uses, and no other one
// pays for it; that the figure does not go down, and goes on after the end.
func usedWhileRunning(r *rig) {
	_, sb := r.box("a")
	idle := r.start(r.ctx, sb, r.h.Programs.Sleep(newMarker()))
	busy := r.start(r.ctx, sb, r.h.Programs.Burn())
	last := sandbox.Rusage{}
	look := func() {
		u := r.used(busy)
		if processor(u) < processor(last) || u.MaxRSS < last.MaxRSS {
			r.Errorf("the use went down from %+v to %+v", last, u)
		}
		last = u
	}
	const enough = 300 * time.Millisecond
	for deadline := time.Now().Add(5 * r.h.Patience); processor(last) < enough; look() {
		if time.Now().After(deadline) {
			r.Fatalf("a command that burns time has used %+v", last)
		}
	}
	if u := r.used(idle); processor(u) > enough/2 {
		r.Errorf("a command that sleeps has used %+v", u)
	}
	for _, p := range []running{busy, idle} {
		if err := p.Kill(r.ctx); err != nil {
			r.Fatalf("Kill: %v", err)
		}
	}
	exit := r.exit(busy)
	look()
	if processor(last) < processor(exit.Usage) || last.MaxRSS <= 0 {
		r.Errorf("after the end the use is %+v, the exit says %+v", last, exit.Usage)
	}
	if again := r.used(busy); again != last {
		r.Errorf("after the end the use changed from %+v to %+v", last, again)
	}
	r.exit(idle)
}

// used asks a command for its usage, and asks again if the sandbox did not
// answer in time: the machine may be busy.
func (r *rig) used(p running) sandbox.Rusage {
	r.Helper()
	m, ok := p.Process.(sandbox.Metered)
	if !ok {
		r.Fatal("the process is not Metered")
	}
	for deadline := time.Now().Add(r.h.Patience); ; {
		u, err := m.Used(r.ctx)
		if err == nil {
			return u
		}
		if sandbox.CodeOf(err) != sandbox.CodeUnavailable || time.Now().After(deadline) {
			r.Fatalf("Used: %v", err)
		}
	}
}

func processor(u sandbox.Rusage) time.Duration { return u.User + u.System }
