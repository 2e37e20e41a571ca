package command

import (
	"fmt"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/bulkhead-dev/sandbox/policy"
)

// A variableEntry is one entry of the table of the variable check: variables
// that change what later programs do.
type variableEntry struct {
	names    string // separated by blanks; one may end in *
	severity policy.Severity
	mark     mark
	message  string
	hint     string
}

func variableEntries() []variableEntry {
	const h = "run the command without it, or ask for it to be set in the sandbox's settings"
	return []variableEntry{
		{"LD_* DYLD_* GCONV_PATH GLIBC_TUNABLES LOCPATH NLSPATH", policy.High, never, "makes every program load other code", h},
		{"PATH CDPATH EXECIGNORE hash_*", policy.High, never, "changes which program a name means", "call the program by its full path instead"},
		{"BASH_ENV ENV PROMPT_COMMAND PS0 PS4 SHELLOPTS BASHOPTS BASH_ALIASES BASH_CMDS BASH_FUNC_* ZDOTDIR POSIXLY_CORRECT", policy.High, never, "makes a shell run or read something first", h},
		{"HOME XDG_CONFIG_HOME XDG_DATA_HOME", policy.High, never, "changes which configuration programs read", h},
		{"PYTHONPATH PYTHONHOME PYTHONSTARTUP PYTHONUSERBASE PYTHONINSPECT PYTHONBREAKPOINT PYTHONWARNINGS", policy.High, never, "makes Python load other code", h},
		{"NODE_OPTIONS NODE_PATH NODE_REPL_EXTERNAL_MODULE NPM_CONFIG_* npm_config_* BUN_OPTIONS", policy.High, never, "makes Node load other code", h},
		{"PERL5LIB PERL5OPT PERLLIB PERL5DB RUBYOPT RUBYLIB GEM_HOME GEM_PATH BUNDLE_GEMFILE LUA_PATH LUA_CPATH LUA_INIT* PHPRC PHP_INI_SCAN_DIR", policy.High, never, "makes an interpreter load other code", h},
		{"JAVA_TOOL_OPTIONS _JAVA_OPTIONS JDK_JAVA_OPTIONS CLASSPATH JAVA_OPTS MAVEN_OPTS GRADLE_OPTS ANT_OPTS DOTNET_STARTUP_HOOKS CORECLR_*", policy.High, never, "makes a virtual machine load other code", h},
		{"GIT_*", policy.High, never, "changes what git runs or where it works", "use options of git that the policy can read"},
		{"GOFLAGS GOROOT GOTOOLDIR GOENV CC CXX CPP LD AR AS CGO_* RUSTC RUSTC_* RUSTFLAGS CARGO_* RUSTUP_* MAKEFLAGS MFLAGS GNUMAKEFLAGS CMAKE_*", policy.Medium, never, "changes what a build runs", h},
		{"PAGER MANPAGER EDITOR VISUAL BROWSER LESSOPEN LESSCLOSE LESSEDIT LESS SUDO_EDITOR SUDO_ASKPASS SSH_ASKPASS SSH_ASKPASS_REQUIRE FCEDIT HGEDITOR SVN_SSH SVN_EDITOR RSYNC_RSH TAR_OPTIONS GREP_OPTIONS RIPGREP_CONFIG_PATH SYSTEMD_EDITOR SYSTEMD_PAGER DELTA_PAGER BAT_PAGER GH_PAGER", policy.High, never, "names a program that others start", h},
		{"HTTP_PROXY HTTPS_PROXY ALL_PROXY FTP_PROXY NO_PROXY http_proxy https_proxy all_proxy ftp_proxy no_proxy RES_OPTIONS HOSTALIASES LOCALDOMAIN", policy.Medium, never, "changes which way out programs take", h},
		{"SSL_CERT_FILE SSL_CERT_DIR CURL_CA_BUNDLE REQUESTS_CA_BUNDLE NODE_EXTRA_CA_CERTS NODE_TLS_REJECT_UNAUTHORIZED OPENSSL_CONF OPENSSL_MODULES OPENSSL_ENGINES SSLKEYLOGFILE CURL_HOME", policy.High, never, "changes whom programs trust", h},
		{"DOCKER_HOST DOCKER_CONFIG KUBECONFIG CONTAINER_HOST AWS_* GOOGLE_APPLICATION_CREDENTIALS AZURE_* SSH_AUTH_SOCK GNUPGHOME KRB5_CONFIG KRB5CCNAME", policy.High, never, "changes which engine or account programs speak to", h},
		{"HISTFILE HISTSIZE HISTFILESIZE HISTCONTROL HISTIGNORE HISTCMD", policy.Medium, never, "changes what the shell's history keeps", "leave the history alone"},
		{"TMPDIR TEMP TMP", policy.Low, plain, "changes where temporary files go", h},
	}
}

