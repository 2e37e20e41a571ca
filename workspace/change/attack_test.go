package change_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/workspace/change"
	"golang.org/x/sys/unix"
)

// An attack is a way in which the workspace could make the host run code, or
// reach beyond the folder, without a consent of its own. After all changes but
// the refused ones are applied, the host has what it had before, and the file
// "benign" that every attack adds beside. Folders called "sub" may come along.
type attack struct {
	files map[string]string // that the host, the base and the workspace have
	host  map[string]string // that the host has besides
	do    map[string]string // what the workspace adds; see newRig
	also  func(r *rig)      // what else it does
	risk  change.Risk       // the expected risk; "" is a conflict or no consent at all
	whole bool              // everything is refused, "benign" too
}

// named are attacks by the name of a file.
var named = map[string]change.Risk{
	".git/hooks/pre-commit": change.RiskGit, ".GIT/hooks/pre-commit": change.RiskGit, ".gIt/config": change.RiskGit, ".git /hooks/pre-commit": change.RiskGit,
	".git./hooks/pre-commit": change.RiskGit, ".git . ./config": change.RiskGit, ".git::$INDEX_ALLOCATION/hooks/pre-commit": change.RiskGit, ".git:x/config": change.RiskGit,
	"git~1/hooks/pre-commit": change.RiskGit, "GIT~2/config": change.RiskGit, ".g\u200cit/hooks/pre-commit": change.RiskGit, ".git\ufeff/config": change.RiskGit,
	`.git\hooks\pre-commit`: change.RiskGit, `sub\.git\config`: change.RiskGit, "sub/.git": change.RiskGit, "sub/.git/info/attributes": change.RiskGit,
	".git/objects/info/alternates": change.RiskGit, ".git/modules/x/config": change.RiskGit, ".git/worktrees/x/commondir": change.RiskGit, ".git/": change.RiskGit, ".gitmodules": change.RiskGit,
	".GitModules": change.RiskGit, ".husky/pre-commit": change.RiskGit, ".pre-commit-config.yaml": change.RiskGit, "lefthook.yml": change.RiskGit, "sub/.lefthook.toml": change.RiskGit,
	".githooks/pre-push": change.RiskGit, ".gitconfig": change.RiskGit, "sub/.hg/hgrc": change.RiskGit,
	".vscode/tasks.json": change.RiskEditor, ".VSCode/settings.json": change.RiskEditor, ".vscode/launch.json": change.RiskEditor, ".vscode/extensions.json": change.RiskEditor,
	"sub/.vscode/mcp.json": change.RiskEditor, ".vscode./tasks.json": change.RiskEditor, "VSCODE~1/tasks.json": change.RiskName, ".idea/workspace.xml": change.RiskEditor, ".exrc": change.RiskEditor,
	".nvimrc": change.RiskEditor, ".vim/vimrc": change.RiskEditor, ".dir-locals.el": change.RiskEditor, ".zed/tasks.json": change.RiskEditor, ".devcontainer/devcontainer.json": change.RiskEditor,
	".devcontainer.json": change.RiskEditor, "x.code-workspace": change.RiskEditor, "x.sublime-project": change.RiskEditor,
	".claude/settings.json": change.RiskAgent, ".codex/config.toml": change.RiskAgent, ".gemini/settings.json": change.RiskAgent, ".mcp.json": change.RiskAgent, "sub/.cursor/mcp.json": change.RiskAgent,
	".envrc": change.RiskShell, ".bashrc": change.RiskShell, ".profile": change.RiskShell, ".zshrc": change.RiskShell, "sub/.zshenv": change.RiskShell, ".gdbinit": change.RiskShell, ".lldbinit": change.RiskShell,
	".pdbrc": change.RiskShell, ".pythonrc": change.RiskShell, "sitecustomize.py": change.RiskShell, "sub/usercustomize.py": change.RiskShell, "x.pth": change.RiskShell,
	".npmrc": change.RiskPackages, ".yarnrc": change.RiskPackages, ".yarnrc.yml": change.RiskPackages, ".pnpmfile.cjs": change.RiskPackages, ".bazelrc": change.RiskPackages, ".cargo/config.toml": change.RiskPackages,
	".ssh/authorized_keys": change.RiskSSH, ".\u017fsh/config": change.RiskSSH, ".aws/config": change.RiskTools, ".docker/config.json": change.RiskTools,
	"x.desktop": change.RiskDesktop, "autorun.inf": change.RiskDesktop, "AutoRun.INF": change.RiskDesktop,
	".github/workflows/ci.yml": change.RiskCI, ".gitlab-ci.yml": change.RiskCI, "Jenkinsfile": change.RiskCI, ".circleci/config.yml": change.RiskCI,
	"bell\x07": change.RiskName, "esc\x1b[2J": change.RiskName, "new\nline": change.RiskName, "bidi\u202etxt": change.RiskName, "zero\u200bwidth": change.RiskName,
}

