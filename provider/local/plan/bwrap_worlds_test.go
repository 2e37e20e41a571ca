package plan_test

import (
	"path"
	"strings"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/provider/local/plan"
)

// A host is a machine in memory, written as its paths: a slash at the end makes
// a folder, " -> " a link, "=" at the end a socket. The folders above exist
// too.
type host struct {
	kinds map[string]plan.Kind
	links map[string]plan.Target
}

func hostOf(paths ...string) host {
	h := host{map[string]plan.Kind{"/": plan.Dir}, map[string]plan.Target{}}
	for _, p := range paths {
		p, to, link := strings.Cut(p, " -> ")
		kind := plan.File
		switch {
		case link:
			kind = plan.Link
			h.links[p] = plan.Target{Text: to, Real: path.Join(path.Dir(p), to)}
		case strings.HasSuffix(p, "/"):
			kind, p = plan.Dir, strings.TrimSuffix(p, "/")
		case strings.HasSuffix(p, "="):
			kind, p = plan.Socket, strings.TrimSuffix(p, "=")
		}
		h.kinds[p] = kind
		for d := path.Dir(p); h.kinds[d] == plan.Missing; d = path.Dir(d) {
			h.kinds[d] = plan.Dir
		}
	}
	return h
}

func (h host) Kind(p string) (plan.Kind, error) { return h.kinds[p], nil }

func (h host) Link(p string) (plan.Target, error) { return h.links[p], nil }

func (h host) Names(dir string) (names []string, err error) {
	for p := range h.kinds {
		if p != "/" && path.Dir(p) == dir {
			names = append(names, path.Base(p))
		}
	}
	return names, nil
}

// system returns a world with more and the views that every sandbox of these
// tests has.
func system(more ...plan.View) plan.World {
	return plan.World{
		Views: append([]plan.View{
			{Source: "/usr", Target: "/usr", Why: "system"},
			{Source: "/etc", Target: "/etc", Optional: true, Why: "system"},
			{Source: "/state/guest/d1", Target: "/.sandbox/bin", Why: "guest"},
			{Source: "/state/id/passwd", Target: "/etc/passwd", Why: "identity"},
		}, more...),
		Symlinks: []plan.Symlink{{Target: "/bin", To: "usr/bin"}, {Target: "/lib64", To: "usr/lib64"}},
		Tmpfs: []sandbox.Tmpfs{
			{Target: "/tmp", Size: 512 << 20, Mode: 0o1777, Exec: true},
			{Target: "/run", Size: 16 << 20, Mode: 0o755},
			{Target: "/home/sandbox", Size: 64 << 20, Mode: 0o700, Owned: true},
		},
		ShmSize: 64 << 20,
		Denies: []plan.Deny{
			{Path: "/etc/shadow", Read: true, Rule: "/etc/shadow"},
			{Path: "/home/u/.ssh", Read: true, Rule: "~/.ssh"},
		},
	}
}

// machine returns the host of these tests, with more paths on it.
func machine(more ...string) host {
	return hostOf(append([]string{
		"/usr/bin/", "/bin -> usr/bin", "/lib64 -> usr/lib64", "/etc/passwd", "/etc/shadow", "/etc/hosts",
		"/proc/", "/dev/", "/run/docker.sock=", "/tmp/", "/var/tmp/", "/home/u/.ssh/id", "/home/u/.ssh/known_hosts", "/home/u/notes",
		"/state/guest/d1/", "/state/id/passwd", "/state/ws/",
	}, more...)...)
}

// git returns the denies that protect a repository at dir.
func git(dir string) []plan.Deny {
	return []plan.Deny{
		{Path: dir + "/.git/hooks", Keep: true, Dir: true, Rule: "protection: git hooks"},
		{Path: dir + "/.git/config", Keep: true, Rule: "protection: git config"},
		{Path: dir + "/.mcp.json", Keep: true, Rule: "protection: tool servers"},
		{Path: dir + "/.claude/skills", Keep: true, Dir: true, Rule: "protection: skills"},
	}
}

// A typical is a sandbox of a golden test.
type typical struct {
	name  string
	host  host
	world plan.World
}

func typicals() []typical {
	scratch := system(plan.View{Source: "/state/ws", Target: "/workspace", Write: true, Why: "workspace"})
	scratch.Denies = append(scratch.Denies, plan.Deny{Path: "/state/ws/app/.env", Read: true, Rule: "**/.env"})

	own := "/home/u/proj"
	agent := system(
		plan.View{Source: own, Target: "/workspace", Write: true, Why: "workspace"},
		plan.View{Source: own, Target: own, Write: true, Why: "the agent's own folder"},
	)
	agent.Denies = append(agent.Denies, git(own)...)

	all := system(
		plan.View{Source: "/", Target: "/", Optional: true, Why: "filesystem.allowRead: /"},
		plan.View{Source: "/state/ws", Target: "/workspace", Write: true, Why: "workspace"},
	)

	projects := system(
		plan.View{Source: "/state/ws", Target: "/workspace", Write: true, Why: "workspace"},
		plan.View{Source: "/home/u/projects", Target: "/home/u/projects", Write: true, Optional: true, Why: "filesystem.allowWrite: ~/projects"},
		plan.View{Source: "/home/u/.ssh/known_hosts", Target: "/home/u/.ssh/known_hosts", Optional: true, Why: "filesystem.allowRead: ~/.ssh/known_hosts"},
	)
	projects.Denies = append(projects.Denies,
		plan.Deny{Path: "/home/u/projects/secret", Read: true, Rule: "filesystem.denyRead: ~/projects/secret"},
		plan.Deny{Path: "/home/u/projects/a/keys/k.pem", Read: true, Rule: "**/*.pem"},
		plan.Deny{Path: "/home/u/projects/a/vendor", Rule: "filesystem.denyWrite: ~/projects/a/vendor"},
		plan.Deny{Path: "/home/u/projects/a/agent.sock", Read: true, Rule: "sockets"},
		plan.Deny{Path: "/home/u/projects/.envrc", Keep: true, Rule: "protection: shell start-up"},
	)

	main, tree := "/home/u/main", "/home/u/tree"
	worktree := system(
		plan.View{Source: tree, Target: "/workspace", Write: true, Why: "workspace"},
		plan.View{Source: tree, Target: tree, Write: true, Why: "the agent's own folder"},
		plan.View{Source: main + "/.git", Target: main + "/.git", Write: true, Why: "worktree: main repository"},
	)
	worktree.Denies = append(worktree.Denies, plan.Deny{Path: tree + "/.git", Rule: "protection: gitdir"})
	worktree.Denies = append(worktree.Denies, git(main)[:2]...)

	return []typical{
		{"scratch", machine("/state/ws/app/.env"), scratch},
		{"agent", machine(own+"/.git/hooks/", own+"/.git/config", own+"/main.go"), agent},
		{"permissive", machine("/opt/tool"), all},
		{"projects", machine(
			"/home/u/projects/secret/s", "/home/u/projects/a/keys/k.pem", "/home/u/projects/a/vendor/v",
			"/home/u/projects/a/agent.sock=", "/home/u/projects/.envrc -> dot/envrc", "/home/u/projects/dot/envrc",
		), projects},
		{"worktree", machine(main+"/.git/hooks/", main+"/.git/config", main+"/.git/worktrees/tree/gitdir", tree+"/.git"), worktree},
	}
}