// safeVariables are those that an allow or exclude rule looks past: they
// change how programs speak, not what they run.
const safeVariables = "LANG LANGUAGE LC_* TZ TERM COLORTERM COLUMNS LINES NO_COLOR FORCE_COLOR CLICOLOR CLICOLOR_FORCE CI " +
	"NODE_ENV GOOS GOARCH GOARM GOAMD64 GO111MODULE CGO_ENABLED RUST_LOG RUST_BACKTRACE " +
	"PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE PYTHONHASHSEED PYTHONIOENCODING PYTHONUTF8 " +
	"DEBIAN_FRONTEND SOURCE_DATE_EPOCH VERBOSE DEBUG TEST_VERBOSE"

// A variableTable finds the entry about a variable.
type variableTable struct {
	exact  map[string]*variableEntry
	starry []starryVariable
}

type starryVariable struct {
	names globs
	*variableEntry
}

func newVariableTable() variableTable {
	entries := variableEntries()
	t := variableTable{exact: make(map[string]*variableEntry, 2*len(entries))}
	for i := range entries {
		e := &entries[i]
		for name := range strings.FieldsSeq(e.names) {
			if strings.Contains(name, "*") {
				t.starry = append(t.starry, starryVariable{newGlobs(name), e})
			} else {
				t.exact[name] = e
			}
		}
	}
	return t
}

func (t *variableTable) find(name string) *variableEntry {
	if e := t.exact[name]; e != nil {
		return e
	}
	for i := range t.starry {
		if t.starry[i].names.match(name) {
			return t.starry[i].variableEntry
		}
	}
	return nil
}

// setters are builtins that set the variables which are named in their
// arguments; evaluators those that evaluate a subscript in an argument.
const (
	setters    = "read mapfile readarray getopts unset"
	evaluators = "test [ [[ printf read mapfile readarray getopts unset declare typeset local export readonly let wait"
)

// checkVariable looks at assignments, at arguments that become several, and
// at expansions that run something.
func checkVariable(s *subject) {
	for _, name := range s.in.Env {
		s.assigned(name, policy.Span{})
	}
	others := s.forOthers()
	for _, a := range s.Assigns {
		if !harmlessValue(a) && !(a.Name == "IFS" && a.Scope == scopeCommand && others[a.Span] == 0) {
			s.assigned(a.Name, a.Span)
		}
	}
	for _, v := range s.Sets {
		s.assigned(v.Name, v.Span)
	}
	for i := range s.calls {
		k := &s.calls[i]
		if k.is(isSetter) || k.program == "printf" && k.letter('v') {
			s.setBy(k)
		}
		if k.is(isEvaluator) {
			s.subscripts(k)
		}
		s.words(k)
	}
	s.syntaxTests()
}

// forOthers counts, by where it stands, how often the line sets IFS for a command
// other than read, which alone cuts its line by it: IFS= read -r x. Of a text for
// another shell all places are the same.
func (s *subject) forOthers() map[policy.Span]int {
	var out map[policy.Span]int
	for _, a := range s.Assigns {
		if a.Name == "IFS" && a.Scope == scopeCommand {
			if out == nil {
				out = map[policy.Span]int{}
			}
			out[a.Span]++
		}
	}
	for i := 0; i < len(s.calls) && out != nil; i++ {
		k := &s.calls[i]
		if !hasWord("read mapfile readarray", k.Words[0].Value) || !s.plainBuiltin(k) {
			continue
		}
		for _, a := range k.Assigns {
			if a.Name == "IFS" && a.Scope == scopeCommand && inside(a.Span, k.Span) {
				out[a.Span]--
			}
		}
	}
	return out
}

