package path

// gitRows are what git obeys: a write there is a program that runs at the
// next git command. In a repository "config" and "hooks" are meant in .git and
// in the folders of submodules and worktrees below it.
var gitRows = []row{
	{CategoryGit, high, critical, "git obeys it, and addresses and headers in it may hold passwords", []string{
		"~/.gitconfig", "~/.config/git/config",
		"**/.git/config", "**/.git/config.worktree",
		"**/.git/modules/**/config", "**/.git/modules/**/config.worktree", "**/.git/worktrees/*/config.worktree",
	}, nil},
	{CategoryGit, low, critical, "git obeys it, and runs the programs that it names", []string{
		"~/.config/git", "/etc/gitconfig", "**/.git/commondir", "**/.git/worktrees/*/commondir",
	}, nil},
	{CategoryGit, none, critical, "git runs the hooks in it", []string{
		"**/.git/hooks", "**/.git/modules/**/hooks", "**/.husky/_", "~/.git-templates", "~/.git_template",
	}, nil},
	{CategoryGit, high, high, "git obeys a settings file of this name where it includes one, and addresses and headers in it may hold passwords", []string{"**/.gitconfig"}, nil},
	{CategoryGit, none, medium, "git runs what the project's hooks say", []string{"**/.husky", "**/.githooks", "**/.pre-commit-config.yaml", "**/lefthook.yml"}, nil},
	{CategoryGit, high, critical, "it holds passwords for git", []string{"**/.git-credentials", "~/.config/git/credentials", "~/.git-credential-cache"}, nil},
}

// shellRows are what shells and sessions run at their start, and what they
// remember.
var shellRows = []row{
	{CategoryShell, high, critical, "a shell or session runs it at its start, and variables that it sets may hold passwords", []string{
		"~/.bashrc", "~/.bash_profile", "~/.bash_login", "~/.bash_aliases", "~/.bashrc.d", "~/.profile",
		"~/.zshrc", "~/.zprofile", "~/.zshenv", "~/.zlogin", "~/.kshrc", "~/.mkshrc", "~/.cshrc", "~/.tcshrc", "~/.login",
		"~/.config/fish", "~/.config/zsh", "~/.config/nushell", "~/.config/powershell", "~/.config/direnv",
		"~/.pam_environment", "~/.xprofile", "~/.xsession", "~/.xsessionrc", "~/.xinitrc", "~/.config/environment.d",
	}, nil},
	{CategoryShell, none, critical, "a shell or session runs it at its start or end", []string{
		"~/.bash_logout", "~/.inputrc", "~/.zlogout", "~/.oh-my-zsh", "~/.config/starship.toml", "~/.xserverrc",
		"~/.config/systemd", "~/.config/autostart", "~/.local/share/systemd", "~/Library/LaunchAgents",
		"~/.tmux.conf", "~/.config/tmux", "~/.screenrc", "~/.config/kitty", "~/.config/alacritty", "~/.Xresources", "~/.selected_editor",
	}, nil},
	{CategoryShell, high, high, "a shell runs a file of this name at its start, and variables that it sets may hold passwords", []string{
		"**/.bashrc", "**/.bash_profile", "**/.bash_login", "**/.profile", "**/.zshrc", "**/.zprofile", "**/.zshenv", "**/.zlogin",
	}, nil},
	{CategoryShell, none, high, "a shell runs a file of this name at its start or end", []string{"**/.bash_logout", "**/.inputrc", "**/.zlogout"}, nil},
	{CategoryHistory, high, high, "it remembers what was typed, passwords included", []string{
		"**/.bash_history", "**/.zsh_history", "**/.sh_history", "**/.ksh_history", "**/.histfile", "~/.history",
		"~/.local/share/fish/fish_history", "~/.config/fish/fish_history", "~/.local/share/nushell", "~/.config/nushell/history.txt", "~/.zsh_sessions", "~/.bash_sessions",
		"**/.python_history", "**/.node_repl_history", "**/.irb_history", "**/.psql_history", "**/.mysql_history", "**/.sqlite_history",
		"**/.rediscli_history", "**/.dbshell", "~/.lesshst", "~/.viminfo", "~/.local/state/nvim", "~/.wget-hsts",
	}, nil},
}

// editorRows are what editors and agents run or obey.
var editorRows = []row{
	{CategoryEditor, high, high, "an editor obeys it, and settings in it may hold passwords", []string{
		"**/.vscode/settings.json", "**/.vscode/mcp.json", "**/*.code-workspace", "**/.zed/settings.json", "**/.fleet/settings.json",
	}, nil},
	{CategoryEditor, low, high, "an editor obeys it, and runs the tasks that it names", []string{
		"**/.vscode/tasks.json", "**/.vscode/launch.json", "**/.vscode/extensions.json",
		"**/.zed", "**/.devcontainer", "**/.devcontainer.json", "**/.fleet", "**/.nova", "**/.sublime-project",
	}, nil},
	{CategoryEditor, high, high, "an editor obeys it; it may hold passwords of databases and servers", []string{"**/.idea"}, nil},
	{CategoryEditor, high, high, "it holds passwords of databases and servers", []string{"**/.idea/dataSources.local.xml", "**/.idea/webServers.xml"}, nil},
	{CategoryEditor, none, high, "an editor runs it when a file of the folder is opened", []string{
		"**/.exrc", "**/.nvimrc", "**/.nvim.lua", "**/.vimrc", "**/.gvimrc", "**/.dir-locals.el", "**/.lvimrc",
	}, nil},
	{CategoryEditor, none, critical, "an editor runs it at its start", []string{
		"~/.vimrc", "~/.gvimrc", "~/.vim", "~/.exrc", "~/.nanorc", "~/.config/nano", "~/.config/nvim", "~/.config/vim", "~/.emacs", "~/.emacs.d", "~/.config/emacs",
		"~/.config/helix",
	}, nil},
	{CategoryEditor, high, critical, "an editor runs what is in it at its start, and keeps sessions and passwords there", []string{
		"~/.config/zed", "~/.config/sublime-text", "~/.config/Code/User", "~/.config/VSCodium/User", "~/.config/Cursor/User",
		"~/.vscode", "~/.vscode-server", "~/.vscode-oss", "~/.cursor-server", "~/Library/Application Support/Code/User", "~/Library/Application Support/Cursor/User",
		"~/.config/JetBrains", "~/Library/Application Support/JetBrains",
	}, nil},
	{CategoryAgent, none, critical, "agents take settings, skills and hooks from it", []string{
		"**/.claude", "**/.agents", "**/.codex", "**/.cursor", "**/.gemini", "**/.opencode", "**/.windsurf", "**/.roo", "**/.clinerules", "**/.continue",
		"~/.config/opencode", "~/.config/goose", "~/.aider.conf.yml", "~/.claude.json", "~/.openclaw", "~/.config/sandbox", "~/.local/state/sandbox",
	}, nil},
	{CategoryAgent, none, high, "agents start the servers that it names", []string{"**/.mcp.json", "**/.cursorrules", "**/.windsurfrules", "**/.aider.conf.yml"}, nil},
	{CategoryAgent, high, critical, "it holds credentials of an agent", []string{
		"~/.claude/.credentials.json", "~/.codex/auth.json", "~/.gemini/oauth_creds.json", "~/.config/github-copilot",
		"~/.local/share/opencode/auth.json", "~/.config/sandbox/tokens", "~/.local/state/sandbox/tokens", "~/.openclaw/credentials",
	}, nil},
}
