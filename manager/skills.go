package manager

import (
	"context"
	"sync"

	"github.com/bulkhead-dev/sandbox/internal/termsafe"
	"github.com/bulkhead-dev/sandbox/workspace"
)

// skillStamps remembers what the skills of an agent, and the copies of them in a
// scratch workspace, looked like when they were the same. It is safe for concurrent
// use.
type skillStamps struct {
	mu    sync.Mutex
	known map[string]string // by the path of the workspace
}

// maxSkillStamps bounds of how many workspaces stamps are remembered. Of others the
// notes of the workspace tell.
const maxSkillStamps = 4096

func (s *skillStamps) is(target, stamp string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return stamp != "" && s.known[target] == stamp
}

func (s *skillStamps) note(target, stamp string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil || len(s.known) >= maxSkillStamps {
		s.known = map[string]string{}
	}
	s.known[target] = stamp
}

// syncSkills brings the skills in the workspace of l to what the folder of its agent
// has now, before l is used. As long as neither changes that is a look at their
// names and times. A workspace that is the agent's own folder has them already, and
// one that was made for this call was seeded with them.
//
// An error means that skills could not be read or written on this machine; what code
// inside has put in their place is left alone and logged.
func (b *builder) syncSkills(ctx context.Context, l *acquired) error {
	w, target := l.want, workspaceOf(l.spec)
	if w.agentDir == "" || l.created || !w.scratch() || target == "" {
		return nil
	}
	stamp, err := workspace.SkillsStamp(ctx, w.agentDir, target)
	if err != nil || b.m.skills.is(target, stamp) {
		return err
	}
	store, err := b.m.describer.workspaces(w.res)
	if err != nil {
		return err
	}
	if own, err := store.Path(w.hostIdentity); err != nil || own != target {
		return err // a sandbox that is kept as it was made has an older workspace
	}
	turn, err := b.m.locksOf(l.provider.Name()).Ensure(ctx, l.name())
	if err != nil {
		return err
	}
	defer turn.Release()
	report, stamp, err := store.SyncSkills(ctx, w.hostIdentity, w.agentDir, workspace.Owner{UID: l.spec.UID, GID: l.spec.GID})
	for _, s := range report.Skipped {
		b.m.log.WithField("sandbox", l.name()).Warnf("skill not copied: %s: %s", termsafe.Line(s.Path), s.Reason)
	}
	if err != nil {
		return err
	}
	if n := len(report.Copied) + len(report.Replaced) + len(report.Removed); n > 0 {
		b.m.log.WithField("sandbox", l.name()).Debugf("%d skills changed", n)
	}
	b.m.skills.note(target, stamp)
	return nil
}
