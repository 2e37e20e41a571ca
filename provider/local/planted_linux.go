package local

import (
	"context"
	"errors"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/provider/local/hostscan"
)

// holdWithin bounds the look for git repositories that ends a command.
const holdWithin = 2 * time.Minute

// planted is what the sandbox knows of git repositories that were made or broken
// in it.
type planted struct {
	mu       sync.Mutex
	reported map[string]bool // by path and reason
	err      error           // what could not be taken away yet
}

// hold looks for git repositories that code in the sandbox has made or broken, and
// takes away what in them would have git on the host run something. It returns
// what it has found and not returned before, and an error as long as something
// cannot be looked through or taken away.
func (w *instance) hold() ([]sandbox.Violation, error) {
	if w.facts.Own == "" && len(w.facts.Writable) == 0 {
		return nil, nil
	}
	ctx, done := context.WithTimeout(context.Background(), holdWithin)
	defer done()
	w.planted.mu.Lock()
	defer w.planted.mu.Unlock()
	found, err := w.site.scanner.Scan(ctx, w.search)
	var list []hostscan.Planted
	if err == nil {
		list, err = hostscan.Hold(w.facts, found.Found)
	}
	w.planted.err = err
	var out []sandbox.Violation
	for _, p := range list {
		key := p.Path + "\x00" + p.Why
		if p.Held == "" && w.planted.reported[key] {
			continue
		}
		if w.planted.reported == nil {
			w.planted.reported = map[string]bool{}
		}
		w.planted.reported[key] = true
		rule := hostscan.RulePlanted + ": " + p.Why
		if p.Held != "" {
			rule += "; it is kept as " + path.Base(p.Held)
		}
		out = append(out, sandbox.Violation{
			Kind: sandbox.ResourcePath, Operation: sandbox.OpWrite, Resource: p.Path, Rule: rule, Builtin: true,
			Evidence: sandbox.EvidenceWeak, HostPath: p.Path, Time: w.site.p.o.Now().UTC(),
		})
	}
	return out, err
}

// unheld returns an error while something that code in the sandbox has made cannot
// be taken away: no other code is to run beside it.
func (w *instance) unheld() error {
	w.planted.mu.Lock()
	err := w.planted.err
	w.planted.mu.Unlock()
	if err == nil && !w.detached.Load() {
		return nil
	}
	list, err := w.hold()
	w.warnPlanted(list)
	return err
}

// warnPlanted reports what no command is there to report.
func (w *instance) warnPlanted(list []sandbox.Violation) {
	for _, v := range list {
		w.site.p.o.Warn(w.site.def.Name, v.Resource+": "+v.Rule)
	}
}

// gitPath reports whether a file operation on p may make or break a git
// repository.
func gitPath(p string) bool {
	names := strings.Split(strings.ToLower(path.Clean(p)), "/")
	return slices.Contains(names, ".git") || slices.Contains([]string{"head", "objects", "refs", "config", "commondir", "gitdir"}, names[len(names)-1])
}

// held looks for what a file operation on the given paths has made, and returns
// err with what it has found.
func (s *seat) held(err error, paths ...string) error {
	if !slices.ContainsFunc(paths, gitPath) {
		return err
	}
	list, failed := s.instance.hold()
	s.instance.warnPlanted(list)
	if failed == nil {
		return err
	}
	return errors.Join(err, failed)
}