// plainBuiltin reports whether nothing stands before a builtin, in the text that
// it belongs to, that makes it a program.
func (s *subject) plainBuiltin(k *call) bool {
	around := k.Wrappers
	for i, w := range k.Wrappers {
		if isNested(k.Via) && s.tables.classes[base(w)]&(isShell|isSourcing) != 0 {
			around = k.Wrappers[i+1:] // the others stand before the text
		}
	}
	return !slices.ContainsFunc(around, func(w string) bool { return w != "command" && w != "builtin" })
}

// assigned reports a variable of the table.
func (s *subject) assigned(name string, span policy.Span) {
	if s.tables.safe.has(name) {
		return
	}
	if name == "IFS" {
		s.report(finding{
			check: "variable", rule: "IFS", severity: policy.Medium, mark: never, span: span,
			message: "IFS changes where the shell cuts words", hint: "set it for read alone: IFS= read -r x",
		})
		return
	}
	if e := s.tables.variables.find(name); e != nil {
		s.report(finding{
			check: "variable", rule: name, severity: e.severity, mark: e.mark, span: span,
			message: name + " " + e.message, hint: e.hint,
		})
	}
}

// setBy reports variables of the table that a builtin sets.
func (s *subject) setBy(k *call) {
	for _, w := range k.all {
		name, _, _ := strings.Cut(w.Value, "[")
		if w.Static && syntax.ValidName(name) {
			s.assigned(name, w.Span)
		}
	}
}

// subscripts reports arguments in which the shell would evaluate a
// substitution although it stands in quotes: test -v 'a[$(id)]'.
func (s *subject) subscripts(k *call) {
	for _, w := range k.all {
		if w.Static && evaluates(w.Value) {
			s.hiddenSubstitution(w.Span, w.Raw)
		}
	}
}

func evaluates(v string) bool {
	_, in, ok := strings.Cut(v, "[")
	return ok && (strings.Contains(in, "$(") || strings.Contains(in, "`") || strings.Contains(in, "${"))
}

func (s *subject) hiddenSubstitution(span policy.Span, raw string) {
	s.report(finding{
		check: "variable", rule: "subscript", severity: policy.Critical, mark: deny, span: span,
		message: fmt.Sprintf("the subscript in %s is evaluated, and runs the command in it", quote(raw)),
		hint:    "use a number or a plain name as subscript",
	})
}

// words reports what expansions in the words of a command do to it.
func (s *subject) words(k *call) {
	if p := k.Words[0]; !p.Static || p.Glob {
		s.report(finding{
			check: "variable", rule: "program", severity: policy.High, mark: unknown, span: p.Span,
			message: fmt.Sprintf("the program is not known from the text: %s", quote(p.Raw)),
			hint:    "write the program's name out",
		})
	}
	for _, w := range k.Words {
		if w.Static || !strings.Contains(w.Raw, "$") {
			continue
		}
		if strings.Contains(w.Raw, "IFS") || strings.Contains(w.Raw, "@") || strings.Contains(w.Raw, "${!") {
			s.expansions(w)
		}
	}
}

// maxExpansions bounds how many words are looked at in this way.
const maxExpansions = 128

// expansions looks at one word whose expansions may be more than values.
func (s *subject) expansions(w lineWord) {
	if s.expanded++; s.expanded > maxExpansions {
		s.report(finding{
			check: "variable", rule: "too-many-expansions", severity: policy.High, mark: unknown, span: policy.Span{End: len(s.Text)},
			message: fmt.Sprintf("more than %d expansions that may be more than values", maxExpansions), hint: "write it in several lines",
		})
		return
	}
	var parsed *syntax.Word
	for p, err := range syntax.NewParser().WordsSeq(strings.NewReader(w.Raw)) {
		if err == nil {
			parsed = p
		}
		break
	}
	if parsed == nil {
		return
	}
	quoted := 0
	var stack []syntax.Node
	syntax.Walk(parsed, func(n syntax.Node) bool {
		if n == nil {
			if _, ok := stack[len(stack)-1].(*syntax.DblQuoted); ok {
				quoted--
			}
			stack = stack[:len(stack)-1]
			return true
		}
		stack = append(stack, n)
		switch n := n.(type) {
		case *syntax.DblQuoted:
			quoted++
		case *syntax.ParamExp:
			s.expansion(n, w, quoted > 0)
		}
		return true
	})
}