// attacks are those by more than a name.
var attacks = map[string]attack{
	"hook in an existing repository": {files: map[string]string{".git/config": "[core]\n", ".git/hooks/x.sample": "#"}, do: map[string]string{".git/hooks/x.sample": "+x #"}, risk: change.RiskGit},
	"configuration changed":          {files: map[string]string{".git/config": "[core]\n"}, do: map[string]string{".git/config": "[core]\nfsmonitor=./x\n"}, risk: change.RiskGit},
	"configuration removed":          {files: map[string]string{".git/config": "[core]\n"}, also: func(r *rig) { must(r, os.Remove(r.current+"/.git/config")) }, risk: change.RiskGit},
	"repository removed":             {files: map[string]string{".git/config": "[core]\n"}, also: func(r *rig) { must(r, os.RemoveAll(r.current+"/.git")) }, risk: change.RiskGit},
	"repository replaced by a file":  {files: map[string]string{".git/config": "[core]\n"}, do: map[string]string{".git": "gitdir: sub\n"}, risk: change.RiskGit},
	"repository replaced by a link":  {files: map[string]string{".git/config": "[core]\n"}, do: map[string]string{".git": "-> sub", "sub/": ""}, risk: change.RiskGit},
	"folder renamed to .git": {files: map[string]string{"sub/config": "[core]\nfsmonitor=x\n", "sub/hooks/pre-commit": "#!/bin/sh\n"}, also: func(r *rig) {
		must(r, os.Rename(r.current+"/sub", r.current+"/.git"))
	}, risk: change.RiskGit},
	"file renamed to a hook": {files: map[string]string{"tool": "#!/bin/sh\necho a hook\n", ".git/config": "[core]\n"}, also: func(r *rig) {
		must(r, os.Mkdir(r.current+"/.git/hooks", 0o755))
		must(r, os.Rename(r.current+"/tool", r.current+"/.git/hooks/pre-commit"))
	}, risk: change.RiskGit},
	"hook renamed away": {files: map[string]string{".husky/pre-commit": "a check of what is committed\n"}, also: func(r *rig) {
		must(r, os.Rename(r.current+"/.husky/pre-commit", r.current+"/moved"))
	}, risk: change.RiskGit},
	"filter":                             {do: map[string]string{".gitattributes": "*.c filter=evil\n"}, risk: change.RiskGit},
	"diff driver":                        {do: map[string]string{"sub/.gitattributes": "* text\n*.png diff=evil\n"}, risk: change.RiskGit},
	"merge driver by a macro":            {do: map[string]string{".GITATTRIBUTES": "[attr]x merge=evil\n* x\n"}, risk: change.RiskGit},
	"attributes too long":                {do: map[string]string{".gitattributes": strings.Repeat("# \n", 400<<10)}, risk: change.RiskGit},
	"bare repository":                    {do: map[string]string{"sub/HEAD": "ref: refs/heads/x\n", "sub/objects/": "", "sub/refs/": "", "sub/config": "[core]\nfsmonitor=x\n"}, also: dropFolders("sub/objects", "sub/refs"), risk: change.RiskGit},
	"bare repository at the root":        {do: map[string]string{"HEAD": "ref: refs/heads/x\n", "objects/": "", "refs/": "", "benign2": "x"}, risk: change.RiskGit, whole: true},
	"bare repository completed":          {files: map[string]string{"sub/objects/": "", "sub/refs/": ""}, do: map[string]string{"sub/HEAD": "ref: refs/heads/x\n"}, risk: change.RiskGit},
	"bare repository around host's HEAD": {host: map[string]string{"sub/HEAD": "ref: refs/heads/x\n"}, do: map[string]string{"sub/objects/x": "", "sub/refs/x": "", "sub/config": "[core]\n"}, risk: change.RiskGit},
	"bare worktree":                      {do: map[string]string{"sub/HEAD": "ref: refs/heads/x\n", "sub/commondir": "../x"}, risk: change.RiskGit},
	"configured hooks":                   {files: map[string]string{".git/config": "[core]\n\thooksPath = tools/hooks\n", "tools/hooks/x": ""}, do: map[string]string{"tools/hooks/pre-commit": "+x #!/bin/sh\n"}, risk: change.RiskGit},
	"configured hooks of the host alone": {host: map[string]string{".git/config": "[core]\n\thooksPath = ./sub/\n"}, do: map[string]string{"sub/pre-commit": "+x #!/bin/sh\n"}, risk: change.RiskGit},
	"configured program":                 {files: map[string]string{".git/config": "[core]\n\tfsmonitor = \"./mon.sh --x\"\n", "mon.sh": "+x #\n"}, do: map[string]string{"mon.sh": "+x #evil\n"}, risk: change.RiskGit},
	"configured program in a section":    {files: map[string]string{"sub/.git/config": "[filter \"x\"] clean = bin/clean %f\n", "sub/bin/x": ""}, do: map[string]string{"sub/bin/clean": "+x #evil\n"}, risk: change.RiskGit},
	"configuration included":             {files: map[string]string{".git/config": "[include]\n\tpath = ../project.gitconfig\n[includeIf \"x\"]\n\tpath=../more.inc\n"}, do: map[string]string{"project.gitconfig": "[core]\n", "more.inc": "x"}, also: nil, risk: change.RiskGit},
	"hooks of an included configuration": {
		files: map[string]string{".git/config": "[include]\n\tpath = ../project.inc\n", "project.inc": "[core]\n\thookspath = scripts\n", "scripts/x": ""},
		do:    map[string]string{"scripts/pre-commit": "+x #!/bin/sh\n"}, risk: change.RiskGit,
	},
	"section with a bracket":       {files: map[string]string{".git/config": "[filter \"a]b\"] clean = bin/c\n", "bin/x": ""}, do: map[string]string{"bin/c": "+x #\n"}, risk: change.RiskGit},
	"hooks above husky's":          {files: map[string]string{".git/config": "[core]\n\thooksPath = tools/_\n", "tools/_/x": ""}, do: map[string]string{"tools/pre-commit": "#!/bin/sh\n"}, risk: change.RiskGit},
	"submodule replaced by a link": {files: map[string]string{".gitmodules": "[submodule \"x\"]\n\tpath = lib/x\n", "lib/x/f": ""}, do: map[string]string{"lib/x": "-> ../sub", "sub/": ""}, risk: change.RiskGit},
	"link above a submodule":       {files: map[string]string{".gitmodules": "[submodule \"x\"]\n\tpath = lib/x\n", "lib/x/f": ""}, do: map[string]string{"lib": "-> sub", "sub/": ""}, risk: change.RiskGit},

	"absolute link":                {do: map[string]string{"l": "-> /etc/passwd"}, risk: change.RiskLink},
	"link up":                      {do: map[string]string{"sub/l": "-> ../../x"}, risk: change.RiskLink},
	"link up by detours":           {do: map[string]string{"l": "-> sub/../sub/../../x", "sub/": ""}, risk: change.RiskLink},
	"chain of links out":           {files: map[string]string{"out": "-> /etc"}, do: map[string]string{"l": "-> out/passwd"}, risk: change.RiskLink},
	"link through a linked folder": {files: map[string]string{"a/b/c/": "", "deep": "-> a/b/c"}, do: map[string]string{"l": "-> deep/../../../../x"}, risk: change.RiskLink},
	"link up from nothing":         {do: map[string]string{"l": "-> nothing/../sub", "sub/": ""}, risk: change.RiskLink},
	"links in a circle":            {do: map[string]string{"l": "-> m", "m": "-> l"}, risk: change.RiskLink},
	"link of Windows":              {do: map[string]string{"l": `-> C:\Windows`, "m": `-> ..\..\x`}, risk: change.RiskLink},
	"link to hooks":                {files: map[string]string{".git/hooks/x": ""}, do: map[string]string{"l": "-> .git/hooks"}, risk: change.RiskGit},
	"link to settings to come":     {do: map[string]string{"l": "-> .vscode/tasks.json"}, risk: change.RiskEditor},
	"file replaced by a link out":  {files: map[string]string{"f": "x"}, do: map[string]string{"f": "-> /etc/passwd"}, risk: change.RiskLink},

	"pipe":   {also: func(r *rig) { must(r, unix.Mkfifo(r.current+"/p", 0o666)) }, risk: change.RiskSpecial},
	"socket": {also: listen, risk: change.RiskSpecial},
	"file replaced by a pipe": {files: map[string]string{"f": "x"}, also: func(r *rig) {
		must(r, os.Remove(r.current+"/f"))
		must(r, unix.Mkfifo(r.current+"/f", 0o666))
	}, risk: change.RiskSpecial},
	"setuid": {do: map[string]string{"f": "+x #"}, also: func(r *rig) { must(r, os.Chmod(r.current+"/f", 0o755|os.ModeSetuid)) }, risk: change.RiskSetID},
	"setgid": {files: map[string]string{"f": "+x #"}, also: func(r *rig) { must(r, os.Chmod(r.current+"/f", 0o755|os.ModeSetgid)) }, risk: change.RiskSetID},
	"hard link to a hook": {files: map[string]string{".git/config": ""}, do: map[string]string{".git/hooks/pre-commit": "#!/bin/sh\n"}, also: func(r *rig) {
		must(r, os.Link(r.current+"/.git/hooks/pre-commit", r.current+"/.husky"))
	}, risk: change.RiskGit},
	"host's folder is a link": {files: map[string]string{"data/f": "x"}, also: func(r *rig) {
		must(r, os.RemoveAll(r.host+"/data"))
		outside := filepath.Dir(r.host) + "/outside"
		fill(r, outside, map[string]string{"f": "x"})
		must(r, os.Symlink("../outside", r.host+"/data"))
		put(r, r.current+"/data/f", "evil")
		put(r, r.current+"/data/g", "evil")
	}},
	"host's file is a link": {files: map[string]string{"f": "x"}, also: func(r *rig) {
		put(r, filepath.Dir(r.host)+"/outside", "x")
		put(r, r.host+"/f", "-> ../outside")
		put(r, r.current+"/f", "evil")
	}},
	"removal through a link of the host": {files: map[string]string{"data/f": "x"}, also: func(r *rig) {
		must(r, os.RemoveAll(r.host+"/data"))
		fill(r, filepath.Dir(r.host)+"/outside", map[string]string{"f": "x"})
		must(r, os.Symlink("../outside", r.host+"/data"))
		must(r, os.RemoveAll(r.current+"/data"))
	}},
	"host's own file of a removed folder": {files: map[string]string{"d/f": "x"}, host: map[string]string{"d/own": "mine"}, also: func(r *rig) {
		must(r, os.RemoveAll(r.current+"/d"))
		put(r, r.host+"/d/f", "changed")
	}},
	"sparse file of a terabyte": {also: func(r *rig) {
		f, err := os.Create(r.current + "/f")
		must(r, err)
		must(r, f.Truncate(1<<40))
		must(r, f.Close())
	}},
}

