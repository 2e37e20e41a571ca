package manager_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/manager"
)

// cached are settings with caches of npm and that bound.
func cached(size string) string {
	return `{"agents": {"defaults": {"sandbox": {"cache": {"tools": ["npm"], "size": "` + size + `"}, "docker": {"home": "memory"}}}, "list": [{"id": "other"}]}}`
}

// TestCachesBelongToTenantAgentAndFolder holds that the next sandbox of the same
// scope finds what an earlier one has left in a cache, and no other one does.
func TestCachesBelongToTenantAgentAndFolder(t *testing.T) {
	r := homeRig(t)
	m := r.manager(cached("64m"))
	folder := filepath.Join(t.TempDir(), "work")
	must(t, os.Mkdir(folder, 0o755))
	must(t, os.Chown(folder, 1000, 1000))
	for dir := folder; dir != "/"; dir = filepath.Dir(dir) { // the user has to come there
		if st, err := os.Stat(dir); err == nil && st.Mode()&0o011 == 0 {
			must(t, os.Chmod(dir, st.Mode()|0o011))
		}
	}
	out, _, err := run(m, "one", "mkdir $npm_config_cache && umask 077 && echo kept >$npm_config_cache/note && df -B1M --output=size /.sandbox/cache | tail -1", func(q *manager.Request) { q.Remove = true })
	must(t, err)
	var size int
	if _, err := fmt.Sscan(out, &size); err != nil || size == 0 || size > 64 {
		t.Errorf("the cache is a file system of %q MiB (%v)", out, err)
	}
	for name, tt := range map[string]struct {
		change func(*manager.Request)
		want   string
	}{
		"another session": {func(q *manager.Request) { q.Who.Session = "two" }, "kept"},
		"another agent":   {func(q *manager.Request) { q.Who.Agent = "other" }, ""},
		"another tenant":  {func(q *manager.Request) { q.Who.Tenant = "acme" }, ""},
		"another folder":  {func(q *manager.Request) { q.Flags = config.Overrides{Workspace: folder}.Layer() }, ""},
		"another user": {func(q *manager.Request) {
			q.Flags = &config.SandboxSettings{Docker: &config.DockerSettings{User: new("4711")}}
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			out, _, err := run(m, strings.ReplaceAll(name, " ", "-"), "cat $npm_config_cache/note 2>/dev/null", tt.change, func(q *manager.Request) { q.Remove = true })
			if err != nil || out != tt.want {
				t.Errorf("reads %q, want %q (%v)", out, tt.want, err)
			}
		})
	}
}

// TestCachesAreListedAndRemoved holds what list and prune say of caches, and that
// a cache that a sandbox has is kept.
func TestCachesAreListedAndRemoved(t *testing.T) {
	r := homeRig(t)
	m := r.manager(cached("64m"))
	if list, err := m.Caches(t.Context(), ""); err != nil || len(list) != 0 {
		t.Fatalf("without any: %+v and %v", list, err)
	}
	_, _, err := run(m, "one", "mkdir $npm_config_cache && head -c 1m /dev/zero >$npm_config_cache/x")
	must(t, err)
	list, err := m.Caches(t.Context(), "")
	must(t, err)
	if len(list) != 1 || list[0].Agent != "main" || list[0].Bytes < 1<<20 || list[0].Size != 64<<20 || len(list[0].Sandboxes) != 1 || len(list[0].Tools) != 1 || list[0].Tools[0] != "npm" {
		t.Fatalf("listed are %+v", list)
	}
	if other, err := m.Caches(t.Context(), "acme"); err != nil || len(other) != 0 {
		t.Errorf("another tenant sees %+v (%v)", other, err)
	}
	day := 24 * time.Hour
	p, err := m.Prune(t.Context(), manager.PruneOptions{Caches: true, Idle: &day})
	if err != nil || len(p.Removed) != 0 {
		t.Errorf("removed is %+v (%v), while a sandbox has the caches", p.Removed, err)
	}
	none := time.Duration(0)
	_, _, err = run(m, "one", "true", func(q *manager.Request) { q.Remove = true })
	must(t, err)
	p, err = m.Prune(t.Context(), manager.PruneOptions{Caches: true, Idle: &none})
	if err != nil || len(p.Removed) != 1 || p.Removed[0].Name != list[0].Name || len(p.Failed) != 0 {
		t.Errorf("pruned: %+v (%v)", p, err)
	}
	if left, err := m.Caches(t.Context(), ""); err != nil || len(left) != 0 {
		t.Errorf("left are %+v (%v)", left, err)
	}
	if at := mountsBelow(t, r.state.Path()); len(at) != 0 {
		t.Errorf("mounted are %q", at)
	}
}

// TestCachesHaveABound holds that code inside cannot fill more than cache.size, and
// that full caches, and those whose bound was lowered, begin anew.
func TestCachesHaveABound(t *testing.T) {
	r := homeRig(t)
	remove := func(q *manager.Request) { q.Remove = true }
	const fill = "mkdir -p $npm_config_cache; head -c 100m /dev/zero >$npm_config_cache/x || echo full"
	m := r.manager(cached("64m"))
	if out, _, err := run(m, "one", fill, remove); err != nil || !strings.Contains(out, "full") {
		t.Fatalf("%q and %v", out, err)
	}
	if out, _, err := run(m, "two", "ls -A /.sandbox/cache; mkdir -p $npm_config_cache; echo kept >$npm_config_cache/note", remove); err != nil || out != "" {
		t.Errorf("after it was full: %q and %v", out, err)
	}
	m = r.manager(cached("128m"))
	if out, _, err := run(m, "three", "cat $npm_config_cache/note", remove); err != nil || out != "kept" {
		t.Errorf("with a higher bound: %q and %v", out, err)
	}
	m = r.manager(cached("64m"))
	if out, _, err := run(m, "four", "ls -A /.sandbox/cache", remove); err != nil || out != "" {
		t.Errorf("with a lower bound: %q and %v", out, err)
	}
}
