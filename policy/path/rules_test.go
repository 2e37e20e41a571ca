package path_test

import (
	"strings"
	"testing"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/policy"
	"github.com/bulkhead-dev/sandbox/policy/path"
)

// A question is one path with what is said to reading and to writing it.
type question struct {
	path        string
	read, write policy.Verdict
}

func judgeAll(t *testing.T, name string, o path.Options, questions []question) {
	t.Helper()
	p := compiled(t, o)
	for _, q := range questions {
		r, w := p.Judge(read, q.path), p.Judge(write, q.path)
		if r.Verdict != q.read || w.Verdict != q.write {
			t.Errorf("%s: %q: read %s (%s), write %s (%s); want %s, %s", name, q.path, r.Verdict, r.Rule, w.Verdict, w.Rule, q.read, q.write)
		}
	}
}

func TestJudgeRules(t *testing.T) {
	tests := []struct {
		name      string
		options   path.Options
		questions []question
	}{
		{"roots", path.Options{}, []question{
			{"/work", allow, allow}, {"/work/a", allow, allow}, {"/workshop", allow, ask}, {"/usr/bin/x", allow, ask}, {"/", allow, ask},
			{"/tmp/x", allow, allow}, {"/var/tmp/x", allow, allow}, {"/private/tmp/x", allow, allow}, {"/tmp", allow, ask}, {"/tmpx/x", allow, ask},
		}},
		{"no roots", path.Options{WorkRoots: []string{}}, []question{{"/work/a", allow, ask}, {"/tmp/x", allow, allow}, {"/dev/null", allow, allow}}},
		{"strict roots", path.Options{Strict: true, TempPrefixes: []string{"/tmp/ours/", "/private/tmp/theirs"}}, []question{
			{"/work/a", allow, allow}, {"/usr/bin/x", allow, deny}, {"/tmp/x", allow, deny}, {"/tmp/ours/x", allow, allow}, {"/tmp/oursx", allow, deny},
			{"/private/tmp/ours/x", allow, allow}, {"/tmp/theirs/x", allow, allow}, {"/work/.env", deny, deny}, {"/work/x.pem", ask, ask}, {"/dev/fd/3", allow, allow},
		}},
		{"temporary folders without strict", path.Options{TempOnly: true, TempPrefixes: []string{"/tmp/ours/", "/private/var/tmp/theirs"}, AllowWrite: []string{"/tmp/more"}, DenyWrite: []string{"/tmp/ours/kept"}}, []question{
			{"/tmp/x", allow, deny}, {"/tmp/ours", allow, allow}, {"/tmp/ours/a/b", allow, allow}, {"/tmp/oursx", allow, deny}, {"/tmp/ours/../x", allow, deny}, {"/tmp//ours/./x", allow, allow},
			{"/proc/self/root/tmp/x", allow, deny}, {"/var/tmp/theirs/x", allow, allow}, {"/var/tmp/x", allow, deny}, {"/private/tmp/x", allow, deny}, {"/tmp/more/x", allow, allow},
			{"/tmp/ours/kept/x", allow, deny}, {"/tmp/ours/.env", ask, ask}, {"/tmp", allow, ask}, {"/work/tmp/x", allow, allow}, {"/usr/x", allow, ask}, {"/dev/null", allow, allow},
		}},
		{"temporary folders, all of them", path.Options{TempOnly: true, TempPrefixes: []string{"/tmp"}}, []question{{"/tmp/x", allow, allow}, {"/tmp", allow, allow}, {"/var/tmp/x", allow, deny}}},
		{"read roots", path.Options{ReadRoots: []string{"/usr"}, AllowRead: []string{"/opt/x"}, AllowWrite: []string{"/srv/out"}}, []question{
			{"/usr/lib/x", allow, ask}, {"/opt/x/y", allow, ask}, {"/opt/y", ask, ask}, {"/srv/out/y", allow, allow}, {"/work/x", allow, allow}, {"/dev/null", allow, allow},
		}},
		{"deny beats allow", path.Options{
			AllowRead: []string{"/work/a", "/"}, DenyRead: []string{"/work/a"}, AllowWrite: []string{"/work/d/e"}, DenyWrite: []string{"/work/d", "**/*.lock"},
		}, []question{
			{"/work/a", deny, deny}, {"/work/a/b/c/d", deny, deny}, {"/work/ab", allow, allow}, {"/work/d/e/f", allow, deny},
			{"/work/x/y.lock", allow, deny}, {"/work/y.lock/z", allow, deny}, {"/work/y.locks", allow, allow},
		}},
		{"globs", path.Options{DenyRead: []string{"src/*.key", "**/.priv{,ate}", "/opt/*/etc/**/x", "~/*/y", "lit"}, WorkRoots: []string{"/work", "/w[2]"}}, []question{
			{"/work/src/a.key", deny, deny}, {"/work/src/b/a.key", ask, ask}, {"/w[2]/src/a.key", deny, deny}, {"/w2/src/a.key", ask, ask}, {"/work/lit/x", deny, deny}, {"/work/a/lit", allow, allow},
			{"/work/q/.priv/z", deny, deny}, {"/.private", deny, deny}, {"/opt/a/etc/x", deny, deny}, {"/opt/a/etc/b/c/x/d", deny, deny}, {"/opt/etc/x", allow, ask},
			{"/home/u/a/y", deny, deny}, {"/home/u/y", allow, ask}, {"/home/v/a/y", allow, ask},
		}},
		{"names of folders below a root that have another name elsewhere", path.Options{DenyRead: []string{"~/private/tmp", "var/run", "/var/run/x", "~/proc/self/root"}}, []question{
			{"/home/u/private/tmp/x", deny, deny}, {"/home/u/tmp/x", allow, ask}, {"/work/var/run/x", deny, deny}, {"/run/x", deny, deny}, {"/var/run/x/y", deny, deny},
			{"/home/u/proc/self/root", deny, deny},
		}},
		{"allow names a sensitive file", path.Options{
			AllowRead:  []string{"/", "~/.ssh/known_hosts", "**/.npmrc", "~/.gnupg/*.conf", "**/*", "~/.config/*"},
			AllowWrite: []string{"/work/.env", "~/.bashrc", "~"},
		}, []question{
			{"/home/u/.ssh/known_hosts", allow, deny}, {"/home/u/.ssh/id_rsa", ask, deny}, {"/work/.npmrc", allow, ask}, {"/home/u/.gnupg/a.conf", allow, deny},
			{"/home/u/.gnupg/x", ask, deny}, {"/home/u/.config/gcloud/x", ask, deny}, {"/work/.env", allow, allow}, {"/work/b/.env", ask, ask}, {"/home/u/.bashrc", allow, deny},
			{"/etc/shadow", deny, deny}, {"/home/u/x", allow, allow},
		}},
		{"two homes", path.Options{HostHome: "/data/me", DenyRead: []string{"~/secret", "~/*.key"}, AllowWrite: []string{"~/out"}}, []question{
			{"/home/u/secret/x", deny, deny}, {"/data/me/secret/x", deny, deny}, {"/data/me/a.key", deny, deny}, {"/data/you/secret", allow, ask},
			{"/data/me/out/x", allow, allow}, {"/data/me/other", allow, ask}, {"/data/me/.ssh/id_rsa", ask, deny}, {"/data/you/.ssh/id_rsa", ask, deny},
		}},
		{"exceptions", path.Options{Exceptions: []string{"**/testdata", "/work/.git/hooks"}}, []question{
			{"/work/testdata/id_rsa", allow, allow}, {"/work/id_rsa", ask, ask}, {"/work/.git/hooks/x", allow, allow}, {"/work/.git/config", ask, deny},
		}},
		{"added entries", path.Options{Sensitive: []path.Entry{{Category: "ours", Pattern: "**/*.crown", Read: policy.High, Write: policy.Critical, Why: "it is a jewel", Except: []string{"paste.*"}}}}, []question{
			{"/work/a.crown", ask, deny}, {"/work/paste.crown", allow, allow},
		}},
		{"everything", path.Options{DenyWrite: []string{"**"}, AllowWrite: []string{"/**"}}, []question{{"/work/a", allow, deny}, {"/", allow, deny}}},
	}
	for _, tt := range tests {
		judgeAll(t, tt.name, tt.options, tt.questions)
	}
}

