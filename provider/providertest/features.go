package providertest

import (
	"strings"

	"github.com/bulkhead-dev/sandbox"
)

// featureChecks check that the features match what the provider does, and that
// the use of an absent one returns CodeUnsupported.
func featureChecks() []Check {
	return []Check{
		{Name: "the name is the word of the settings", run: nameUsable},
		{Name: "pausing freezes and thaws", run: pausing},
		{Name: "pause of an unknown name is not found", run: pauseUnknown},
		{Name: "open thaws a paused sandbox", run: openThaws},
		{Name: "usage is sane", run: usageSane},
		{Name: "a running command tells what it has used", run: usedWhileRunning},
		{Name: "shells are as features say", run: shellsHonest},
		{Name: "optional abilities are as features say", run: abilitiesHonest},
	}
}

func nameUsable(r *rig) {
	name := r.p.Name()
	if name == "" || name != strings.ToLower(strings.TrimSpace(name)) || name == "auto" {
		r.Errorf("the provider is called %q", name)
	}
	if again := r.p.Name(); again != name {
		r.Errorf("the name changed from %q to %q", name, again)
	}
	if a, b := r.p.Features(), r.p.Features(); a != b {
		r.Errorf("features changed from %+v to %+v", a, b)
	}
}

// pauser returns the provider as a Pauser, after holding that Features.Pause
// says the truth about it, or ends the check.
func (r *rig) pauser() sandbox.Pauser {
	r.Helper()
	p, ok := r.p.(sandbox.Pauser)
	if !r.p.Features().Pause {
		if ok {
			r.wantCode("Pause", p.Pause(r.ctx, r.spec("unsupported").Name), sandbox.CodeUnsupported)
		}
		r.Skip("the provider says that it cannot pause")
	}
	if !ok {
		r.Fatal("Features.Pause is set and the provider is no Pauser")
	}
	return p
}

func pausing(r *rig) {
	pauser := r.pauser()
	s, sb := r.box("a")
	marker := newMarker()
	p := r.start(r.ctx, sb, r.h.Programs.Sleep(marker))
	r.awaitCount(sb, marker, 1)
	if err := pauser.Pause(r.ctx, s.Name); err != nil {
		r.Fatalf("Pause: %v", err)
	}
	if st := r.status(s.Name); st != sandbox.StatusPaused {
		r.Errorf("after Pause the sandbox is %s", st)
	}
	if err := pauser.Unpause(r.ctx, s.Name); err != nil {
		r.Fatalf("Unpause: %v", err)
	}
	if st := r.status(s.Name); st != sandbox.StatusRunning {
		r.Errorf("after Unpause the sandbox is %s", st)
	}
	if n := r.count(sb, marker); n != 1 {
		r.Errorf("after thawing %d processes are left, want 1", n)
	}
	if err := p.Kill(r.ctx); err != nil {
		r.Fatalf("Kill: %v", err)
	}
	r.killed(sb, p, marker)
}

func pauseUnknown(r *rig) {
	pauser := r.pauser()
	name := r.spec("a").Name
	r.wantCode("Pause", pauser.Pause(r.ctx, name), sandbox.CodeNotFound)
	r.wantCode("Unpause", pauser.Unpause(r.ctx, name), sandbox.CodeNotFound)
}

func openThaws(r *rig) {
	pauser := r.pauser()
	s, sb := r.box("a")
	marker := newMarker()
	p := r.start(r.ctx, sb, r.h.Programs.Sleep(marker))
	r.awaitCount(sb, marker, 1)
	if err := pauser.Pause(r.ctx, s.Name); err != nil {
		r.Fatalf("Pause: %v", err)
	}
	second := r.open(s)
	if got := second.Info().Status; got != sandbox.StatusRunning {
		r.Errorf("the handle says %s", got)
	}
	if n := r.count(second, marker); n != 1 {
		r.Errorf("%d processes came through, want 1", n)
	}
	// Removing must not need a thaw first.
	if err := pauser.Pause(r.ctx, s.Name); err != nil {
		r.Fatalf("Pause: %v", err)
	}
	if err := r.p.Remove(r.ctx, s.Name); err != nil {
		r.Fatalf("Remove of a paused sandbox: %v", err)
	}
	r.absent(s.Name)
	r.wait(p)
}