func (s *subject) expansion(x *syntax.ParamExp, w lineWord, quoted bool) {
	f := finding{check: "variable", span: w.Span}
	switch {
	case x.Param != nil && x.Param.Value == "IFS" && !quoted && !x.Length:
		f.rule, f.severity, f.mark = "IFS-splitting", policy.Critical, deny
		f.message = fmt.Sprintf("IFS is used to hide the blanks between words: %s", quote(w.Raw))
		f.hint = "write the command with blanks"
	case x.Exp != nil && x.Exp.Op == syntax.OtherParamOps && x.Exp.Word != nil && x.Exp.Word.Lit() == "P":
		f.rule, f.severity, f.mark = "prompt-expansion", policy.High, unknown
		f.message = fmt.Sprintf("%s runs the commands that the variable's value holds", quote(w.Raw))
		f.hint = "use the variable without @P"
	case x.Excl && x.Names == 0:
		f.rule, f.severity, f.mark = "indirection", policy.Medium, plain
		f.message = fmt.Sprintf("%s takes the value of a variable whose name another holds", quote(w.Raw))
		f.hint = "name the variable itself"
	default:
		return
	}
	s.report(f)
}

// syntaxTests looks at [[ ]] and arithmetic of the text, where a quoted
// subscript is evaluated as well.
func (s *subject) syntaxTests() {
	if s.File == nil || !s.has(lineTest) && !s.has(lineArithmetic) {
		return
	}
	syntax.Walk(s.File, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.UnaryTest:
			if n.Op == syntax.TsVarSet {
				s.quotedSubscript(n)
				return false
			}
		case *syntax.BinaryTest:
			switch n.Op {
			case syntax.TsEql, syntax.TsNeq, syntax.TsLeq, syntax.TsGeq, syntax.TsLss, syntax.TsGtr:
				s.quotedSubscript(n)
				return false
			}
		case *syntax.ArithmCmd, *syntax.ArithmExp, *syntax.LetClause:
			s.quotedSubscript(n)
			return false
		}
		return true
	})
}

// quotedSubscript reports quoted text below n that holds a subscript with a
// substitution.
func (s *subject) quotedSubscript(n syntax.Node) {
	syntax.Walk(n, func(n syntax.Node) bool {
		if q, ok := n.(*syntax.SglQuoted); ok && evaluates(q.Value) {
			s.hiddenSubstitution(policy.Span{Start: int(q.Pos().Offset()), End: int(q.End().Offset())}, q.Value)
		}
		return true
	})
}

// has reports whether the line has a construct of the kind.
func (s *subject) has(k lineKind) bool {
	for _, f := range s.Features {
		if f.Kind == k {
			return true
		}
	}
	return false
}

// harmlessValue reports whether what a variable of the table is set to changes
// nothing that runs, or nothing but for programs of the work: a pager that
// prints, PATH with folders of the work before it, Python's search path within
// the work.
func harmlessValue(a lineAssign) bool {
	v := a.Value
	switch a.Name {
	case "PATH":
		return extendsPath(v)
	case "GIT_PAGER", "PAGER", "MANPAGER", "GH_PAGER", "SYSTEMD_PAGER", "BAT_PAGER", "DELTA_PAGER", "AWS_PAGER":
		return v.Static && (v.Value == "" || v.Value == "cat")
	case "GIT_EDITOR", "EDITOR", "VISUAL", "GIT_SEQUENCE_EDITOR":
		return v.Static && (v.Value == "true" || v.Value == ":")
	case "GIT_TERMINAL_PROMPT", "GIT_OPTIONAL_LOCKS", "GIT_ADVICE", "GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_AUTHOR_DATE",
		"GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL", "GIT_COMMITTER_DATE":
		return v.Static
	case "PYTHONPATH", "NODE_PATH":
		return v.Static && v.Value != "" && !strings.ContainsAny(v.Value, ":~") && !strings.HasPrefix(v.Value, "/") && !strings.Contains(v.Value, "..")
	case "NODE_OPTIONS":
		return v.Static && strings.HasPrefix(v.Value, "--max-old-space-size=") && !strings.Contains(v.Value, " ")
	}
	return false
}
