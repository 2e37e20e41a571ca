package hostscan

import (
	"path"
	"slices"
)

// A place is one path to close for writing.
type protectPlace struct {
	path string
	dir  bool // what is missing is made a folder for a while; otherwise a file
	keep bool // what is missing stays missing
	rule string
}

// A line of a table is a path below a folder.
type line struct {
	rel  string
	dir  bool
	keep bool
}

// startup are files and folders of a home that something runs or obeys
// without being asked: at a login, at the start of a shell, at the next use of
// git. Programs that a person installs for himself (~/.local/bin, ~/go/bin)
// are not here: whoever opens the home for writing opens these.
var startup = []line{
	{".bashrc", false, true}, {".bash_profile", false, true}, {".bash_login", false, true}, {".bash_logout", false, true},
	{".bash_aliases", false, true}, {".profile", false, true}, {".inputrc", false, true}, {".bashrc.d", true, true},
	{".bash_completion", false, true}, {".config/bash_completion", false, true}, {".local/share/bash-completion", true, true},
	{".zshrc", false, true}, {".zprofile", false, true}, {".zshenv", false, true}, {".zlogin", false, true}, {".zlogout", false, true},
	// Compiled twins, which zsh runs in place of the files, and what it keeps of
	// its completions.
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

// stray are start-up files that count only where somebody put them: in a
// folder that is no home nothing reads one that appears, but a person who
// keeps his dotfiles there links to them. direnv asks before it reads a new
// .envrc.
var stray = []line{
	{".bashrc", false, false}, {".bash_profile", false, false}, {".bash_login", false, false}, {".bash_logout", false, false},
	{".profile", false, false}, {".inputrc", false, false}, {".zshrc", false, false}, {".zprofile", false, false},
	{".zshenv", false, false}, {".zlogin", false, false}, {".zlogout", false, false}, {".config/fish", true, false},
	{".envrc", false, false}, {".gitconfig", false, false},
}

// agents are folders from which agents on the host take instructions, skills,
// commands and hooks. They are closed as a whole: to close single files in
// them, missing ones would have to be made for a while, and end up in commits.
//
// In other folders that can be written only what is there counts: agents ask
// before they trust a folder in which they have not been. What lies deeper,
// such as the .claude of one part of a repository, stays open, or folders of
// packages that hold one could not be removed: whoever starts an agent there
// trusts what was written there.
var agents = []line{
	{".claude", true, true}, {".agents", true, true}, {".codex", true, true}, {".cursor", true, true}, {".gemini", true, true},
	{".opencode", true, true}, {".mcp.json", false, false},
}

// skills is the folder that this project seeds scratch workspaces from. Many
// projects have another use for the name, so it counts only where it exists.
var skills = []line{{"skills", true, false}}

// editors ask before they trust a folder, as agents do. The agent's own is one
// that the person trusts already, so the folders that editors take tasks and
// programs from stay missing there. The rest counts only where it is.
var editors = []line{
	{".vscode", true, true}, {".idea", true, true}, {".zed", true, true}, {".devcontainer", true, false},
	{".vim", true, false}, {".exrc", false, false}, {".nvim.lua", false, false},
}

// places returns the lines of all tables that lie in folders which can be
// written.
func (q ProtectRequest) places() []protectPlace {
	var out []protectPlace
	seen := map[string]bool{}
	roots := q.roots()
	add := func(dir, rule string, lines []line) {
		if !slices.ContainsFunc(roots, func(r string) bool { return protectWithin(dir, r) || protectWithin(r, dir) }) {
			return // nothing in it can be written
		}
		for _, l := range lines {
			p := protectPlace{path.Join(dir, l.rel), l.dir, l.keep, rule}
			open := false
			for _, r := range roots {
				open = open || protectWithin(p.path, r)
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

// present returns the lines without keeping what is missing.
func present(lines []line) []line {
	out := slices.Clone(lines)
	for i := range out {
		out[i].keep = false
	}
	return out
}
