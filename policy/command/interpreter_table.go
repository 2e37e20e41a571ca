package command

import "github.com/bulkhead-dev/sandbox/policy"

// interpreterRows is the table of the interpreter check: programs that run
// code or commands which the shell's syntax does not show.
func interpreterRows() []row {
	const low, medium, high = policy.Low, policy.Medium, policy.High
	const own = "put the commands on the line themselves"
	const file = "put the code into a file of the workspace, where it can be read"
	return []row{
		// Languages: code in an argument, from a file, from standard input.
		{rule: "code-argument", programs: "python pypy", options: "-c", severity: medium, message: "runs code that is given as an argument", hint: file},
		{rule: "code-argument", programs: "perl", options: "-e -E", severity: medium, message: "runs code that is given as an argument", hint: file},
		{rule: "code-argument", programs: "ruby lua luajit Rscript osascript", options: "-e", severity: medium, message: "runs code that is given as an argument", hint: file},
		{rule: "code-argument", programs: "node nodejs bun", options: "-e -p --eval --print", severity: medium, message: "runs code that is given as an argument", hint: file},
		{rule: "code-argument", programs: "deno", sub: "eval", severity: medium, message: "runs code that is given as an argument", hint: file},
		{rule: "code-argument", programs: "php", options: "-r -R -B -E --run", severity: medium, message: "runs code that is given as an argument", hint: file},
		{rule: "code-argument", programs: "groovy scala elixir iex erl ghc runghc julia racket guile sbcl octave", options: "-e --eval -eval -E", severity: medium, message: "runs code that is given as an argument", hint: file},
		{rule: "code-argument", programs: "pwsh powershell", options: "-c -Command -command -EncodedCommand -e -enc", severity: high, mark: never, message: "runs code that is given as an argument", hint: file},
		{rule: "code-argument", programs: "expect", options: "-c", severity: high, mark: never, message: "runs code that is given as an argument", hint: file},
		{rule: "code-heredoc", programs: interpreters, when: readsWritten, severity: low, message: "runs code that the line holds in a here-document", hint: file},
		{rule: "code-input", programs: interpreters, when: readsUnwritten, severity: medium, message: "runs code from its standard input", hint: file},
		{rule: "preload", programs: "node nodejs bun", options: "-r --require --import --loader --experimental-loader --preload", severity: medium, message: "loads other code first", hint: "let the program load what it needs"},
		{rule: "script", programs: "python pypy perl ruby node nodejs php lua luajit deno bun tclsh Rscript expect osascript", severity: low, message: "runs a program in its own language", hint: own},
		{rule: "preload", programs: "perl ruby", options: "-M -m -I", severity: low, message: "loads other code first", hint: own},
		{rule: "shell-script", programs: shells, severity: medium, message: "runs a script whose commands are not on the line", hint: own},
		{rule: "shell-script", programs: "source .", when: sourcesOther, severity: medium, mark: never, message: "runs a file in this shell", hint: own},
		{rule: "builtin-load", programs: "enable", options: "-f", severity: high, mark: unknown, message: "loads code into the shell", hint: "use programs"},

		// Text tools that start programs or write files.
		{rule: "sed-script", programs: "sed gsed", when: sedActs, severity: medium, mark: never, message: "runs commands or writes files from its script (e, w)", hint: "use a pipe or a redirection instead"},
		{rule: "sed-runs", programs: "sed gsed", when: sedRuns, severity: high, mark: unknown, message: "runs commands from its script (e)", hint: "use a pipe instead"},
		{rule: "script-file", programs: "sed gsed mawk nawk", options: "-f --file", severity: medium, message: "takes its script from a file", hint: own},
		{rule: "script-file", programs: "awk gawk", options: "-f --file -E --exec", severity: medium, message: "takes its script from a file", hint: own},
		{rule: "awk-program", programs: "awk gawk mawk nawk original-awk", when: awkActs, severity: medium, mark: never, message: "runs commands or writes files from its program (system, pipes, getline, >)", hint: "let awk print, and do the rest in the shell"},
		{rule: "script-untold", programs: "sed gsed awk gawk mawk nawk original-awk", when: scriptUnreported, severity: medium, message: "runs a script that has a variable in it", hint: "put the script in single quotes, and give values with -v"},
		{rule: "awk-load", programs: "gawk awk", options: "-l --load -i --include", severity: high, mark: never, message: "loads other code", hint: own},
		{rule: "sort-output", programs: "sort", options: "-o --output", severity: medium, mark: never, message: "writes a file", hint: "use a redirection"},
		{rule: "starts-program", programs: "sort", options: "--compress-program", severity: high, mark: never, message: "starts another program", hint: own},
		{rule: "starts-program", programs: "tar bsdtar", options: "--checkpoint-action --to-command -I --use-compress-program --rsh-command --info-script --new-volume-script -F", severity: high, mark: never, message: "starts another program", hint: own},
		{rule: "starts-program", programs: "rg", options: "--pre --hostname-bin", severity: high, mark: never, message: "starts another program for each file", hint: own},
		{rule: "starts-program", programs: "split", options: "--filter", severity: high, mark: never, message: "starts another program", hint: own},
		{rule: "starts-program", programs: "zip", options: "-T -TT --unzip-command", severity: high, mark: never, message: "starts another program", hint: own},
		{rule: "starts-program", programs: "rsync", options: "-e --rsh --rsync-path", severity: high, mark: never, message: "starts another program", hint: own},
		{rule: "starts-program", programs: "ssh scp sftp", argument: "*ProxyCommand* *PROXYCOMMAND* *proxycommand* *LocalCommand* *localcommand* *KnownHostsCommand* *Include* -F* -S*", severity: high, mark: never, message: "starts another program on this side", hint: own},
		{rule: "starts-program", programs: "man", options: "-P --pager -H --html -p --preprocessor", severity: high, mark: never, message: "starts another program", hint: own},
		{rule: "starts-program", programs: "tcpdump", options: "-z", severity: high, mark: never, message: "starts another program", hint: own},
		{rule: "starts-program", programs: "xterm urxvt gnome-terminal konsole alacritty kitty wezterm st", severity: high, mark: never, message: "starts another program", hint: own},
		{rule: "starts-program", programs: "watch entr parallel nodemon watchexec reflex inotifywait", severity: medium, mark: never, message: "starts commands again and again", hint: "run the command once"},
		{rule: "starts-program", programs: "gdb lldb", severity: medium, mark: never, message: "runs programs and its own commands", hint: own},
		{rule: "starts-program", programs: "strace ltrace valgrind perf", severity: medium, message: "starts another program", hint: own},
		{rule: "starts-program", programs: "ld.so capsh dbus-run-session dbus-send gapplication start-stop-daemon run-parts", severity: high, mark: never, message: "starts other programs", hint: own},
		{rule: "find-writes", programs: "find gfind", options: "-fprint -fprintf -fls -fprint0", severity: medium, mark: never, message: "writes a file", hint: "use a redirection"},
		{rule: "find-executes", programs: "find gfind", options: "-exec -execdir -ok -okdir", severity: low, message: "starts a program for what it finds", hint: own},
		{rule: "fd-executes", programs: "fd fdfind", options: "-x -X --exec --exec-batch", severity: high, mark: never, message: "starts a program for what it finds", hint: own},
		{rule: "editor", programs: "vim nvim vi ex view rvim emacs ed nano less more most", options: "-c -S --cmd --eval -u -e -l --load --funcall -f --batch -es -Es", severity: medium, mark: never, message: "can run commands of the shell", hint: "edit with sed or with a tool of your own"},
		{rule: "editor", programs: "vim nvim vi ex emacs ed nano pico", severity: medium, message: "waits for typed input, and can run commands of the shell", hint: "edit with sed or with a tool of your own"},
		{rule: "database", programs: "sqlite3", argument: "*.shell* *.system* *load_extension* *.import*|* *.output*|* *.once*|* *.load*", severity: high, mark: never, message: "starts programs or loads code", hint: own},
		{rule: "database", programs: "psql mysql", argument: "*\\!* *\\\\!* *COPY*PROGRAM* *copy*program*", severity: high, mark: never, message: "starts programs", hint: own},
		{rule: "database", programs: "mysql mariadb", when: sqlSystem, severity: high, mark: never, message: "starts programs", hint: own},
		{rule: "openssl-load", programs: "openssl", options: "-engine -provider-path -provider", severity: high, mark: never, message: "loads other code", hint: own},
		{rule: "busybox", programs: "toybox", severity: medium, mark: never, message: "is many programs in one", hint: "call the program itself"},

		// git.
		{rule: "git-config", programs: "git", options: "-c --config-env --exec-path", when: gitRuns, severity: high, mark: never, message: "is given what to run for this call", hint: "use git without -c"},
		{rule: "git-elsewhere", programs: "git", options: "--git-dir --work-tree", severity: medium, mark: never, message: "obeys the settings of another folder", hint: "go to the folder first"},
		{rule: "git-config", programs: "git", sub: "config", when: gitSets, severity: high, mark: never, message: "changes what git runs", hint: "leave git's hooks and programs alone"},
		{rule: "git-runs", programs: "git", when: gitStarts, severity: high, mark: never, message: "starts another program", hint: own},
		{rule: "git-remote-helper", programs: "git", argument: "ext::*", severity: high, mark: never, message: "starts another program through a remote helper", hint: "use https or ssh"},
		{rule: "git-hooks", programs: "git", sub: "rebase|bisect|submodule|filter-branch|difftool|mergetool|send-email|daemon|instaweb|credential|fast-import|hook|maintenance|p4|svn|archimport", when: gitOrders, severity: medium, mark: never, message: "runs commands that are given to it", hint: own},

		// Builds and package managers: they run what files say.
		{rule: "build", programs: "make gmake ninja cmake meson bazel buck gradle gradlew mvn mvnw ant sbt rake just task invoke tox nox pytest", severity: low, message: "runs what files of the project say", hint: own},
		{rule: "build", programs: "npm yarn pnpm cargo go pip uv poetry bundle composer dotnet mix stack cabal", severity: low, message: "runs what files of the project say", hint: own},
		{rule: "make-eval", programs: "make gmake", options: "--eval", severity: high, mark: never, message: "runs code that is given as an argument", hint: own},
		{rule: "make-eval", programs: "make gmake", argument: "SHELL=* *=*$(shell* *=*!=*", severity: high, mark: never, message: "runs code that is given as an argument", hint: own},
		{rule: "fetches-program", programs: "npx bunx pnpx uvx pipx", severity: medium, message: "fetches a program and runs it", hint: "install it first, in a version that is written down"},
		{rule: "fetches-program", programs: "npm", sub: "exec|x|init|create", severity: medium, message: "fetches a program and runs it", hint: "install it first, in a version that is written down"},
		{rule: "fetches-program", programs: "yarn pnpm", sub: "dlx|create", severity: medium, message: "fetches a program and runs it", hint: "install it first, in a version that is written down"},
		{rule: "npm-call", programs: "npx npm", options: "-c --call", severity: high, mark: never, message: "runs a line of shell", hint: own},
		{rule: "npm-script-shell", programs: "npm pnpm yarn", argument: "--script-shell* --node-options* --init-module*", severity: high, mark: never, message: "is given what to run scripts with", hint: own},
		{rule: "npm-config", programs: "npm pnpm yarn", sub: "config set|set|c set", severity: high, mark: never, message: "changes what package managers obey", hint: "give the option to the one call that needs it"},
		{rule: "go-exec", programs: "go", options: "-exec -toolexec -vettool -overlay -modfile", severity: high, mark: never, message: "starts another program", hint: own},
		{rule: "go-env", programs: "go", sub: "env", options: "-w -u", severity: high, mark: never, message: "changes what every later call obeys", hint: "give the variable to the one call that needs it"},
		{rule: "cargo-config", programs: "cargo", argument: "--config --config=*", severity: high, mark: never, message: "is given what to run", hint: own},
		{rule: "compiler-plugin", programs: "gcc g++ cc clang clang++", argument: "-fplugin=* -wrapper @* -B* -specs=*", severity: high, mark: never, message: "loads or starts other code", hint: own},
	}
}
