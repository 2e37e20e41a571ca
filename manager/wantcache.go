package manager

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/internal/hostpath"
	"github.com/bulkhead-dev/sandbox/provider"
	"github.com/bulkhead-dev/sandbox/workspace"
)

// A wantCache caches what requests without flags have come to, for as long as
// nothing that it follows from has changed. It is safe for concurrent use.
//
// What a warm request checks, and when:
//
//   - the settings: the file's stamp in each request; another content is another
//     pointer, for which nothing is known;
//   - facts of the host (each part of the paths of mounts, rules and workspaces,
//     with links and permissions on the way; the user id, the claim of a slot, who
//     listens where, the files of the user and of hosts, programs that homes on the
//     disk need): by one look at the events of a watch on all of them, in each
//     request. A folder that was swapped is an event, after which all facts are
//     read, and judged, again. So they are in each request where a place cannot be
//     watched, see [hostpath.Watch], and where settings name a file of certificates;
//   - the image's id: by the engine's event stream, see [images.Watched];
//   - what was permitted while the program runs: compared in each request;
//   - that the container runs: by its guest, which answers a ping in each
//     request, and that it exists: by the guest's open connection;
//   - the record, for whether the sandbox is frozen: under the lease in each
//     request, read where its file has changed. It is written at most once in
//     [registry.TouchResolution].
type wantCache struct {
	mu   sync.Mutex
	of   map[wantKey]cachedWant
	skip map[wantKey]int // requests for which it is not tried to keep anything
}

// skipUnwatched is for how many requests that is, after a place was found that
// cannot be watched: trying costs as much as reading all facts.
const skipUnwatched = 256

// A wantKey is what a want is kept for.
type wantKey struct {
	who      config.Who
	kind     sandbox.Kind
	provider string
}

// A cachedWant is a want without what was permitted, and what it follows from.
type cachedWant struct {
	settings  *config.Settings
	want      want
	permitted []string // folders that were permitted, which count as exposed
	mark      uint64
	at        hostpath.Places
}

// cachedWant returns the want of a request without flags where it is known. The want is
// the caller's own.
func (d *describer) cachedWant(ctx context.Context, settings *config.Settings, who config.Who, kind sandbox.Kind, p sandbox.Provider) (*want, bool) {
	k := &d.wants
	k.mu.Lock()
	have, ok := k.of[wantKey{who, kind, p.Name()}]
	ok = ok && have.settings == settings
	k.mu.Unlock()
	if !ok || !d.m.watch.Unchanged(have.mark, have.at) || provider.Trouble(p) != nil || !slices.Equal(have.permitted, d.m.grants.exposed()) {
		return nil, false
	}
	w := have.want
	if p.Features().Images {
		if id, err := d.m.imagesOf(w.provider).Current(ctx, w.res.Docker.Image, w.res.Docker.Setup); err != nil || id != w.spec.ImageID {
			return nil, false
		}
	}
	w.provider, w.spec = p, copied(w.spec)
	w.egress = w.spec.Egress
	if kind != sandbox.KindBrowser {
		w.permit(d.m.grants.list(w.spec.Owner))
	}
	return &w, true
}

// A moment is when facts begin to be read.
type moment struct {
	mark      uint64
	ok        bool     // what is read after it can be kept
	permitted []string // see [cachedWant]
}

// moment returns the present one.
func (d *describer) moment() moment {
	mark, ok := d.m.watch.Mark()
	return moment{mark: mark, ok: ok, permitted: d.m.grants.exposed()}
}

// keep keeps w, whose facts were read after the moment since.
func (d *describer) keep(settings *config.Settings, who config.Who, kind sandbox.Kind, since moment, w *want) {
	key := wantKey{who, kind, w.provider.Name()}
	k := &d.wants
	if !since.ok || k.skipped(key) {
		return
	}
	paths, files, ok := d.sources(w, since.permitted)
	if ok {
		all, err := d.m.watch.Add(since.mark, paths, files)
		if err == nil && !all {
			return // the next request keeps it
		}
		ok = err == nil
	}
	n := cachedWant{settings: settings, want: *w, permitted: since.permitted, mark: since.mark, at: hostpath.PlacesOf(paths, files)}
	n.want.facts, n.want.settingsHash, n.want.granted, n.want.private = nil, nil, nil, false
	n.want.spec = copied(w.spec)
	n.want.spec.Grants = nil
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.of == nil || len(k.of) >= maxDescriptions {
		k.of, k.skip = map[wantKey]cachedWant{}, map[wantKey]int{}
	}
	if !ok {
		k.skip[key] = skipUnwatched
		return
	}
	k.of[key] = n
}

// skipped reports whether it was found lately that what key is about cannot be
// watched.
func (k *wantCache) skipped(key wantKey) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.skip[key] == 0 {
		return false
	}
	k.skip[key]--
	return true
}

// sources returns the paths that the facts of w follow from: those that have to
// be as they are, and files whose content counts. ok is false where they cannot
// be named.
func (d *describer) sources(w *want, permitted []string) (paths, files []string, ok bool) {
	f, m := w.facts, d.m
	if f == nil || w.sketch || w.res.Docker.CAFile != "" || f.ImageID == noImage {
		return nil, nil, false
	}
	var err error
	through := func(spelled string) (canonical string) {
		var via []string
		if err == nil && spelled != "" {
			if canonical, via, err = hostpath.Trace(spelled); err == nil {
				paths = append(append(paths, via...), canonical)
			}
		}
		return canonical
	}
	expanded := func(path string) string {
		if err == nil && path != "" {
			path, err = hostpath.Expand(path, m.host.Home, m.host.Env)
		}
		return path
	}
	record, sockets, err := m.state.ListeningAt()
	if err != nil {
		return nil, nil, false
	}
	files = append(files, record, m.records.ClaimPath(w.spec.Name), f.HostsFile, f.PasswdFile, f.GroupFile)
	for _, s := range sockets {
		through(s)
	}
	for p := range f.Canonical {
		through(p)
	}
	spelled, writableErr := m.writable()
	for _, p := range slices.Concat(spelled, permitted) {
		through(p)
	}
	through(f.TrustDir)
	through(m.state.Workspaces())
	through(expanded(w.res.WorkspaceRoot))
	dir := expanded(w.res.AgentWorkspace)
	if w.res.Workspace != "" || w.res.AgentSettings != "" || dir != "" && !filepath.IsAbs(dir) {
		return nil, nil, false
	}
	through(dir)
	if profile := through(expanded(w.res.Docker.SeccompProfile)); profile != "" {
		files = append(files, profile)
	}
	if w.provider.Features().Images && m.host.CanBound != nil {
		for _, p := range workspace.BoundBy() {
			if tool := through(p); tool != "" {
				files = append(files, tool) // its mode counts
			}
		}
	}
	at, identityErr := d.identityOf(w.provider.Name(), w.spec.Name, w.spec.Owner)
	if err != nil || writableErr != nil || identityErr != nil || at.name != w.hostIdentity {
		return nil, nil, false
	}
	claims, err := m.owners.ClaimsOf(userOf(w.res, at))
	if err != nil {
		return nil, nil, false
	}
	files = append(files, claims...)
	files = slices.DeleteFunc(files, func(p string) bool { return p == "" })
	for _, p := range slices.Concat(paths, files) {
		if !strings.HasPrefix(p, "/") {
			return nil, nil, false
		}
	}
	return paths, files, true
}