// dropFolders is for attacks whose folders come along without harm.
func dropFolders(...string) func(*rig) { return nil }

func listen(r *rig) {
	r.Helper()
	must(r, os.Chdir(r.current)) // the path of a socket is short
	l, err := net.Listen("unix", "s")
	must(r, os.Chdir(os.TempDir()))
	must(r, err)
	r.Cleanup(func() { l.Close() })
}

// outsideOf is a snapshot of the folder around the rig's folders, where no
// attack may change anything.
func (r *rig) outsideOf() map[string]string {
	r.Helper()
	out := map[string]string{}
	around, err := os.ReadDir(filepath.Dir(r.host))
	must(r, err)
	for _, e := range around {
		if slices.Contains([]string{"host", "base", "current", "journal"}, e.Name()) {
			continue
		}
		at := filepath.Join(filepath.Dir(r.host), e.Name())
		if e.IsDir() {
			out[e.Name()] = fmt.Sprint(snapshot(r, at))
			continue
		}
		data, err := os.ReadFile(at)
		must(r, err)
		out[e.Name()] = string(data)
	}
	return out
}

// try carries out an attack.
func (a attack) try(t *testing.T) {
	r := newRig(t, a.files)
	fill(t, r.host, a.host)
	put(t, r.current+"/benign", "content that no other file has")
	fillOver(t, r.current, a.do)
	if a.also != nil {
		a.also(r)
	}
	before, around := snapshot(t, r.host), r.outsideOf()
	if !a.whole {
		before["benign"] = "-rw-r--r-- content that no other file has"
	}

	p := r.mustPlan(change.PlanOptions{})
	if p.Err() == nil {
		t.Errorf("everything is applied with a plain consent: %+v", p.Steps)
	}
	if _, err := p.Apply(deadline(t), r.journal); err == nil {
		t.Error("it is applied")
	}
	found := a.risk == ""
	for _, e := range p.Refused {
		for _, f := range e.Findings {
			found = found || f.Risk == a.risk
		}
	}
	if !found {
		t.Errorf("no change is refused for %s: %+v, %+v", a.risk, p.Refused, p.Conflicts)
	}
	must(t, r.apply(change.PlanOptions{Partial: true}))
	got := snapshot(t, r.host)
	if a.whole {
		differ(t, "after a plain consent", got, before)
		return
	}
	for name, s := range got {
		if _, ok := before[name]; !ok && strings.HasPrefix(s, "d") && (name == "sub" || name == ".github" || strings.HasPrefix(name, "sub/") && a.harmless(name)) {
			delete(got, name)
		}
	}
	differ(t, "after a plain consent", got, before)
	differ(t, "around the folder", r.outsideOf(), around)
	_, err := r.undo(change.UndoOptions{})
	must(t, err)
}

