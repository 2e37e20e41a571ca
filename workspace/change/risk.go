package change

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/policy"
	pathpolicy "github.com/bulkhead-dev/sandbox/policy/path"
)

// A Risk is a kind of change that can do harm on the host beyond the content of
// a file: it makes a program of the host run code, or leads out of the folder.
type Risk string

// The risks.
const (
	RiskGit        Risk = "git"        // what git runs or obeys: hooks, configuration, submodules, hidden repositories
	RiskEditor     Risk = "editor"     // tasks and settings of editors
	RiskAgent      Risk = "agent"      // settings, skills and hooks of agents
	RiskShell      Risk = "shell"      // what shells, debuggers and interpreters run at their start
	RiskPackages   Risk = "packages"   // settings of package managers and build tools that name programs
	RiskDesktop    Risk = "desktop"    // what a desktop starts
	RiskCI         Risk = "ci"         // workflows that run with the rights of the repository
	RiskSSH        Risk = "ssh"        // keys and settings of SSH
	RiskTools      Risk = "tools"      // settings of tools for clouds and containers that name programs
	RiskLink       Risk = "link"       // a symbolic link that leads out of the folder
	RiskSetID      Risk = "setid"      // a file or folder with setuid, setgid or sticky; the bits are never applied
	RiskName       Risk = "name"       // a name that other file systems take for another one, or that hides what it is
	RiskSpecial    Risk = "special"    // a device, pipe or socket; it is never applied
	RiskExecutable Risk = "executable" // a file that becomes executable
	RiskHardLink   Risk = "hardlink"   // a file with several names, each of which becomes a file of its own
)

// A Level says what it takes to apply a change with a risk.
type Level int

// The levels.
const (
	Plain Level = iota // the consent to apply changes covers it
	Own                // it needs a consent of its own: its risk or its path has to be named
	Never              // it is not applied
)

// Level returns what it takes to apply a change with the risk. A new program is
// what many changes are about, and nothing runs it by itself, so the consent to
// apply covers it, as it covers hard links, which are not applied as such.
func (r Risk) Level() Level {
	switch r {
	case RiskExecutable, RiskHardLink:
		return Plain
	case RiskSpecial:
		return Never
	}
	return Own
}

// A Finding is one risk of a change.
type Finding struct {
	Risk Risk   `json:"risk"`
	Why  string `json:"why"` // "git runs the hooks in it"
}

// Level returns the strictest level of the findings of e.
func (e *Entry) Level() Level {
	level := Plain
	for _, f := range e.Findings {
		level = max(level, f.Risk.Level())
	}
	return level
}

func (e *Entry) find(r Risk, why string) {
	if f := (Finding{r, why}); !slices.Contains(e.Findings, f) {
		e.Findings = append(e.Findings, f)
	}
}

// rootName stands for the folder in the questions to package path.
const rootName = "/workspace"

// A row is a number of patterns, in the form of [pathpolicy.Entry], for files
// with the same risk.
type row struct {
	risk     Risk
	why      string
	patterns []string
}

