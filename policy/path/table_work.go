package path

// gitRows are what git obeys: a write there is a program that runs at the
// next git command. In a repository "config" and "hooks" are meant in .git and
// in the folders of submodules and worktrees below it.
var gitRows = []row{
	{CategoryGit, low, critical, "git obeys it, and runs the programs that it names", []string{
		"~/.gitconfig", "~/.config/git", "/etc/gitconfig",
		"**/.git/config", "**/.git/config.worktree", "**/.git/commondir",
		"**/.git/modules/**/config", "**/.git/modules/**/config.worktree", "**/.git/worktrees/*/config.worktree", "**/.git/worktrees/*/commondir",
	}, nil},
	{CategoryGit, none, critical, "git runs the hooks in it", []string{
		"**/.git/hooks", "**/.git/modules/**/hooks", "**/.husky/_", "~/.git-templates", "~/.git_template",
	}, nil},
	{CategoryGit, none, high, "git obeys a settings file of this name where it includes one", []string{"**/.gitconfig"}, nil},
	{CategoryGit, none, medium, "git runs what the project's hooks say", []string{"**/.husky", "**/.githooks", "**/.pre-commit-config.yaml", "**/lefthook.yml"}, nil},
	{CategoryGit, high, critical, "it holds passwords for git", []string{"**/.git-credentials", "~/.config/git/credentials", "~/.git-credential-cache"}, nil},
}

// shellRows are what shells and sessions run at their start, and what they
// remember.
var shellRows = []row{
	{CategoryShell, none, critical, "a shell or session runs it at its start", []string{
		"~/.bashrc", "~/.bash_profile", "~/.bash_login", "~/.bash_logout", "~/.bash_aliases", "~/.bashrc.d", "~/.profile", "~/.inputrc",
		"~/.zshrc", "~/.zprofile", "~/.zshenv", "~/.zlogin", "~/.zlogout", "~/.oh-my-zsh", "~/.kshrc", "~/.mkshrc", "~/.cshrc", "~/.tcshrc", "~/.login",
		"~/.config/fish", "~/.config/zsh", "~/.config/nushell", "~/.config/powershell", "~/.config/starship.toml", "~/.config/direnv",
		"~/.pam_environment", "~/.xprofile", "~/.xsession", "~/.xsessionrc", "~/.xinitrc", "~/.xserverrc",
		"~/.config/systemd", "~/.config/environment.d", "~/.config/autostart", "~/.local/share/systemd", "~/Library/LaunchAgents",
		"~/.tmux.conf", "~/.config/tmux", "~/.screenrc", "~/.config/kitty", "~/.config/alacritty", "~/.Xresources", "~/.selected_editor",
	}, nil},
	{CategoryShell, none, high, "a shell runs a file of this name at its start", []string{
		"**/.bashrc", "**/.bash_profile", "**/.bash_login", "**/.bash_logout", "**/.profile", "**/.inputrc",
		"**/.zshrc", "**/.zprofile", "**/.zshenv", "**/.zlogin", "**/.zlogout",
	}, nil},
	{CategoryHistory, high, high, "it remembers what was typed, passwords included", []string{
		"**/.bash_history", "**/.zsh_history", "**/.sh_history", "**/.ksh_history", "**/.histfile", "~/.history",
		"~/.local/share/fish/fish_history", "~/.config/fish/fish_history", "~/.local/share/nushell", "~/.config/nushell/history.txt", "~/.zsh_sessions", "~/.bash_sessions",
		"**/.python_history", "**/.node_repl_history", "**/.irb_history", "**/.psql_history", "**/.mysql_history", "**/.sqlite_history",
		"**/.rediscli_history", "**/.dbshell", "~/.lesshst", "~/.viminfo", "~/.local/state/nvim", "~/.wget-hsts",
	}, nil},
}

// editorRows are what editors and agents run or obey.
var editorRows = []row{
	{CategoryEditor, low, high, "an editor obeys it, and runs the tasks that it names", []string{
		"**/.vscode/settings.json", "**/.vscode/tasks.json", "**/.vscode/launch.json", "**/.vscode/extensions.json", "**/.vscode/mcp.json",
		"**/*.code-workspace", "**/.zed", "**/.devcontainer", "**/.devcontainer.json", "**/.fleet", "**/.nova", "**/.sublime-project",
	}, nil},
	{CategoryEditor, low, high, "an editor obeys it; it may hold passwords of databases and servers", []string{"**/.idea"}, nil},
	{CategoryEditor, high, high, "it holds passwords of databases and servers", []string{"**/.idea/dataSources.local.xml", "**/.idea/webServers.xml"}, nil},
	{CategoryEditor, none, high, "an editor runs it when a file of the folder is opened", []string{
		"**/.exrc", "**/.nvimrc", "**/.nvim.lua", "**/.vimrc", "**/.gvimrc", "**/.dir-locals.el", "**/.lvimrc",
	}, nil},
	{CategoryEditor, none, critical, "an editor runs it at its start", []string{
		"~/.vimrc", "~/.gvimrc", "~/.vim", "~/.exrc", "~/.nanorc", "~/.config/nano", "~/.config/nvim", "~/.config/vim", "~/.emacs", "~/.emacs.d", "~/.config/emacs",
		"~/.config/helix", "~/.config/zed", "~/.config/sublime-text", "~/.config/Code/User", "~/.config/VSCodium/User", "~/.config/Cursor/User",
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
