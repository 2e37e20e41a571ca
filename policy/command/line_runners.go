package command

import (
	"slices"
	"strings"
)

// runners are further programs that run the command in their arguments, as
// their manuals say. Options that are not listed make what runs unknown.
var runners = map[string]lineGrammar{
	"strace": {flags: "cCdDfFhikqrtTvVwxyYzZnN", args: "abeIoOpPsSuUX", query: "h V help version",
		long: "follow-forks output-separately summary summary-only successful-only failed-only seccomp-bpf decode-fds? trace= output= attach= string-limit= user= help version"},
	"ltrace":   {flags: "bcCfhiLrStTV", args: "aAdDeFlnopsuwx", query: "h V help version", long: "output= help version"},
	"valgrind": {flags: "vqdh", loose: true, query: "h help version", long: "help version"},
	"firejail": {flags: "cq", loose: true, query: "help version list tree", long: "help version list tree"},
	"prlimit": {flags: "hV", args: "po", attached: "cdefilmnqrstuvxy", query: "p pid h V help version", loose: true,
		long: "pid= output= noheadings raw verbose help version"},
	"cpulimit": {flags: "ziqbfmvh", args: "lpePc", query: "p e P h pid exe path help",
		long: "limit= pid= exe= path= cpu= lazy include-children verbose background foreground monitor-forks help"},
	"trickle":   {flags: "shvVc", args: "dutlwLnPN", query: "h V"},
	"choom":     {flags: "hV", args: "np", long: "adjust= pid= help version", query: "p pid h V help version"},
	"uclampset": {flags: "asRvhV", args: "mMp", long: "all-tasks system reset-on-fork verbose pid= help version", query: "p pid s system h V help version"},
	"systemd-inhibit": {flags: "h", long: "what= who= why= mode= list no-pager no-legend no-ask-password help version",
		query: "list h help version"},
	"systemd-cat":      {flags: "h", args: "tp", long: "identifier= priority= stderr-priority= level-prefix= namespace= help version", query: "h help version"},
	"aa-exec":          {flags: "dvih", args: "pn", long: "profile= namespace= debug verbose immediate onexec help", query: "h help"},
	"torsocks":         {flags: "adiqh", args: "aPup", query: "h help version shell", long: "auto help version shell"},
	"torify":           {flags: "vh", query: "h help", long: "help"},
	"proxychains":      {flags: "q", args: "f"},
	"proxychains4":     {flags: "q", args: "f"},
	"fakeroot":         {flags: "huv", args: "lsifb", long: "lib= faked= unknown-is-real fd-base= help version", query: "h v help version", bare: bareShell},
	"faketime":         {flags: "fmh", args: "p", operands: 1, long: "exclude-monotonic help version", query: "h help version"},
	"xvfb-run":         {flags: "alh", args: "efnpsw", query: "h help", long: "auto-servernum auto-display listen-tcp server-args= server-num= error-file= auth-file= wait= xauth-protocol= help"},
	"tini":             {flags: "svwgl", args: "pe", query: "version", long: "version"},
	"dumb-init":        {flags: "cvVh", args: "r", query: "h V help version", long: "single-child verbose rewrite= help version"},
	"gosu":             {operands: 1, long: "help version", query: "help version"},
	"su-exec":          {operands: 1},
	"chronic":          {flags: "ve"},
	"catchsegv":        {long: "help version", query: "help version"},
	"eatmydata":        {},
	"unbuffer":         {flags: "p"},
	"cross-env":        {assigns: true},
	"ccache":           {flags: "cCzshVx", query: "c C z s h V x", long: "help version show-stats zero-stats clear cleanup"},
	"distcc":           {long: "help version show-hosts", query: "help version show-hosts"},
	"entr":             {flags: "acdnprxz"},
	"dbus-run-session": {long: "config-file= dbus-daemon= help version", query: "help version"},
}

// wrapperFor returns how a program that is taken off reads its words.
func wrapperFor(name string) (lineGrammar, bool) {
	if g, ok := wrappers[name]; ok {
		return g, true
	}
	g, ok := runners[name]
	return g, ok
}

// opaque reports whether a program runs what its arguments say in a way that
// is not read here.
func opaque(name string) bool {
	switch name {
	case "setarch", "linux32", "linux64", "i386", "x86_64", "daemonize", "dbus-launch", "rlwrap", "tsp", "sem", "coresched",
		"sg", "newgrp", "concurrently", "watchexec", "nodemon", "reflex", "dtach", "abduco", "hyperfine", "proot", "nix-shell",
		"env-cmd", "dotenv", "chpst", "softlimit", "envdir", "setuidgid", "setlock", "lxc-attach",
		"xonsh", "nu", "elvish", "osh", "ysh", "oil", "ion", "murex", "es", "rc", "posh", "sash", "hush":
		return true
	}
	return false
}

