//go:build linux

package local_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// homeGroup opens the person's whole home for writing, which is not wise, and
// looks whether what his programs run later stays closed.
func homeGroup() group {
	open := func(s *fixture) {
		s.spec.Filesystem.AllowWrite = append(s.spec.Filesystem.AllowWrite, s.home)
		s.file(s.home+"/.config/git/config", "[user]\n\tname = x\n")
		s.file(s.home+"/.gitconfig", "[user]\n\tname = y\n")
		s.startup = true
		s.traps = append(s.traps, s.startupTrap)
	}
	return group{name: "home", layouts: []layout{open}, attempts: []attempt{
		{name: "home-shell", script: `for f in .bashrc .profile .bash_profile .bash_login .bash_logout .zshrc .zshenv .zprofile .zlogin .kshrc .mkshrc .inputrc .config/fish/config.fish; do mkdir -p $HOMEDIR/.config/fish; echo 'echo ATTACK' >>$HOMEDIR/$f; done`},
		{name: "home-shell-twins", script: `cd $HOMEDIR; mkdir -p .local/share/fish/vendor_conf.d .local/share/bash-completion/completions; for f in ` + strings.Join(twins(), " ") + `; do echo 'echo ATTACK' >$f; done`},
		{name: "home-services", script: `cd $HOMEDIR; mkdir -p .local/share/systemd/user .local/share/dbus-1/services .config/plasma-workspace/env .config/tmux .local/share/nvim/site/plugin .vim/plugin; mv .local .l2; for f in ` + strings.Join(services(), " ") + `; do mkdir -p ${f%/*}; echo ATTACK >$f; done`},
		{name: "home-shell-replaced", script: `cd $HOMEDIR; echo 'echo ATTACK' >n; mv -f n .bashrc; echo 'echo ATTACK' >n; ln -f n .profile; ln -sf $HOMEDIR/n .bash_profile; rm -f .bashrc; cp n .bashrc`},
		{name: "home-git", script: `cd $HOMEDIR; for f in .gitconfig .config/git/config; do printf '[core]\n\tfsmonitor = ATTACK\n' >>$f; done; mv .config .c2; mkdir -p .config/git; printf '[core]\n\tfsmonitor = ATTACK\n' >.config/git/config`},
		{name: "home-keys", script: `cd $HOMEDIR; cat .ssh/id; echo ATTACK >>.ssh/authorized_keys; mv .ssh .s2; mkdir .ssh; echo ATTACK >.ssh/rc`},
		{name: "home-renamed", script: `mv $HOMEDIR $HOMEDIR.x; mkdir $HOMEDIR; echo ATTACK >$HOMEDIR/.bashrc`},
	}}
}

// twins are run by shells beside, or in place of, the files that people write.
func twins() []string {
	return []string{
		".zshrc.zwc", ".zshenv.zwc", ".zprofile.zwc", ".zlogin.zwc", ".zlogout.zwc", ".zcompdump", ".bash_completion",
		".local/share/fish/vendor_conf.d/x.fish", ".local/share/bash-completion/completions/git",
	}
}

// services are run by other programs at their start.
func services() []string {
	return []string{
		".local/share/systemd/user/x.service", ".local/share/dbus-1/services/x.service", ".config/plasma-workspace/env/x.sh",
		".config/tmux/tmux.conf", ".local/share/nvim/site/plugin/x.lua", ".vim/plugin/x.vim",
	}
}

// startupTrap finds what the attempts put into files that are run later.
func (s *fixture) startupTrap() string {
	for _, f := range slices.Concat(twins(), services(), []string{
		".bashrc", ".profile", ".bash_profile", ".bash_login", ".zshrc", ".zshenv", ".zprofile", ".zlogin",
		".gitconfig", ".config/git/config", ".ssh/authorized_keys", ".ssh/rc",
	}) {
		b, err := os.ReadFile(filepath.Join(s.home, f))
		if err == nil && strings.Contains(string(b), "ATTACK") {
			return "the home's " + f + " was changed"
		}
	}
	return ""
}

// evil is a configuration that runs a program at any look at the repository.
const evil = `printf '[core]\n\trepositoryformatversion = 0\n\tfsmonitor = touch %s; false\n\tbare = false\n' "$MARK"`