// harmless reports whether a folder may come along that the attack makes.
func (a attack) harmless(name string) bool {
	return !strings.Contains(strings.ToLower(name), "git")
}

// fillOver is fill where a file may take the place of a folder.
func fillOver(t testing.TB, root string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		if !strings.HasSuffix(name, "/") {
			must(t, os.RemoveAll(filepath.Join(root, name)))
		}
		fill(t, root, map[string]string{name: content})
	}
}

// TestAttacks holds that no attack changes the host without its own consent.
func TestAttacks(t *testing.T) {
	if n := len(named) + len(attacks); n < 40 {
		t.Errorf("there are only %d attacks", n)
	}
	for name, risk := range named {
		t.Run("name "+change.Quote(name), func(t *testing.T) {
			content := map[string]string{name: "x\n"}
			if strings.HasSuffix(name, "/") {
				content = map[string]string{name: ""}
			}
			attack{do: content, risk: risk}.try(t)
		})
	}
	for name, a := range attacks {
		t.Run(name, a.try)
	}
}

// TestHostHardLink holds that a change of a file does not reach another name
// that the file has on the host.
func TestHostHardLink(t *testing.T) {
	r := newRig(t, map[string]string{"notes": "x\n", "mode": "x\n", ".git/hooks/a": ""})
	must(t, os.Link(r.host+"/notes", r.host+"/.git/hooks/pre-commit"))
	must(t, os.Link(r.host+"/mode", r.host+"/.git/hooks/pre-push"))
	put(t, r.current+"/notes", "+x #!/bin/sh\nevil\n")
	must(t, os.Chmod(r.current+"/mode", 0o755))
	must(t, r.apply(change.PlanOptions{}))
	got := snapshot(t, r.host)
	if got[".git/hooks/pre-commit"] != "-rw-r--r-- x\n" || got[".git/hooks/pre-push"] != "-rw-r--r-- x\n" || !strings.Contains(got["notes"], "evil") || !strings.HasPrefix(got["mode"], "-rwx") {
		t.Errorf("%q", got)
	}
}