// TestHomeUnknown holds that a deny for a home then concerns every home, and
// an allow nothing.
func TestHomeUnknown(t *testing.T) {
	p, err := path.New(path.Options{DenyRead: []string{"~/closed"}, AllowWrite: []string{"~/open"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, home := range []string{"/root", "/home/x", "/Users/x"} {
		if d := p.Judge(read, home+"/closed/a"); d.Verdict != deny {
			t.Errorf("%s: %+v", home, d)
		}
		if d := p.Judge(write, home+"/open/a"); d.Verdict != ask {
			t.Errorf("%s: %+v", home, d)
		}
	}
}

func TestCanonical(t *testing.T) {
	closed := path.Options{DenyRead: []string{"/etc/x", "~/.ssh", "/work/Geheim"}}
	judgeAll(t, "spellings", closed, []question{
		{"//etc/./x", deny, deny}, {"/etc/../etc/x/", deny, deny}, {"/../../etc/x", deny, deny}, {"/work/../home/u//.ssh/k", deny, deny},
		{"/proc/self/root/etc/x", deny, deny}, {"/proc/self/root/../etc/x", deny, deny}, {"/proc/thread-self/root/proc/self/root/etc/x", deny, deny},
		{"/proc/self/task/7/root/etc/x", deny, deny}, {"/proc/net/../root/etc/x", deny, deny}, {"/proc/./self//root", allow, ask},
		{"/private/etc/x", deny, deny}, {"/private/../etc/x", deny, deny}, {"/private/etc/../etc/x", deny, deny}, {"/System/Volumes/Data/private/etc/x", deny, deny},
		{"/var/run/../etc/x", deny, deny}, {"/etc/x.", allow, ask}, {"/etc/x ", allow, ask}, {"/ETC/X", allow, ask},
	})
	judgeAll(t, "places that no name tells", closed, []question{
		{"/proc/self/cwd/x", deny, deny}, {"/proc/7/cwd", deny, deny}, {"/proc/7/root/etc/y", deny, deny}, {"/proc/1/task/1/root", deny, deny}, {"/proc/7/fd/3", deny, deny},
		{"/proc/self/map_files/1-2", deny, deny}, {"/dev/fd/3/etc/x", deny, deny}, {"/dev/fd/3/..", deny, deny}, {"/dev/fd/..", deny, deny}, {"/proc/self/fd/4/x", deny, deny},
		{"/dev/stdin/x", deny, deny}, {"", deny, deny}, {"etc/y", deny, deny}, {"/a\x00b", deny, deny}, {"/" + strings.Repeat("a", 4096), deny, deny},
	})
	folds := closed
	folds.FoldCase = true
	judgeAll(t, "folded", folds, []question{
		{"/ETC/X", deny, deny}, {"/Home/U/.SSH/k", deny, deny}, {"/home/u/.\u017fsh", deny, deny}, {"/home/u/.s\u200csh", deny, deny}, {"/work/GEHEIM", deny, deny},
		{"/Work/.Git/Hooks/x", allow, deny}, {"/PRIVATE/ETC/shadow", deny, deny}, {"/work/.ENV", ask, ask}, {"/work/.ENV.Example", allow, allow}, {"/System/volumes/data/etc/x", deny, deny},
		{"/\u200c", allow, ask}, {"/work/.\u200c./x", allow, allow}, {"/work/\u200c/.env", ask, ask},
		{"/home/u/\u212aube", allow, ask}, {"/home/u/.\u212aube", ask, deny},
	})
}

func TestNewErrors(t *testing.T) {
	tests := []struct {
		name, field string
		options     path.Options
	}{
		{"relative home", "home", path.Options{Home: "home"}},
		{"home that is none", "home", path.Options{Home: "/proc/self/cwd"}},
		{"relative root", "workRoots[0]", path.Options{WorkRoots: []string{"~other"}}},
		{"empty rule", "filesystem.denyRead[1]", path.Options{DenyRead: []string{"/a", ""}}},
		{"another home", "filesystem.allowWrite[0]", path.Options{AllowWrite: []string{"~bob/x"}}},
		{"bad pattern", "filesystem.denyWrite[0]", path.Options{DenyWrite: []string{"/a/[b"}}},
		{"goes up", "filesystem.denyWrite[0]", path.Options{DenyWrite: []string{"~/../x"}}},
		{"descriptor", "exceptions[0]", path.Options{Exceptions: []string{"/dev/fd/3"}}},
		{"no place", "filesystem.denyRead[0]", path.Options{DenyRead: []string{"/proc/self/cwd/x"}}},
		{"relative entry", "sensitive", path.Options{Sensitive: []path.Entry{{Pattern: "x", Why: "w", Read: policy.Low}}}},
		{"entry without reason", "sensitive[0]", path.Options{Sensitive: []path.Entry{{Pattern: "/x", Read: policy.Low}}}},
		{"too many", "filesystem.denyRead", path.Options{DenyRead: make([]string, 10_001)}},
	}
	for _, tt := range tests {
		_, err := path.New(tt.options)
		e, ok := err.(*sandbox.Error)
		if !ok || e.Code != sandbox.CodeValidation || !strings.HasPrefix(e.Field, tt.field) || e.Message == "" {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

func TestSensitive(t *testing.T) {
	p := compiled(t, path.Options{Exceptions: []string{"/work/fixtures"}})
	for name, want := range map[string]string{
		"/work/.git/hooks/x": "**/.git/hooks", "/home/u/.ssh/id_rsa": "**/.ssh", "/work/fixtures/.env": "", "/work/x": "", "/proc/self/cwd/.env": "", "/home/u/.idea/x": "**/.idea",
	} {
		e, ok := p.Sensitive(name)
		if e.Pattern != want || ok != (want != "") {
			t.Errorf("%s: %q %v, want %q", name, e.Pattern, ok, want)
		}
	}
}

// TestEntries holds that every entry has what people need, and matches what
// its own pattern names.
func TestEntries(t *testing.T) {
	p := compiled(t, path.Options{WorkRoots: []string{"/"}})
	seen := map[string]bool{}
	for _, e := range path.Entries() {
		if e.Category == "" || e.Why == "" || e.Read > e.Write || e.Write == 0 {
			t.Errorf("%+v", e)
		}
		if seen[e.Pattern] {
			t.Errorf("%s is there twice", e.Pattern)
		}
		seen[e.Pattern] = true
		example := strings.NewReplacer("**/", "/some/folder/", "~/", "/home/x/", "*", "7", "[0-9]", "1", "{json,yaml,yml,toml,ini,env,txt,properties,xml,enc,db}", "json",
			"{json,yaml,yml,toml,ini,env,txt,properties}", "toml", "{json,yaml,yml,toml,ini,txt,csv,xml,properties}", "csv", "{txt,csv,json}", "txt").Replace(e.Pattern)
		example = strings.ReplaceAll(example, "//", "/")
		if got, ok := p.Sensitive(example); !ok || max(got.Read, got.Write) < max(e.Read, e.Write) {
			t.Errorf("%s: %s is %+v", e.Pattern, example, got)
		}
		if d := p.Judge(write, example); d.Severity < e.Write {
			t.Errorf("%s: writing %s is %+v", e.Pattern, example, d)
		}
	}
}

func TestViolation(t *testing.T) {
	p := compiled(t, path.Options{Strict: true, DenyRead: []string{"/work/x"}})
	for name, want := range map[string]string{
		"/work/.env": "sensitive_file_access", "/work/x": "path_access_denied", "/opt/y": "path_access_denied", "/tmp/y": "disallowed_temp_write", "y": "path_access_denied",
	} {
		if d := p.Judge(write, name); d.Verdict != deny || d.Violation() != want {
			t.Errorf("%s: %s %s, want %s", name, d.Verdict, d.Violation(), want)
		}
	}
}