// table lists what programs run or obey in the work trees of projects, beside
// the table of package path.
var table = []row{
	{RiskGit, "git obeys what is in it, and runs its hooks", []string{
		"**/.git",
	}},
	{RiskGit, "git fetches the repositories that it names into the folders that it names", []string{
		"**/.gitmodules",
	}},
	{RiskGit, "hooks of git run what it says", []string{
		"**/lefthook.{yml,yaml,toml,json}", "**/.lefthook.{yml,yaml,toml,json}", "**/lefthook-local.*", "**/.lefthook",
		"**/.lefthook-local.*", "**/.overcommit.yml", "**/.pre-commit-hooks.yaml", "**/.pre-commit-config.yml", "**/.huskyrc*", "**/.lintstagedrc*", "**/.git-hooks",
	}},
	{RiskGit, "a version control system obeys it, and runs its hooks", []string{
		"**/.hg", "**/.hgrc", "**/.svn", "**/.jj", "**/.bzr",
	}},
	{RiskEditor, "an editor obeys it, and runs the programs and tasks that it names", []string{
		"**/.vscode", "**/.vim", "**/.emacs", "**/.emacs.d", "**/.dir-locals-2.el", "**/.helix",
		"**/.kakrc", "**/*.sublime-project", "**/.vs", "**/.externalToolBuilders", "**/.run", "**/.ycm_extra_conf.py",
	}},
	{RiskAgent, "agents take settings, servers and hooks from it", []string{
		"**/mcp.json", "**/.claude.json", "**/.kiro", "**/.amazonq", "**/.crush.json", "**/opencode.json*",
	}},
	{RiskShell, "a shell runs it at its start or in its folder", []string{
		"**/.envrc", "**/.direnvrc", "**/.bash_aliases", "**/.bash_completion", "**/.bashrc.d", "**/.kshrc", "**/.mkshrc", "**/.cshrc", "**/.tcshrc", "**/.login",
		"**/.zsh*.zwc", "**/.zlog*.zwc", "**/.zprofile.zwc", "**/.zcompdump*", "**/.xprofile", "**/.xinitrc", "**/.xsession*", "**/.autoenv.zsh", "**/.autoenv",
	}},
	{RiskShell, "a debugger or interpreter runs it at its start", []string{
		"**/.gdbinit", "**/.gdbearlyinit", "**/*-gdb.py", "**/*-gdb.gdb", "**/.lldbinit*", "**/.pdbrc", "**/.pdbrc.py", "**/.pythonrc", "**/.pythonrc.py",
		"**/sitecustomize.py", "**/usercustomize.py", "**/*.pth", "**/.ipython", "**/.jupyter", "**/.irbrc", "**/.pryrc", "**/.Rprofile", "**/.Renviron", "**/.radare2rc", "**/.octaverc", "**/.perldb", "**/.psqlrc", "**/.sqliterc",
	}},
	{RiskPackages, "a package manager or build tool obeys it, and runs the programs that it names", []string{
		"**/.yarnrc*", "**/.yarn/plugins", "**/.yarn/releases", "**/.pnpmfile.*", "**/.pnp.*", "**/.bazelrc", "**/*.bazelrc", "**/.bazeliskrc",
		"**/.cargo", "**/.mvn", "**/.gemrc", "**/.bundle", "**/.mise.toml", "**/.mise", "**/mise.toml", "**/.tool-versions", "**/.rtx.toml", "**/.buckconfig*", "**/.gradle/init.d", "**/.curlrc", "**/.wgetrc", "**/.tmuxinator*",
	}},
	{RiskDesktop, "a desktop starts the program that it names", []string{
		"**/*.desktop", "**/autorun.inf", "**/*.lnk", "**/*.scf", "**/desktop.ini", "**/.config/autostart", "**/*.workflow", "**/*.terminal",
	}},
	{RiskCI, "a build service runs it with the rights of the repository", []string{
		"**/.github/workflows", "**/.github/actions", "**/.gitlab-ci.yml", "**/.gitlab-ci", "**/.gitlab/ci", "**/.circleci", "**/.travis.yml", "**/Jenkinsfile*", "**/azure-pipelines.yml",
		"**/.azure-pipelines", "**/.drone.yml", "**/.woodpecker", "**/.woodpecker.y*ml", "**/bitbucket-pipelines.yml", "**/.buildkite", "**/.forgejo/workflows", "**/.gitea/workflows", "**/appveyor.yml", "**/.appveyor.yml", "**/.cirrus.yml", "**/.semaphore", "**/.tekton",
	}},
}

// names returns the policy that knows which files programs run or obey: table
// as rules against writing, before the table of package path. The workspace may
// be a home, so rules for a home concern it too. Letter case and characters
// that HFS+ leaves out do not matter.
func names() (*pathpolicy.Policy, []row, error) {
	var rules []string
	var of []row
	for _, r := range table {
		for _, p := range r.patterns {
			rules, of = append(rules, p), append(of, r)
		}
	}
	p, err := pathpolicy.New(pathpolicy.Options{
		Home: rootName, WorkRoots: []string{rootName}, FoldCase: true, DenyWrite: rules,
		Exceptions: []string{"**/.cursorrules", "**/.windsurfrules"}, // text for agents, as AGENTS.md is
	})
	return p, of, err
}