func usageSane(r *rig) {
	s, sb := r.box("a")
	if !r.p.Features().Usage {
		_, err := sb.Usage(r.ctx)
		r.wantCode("Usage", err, sandbox.CodeUnsupported)
		return
	}
	first := r.usage(sb)
	if first.PIDs < 1 || first.PIDs > 100 || first.Memory <= 0 || first.CPU < 0 {
		r.Errorf("an idle sandbox costs %+v", first)
	}
	if first.MemoryLimit != s.Resources.Memory || first.PIDsLimit != s.Resources.PIDs {
		r.Errorf("limits %d bytes and %d processes, want %d and %d",
			first.MemoryLimit, first.PIDsLimit, s.Resources.Memory, s.Resources.PIDs)
	}
	marker := newMarker()
	p := r.tree(r.ctx, sb, marker)
	second := r.usage(sb)
	if second.PIDs < first.PIDs+TreeSize {
		r.Errorf("with %d more processes there are %d, before %d", TreeSize, second.PIDs, first.PIDs)
	}
	if second.CPU < first.CPU {
		r.Errorf("processor time went back from %v to %v", first.CPU, second.CPU)
	}
	if err := p.Kill(r.ctx); err != nil {
		r.Fatalf("Kill: %v", err)
	}
	r.killed(sb, p, marker)
}

func shellsHonest(r *rig) {
	_, sb := r.box("a")
	sh, err := sb.OpenShell(r.ctx, sandbox.ShellOptions{ID: "a"})
	if !r.p.Features().Shells {
		r.wantCode("OpenShell", err, sandbox.CodeUnsupported)
		return
	}
	if err != nil {
		r.Fatalf("OpenShell: %v", err)
	}
	defer sh.Close()
	out := newGather()
	for _, line := range []string{"cd /tmp", "pwd"} {
		p, err := sh.Run(r.ctx, line, sandbox.Command{Stdout: out})
		if err != nil {
			r.Fatalf("Run(%q): %v", line, err)
		}
		if exit := r.exit(p); exit.Code != 0 {
			r.Errorf("%q ended with %+v", line, exit)
		}
	}
	if out.String() != "/tmp\n" {
		r.Errorf("the shell forgot its directory: %q", out.String())
	}
}

func abilitiesHonest(r *rig) {
	_, sb := r.box("a")
	f := r.p.Features()
	d, dials := sb.(sandbox.Dialer)
	r.honest("Dial", f.Dial, dials, func() error {
		_, err := d.Dial(r.ctx, "tcp", "127.0.0.1:1")
		return err
	})
	l, listens := sb.(sandbox.Listener)
	r.honest("Listen", f.Listen, listens, func() error {
		at, err := l.Listen(r.ctx, "tcp", "127.0.0.1:0")
		if err == nil {
			err = at.Close()
		}
		return err
	})
	s, serves := sb.(sandbox.FileServer)
	r.honest("Files", f.Files, serves, func() error { _, err := s.Files(r.ctx); return err })
}

// honest holds that an ability is there when the feature is set, and that it
// is missing by type or answers CodeUnsupported when it is not.
func (r *rig) honest(name string, feature, there bool, call func() error) {
	r.Helper()
	if !there {
		if feature {
			r.Errorf("Features.%s is set and the sandbox has no such method", name)
		}
		return
	}
	if err := call(); feature == (sandbox.CodeOf(err) == sandbox.CodeUnsupported) {
		r.Errorf("Features.%s is %v, a call says %v", name, feature, err)
	}
}