// A subcommand is a program that runs the command behind one of its own
// words, as in "poetry run pytest".
type subcommand struct {
	words       string // that come before the command, by blanks; alternatives by |
	lineGrammar        // of what stands between them and the command
}

// subcommands are those, by program.
var subcommands = map[string]subcommand{
	"poetry":  {words: "run"},
	"pipenv":  {words: "run"},
	"pdm":     {words: "run"},
	"rye":     {words: "run"},
	"hatch":   {words: "run"},
	"bundle":  {words: "exec", lineGrammar: lineGrammar{long: "keep-file-descriptors gemfile="}},
	"bundler": {words: "exec", lineGrammar: lineGrammar{long: "keep-file-descriptors gemfile="}},
	"uv": {words: "run", lineGrammar: lineGrammar{flags: "qvnsm", args: "p", query: "m module s script h help",
		long: "with= with-editable= with-requirements= python= extra= group= only-group= no-group= project= directory= env-file= package= index= " +
			"isolated no-sync frozen locked no-project quiet verbose all-extras all-groups dev no-dev only-dev active offline exact no-cache module script help"}},
	"conda":      {words: "run", lineGrammar: condaRun},
	"mamba":      {words: "run", lineGrammar: condaRun},
	"micromamba": {words: "run", lineGrammar: condaRun},
	"yarn":       {words: "exec"},
	"pnpm":       {words: "exec", lineGrammar: lineGrammar{flags: "r", long: "recursive parallel no-bail resume-from= report-summary filter="}},
	"npm":        {words: "explore", lineGrammar: lineGrammar{operands: 1}},
	"direnv":     {words: "exec", lineGrammar: lineGrammar{operands: 1}},
	"nvm":        {words: "exec", lineGrammar: lineGrammar{operands: 1, long: "silent"}},
	"rbenv":      {words: "exec"},
	"pyenv":      {words: "exec"},
	"nodenv":     {words: "exec"},
	"goenv":      {words: "exec"},
	"asdf":       {words: "exec"},
	"rustup":     {words: "run", lineGrammar: lineGrammar{operands: 1, long: "install"}},
	"fnm":        {words: "exec", lineGrammar: lineGrammar{long: "using="}},
	"volta":      {words: "run", lineGrammar: lineGrammar{long: "node= npm= yarn= bundled-npm no-yarn"}},
	"perf":       {words: "stat|record|trace", lineGrammar: lineGrammar{flags: "advgnisRSTBqA", args: "erpCtIoFGcjkM", query: "p t"}},
	"cmake":      {words: "-E"},
	"ip":         {words: "netns exec", lineGrammar: lineGrammar{operands: 1}},
	"op":         {words: "run", lineGrammar: lineGrammar{long: "env-file= no-masking"}},
	"doppler":    {words: "run", lineGrammar: lineGrammar{args: "pc", long: "project= config= preserve-env", query: "command"}},
}

// condaRun is how conda run reads its words.
var condaRun = lineGrammar{flags: "v", args: "np", long: "name= prefix= no-capture-output live-stream cwd= dev verbose"}

// subcommand takes a program with its own words off what stands behind them,
// when it has any. It reports false when there is none; then nothing is done.
func (w *walker) subcommand(name string, inv *invocation, s *scope) bool {
	sub, ok := subcommands[name]
	if !ok {
		return false
	}
	for words := range strings.SplitSeq(sub.words, "|") {
		own := strings.Fields(words)
		if len(inv.Words) <= len(own) || !slices.EqualFunc(inv.Words[1:1+len(own)], own, func(v lineWord, own string) bool { return fixed(v) && v.Value == own }) {
			continue
		}
		w.behind(name+" "+words, &sub.lineGrammar, len(own), inv, s)
		return true
	}
	return false
}

// behind runs the command behind the first n arguments of inv.
func (w *walker) behind(name string, g *lineGrammar, n int, inv *invocation, s *scope) {
	p := g.parse(inv.Words[n:])
	rest, why := skip(p.rest, g.operands)
	switch {
	case p.why != "" || why != "":
		w.stuck(inv, p.why+why, s)
		return
	case p.any(g.query) || len(rest) == 0:
		w.emit(inv, s)
		return
	}
	if fixed(rest[0]) && rest[0].Value == "--" {
		rest = rest[1:]
	}
	if len(rest) == 0 {
		w.emit(inv, s)
		return
	}
	w.take(name, rest, inv)
	w.run(inv, s)
}

// debugger handles gdb, which runs what stands behind --args.
func (w *walker) debugger(inv *invocation, s *scope) {
	w.emit(inv, s)
	for i, v := range inv.Words {
		if fixed(v) && (v.Value == "--args" || v.Value == "-args") && i+1 < len(inv.Words) {
			w.take("gdb", inv.Words[i+1:], inv)
			w.run(inv, s)
			return
		}
	}
}