// TestConsent holds how far consents reach.
func TestConsent(t *testing.T) {
	r := newRig(t, nil)
	fill(t, r.current, map[string]string{".git/hooks/a": "x", ".github/workflows/a": "x", ".vscode/a": "x", ".vscode2/.envrc": "x", "l": "-> /x", "m": "-> .git/hooks/../../../x"})
	must(t, unix.Mkfifo(r.current+"/pipe", 0o600))
	left := func(o change.PlanOptions) string {
		var out []string
		for _, e := range r.mustPlan(o).Refused {
			if !e.IsDir() {
				out = append(out, e.Path)
			}
		}
		return strings.Join(out, " ")
	}
	all := ".git/hooks/a .github/workflows/a .vscode/a .vscode2/.envrc l m pipe"
	for _, tt := range []struct {
		o    change.PlanOptions
		want string
	}{
		{change.PlanOptions{}, all},
		{change.PlanOptions{AllowPaths: []string{"."}}, all},
		{change.PlanOptions{AllowPaths: []string{".vscode", ".git/hooks/b", "pipe"}}, ".git/hooks/a .github/workflows/a .vscode2/.envrc l m pipe"},
		{change.PlanOptions{AllowRisks: []change.Risk{change.RiskCI, change.RiskSpecial}}, ".git/hooks/a .vscode/a .vscode2/.envrc l m pipe"},
		{change.PlanOptions{AllowRisks: []change.Risk{change.RiskLink, change.RiskGit}}, ".github/workflows/a .vscode/a .vscode2/.envrc pipe"},
		{everything(), "pipe"},
	} {
		if got := left(tt.o); got != tt.want {
			t.Errorf("%v %v: %s, want %s", tt.o.AllowPaths, tt.o.AllowRisks, got, tt.want)
		}
	}
	// What has two risks needs both.
	put(t, r.current+"/.git/hooks/a", "-> /bin/sh")
	if got := left(change.PlanOptions{AllowRisks: []change.Risk{change.RiskGit}, Paths: []string{".git"}}); got != ".git/hooks/a" {
		t.Errorf("with one of two consents: %s", got)
	}
}