// gitGroup has a repository in the agent's folder, in which the person runs
// git afterwards.
func gitGroup() group {
	return group{name: "git", fresh: true, layouts: []layout{repository}, attempts: []attempt{
		{name: "git-hook", script: `for h in pre-commit post-checkout post-commit prepare-commit-msg commit-msg post-index-change reference-transaction; do printf '#!/bin/sh\ntouch %s\n' $MARK >.git/hooks/$h; chmod +x .git/hooks/$h; done`},
		{name: "git-link", script: `git init -q -b main s; cd s; git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x; ` + evil + ` >.git/config; cd ..; git -c core.fsmonitor=false add s`},
		{name: "git-bare-beside", script: `rm .git/HEAD; mkdir -p objects refs; echo "ref: refs/heads/main" >HEAD; { printf '[core]\nrepositoryformatversion = 0\nworktree = .\n'; ` + evil + `; } >config`},
		{name: "git-bare-beside-garbled", script: `echo x >.git/HEAD; mv .git/refs .git/r; mkdir -p objects; rm -f refs; mkdir refs; echo "ref: refs/heads/main" >HEAD; { printf '[core]\nrepositoryformatversion = 0\nworktree = .\n'; ` + evil + `; } >config`},
		{name: "git-hook-other-spelling", script: `for d in .git/../.git/hooks $AGENT/.git/hooks ./.git//hooks .git/./hooks shared/../.git/hooks .git/objects/../hooks; do printf '#!/bin/sh\ntouch %s\n' $MARK >$d/pre-commit; chmod +x $d/pre-commit; done`},
		{name: "git-hook-upper-case", script: `mkdir -p .GIT/hooks; for d in .GIT/hooks .Git/hooks .git/HOOKS; do printf '#!/bin/sh\ntouch %s\n' $MARK >$d/pre-commit; chmod +x $d/pre-commit; done; cp -r .GIT/hooks .git/; mv .GIT .git`},
		{name: "git-hook-moved", script: `mv .git/hooks .git/h2; mkdir .git/hooks; printf '#!/bin/sh\ntouch %s\n' $MARK >.git/hooks/pre-commit; chmod +x .git/hooks/pre-commit`},
		{name: "git-folder-moved", script: `mv .git .git2; cp -r .git2 .git; printf '#!/bin/sh\ntouch %s\n' $MARK >.git/hooks/pre-commit; chmod +x .git/hooks/pre-commit; ` + evil + ` >>.git/config`},
		{name: "git-folder-replaced", script: `rm -rf .git; git init -q .; ` + evil + ` >>.git/config`},
		{name: "git-config", script: `git config core.fsmonitor "touch $MARK; false"; ` + evil + ` >>.git/config; git config core.hooksPath $WS/evil; git config core.pager "touch $MARK"; git config alias.status "!touch $MARK"; mv .git/config .git/c2; ` + evil + ` >.git/config`},
		{name: "git-config-lock", script: evil + ` >.git/config.lock; mv -f .git/config.lock .git/config`},
		{name: "git-config-exchanged", script: evil + ` >n; ` + tried("exchange n .git/config")},
		{name: "git-config-worktree", script: evil + ` >.git/config.worktree; git config extensions.worktreeConfig true`},
		{name: "git-commondir", script: `mkdir -p e/objects e/refs; ` + evil + ` >e/config; echo ../e >.git/commondir`},
		{name: "git-hooks-path", script: `mkdir -p evil; git config core.hooksPath evil; printf '#!/bin/sh\ntouch %s\n' $MARK >evil/pre-commit; chmod +x evil/pre-commit`},
		{name: "git-bare-in-root", script: `mkdir -p objects refs; echo 'ref: refs/heads/main' >HEAD; ` + evil + ` >config; printf '\tworktree = %s\n' $AGENT >>config; mv .git g2`},
		{name: "git-submodule", script: `d=.git/modules/m; printf '#!/bin/sh\ntouch %s\n' $MARK >$d/hooks/pre-commit; chmod +x $d/hooks/pre-commit; ` + evil + ` >>$d/config`},
		{name: "git-submodule-moved", script: `cp -r .git/modules .git/m2; mv .git/modules .git/m3; mv .git/m2 .git/modules; ` + evil + ` >>.git/modules/m/config`},
		{name: "git-submodule-damaged", script: `cp .git/modules/m/HEAD h; echo x >.git/modules/m/HEAD`, then: []string{evil + ` >>.git/modules/m/config; cp h .git/modules/m/HEAD`}},
		{name: "git-pointer-damaged", script: `mkdir -p e/objects e/refs; echo x >.git/modules/m/HEAD`, then: []string{`echo 'ref: refs/heads/main' >e/HEAD; ` + evil + ` >e/config; rm -f mod/.git; echo "gitdir: $AGENT/e" >mod/.git`}},
		{name: "git-nested", script: evil + ` >>nested/.git/config`},
		{name: "git-nested-damaged", script: `cp nested/.git/HEAD h; rm -f nested/.git/HEAD`, then: []string{evil + ` >>nested/.git/config; cp h nested/.git/HEAD`}},
		{name: "git-own-damaged", script: `cp .git/HEAD h; echo x >.git/HEAD`, then: []string{evil + ` >>.git/config; cp h .git/HEAD`}},
		{name: "git-submodule-hidden", script: `mkdir -p .git/modules/dir/objects .git/modules/dir/refs; echo 'ref: refs/heads/main' >.git/modules/dir/HEAD`, then: []string{evil + ` >>.git/modules/dir/deep/config`}},
		{name: "git-pointer", script: `mkdir -p e/objects e/refs; echo 'ref: refs/heads/main' >e/HEAD; ` + evil + ` >e/config; echo "gitdir: $AGENT/e" >p; mv -f p mod/.git; rm -f mod/.git; echo "gitdir: $AGENT/e" >mod/.git`},
	}}
}

