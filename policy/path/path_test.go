package path_test

import (
	"testing"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/policy"
	"github.com/bulkhead-dev/sandbox/policy/path"
)

// compiled returns the policy of a workspace in a home, as o changes it.
func compiled(t testing.TB, o path.Options) *path.Policy {
	t.Helper()
	if o.Home == "" {
		o.Home = "/home/u"
	}
	if o.WorkRoots == nil {
		o.WorkRoots = []string{"/work"}
	}
	p, err := path.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

const (
	read  = sandbox.OpRead
	write = sandbox.OpWrite
	allow = policy.Allow
	ask   = policy.Ask
	deny  = policy.Deny
)

// TestJudgeTable holds the table of sensitive files, reads and writes apart.
func TestJudgeTable(t *testing.T) {
	p := compiled(t, path.Options{WorkRoots: []string{"/"}})
	tests := []struct {
		path        string
		read, write policy.Verdict
		category    path.Category // of the write, or of the read where writing is allowed
	}{
		{"/work/main.go", allow, allow, ""},
		{"/work/.gitignore", allow, allow, ""},
		{"/work/.github/workflows/ci.yml", allow, allow, ""},
		{"/work/environment.go", allow, allow, ""},
		{"/work/secrets.go", allow, allow, ""},
		{"/work/secrets/doc.md", allow, allow, ""},
		{"/work/id.go", allow, allow, ""},
		{"/work/.config/git/x", allow, allow, ""},
		{"/work/.docker/nginx.conf", allow, allow, ""},
		{"/etc/hostname", allow, allow, ""},
		{"/etc/passwd", allow, deny, path.CategorySystem},
		{"/home/u", allow, allow, ""},
		{"/home/u/.cache/x", allow, allow, ""},

		{"/work/.git/config", ask, deny, path.CategoryGit},
		{"/work/.git/hooks", allow, deny, path.CategoryGit},
		{"/work/.git/hooks/pre-commit", allow, deny, path.CategoryGit},
		{"/work/.git/modules/a/b/hooks/x", allow, deny, path.CategoryGit},
		{"/work/.git/worktrees/w/config.worktree", ask, deny, path.CategoryGit},
		{"/work/.git/objects/ab/cd", allow, allow, ""},
		{"/work/.git/HEAD", allow, allow, ""},
		{"/home/u/.gitconfig", ask, deny, path.CategoryGit},
		{"/root/.gitconfig", ask, deny, path.CategoryGit},
		{"/work/.gitconfig", ask, ask, path.CategoryGit},
		{"/home/u/.config/git/config", ask, deny, path.CategoryGit},
		{"/home/u/.git-credentials", ask, deny, path.CategoryGit},
		{"/work/.git/modules/a/config", ask, deny, path.CategoryGit},
		{"/work/sub/.git/config.worktree", ask, deny, path.CategoryGit},
		{"/work/.git/commondir", allow, deny, path.CategoryGit},
		{"/home/u/.config/git/ignore", allow, deny, path.CategoryGit},
		{"/etc/gitconfig", allow, deny, path.CategoryGit},

		{"/home/u/.bashrc", ask, deny, path.CategoryShell},
		{"/home/other/.zshenv", ask, deny, path.CategoryShell},
		{"/Users/other/.zshenv", ask, deny, path.CategoryShell},
		{"/work/.bashrc", ask, ask, path.CategoryShell},
		{"/home/u/.config/fish/conf.d/a.fish", ask, deny, path.CategoryShell},
		{"/home/u/.profile", ask, deny, path.CategoryShell},
		{"/home/u/.bashrc.d/tokens", ask, deny, path.CategoryShell},
		{"/home/u/.inputrc", allow, deny, path.CategoryShell},
		{"/home/u/.bash_logout", allow, deny, path.CategoryShell},
		{"/work/dots/.zprofile", ask, ask, path.CategoryShell},
		{"/work/.inputrc", allow, ask, path.CategoryShell},
		{"/home/u/.bash_history", ask, ask, path.CategoryHistory},
		{"/work/.psql_history", ask, ask, path.CategoryHistory},

		{"/home/u/.ssh", ask, deny, path.CategorySSH},
		{"/home/u/.ssh/authorized_keys", ask, deny, path.CategorySSH},
		{"/work/backup/.ssh/id_rsa", ask, deny, path.CategorySSH},
		{"/etc/ssh/ssh_host_rsa_key", ask, deny, path.CategorySSH},
		{"/etc/ssh/sshd_config", allow, deny, path.CategorySSH},
		{"/home/u/.aws/credentials", ask, deny, path.CategoryCloud},
		{"/home/u/.config/gcloud/x", ask, deny, path.CategoryCloud},
		{"/work/prod.tfvars", ask, ask, path.CategoryCloud},
		{"/home/u/.docker/config.json", ask, deny, path.CategoryContainer},
		{"/home/u/.docker", ask, deny, path.CategoryContainer},
		{"/home/u/.docker/buildx/x", ask, deny, path.CategoryContainer},
		{"/work/.docker/config.json", ask, deny, path.CategoryContainer},
		{"/work/.docker/contexts/meta/x", ask, deny, path.CategoryContainer},
		{"/run/docker.sock", deny, deny, path.CategoryContainer},
		{"/var/run/docker.sock", deny, deny, path.CategoryContainer},
		{"/home/u/.kube/config", ask, deny, path.CategoryContainer},
		{"/var/run/secrets/kubernetes.io/serviceaccount/token", ask, deny, path.CategoryContainer},
		{"/home/u/.gnupg/private-keys-v1.d", ask, deny, path.CategoryKeys},
		{"/work/id_ed25519", ask, ask, path.CategoryKeys},
		{"/work/id_ed25519.pub", allow, allow, ""},
		{"/work/tls/server.key", ask, ask, path.CategoryKeys},
		{"/work/tls/server.pem", ask, ask, path.CategoryKeys},
		{"/work/tls/cacert.pem", allow, allow, ""},

		{"/home/u/.npmrc", ask, deny, path.CategoryPackages},
		{"/work/.npmrc", ask, ask, path.CategoryPackages},
		{"/work/.netrc", ask, deny, path.CategoryPackages},
		{"/home/u/.cargo/credentials.toml", ask, deny, path.CategoryPackages},
		{"/home/u/.cargo/config.toml", allow, deny, path.CategoryPackages},
		{"/home/u/.cargo/bin/x", allow, allow, ""},
		{"/home/u/.config/go/env", allow, deny, path.CategoryPackages},
		{"/home/u/.local/lib/python3.12/site-packages/x.pth", allow, deny, path.CategoryPackages},

		{"/work/.env", ask, ask, path.CategoryEnvironment},
		{"/work/.env.production", ask, ask, path.CategoryEnvironment},
		{"/work/.env.example", allow, allow, ""},
		{"/work/a/.env.local.sample", allow, allow, ""},
		{"/work/.env.template", allow, allow, ""},
		{"/work/.envrc", ask, ask, path.CategoryEnvironment},
		{"/work/prod.env", ask, ask, path.CategoryEnvironment},
		{"/work/config/secrets.yaml", ask, ask, path.CategorySecrets},
		{"/work/.secrets", ask, ask, path.CategorySecrets},
		{"/work/credentials.json", ask, ask, path.CategorySecrets},
		{"/home/u/.pgpass", ask, ask, path.CategorySecrets},
		{"/home/u/.my.cnf", ask, ask, path.CategorySecrets},
		{"/home/u/.password-store/a.gpg", ask, deny, path.CategoryPasswords},
		{"/home/u/.mozilla/firefox", ask, deny, path.CategoryPasswords},
		{"/home/u/.config/google-chrome-beta/Default", ask, deny, path.CategoryPasswords},
		{"/work/all.kdbx", ask, deny, path.CategoryPasswords},

		{"/work/.vscode/settings.json", ask, ask, path.CategoryEditor},
		{"/work/.vscode/snippets.json", allow, allow, ""},
		{"/work/.idea/workspace.xml", ask, ask, path.CategoryEditor},
		{"/work/.idea/dataSources.local.xml", ask, ask, path.CategoryEditor},
		{"/work/.idea", ask, ask, path.CategoryEditor},
		{"/work/a.code-workspace", ask, ask, path.CategoryEditor},
		{"/work/.vscode/mcp.json", ask, ask, path.CategoryEditor},
		{"/work/.vscode/tasks.json", allow, ask, path.CategoryEditor},
		{"/work/.vscode", allow, allow, ""},
		{"/work/.zed/settings.json", ask, ask, path.CategoryEditor},
		{"/work/.zed/tasks.json", allow, ask, path.CategoryEditor},
		{"/home/u/.config/Code/User/settings.json", ask, deny, path.CategoryEditor},
		{"/home/u/.vscode-server/data/x", ask, deny, path.CategoryEditor},
		{"/home/u/.config/nvim/init.lua", allow, deny, path.CategoryEditor},
		{"/home/u/.vimrc", allow, deny, path.CategoryEditor},
		{"/work/.claude/skills/x/SKILL.md", allow, deny, path.CategoryAgent},
		{"/home/u/.codex/auth.json", ask, deny, path.CategoryAgent},
		{"/work/.mcp.json", allow, ask, path.CategoryAgent},

		{"/etc/shadow", deny, deny, path.CategorySystem},
		{"/etc/sudoers.d/x", ask, deny, path.CategorySystem},
		{"/etc/cron.d/x", allow, deny, path.CategorySystem},
		{"/etc/ld.so.preload", allow, deny, path.CategorySystem},
		{"/proc/1/environ", ask, deny, path.CategoryProcess},
		{"/proc/self/environ", ask, deny, path.CategoryProcess},
		{"/proc/self/mem", deny, deny, path.CategoryProcess},
		{"/proc/self/exe", allow, deny, path.CategoryProcess},
		{"/proc/self/status", allow, allow, ""},
		{"/proc/cpuinfo", allow, allow, ""},
		{"/proc/sys/kernel/core_pattern", allow, deny, path.CategoryProcess},
		{"/dev/sda", ask, deny, path.CategoryDevice},
		{"/dev/nvme0n1p1", ask, deny, path.CategoryDevice},
		{"/dev/null", allow, allow, ""},
		{"/dev/tty", allow, allow, ""},
		{"/dev/fd/63", allow, allow, ""},
		{"/dev/stderr", allow, allow, ""},
		{"/proc/self/fd/1", allow, allow, ""},
	}
	for _, tt := range tests {
		r, w := p.Judge(read, tt.path), p.Judge(write, tt.path)
		if r.Verdict != tt.read || w.Verdict != tt.write {
			t.Errorf("%s: read %s, write %s; want %s, %s (%s)", tt.path, r.Verdict, w.Verdict, tt.read, tt.write, w.Rule)
		}
		got := w.Category
		if w.Verdict == allow {
			got = ""
		}
		if got != tt.category {
			t.Errorf("%s: category %q, want %q", tt.path, got, tt.category)
		}
		for _, d := range []path.Decision{r, w} {
			if (d.Verdict != allow) != (d.Hint != "") || d.Verdict != allow && (d.Message == "" || d.Rule == "" || d.Severity == 0) {
				t.Errorf("%s: not explained: %+v", tt.path, d)
			}
		}
	}
}

// listed are the names of the policy guide (document 004) that concern git,
// shells, the container engine and editors.
var listed = []string{
	".gitconfig", ".git/config", ".bashrc", ".bash_profile", ".bash_history", ".zshrc", ".zsh_history", ".profile", ".zprofile",
	".docker/config.json", ".vscode/settings.json", ".idea/workspace.xml",
}

// TestReadsOfTheGuide holds that reading what the policy guide lists is asked
// about, and denied under strict, in the home of the host and in the work; and
// that the private home of a sandbox is not the host's.
func TestReadsOfTheGuide(t *testing.T) {
	own := path.Options{Home: "/home/sandbox", HostHome: "/data/me", PrivateHome: true, WorkRoots: []string{"/work", "/home/sandbox"}}
	strict := own
	strict.Strict = true
	shown := own
	shown.PrivateHome = false
	for _, name := range listed {
		judgeReads(t, "own", own, map[string]policy.Verdict{
			"/data/me/" + name: ask, "/home/other/" + name: ask, "/root/" + name: ask, "/work/" + name: ask, "/work/a/b/" + name: ask, "/home/sandbox/" + name: allow,
		})
		judgeReads(t, "strict", strict, map[string]policy.Verdict{"/data/me/" + name: deny, "/work/" + name: deny, "/home/sandbox/" + name: allow})
		judgeReads(t, "shown", shown, map[string]policy.Verdict{"/home/sandbox/" + name: ask})
	}
	judgeReads(t, "whole folders", own, map[string]policy.Verdict{"/data/me/.docker": ask, "/data/me/.docker/cli-plugins/x": ask, "/work/.docker/nginx.conf": allow, "/work/.idea": ask})
}

func judgeReads(t *testing.T, name string, o path.Options, want map[string]policy.Verdict) {
	t.Helper()
	p := compiled(t, o)
	for file, v := range want {
		if d := p.Judge(read, file); d.Verdict != v || v != allow && d.Hint == "" {
			t.Errorf("%s: reading %s is %+v, want %s", name, file, d, v)
		}
	}
}