// TestHarmless holds that usual changes need no consent of their own.
func TestHarmless(t *testing.T) {
	r := newRig(t, map[string]string{"old": "x", ".cursorrules": "x"})
	fill(t, r.current, map[string]string{
		"AGENTS.md": "x", ".cursorrules": "y", ".env": "A=1", "Makefile": "all:\n", "build.rs": "x", "src/main.go": "x", "run.sh": "+x #!/bin/sh\n", ".gitignore": "x", ".gitattributes": "* text=auto\n*.sh eol=lf\n",
		"node_modules/.bin/x": "-> ../x/cli.js", "node_modules/x/cli.js": "x", "lib/libx.so": "-> libx.so.1", "lib/libx.so.1": "-> libx.so.1.2", "lib/libx.so.1.2": "x", "docs/git.md": "x", "gitter/config": "x",
		".dockerignore": "x", "Dockerfile": "x", "package.json": "{}", ".eslintrc.json": "{}", "HEAD": "x", "naïve café.txt": "x", "foo~": "x", "secret.pem": "x", ".github/ISSUE_TEMPLATE.md": "x",
	})
	must(t, os.Remove(r.current+"/old"))
	p := r.mustPlan(change.PlanOptions{})
	for _, e := range p.Refused {
		t.Errorf("%s: %+v", e.Path, e.Findings)
	}
	must(t, p.Err())
	executable := 0
	for _, e := range p.Entries {
		for _, f := range e.Findings {
			if f.Risk == change.RiskExecutable && e.Path == "run.sh" {
				executable++
			}
		}
	}
	if executable != 1 {
		t.Errorf("a new program is not listed: %+v", p.Entries)
	}
}

// TestSwappedFolder holds that an application does not follow a link that takes
// the place of a folder while it works.
func TestSwappedFolder(t *testing.T) {
	for _, at := range []string{"staged d/f", "wrote journal", "built d/f", "did a"} {
		t.Run(at, func(t *testing.T) {
			r := newRig(t, map[string]string{"a": "1", "d/f": "1", "d/g": "1"})
			put(t, r.current+"/a", "2")
			put(t, r.current+"/d/f", "evil")
			put(t, r.current+"/d/new", "evil")
			must(t, os.Remove(r.current+"/d/g"))
			outside := filepath.Dir(r.host) + "/outside"
			fill(t, outside, map[string]string{"f": "1", "g": "1"})
			around := r.outsideOf()
			p := r.mustPlan(change.PlanOptions{})
			once := false
			change.SetStep(p, func(step string) {
				if step == at && !once {
					once = true
					must(t, os.Rename(r.host+"/d", r.host+"/e"))
					must(t, os.Symlink("../outside", r.host+"/d"))
				}
			})
			_, err := p.Apply(deadline(t), r.journal)
			if !once {
				t.Error("the step is not there")
			}
			if err == nil && at != "built d/f" {
				t.Error("it is applied")
			}
			differ(t, "around the folder", r.outsideOf(), around)
		})
	}
}