// risk returns the risk that a decision stands for, and its reason. Secrets and
// histories are none.
func (r *risks) risk(d pathpolicy.Decision) (Risk, string, bool) {
	if d.Category == pathpolicy.CategoryRule {
		number, _, _ := strings.Cut(strings.TrimPrefix(d.Rule, "filesystem.denyWrite["), "]")
		n, err := strconv.Atoi(number)
		if err != nil || n >= len(r.rows) {
			return RiskName, "a rule denies writing it", true
		}
		return r.rows[n].risk, r.rows[n].why, true
	}
	risk, ok := riskOf(d)
	_, why, _ := strings.Cut(d.Message, `": `)
	if risk == RiskName {
		why = "its name does not determine its place"
	}
	return risk, why, ok
}

// riskOf maps a category of package path to a risk.
func riskOf(d pathpolicy.Decision) (Risk, bool) {
	switch d.Category {
	case "":
		return "", false
	case pathpolicy.CategoryGit:
		return RiskGit, true
	case pathpolicy.CategoryShell:
		return RiskShell, true
	case pathpolicy.CategoryEditor:
		return RiskEditor, true
	case pathpolicy.CategoryAgent:
		return RiskAgent, true
	case pathpolicy.CategoryPackages:
		return RiskPackages, true
	case pathpolicy.CategorySSH:
		return RiskSSH, true
	case pathpolicy.CategoryCloud, pathpolicy.CategoryContainer:
		return RiskTools, d.Severity >= policy.Critical
	case pathpolicy.CategoryName:
		return RiskName, true
	}
	return "", false
}

// findRisks adds the findings to entries. The last of the trees is the current
// one; the others show what git on the host may find beside the changes.
func findRisks(ctx context.Context, entries []Entry, trees ...*Tree) error {
	if len(entries) == 0 {
		return nil
	}
	p, rows, err := names()
	if err != nil {
		return err
	}
	r := risks{policy: p, rows: rows, trees: trees, current: trees[len(trees)-1], places: map[string]place{}, made: map[string]bool{}}
	for i := range entries {
		if e := &entries[i]; e.hasNow() {
			for p := e.Path; p != "." && !r.made[p]; p = path.Dir(p) {
				r.made[p] = true
			}
		}
	}
	modules := r.submodules()
	for i := range entries {
		if err := ctx.Err(); err != nil {
			return stopped(opCompare, err)
		}
		e := &entries[i]
		for _, rel := range e.paths() {
			r.name(e, rel)
			r.around(e, rel)
			for _, m := range modules {
				if rel == m || e.Mode.Type() == fs.ModeSymlink && within(m, rel) {
					e.find(RiskGit, "it is the folder of a submodule")
				}
			}
		}
		r.node(e)
	}
	return nil
}

// risks is one search for risks.
type risks struct {
	policy  *pathpolicy.Policy
	rows    []row
	trees   []*Tree
	current *Tree
	places  map[string]place
	made    map[string]bool // paths that the changes make, with the folders above
}

// judge adds what the policy says of a path.
func (r *risks) judge(e *Entry, rel, why string) {
	d := r.policy.Judge(sandbox.OpWrite, rootName+"/"+rel)
	if risk, reason, ok := r.risk(d); ok {
		e.find(risk, why+reason)
	}
}

// name judges a path by its name, also as other file systems read it.
func (r *risks) name(e *Entry, rel string) {
	if !attributesOnly(rel) {
		r.judge(e, rel, "")
	}
	if other := foreign(rel); other != rel {
		before := len(e.Findings)
		r.judge(e, other, "another file system takes it for "+Quote(other)+": ")
		if len(e.Findings) > before {
			e.find(RiskName, "another file system takes its name for "+Quote(other))
		}
	}
	for name := range strings.SplitSeq(rel, "/") {
		if shortName(name) {
			e.find(RiskName, "Windows takes its name for the short form of another one")
		}
	}
	if unclear(rel) {
		e.find(RiskName, "its name has characters that are not visible")
	}
}

