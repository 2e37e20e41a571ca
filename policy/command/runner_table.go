package command

import "github.com/bulkhead-dev/sandbox/policy"

// runnerRows is the part of the table of the interpreter check about options
// that name a program, a library or code, in programs that mostly do
// something else.
func runnerRows() []row {
	const medium, high = policy.Medium, policy.High
	const own = "put the commands on the line themselves"
	const file = "put the code into a file of the workspace, where it can be read"
	starts := func(programs, options string) row {
		return row{rule: "starts-program", programs: programs, options: options, severity: high, mark: unknown, message: "starts another program", hint: own}
	}
	words := func(programs, argument string) row {
		return row{rule: "starts-program", programs: programs, argument: argument, severity: high, mark: unknown, message: "starts another program", hint: own}
	}
	code := func(programs, options string) row {
		return row{rule: "code-argument", programs: programs, options: options, severity: medium, message: "runs code that is given as an argument", hint: file}
	}
	return []row{
		// Pagers, editors and viewers.
		words("less more most zless bzless xzless lesspipe", "+*!* +*|* ++*"),
		words("vim nvim vi ex view rvim rview gvim vimdiff nvim-qt evim", "+*!* +*system* +*shell* +*execute* +*python* +*perl* +*lua* +*ruby* +*source* +*terminal* +*job_* +*normal*"),
		starts("rview gvim vimdiff evim", "-c -S --cmd -u"),
		starts("bat batcat delta ag ack exa eza", "--pager"),
		starts("nano pico", "-s --speller"),
		starts("emacsclient kak", "-e --eval"),
		starts("fzf sk", "--preview --bind --execute"),
		words("ranger", "--cmd*"),

		// Version control, other than git.
		words("svn", "--config-option* --editor-cmd* --diff-cmd* --diff3-cmd*"),
		words("hg jj sl", "--config* --config-toml*"),
		words("gh", "alias"),
		{rule: "fetches-program", programs: "gh", sub: "extension install|extension exec|ext install", severity: medium, message: "fetches a program and runs it", hint: "install it first, in a version that is written down"},

		{rule: "git-orders", programs: "git", sub: "bisect run|submodule foreach|submodule --quiet foreach", severity: high, mark: unknown, message: "runs commands that are given to it", hint: own},
		{rule: "git-orders", programs: "git", sub: "rebase", when: gitExecutes, severity: high, mark: unknown, message: "runs commands that are given to it", hint: own},

		// Files and archives.
		starts("install", "--strip-program"),
		starts("diff3", "--diff-program"),
		starts("cpio", "--rsh-command"),
		words("wget", "--use-askpass* use_askpass*"),
		{rule: "settings-file", programs: "curl wget", options: "-K --config -e --execute", severity: medium, mark: never, message: "takes its options from elsewhere", hint: "give the options on the line"},
		{rule: "outside-paths", programs: "tar bsdtar", options: "-P --absolute-names", severity: medium, mark: never, message: "writes wherever the archive says", hint: "leave the option out"},
		{rule: "outside-paths", programs: "git", sub: "apply", argument: "--unsafe-paths --directory=/*", severity: medium, mark: never, message: "writes outside of the repository", hint: "leave the option out"},
		{rule: "link-elsewhere", programs: "ln cp", when: linksAway, severity: high, mark: never, message: "makes a name within the work mean a place around it", hint: "link the file that is needed"},

		// Keys, network and documents.
		starts("ssh", "-I"),
		starts("ssh-keygen", "-D"),
		starts("ssh-add", "-s -S"),
		words("pdflatex latex xelatex lualatex luatex tex pdftex", "*write18* -shell-escape --shell-escape -enable-write18 *directlua*"),
		starts("pandoc", "-F --filter -L --lua-filter"),
		words("groff troff pic", "-U -*U"),
		words("tshark wireshark", "lua_script:*"),
		words("google-chrome chromium chromium-browser chrome electron", "--renderer-cmd-prefix* --utility-cmd-prefix* --gpu-launcher* --browser-subprocess-path* --ppapi-plugin-launcher*"),
		words("dc", "*!*"),
		words("gdb lldb", "shell* !* python* pipe*"),
		{rule: "awk-runs", programs: "awk gawk mawk nawk original-awk", when: awkRuns, severity: high, mark: unknown, message: "runs commands from its program", hint: "let awk print, and do the rest in the shell"},
		words("m4", "*syscmd*"),
		words("gnuplot maxima R swipl", "*system* *shell(*"),
		words("yq", "*load(* *load_str(* *env(* *system(*"),

		// Programs with commands of their own, some of which run a shell.
		{rule: "starts-program", programs: commandReaders, when: readsCommands, severity: high, mark: unknown, message: "is given commands of its own that run a shell", hint: "run the command itself"},
		{rule: "starts-program", programs: "sed gsed awk gawk mawk nawk original-awk", when: scriptFromInput, severity: high, mark: unknown, message: "takes its script from elsewhere, which may run commands", hint: "give the script as an argument"},
		words("lftp", "*!*"),
		{rule: "names-from-file", programs: "tar bsdtar rsync cpio wc du", options: "-T --files-from --files0-from", severity: medium, mark: never, message: "takes the names of files from elsewhere", hint: "name the files"},
		{rule: "names-from-file", programs: "wget", options: "-i --input-file", severity: medium, mark: never, message: "takes addresses from elsewhere", hint: "name the addresses"},

		// Databases.
		words("sqlite3 duckdb", ".sh* .sy* *writefile(* *edit(* .read*|* .once* .excel* .output*"),
		code("mongo mongosh", "--eval"),
		{rule: "code-argument", programs: "redis-cli", sub: "eval|EVAL|config set|CONFIG SET|module load|MODULE LOAD", severity: medium, message: "runs code that is given as an argument", hint: file},

		// Languages.
		{rule: "code-argument", programs: "python pypy", when: runsModuleCode, severity: medium, message: "runs code that is given as an argument", hint: file},
		code("R swipl ocaml nim crystal clojure clj bb jrunscript kotlin gp maxima gnuplot rake", "-e --eval -g --goal -E"),
		{rule: "code-argument", programs: "guile", options: "-c", severity: medium, message: "runs code that is given as an argument", hint: file},
		{rule: "code-argument", programs: "yarn", sub: "node", options: "-e -p --eval --print", severity: medium, message: "runs code that is given as an argument", hint: file},
		{rule: "code-argument", programs: "nim crystal", sub: "e|eval", severity: medium, message: "runs code that is given as an argument", hint: file},
		words("java", "-XX:OnError* -XX:OnOutOfMemoryError* -javaagent:* -agentpath:* -agentlib:*"),
		{rule: "starts-program", programs: "go", when: goLinks, severity: high, mark: unknown, message: "starts another program", hint: own},
		words("rustc cargo", "linker=* -Clinker=* *-Clinker* -Zcodegen-backend* codegen-backend=*"),
		words("gcc g++ cc clang clang++ ld", "-plugin -load -fpass-plugin=* -fuse-ld=*"),
		{rule: "fetches-program", programs: "go", sub: "run", argument: "*@*", severity: medium, message: "fetches a program and runs it", hint: "install it first, in a version that is written down"},
		{rule: "fetches-program", programs: "uv gem bun deno nix", sub: "tool run|exec|x|run nixpkgs*", severity: medium, message: "fetches a program and runs it", hint: "install it first, in a version that is written down"},

		{rule: "fetches-program", programs: "deno", sub: "run", argument: "http://* https://* npm:* jsr:*", severity: medium, message: "fetches a program and runs it", hint: "install it first, in a version that is written down"},
		{rule: "npm-call", programs: "bun", sub: "exec", severity: high, mark: unknown, message: "runs a line of shell", hint: own},
		starts("pnpm", "-c --shell-mode"),

		// Builds and machines elsewhere.
		{rule: "make-input", programs: "make gmake", when: makeReads, severity: high, mark: unknown, message: "runs what it reads, which the text does not tell", hint: "put the rules into a Makefile"},
		{rule: "make-eval", programs: "make gmake", when: makeSets, severity: medium, mark: never, message: "is given a value in which a shell finds a command", hint: file},
		words("bazel", "--run_under*"),
		words("just", "--shell --shell=* --shell-arg* --shell-command*"),
		words("helm", "--post-renderer*"),
		{rule: "remote-command", programs: "ansible fab salt salt-call salt-ssh chef-apply puppet pssh pdsh mussh clush vagrant", severity: medium, mark: never, message: "runs commands in ways that are not read", hint: own},
	}
}
