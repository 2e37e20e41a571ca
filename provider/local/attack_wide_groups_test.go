//go:build linux

package local_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bulkhead-dev/sandbox"
)

// linkGroup has rules that lead over links.
func linkGroup() group {
	return group{name: "links", fresh: true, layouts: []layout{closedLinks}, attempts: []attempt{
		{name: "link-followed", script: `cat link.txt app/.env shared/target shared/env`},
		{name: "link-removed", script: `rm -f link.txt; mv link.txt l2; ln -sfn readme link.txt`, then: []string{`cat shared/target`}},
		{name: "link-target-renamed", script: `mv shared shared2`, then: []string{`cat shared2/env shared2/target`}},
		{name: "link-target-linked", script: `ln shared/env x; ln -s shared/env y; cp -a app app2`, then: []string{`cat x y app2/.env`}},
	}}
}

// closedLinks are links that rules name, which lead to files that none names.
func closedLinks(s *fixture) {
	for _, f := range []string{"shared/target", "shared/env"} {
		s.file(s.agent+"/"+f, s.token)
		s.extra = append(s.extra, s.agent+"/"+f)
	}
	must(s, os.Symlink("shared/target", s.agent+"/link.txt"))
	must(s, os.MkdirAll(s.agent+"/app", 0o755))
	must(s, os.Symlink("../shared/env", s.agent+"/app/.env"))
	s.spec.Filesystem.DenyRead = append(s.spec.Filesystem.DenyRead, s.agent+"/link.txt")
	s.spec.Filesystem.DenyWrite = append(s.spec.Filesystem.DenyWrite, s.agent+"/link.txt")
}

// wideGroup opens a folder for writing in which our own state lies, from
// which an orchestrator that is root executes programs.
func wideGroup() group {
	wide := func(s *fixture) {
		s.spec.Filesystem.AllowWrite = append(s.spec.Filesystem.AllowWrite, s.base)
		s.envs = append(s.envs, "STATE="+s.state, "BASE="+s.base, "GUESTDIR="+s.spec.Guest.Dir)
		must(s, os.Chown(s.base, s.kit.uid, s.kit.uid))
		// What was allowed may be changed; the rest may not.
		s.startup = true
		must(s, os.RemoveAll(s.home+"/notes"))
		must(s, os.RemoveAll(s.outside))
		must(s, os.MkdirAll(s.outside, 0o755))
		s.lax = true
		s.traps = append(s.traps, s.stateTrap())
	}
	return group{name: "wide", fresh: true, layouts: []layout{ownState, wide}, attempts: []attempt{
		{name: "wide-denied", script: `for f in $DENIED; do cat "$f"; done; mv $READ/private $READ/p; mv $READ $READ.x; cat $READ.x/private/key $READ/p/key; mv $BASE/host $BASE/h2; cat $BASE/h2/agent/secret.txt`},
		{name: "wide-state", script: `echo x >$STATE/x; rm -f $GUESTDIR/sandbox-guest; mv $STATE $STATE.x; mkdir -p $GUESTDIR; echo x >$GUESTDIR/sandbox-guest`, control: asRoot},
	}}
}

// grantGroup has a person grant what cannot be granted.
func grantGroup() group {
	granted := func(s *fixture) {
		for _, p := range []string{s.base, s.home + "/.ssh", s.read + "/private", s.agent + "/.env", s.agent + "/frozen"} {
			s.spec.Grants = append(s.spec.Grants, sandbox.Grant{Operation: sandbox.OpWrite, Path: p}, sandbox.Grant{Operation: sandbox.OpRead, Path: p})
		}
		s.envs = append(s.envs, "STATE="+s.state, "BASE="+s.base, "GUESTDIR="+s.spec.Guest.Dir)
		must(s, os.Chown(s.base, s.kit.uid, s.kit.uid))
		s.startup, s.lax = true, true
		must(s, os.RemoveAll(s.outside))
		must(s, os.MkdirAll(s.outside, 0o755))
		s.traps = append(s.traps, s.stateTrap())
	}
	const state = `echo x >$STATE/x; rm -f $GUESTDIR/sandbox-guest; mv $GUESTDIR/sandbox-guest $GUESTDIR/y; echo x >>$GUESTDIR/sandbox-guest; mkdir $STATE/local/y; mv $STATE $STATE.x; cat $STATE/instance*`
	return group{name: "grants", fresh: true, layouts: []layout{ownState, granted}, attempts: []attempt{
		{name: "grant-state", script: state, control: asRoot},
		{name: "grant-denied", script: `for f in $DENIED; do cat "$f"; done; mv $READ/private $READ/p; mv $BASE/host $BASE/h2; cat $BASE/h2/agent/secret.txt`},
		{name: "grant-written", script: `for f in $DENIED; do echo x >"$f"; rm -f "$f"; done; cat $DENIED; rm -rf $READ/private`, control: nowhere, why: "held by the group write"},
	}}
}