// foreign returns rel as NTFS and FAT read it: backslashes separate names,
// streams are cut off, and so are dots and spaces at the end of names.
func foreign(rel string) string {
	var out []string
	for name := range strings.FieldsFuncSeq(rel, func(r rune) bool { return r == '/' || r == '\\' }) {
		name, _, _ = strings.Cut(name, ":")
		if short := strings.TrimRight(name, ". "); short != "" {
			name = short
		}
		if strings.HasPrefix(strings.ToLower(name), "git~") && shortName(name) {
			name = ".git"
		}
		if name != "" && name != "." && name != ".." {
			out = append(out, name)
		}
	}
	return strings.Join(out, "/")
}

// shortName reports whether name has the form of a short name of FAT and NTFS.
func shortName(name string) bool {
	stem, _, _ := strings.Cut(name, ".")
	head, digits, ok := strings.Cut(stem, "~")
	return ok && head != "" && len(head) <= 6 && digits != "" && len(head)+len(digits) <= 7 && strings.Trim(digits, "0123456789") == ""
}

// unclear reports whether a name has control characters, or characters that
// reorder or hide others.
func unclear(name string) bool {
	for _, r := range name {
		if r != utf8.RuneError && (unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Co)) {
			return true
		}
	}
	return false
}

// node judges what the change makes of the path.
func (r *risks) node(e *Entry) {
	mode := e.Mode
	if !e.hasNow() {
		mode = e.OldMode
	}
	switch mode.Type() {
	case fs.ModeDir, 0:
	case fs.ModeSymlink:
		if e.hasNow() {
			r.link(e)
		}
	default:
		e.find(RiskSpecial, "it is a device, pipe or socket")
	}
	if e.Mode&(fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky)&^e.OldMode != 0 {
		e.find(RiskSetID, "it has the bits setuid, setgid or sticky")
	}
	if e.Mode.IsRegular() && e.Mode.Perm()&0o111 != 0 && (!e.OldMode.IsRegular() || e.OldMode.Perm()&0o111 == 0) {
		e.find(RiskExecutable, "it becomes executable")
	}
	if !e.hasNow() || !e.Mode.IsRegular() {
		return
	}
	if path.Base(strings.ToLower(foreign(e.Path))) == ".gitattributes" || attributesOnly(e.Path) {
		r.attributes(e)
	}
	if e.shared {
		e.find(RiskHardLink, "it has several names; each becomes a file of its own")
	}
}

// attributesOnly reports whether the content of the path decides on its risk.
func attributesOnly(rel string) bool {
	return pathpolicy.Fold(path.Base(rel)) == ".gitattributes"
}

// maxSettings bounds in bytes the settings files that are read for risks.
const maxSettings = 1 << 20

// attributes finds the drivers that a .gitattributes file names.
func (r *risks) attributes(e *Entry) {
	// The file may have other content by now than is applied.
	data, err := r.current.text(e.Path, maxSettings)
	if err != nil || hexDigest(data) != e.Digest || drivers(data) {
		e.find(RiskGit, "it names filters or drivers, which are programs that git runs")
	}
}

// drivers reports whether a .gitattributes file names a filter or a driver.
func drivers(data []byte) bool {
	for line := range strings.Lines(string(data)) {
		for i, word := range strings.Fields(line) {
			name, value, ok := strings.Cut(word, "=")
			if i > 0 && ok && value != "" && slices.Contains([]string{"filter", "diff", "merge"}, name) {
				return true
			}
			if strings.HasPrefix(word, "[attr]") {
				return true // a macro can stand for any attribute
			}
		}
	}
	return false
}

// A place is what is known of a folder.
type place struct {
	hidden bool     // it is a bare repository without the name of one
	named  []string // paths that the configuration of the repository in it names
}