// TestForgedJournal holds that a journal that was tampered with changes nothing
// outside of the folder, and nothing at all where its content is not whole.
func TestForgedJournal(t *testing.T) {
	forge := func(old, new string) func(r *rig) {
		return func(r *rig) {
			data, err := os.ReadFile(r.journal + "/journal.json")
			must(r, err)
			changed := strings.ReplaceAll(string(data), old, new)
			if changed == string(data) {
				r.Fatalf("%s is not in %s", old, data)
			}
			must(r, os.WriteFile(r.journal+"/journal.json", []byte(changed), 0o600))
		}
	}
	for name, do := range map[string]func(r *rig){
		"path up":         forge(`"path":"a"`, `"path":"../outside"`),
		"path up inside":  forge(`"path":"a"`, `"path":"b/../../outside"`),
		"absolute path":   forge(`"path":"a"`, `"path":"/etc/x"`),
		"the folder":      forge(`"path":"a"`, `"path":"."`),
		"NUL":             forge(`"path":"a"`, `"path":"a\u0000"`),
		"coded path":      forge(`"path":"a"`, `"path":"base64:Li4vb3V0c2lkZQ=="`),
		"other folder":    forge(`/host"`, `/outside"`),
		"other inode":     forge(`"ino":`, `"ino":1`),
		"mode":            forge(`"mode":420`, `"mode":70000`),
		"kind":            forge(`"kind":"file"`, `"kind":"device"`),
		"digest":          forge(`"digest":"`, `"digest":"zz`),
		"version":         forge(`"version":1`, `"version":2`),
		"id":              func(r *rig) { forge(`"id":"`, `"id":"../../x`)(r) },
		"no JSON":         forge(`{`, ``),
		"phase":           func(r *rig) { must(r, os.WriteFile(r.journal+"/phase", []byte("done"), 0o600)) },
		"content":         func(r *rig) { must(r, os.WriteFile(r.journal+"/old/0", []byte("evil"), 0o600)) },
		"content missing": func(r *rig) { must(r, os.Remove(r.journal+"/old/0")) },
		"content a link":  func(r *rig) { put(r, r.journal+"/old/0", "-> ../../outside") },
		"content folder":  func(r *rig) { must(r, os.RemoveAll(r.journal+"/old")); put(r, r.journal+"/old", "-> ..") },
		"journal a link": func(r *rig) {
			must(r, os.Rename(r.journal+"/journal.json", r.journal+"/x"))
			put(r, r.journal+"/journal.json", "-> x")
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, map[string]string{"a": "1"})
			put(t, filepath.Dir(r.host)+"/outside", "1")
			put(t, r.current+"/a", "2")
			must(t, r.apply(change.PlanOptions{}))
			around, before := r.outsideOf(), snapshot(t, r.host)
			do(r)
			if _, err := r.undo(change.UndoOptions{Partial: true}); err == nil || sandbox.CodeOf(err) == sandbox.CodeInternal {
				t.Errorf("%v", err)
			}
			differ(t, "around the folder", r.outsideOf(), around)
			differ(t, "the folder", snapshot(t, r.host), before)
		})
	}
	r := newRig(t, map[string]string{"a": "1"})
	put(t, r.current+"/a", "2")
	for _, dir := range []string{"/journal", "/deep/journal", ""} {
		_, err := r.mustPlan(change.PlanOptions{}).Apply(deadline(t), r.host+dir)
		refused(t, err, sandbox.CodeValidation)
	}
	must(t, os.Mkdir(r.journal, 0o777))
	must(t, os.Chmod(r.journal, 0o777))
	if err := r.apply(change.PlanOptions{}); err == nil {
		t.Error("a journal that others may write to is taken")
	}
}