// stateTrap tells whether our own state is no more what it was.
func (s *fixture) stateTrap() func() string {
	return func() string {
		if _, err := os.Lstat(s.state + "/x"); err == nil {
			return "something was made in our state"
		}
		program, err := os.ReadFile(filepath.Join(s.spec.Guest.Dir, "sandbox-guest"))
		good, _ := os.ReadFile(s.kit.guest)
		if err != nil || !bytes.Equal(program, good) {
			return "the guest's program has changed"
		}
		return ""
	}
}

// permissiveGroup shows the whole host for reading.
func permissiveGroup() group {
	permissive := func(s *fixture) {
		s.spec.Filesystem.AllowRead = append(s.spec.Filesystem.AllowRead, "/")
		// A glob as it is would be looked for in the whole host, which holds
		// what other tests make meanwhile.
		for _, rules := range [][]string{s.spec.Filesystem.DenyRead, s.spec.Filesystem.DenyWrite} {
			for i, p := range rules {
				if strings.HasPrefix(p, "**/") {
					rules[i] = filepath.Join(s.base, p)
				}
			}
		}
		// The stage lies below /tmp, which is the host's here.
		s.spec.Tmpfs = slices.DeleteFunc(s.spec.Tmpfs, func(m sandbox.Tmpfs) bool { return m.Target == "/tmp" })
		s.envs = append(s.envs, "STATE="+s.state)
		must(s, os.RemoveAll(s.outside))
		must(s, os.MkdirAll(filepath.Join(s.outside), 0o755))
		s.file(s.outside+"/plain", "plain\n")
		s.lax = true
	}
	const (
		denied  = `for f in $DENIED; do cat "$f" /proc/self/root$f; done; cat $HOMEDIR/.ssh/id; cat $READ/private/key`
		write   = `echo x >$OUT/plain; touch $OUT/new $HOMEDIR/new $READ/new; echo x >$HOMEDIR/.bashrc; rm -rf $OUT`
		sockets = `for p in /var/run/docker.sock /run/docker.sock /run/dbus/system_bus_socket; do test -e $p && $TOOL attempt dial unix $p && echo WORKED $p; done; find / /run /tmp -xdev -maxdepth 4 -type s 2>/dev/null | head -20 | while read p; do $TOOL attempt dial unix "$p" && echo WORKED "$p"; done`
		machine = `for f in /etc/shadow /etc/gshadow /etc/sudoers; do cat $f && echo WORKED $f; done; ls $STATE/* && echo WORKED; cat /proc/1/environ /proc/kcore; test -e /dev/kmsg && echo WORKED`
	)
	return group{name: "permissive", layouts: []layout{permissive}, attempts: []attempt{
		// One command: each looks at all of the host's files first.
		{name: "permissive-all", script: strings.Join([]string{`grep -q plain $OUT/plain || echo WORKED: the host is not shown, so this shows nothing`, denied, write, sockets, machine, probed("open-devices", "sys-writes", "proc-sys", "cgroup")}, "\n"),
			control: nowhere, why: "it would speak to services of this machine, and read its secrets; the group kernel holds the probes"},
		{name: "permissive-denied", within: "permissive-all", script: denied},
		{name: "permissive-write", within: "permissive-all", script: write},
	}}
}