// place looks at a folder in all trees.
func (r *risks) place(dir string) place {
	if p, ok := r.places[dir]; ok {
		return p
	}
	// The changes count beside the trees, because the current tree may be
	// another one by now than was compared.
	has := map[string]bool{".git": r.made[path.Join(dir, ".git")], "HEAD": r.made[path.Join(dir, "HEAD")]}
	for _, t := range r.trees {
		n, err := t.at(dir)
		if err != nil {
			continue // it is not there, or is no folder
		}
		for _, name := range []string{".git", "HEAD", "objects", "refs", "commondir"} {
			if name != ".git" && name != "HEAD" && !has["HEAD"] {
				break
			}
			_, err := n.lookup(name)
			has[name] = has[name] || !errors.Is(err, fs.ErrNotExist) // what cannot be looked at may be there
		}
		n.close()
	}
	if has["HEAD"] { // of one tree, and the others of another
		for _, name := range []string{"objects", "refs", "commondir"} {
			has[name] = has[name] || r.has(dir, name)
		}
	}
	p := place{hidden: has["HEAD"] && (has["objects"] && has["refs"] || has["commondir"])}
	if has[".git"] {
		p.named = r.configured(dir)
	}
	r.places[dir] = p
	return p
}

// has reports whether one of the trees has the name in the folder.
func (r *risks) has(dir, name string) bool {
	return r.made[path.Join(dir, name)] || slices.ContainsFunc(r.trees, func(t *Tree) bool {
		_, err := t.Lstat(path.Join(dir, name))
		return !sandbox.IsNotFound(err)
	})
}

// around finds changes in a folder that is a bare repository without the name
// of one, because git in it, or below it, obeys its configuration. It also
// finds changes of what the configuration of a repository around names as hooks
// and programs.
func (r *risks) around(e *Entry, rel string) {
	for dir := path.Dir(rel); ; dir = path.Dir(dir) {
		p := r.place(dir)
		if p.hidden {
			e.find(RiskGit, "it lies in a folder that git takes for a repository")
		}
		if slices.ContainsFunc(p.named, func(word string) bool { return within(rel, word) }) {
			e.find(RiskGit, "the configuration of a git repository names it")
		}
		if dir == "." {
			return
		}
	}
}

// configured returns the paths in dir that the configuration of a repository
// there may run.
func (r *risks) configured(dir string) []string {
	const most = 32 // files of configuration
	var out []string
	files := []string{path.Join(dir, ".git/config"), path.Join(dir, ".git/config.worktree")}
	for i := 0; i < len(files) && i < most; i++ {
		for _, t := range r.trees {
			data, err := t.text(files[i], maxSettings)
			if err != nil {
				continue
			}
			words, included := configWords(data)
			for _, name := range included { // relative to the file that includes it
				rel := path.Join(path.Dir(files[i]), name)
				if within(rel, dir) && !slices.Contains(files, rel) {
					files, out = append(files, rel), append(out, rel)
				}
			}
			for _, word := range words {
				rel := path.Join(dir, word)
				if rel == dir || rel == "." || !within(rel, dir) || slices.Contains(out, rel) {
					continue
				}
				out = append(out, rel)
				// The hooks of husky lie in a folder "_" and run those above.
				if above := path.Dir(rel); path.Base(rel) == "_" && above != dir {
					out = append(out, above)
				}
			}
		}
	}
	return out
}