// repository makes one with a submodule and a trap for what it might run.
func repository(s *fixture) {
	s.must(os.RemoveAll(s.agent + "/new\nline"))
	s.git(s.agent, "init", "-q", "-b", "main")
	s.git(s.agent, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "first")
	must(s, os.MkdirAll(s.agent+"/.git/hooks", 0o755))
	must(s, os.MkdirAll(s.agent+"/.git/modules", 0o755))
	s.git(s.agent, "init", "-q", "--separate-git-dir", s.agent+"/.git/modules/m", s.agent+"/mod")
	must(s, os.MkdirAll(s.agent+"/.git/modules/m/hooks", 0o755))
	must(s, os.MkdirAll(s.agent+"/.git/modules/dir", 0o755))
	s.git(s.agent, "init", "-q", "--separate-git-dir", s.agent+"/.git/modules/dir/deep", s.agent+"/deep")
	must(s, os.MkdirAll(s.agent+"/nested", 0o755))
	s.git(s.agent+"/nested", "init", "-q", "-b", "main")
	s.trap(s.agent, s.agent+"/mod", s.agent+"/deep", s.agent+"/nested")
}

// trap runs git in dirs as the person would, and tells if something else ran.
func (s *fixture) trap(dirs ...string) {
	mark := s.outside + "/mark"
	s.envs = append(s.envs, "MARK="+mark)
	s.traps = append(s.traps, func() string {
		for _, dir := range dirs {
			for _, args := range [][]string{{"status"}, {"-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "x"}} {
				cmd := exec.Command("git", args...)
				cmd.Dir = dir
				s.asUser(cmd)
				_ = cmd.Run()
			}
			if os.Remove(mark) == nil {
				return "git on the host has run a program from the sandbox in " + dir
			}
		}
		return ""
	})
}

// asUser has a program of the host run as the person whose folders these are.
func (s *fixture) asUser(cmd *exec.Cmd) {
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.home, "GIT_CONFIG_NOSYSTEM=1"}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(s.kit.uid), Gid: uint32(s.kit.uid)}}
	}
}

func (s *fixture) git(dir string, args ...string) {
	s.Helper()
	s.own()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	s.asUser(cmd)
	if out, err := cmd.CombinedOutput(); err != nil {
		s.Fatalf("git %s: %v\n%s", args, err, out)
	}
}

// worktreeGroup has a worktree as the agent's folder; the repository proper
// lies outside of it.
func worktreeGroup() group {
	return group{name: "worktree", fresh: true, layouts: []layout{worktree}, attempts: []attempt{
		{name: "worktree-hook", script: `g=$(git rev-parse --git-common-dir); printf '#!/bin/sh\ntouch %s\n' $MARK >$MAIN/.git/hooks/pre-commit; chmod +x $MAIN/.git/hooks/pre-commit; echo $g`},
		{name: "worktree-config", script: evil + ` >>$MAIN/.git/config; git config core.fsmonitor "touch $MARK; false"; git config --worktree core.fsmonitor "touch $MARK; false"`},
		{name: "worktree-pointer", script: `mkdir -p e/objects e/refs; echo 'ref: refs/heads/main' >e/HEAD; ` + evil + ` >e/config; echo "gitdir: $AGENT/e" >p; mv -f p .git; echo "gitdir: $AGENT/e" >.git`},
		{name: "worktree-commondir", script: `mkdir -p e/objects e/refs; ` + evil + ` >e/config; echo $AGENT/e >$MAIN/.git/worktrees/agent/commondir; echo $AGENT/e >$MAIN/.git/commondir`},
		{name: "worktree-files-of-main", script: `echo x >$MAIN/file; rm -f $MAIN/file; touch $MAIN/new`},
	}}
}

func worktree(s *fixture) {
	main := filepath.Join(filepath.Dir(s.agent), "main")
	s.file(main+"/file", "plain\n")
	s.git(main, "init", "-q", "-b", "main")
	s.git(main, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "first")
	must(s, os.MkdirAll(main+"/.git/hooks", 0o755))
	tmp := s.agent + ".moved"
	must(s, os.Rename(s.agent, tmp))
	s.git(main, "worktree", "add", "-q", "-b", "other", s.agent)
	must(s, os.Rename(s.agent+"/.git", tmp+"/.git"))
	must(s, os.RemoveAll(s.agent))
	must(s, os.Rename(tmp, s.agent))
	s.envs = append(s.envs, "MAIN="+main)
	s.trap(s.agent, main)
	s.traps = append(s.traps, func() string {
		if b, err := os.ReadFile(main + "/file"); err != nil || string(b) != "plain\n" {
			return "a file of the main tree was changed"
		}
		if _, err := os.Lstat(main + "/new"); err == nil {
			return "a file was made in the main tree"
		}
		return ""
	})
}
