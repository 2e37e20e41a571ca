package hostscan

import (
	"path"
	"slices"

	"github.com/bulkhead-dev/sandbox/internal/hostpath"
)

// A protectPlace is one path to close for writing.
type protectPlace struct {
	path string
	dir  bool // the stub of a missing path is a folder; otherwise a file
	keep bool // a missing path stays missing
	rule string
}

// A line of a table is a path relative to a folder.
type line struct {
	rel  string
	dir  bool
	keep bool
}

// startup lists the files and folders of a home that programs run or apply
// without a question: at a login, at the start of a shell, at the next use of
// git. It leaves out the folders of programs that users install for themselves
// (~/.local/bin, ~/go/bin): a user who opens the home for writing opens these
// too.
var startup = []line{
	{".bashrc", false, true}, {".bash_profile", false, true}, {".bash_login", false, true}, {".bash_logout", false, true},
	{".bash_aliases", false, true}, {".profile", false, true}, {".inputrc", false, true}, {".bashrc.d", true, true},
	{".bash_completion", false, true}, {".config/bash_completion", false, true}, {".local/share/bash-completion", true, true},
	{".zshrc", false, true}, {".zprofile", false, true}, {".zshenv", false, true}, {".zlogin", false, true}, {".zlogout", false, true},
	// Compiled files, which zsh runs in place of the sources, and its
	// completion cache.
	{".zshrc.zwc", false, true}, {".zprofile.zwc", false, true}, {".zshenv.zwc", false, true}, {".zlogin.zwc", false, true},
	{".zlogout.zwc", false, true}, {".zcompdump", false, true}, {".zcompdump.zwc", false, true},
	{".kshrc", false, true}, {".mkshrc", false, true}, {".cshrc", false, true}, {".tcshrc", false, true}, {".login", false, true},
	{".config/fish", true, true}, {".config/zsh", true, true}, {".config/nushell", true, true}, {".config/powershell", true, true},
	{".local/share/fish/vendor_conf.d", true, true}, {".local/share/fish/vendor_functions.d", true, true},
	{".local/share/fish/vendor_completions.d", true, true},
	{".envrc", false, true}, {".config/direnv", true, true},
	{".gitconfig", false, true}, {".config/git", true, true},
	{".pam_environment", false, true}, {".xprofile", false, true}, {".xsession", false, true}, {".xsessionrc", false, true}, {".xinitrc", false, true},
	{".config/systemd", true, true}, {".config/environment.d", true, true}, {".config/autostart", true, true},
	{".config/plasma-workspace", true, true}, {".local/share/systemd/user", true, true}, {".local/share/dbus-1/services", true, true},
	{".tmux.conf", false, true}, {".config/tmux", true, true}, {".screenrc", false, true}, {".vimrc", false, true}, {".vim", true, true},
	{".config/nvim", true, true}, {".local/share/nvim/site", true, true},
	{"Library/LaunchAgents", true, true},
}

// stray lists start-up files that are closed only where they exist: in a folder
// that is no home no program reads a new one, but users who keep their dotfiles
// there link to them. direnv asks before it reads a new .envrc.
var stray = []line{
	{".bashrc", false, false}, {".bash_profile", false, false}, {".bash_login", false, false}, {".bash_logout", false, false},
	{".profile", false, false}, {".inputrc", false, false}, {".zshrc", false, false}, {".zprofile", false, false},
	{".zshenv", false, false}, {".zlogin", false, false}, {".zlogout", false, false}, {".config/fish", true, false},
	{".envrc", false, false}, {".gitconfig", false, false},
}

// agents lists the folders from which agents on the host take instructions,
// skills, commands and hooks. They are closed as a whole: to close single
// missing files in them would require stubs, which could end up in commits.
//
// In other writable folders only existing ones are closed: agents ask before
// they trust a folder that they have not worked in. Deeper folders, such as the
// .claude of one part of a repository, stay open; otherwise package folders
// that contain one could not be removed. A user who starts an agent there
// trusts its content.
var agents = []line{
	{".claude", true, true}, {".agents", true, true}, {".codex", true, true}, {".cursor", true, true}, {".gemini", true, true},
	{".opencode", true, true}, {".mcp.json", false, false},
}

// skills is the folder from which this project fills scratch workspaces. Many
// projects use the name for something else, so it is closed only where it
// exists.
var skills = []line{{"skills", true, false}}

// editors lists settings folders of editors, which ask before they trust a
// folder, as agents do. The user already trusts the agent's own folder, so the
// folders that editors take tasks and programs from are kept missing there. The
// rest is closed only where it exists.
var editors = []line{
	{".vscode", true, true}, {".idea", true, true}, {".zed", true, true}, {".devcontainer", true, false},
	{".vim", true, false}, {".exrc", false, false}, {".nvim.lua", false, false},
}

// places returns the lines of all tables in writable folders.
func (q ProtectRequest) places() []protectPlace {
	var out []protectPlace
	seen := map[string]bool{}
	roots := q.roots()
	add := func(dir, rule string, lines []line) {
		if !slices.ContainsFunc(roots, func(r string) bool { return hostpath.Within(dir, r) || hostpath.Within(r, dir) }) {
			return // nothing in it is writable
		}
		for _, l := range lines {
			p := protectPlace{path.Join(dir, l.rel), l.dir, l.keep, rule}
			open := false
			for _, r := range roots {
				open = open || hostpath.Within(p.path, r)
			}
			if open && !seen[p.path] {
				seen[p.path] = true
				out = append(out, p)
			}
		}
	}
	if q.Home != "" {
		add(q.Home, ruleStartup, startup)
		add(q.Home, ruleAgent, agents)
		add(q.Home, ruleAgent, []line{{".claude.json", false, true}})
	}
	if q.Own != "" {
		add(q.Own, ruleAgent, agents)
		add(q.Own, ruleAgent, skills)
		add(q.Own, ruleEditor, editors)
	}
	for _, r := range roots {
		add(r, ruleStartup, stray)
		add(r, ruleAgent, present(agents))
		add(r, ruleEditor, present(editors))
	}
	return out
}

// present returns the lines without keep.
func present(lines []line) []line {
	out := slices.Clone(lines)
	for i := range out {
		out[i].keep = false
	}
	return out
}