// configWords returns the words of the values in a git configuration that may
// be paths of programs and hooks, and the files that it includes.
func configWords(data []byte) (words, included []string) {
	quiet := []string{"remote", "branch", "user", "submodule", "author", "committer"}
	section := ""
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			head := strings.FieldsFunc(line[1:], func(r rune) bool { return r == ']' || r == ' ' || r == '"' || r == '.' || r == '\t' })
			section = ""
			if len(head) > 0 {
				section = strings.ToLower(head[0])
			}
			if i := strings.LastIndexByte(line, ']'); i >= 0 {
				line = strings.TrimSpace(line[i+1:]) // a setting may follow on the line
			}
		}
		key, value, ok := strings.Cut(line, "=")
		if !ok {
			key, value = "", line // the continuation of a line above
		}
		if slices.Contains(quiet, section) {
			continue
		}
		if strings.HasPrefix(section, "include") && strings.EqualFold(strings.TrimSpace(key), "path") {
			if p := strings.Trim(strings.TrimSpace(value), `"`); p != "" && !strings.HasPrefix(p, "/") && len(p) < maxPath {
				included = append(included, p)
			}
			continue
		}
		for _, w := range strings.FieldsFunc(value, func(r rune) bool { return strings.ContainsRune(" \t\r\"'`;|&()<>{}$!=,", r) }) {
			w = strings.TrimPrefix(strings.ReplaceAll(w, `\`, ""), "./")
			if w != "" && !strings.HasPrefix(w, "/") && !strings.HasPrefix(w, "-") && len(w) < maxPath {
				words = append(words, w)
			}
		}
	}
	return words, included
}

// submodules returns the folders that .gitmodules names in one of the trees.
func (r *risks) submodules() []string {
	var out []string
	for _, t := range r.trees {
		if data, err := t.text(".gitmodules", maxSettings); err == nil {
			out = append(out, modulePaths(data)...)
		}
	}
	return out
}

// modulePaths returns the paths in a .gitmodules file.
func modulePaths(data []byte) []string {
	var out []string
	for line := range strings.Lines(string(data)) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		if ok && strings.EqualFold(strings.TrimSpace(key), "path") {
			p := path.Clean(strings.Trim(strings.TrimSpace(value), `"`))
			if p != "." && p != ".." && !strings.HasPrefix(p, "../") && !strings.HasPrefix(p, "/") {
				out = append(out, p)
			}
		}
	}
	return out
}

// link finds where a symbolic link leads.
func (r *risks) link(e *Entry) {
	at, err := r.resolve(path.Dir(e.Path), e.Link)
	if err != nil {
		e.find(RiskLink, fmt.Sprintf("it leads to %s, %s", Quote(e.Link), err))
		return
	}
	if attributesOnly(at) || at == "." {
		return
	}
	var target Entry
	r.name(&target, at)
	r.around(&target, at)
	for _, f := range target.Findings {
		e.find(f.Risk, "it leads to "+Quote(at)+": "+f.Why)
	}
}

// What resolve finds wrong with a link.
var (
	errOut  = errors.New("out of the folder")
	errLoop = errors.New("which leads through too many links")
	errWhat = errors.New("and goes up from a folder that is not there")
)

// resolve follows target from the folder dir in the current tree. It returns
// the place that it leads to, which may not be there.
func (r *risks) resolve(dir, target string) (string, error) {
	const most = 40
	at := dir
	links, missing := 0, false
	if target == "" || strings.HasPrefix(target, "/") || strings.Contains(target, `\`) || len(target) > 1 && target[1] == ':' {
		return "", errOut // a backslash or a drive leads out where there are any
	}
	for rest := strings.Split(target, "/"); len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		switch {
		case name == "" || name == ".":
			continue
		case name == ".." && at == ".":
			return "", errOut
		case name == ".." && missing:
			return "", errWhat
		case name == "..":
			at = path.Dir(at)
			continue
		}
		next := path.Join(at, name)
		info, err := r.current.Lstat(next)
		if err != nil {
			missing = true
		}
		if err != nil || info.Mode.Type() != fs.ModeSymlink {
			at = next
			continue
		}
		if links++; links > most {
			return "", errLoop
		}
		to, err := r.current.Readlink(next)
		if err != nil || strings.HasPrefix(to, "/") {
			return "", errOut
		}
		rest = append(strings.Split(to, "/"), rest...)
		if len(rest) > maxPath {
			return "", errLoop
		}
	}
	return at, nil
}

// Risks returns the risks that a consent can cover.
func Risks() []Risk {
	return slices.DeleteFunc([]Risk{
		RiskGit, RiskEditor, RiskAgent, RiskShell, RiskPackages, RiskDesktop, RiskCI, RiskSSH, RiskTools, RiskLink, RiskSetID, RiskName, RiskSpecial,
		RiskExecutable, RiskHardLink,
	}, func(r Risk) bool { return r.Level() == Never })
}
