package change

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	pathpolicy "github.com/bulkhead-dev/sandbox/policy/path"
)

// TestTableAdds holds that no pattern of the table is one that package path has
// with the same risk.
func TestTableAdds(t *testing.T) {
	var own []string
	for _, r := range table {
		own = append(own, r.patterns...)
	}
	for _, e := range pathpolicy.Entries() {
		if risk, ok := riskOf(pathpolicy.Decision{Category: e.Category, Severity: e.Write}); ok && slices.Contains(own, e.Pattern) {
			for _, r := range table {
				if r.risk == risk && slices.Contains(r.patterns, e.Pattern) {
					t.Errorf("%s is in both tables as %s", e.Pattern, risk)
				}
			}
		}
	}
	slices.Sort(own)
	for i, p := range own {
		if i > 0 && own[i-1] == p {
			t.Errorf("%s is there twice", p)
		}
	}
}

// TestRisksOfWhatIsApplied holds that the risks are those of the changes that
// were compared, also where the workspace looks harmless again when they are
// judged.
func TestRisksOfWhatIsApplied(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"/base", "/current"} {
		if err := os.Mkdir(dir+name, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(dir+"/current/.gitattributes", []byte("* text\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	base, err := Folder(dir + "/base")
	if err != nil {
		t.Fatal(err)
	}
	defer base.Close()
	current, err := Folder(dir + "/current")
	if err != nil {
		t.Fatal(err)
	}
	defer current.Close()
	added := func(p, content string) Entry {
		return Entry{Path: p, Kind: Added, Mode: 0o644, Size: int64(len(content)), Digest: hexDigest([]byte(content))}
	}
	entries := []Entry{
		added(".gitattributes", "* filter=evil\n"), added("sub/HEAD", "ref: refs/heads/x\n"), added("sub/config", "[core]\n"), added("sub/objects/x", ""), added("sub/refs/x", ""),
		{Path: "link", Kind: Added, Mode: fs.ModeSymlink | 0o777, Link: "sub/config"},
	}
	if err := findRisks(t.Context(), entries, base, current); err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Level() != Own {
			t.Errorf("%s: %+v", e.Path, e.Findings)
		}
	}
	harmless := []Entry{added(".gitattributes", "* text\n"), added("sub/HEAD", "x"), added("sub/objects/x", "")}
	if err := findRisks(t.Context(), harmless, base, current); err != nil {
		t.Fatal(err)
	}
	for _, e := range harmless {
		if e.Level() != Plain {
			t.Errorf("%s: %+v", e.Path, e.Findings)
		}
	}
}

// FuzzLines holds that the edits between two texts lead from one to the other,
// and that a merge is one where a side did not change, and the same from both
// sides.
func FuzzLines(f *testing.F) {
	f.Add("a\nb\nc\n", "a\nX\nc\n", "a\nb\nc\nd\n")
	f.Add("", "x", "y\n")
	f.Add("a\na\na\nb\n", "a\nb\na\na\n", "b\nb")
	f.Add("1\n2\n3\n4\n5\n", "0\n1\n2\n3\n4\n5\n", "1\n2\n3\n4\n5\n6\n")
	f.Fuzz(func(t *testing.T, base, ours, theirs string) {
		a, b := splitLines([]byte(base)), splitLines([]byte(ours))
		if strings.Join(a, "") != base {
			t.Fatalf("%q is split into %q", base, a)
		}
		var out []string
		at, last := 0, edit{-1, -1, -1, -1}
		for _, e := range diffLines(a, b) {
			if e.a1 < at || e.a2 < e.a1 || e.b2 < e.b1 || e.a1 == e.a2 && e.b1 == e.b2 || e.a1-last.a2 != e.b1-last.b2 && last.a1 >= 0 || e.a1 == last.a2 {
				t.Fatalf("%+v after %+v", e, last)
			}
			out = append(append(out, a[at:e.a1]...), b[e.b1:e.b2]...)
			at, last = e.a2, e
		}
		if got := strings.Join(append(out, a[at:]...), ""); got != ours {
			t.Fatalf("%q and the edits make %q, not %q", base, got, ours)
		}
		left, okLeft := merge3([]byte(base), []byte(ours), []byte(theirs))
		right, okRight := merge3([]byte(base), []byte(theirs), []byte(ours))
		if okLeft != okRight || !bytes.Equal(left, right) {
			t.Errorf("the merge depends on the side: %q, %v, and %q, %v", left, okLeft, right, okRight)
		}
		for _, tt := range [][3]string{{base, ours, ours}, {ours, base, ours}} {
			if got, ok := merge3([]byte(base), []byte(tt[0]), []byte(tt[1])); !ok || string(got) != tt[2] {
				t.Errorf("%q with %q and %q: %q, %v", base, tt[0], tt[1], got, ok)
			}
		}
		if got, ok := merge3([]byte(base), []byte(ours), []byte(ours)); !ok || string(got) != ours {
			t.Errorf("the same on both sides: %q, %v", got, ok)
		}
	})
}

// FuzzJournal holds that a journal that is accepted has only paths and states
// that may be used, and is written as it was read.
func FuzzJournal(f *testing.F) {
	good := journal{Version: version, ID: "abcdefghijkl", Folder: "/x", Ops: []operation{
		{Path: "a\xff", Old: state{Kind: regular, Mode: 0o644, Digest: hexDigest(nil)}, New: state{Kind: symlink, Link: "base64:x"}},
	}}
	data, err := json.Marshal(good)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(`{"version":1,"id":"abcdefghijkl","folder":"/x","ops":[{"path":"../a"}]}`))
	f.Add([]byte(`{"version":1,"id":"abcdefghijkl","folder":"/x","ops":[{"path":"base64:Li4v"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		j, err := parseJournal(data)
		if err != nil {
			return
		}
		for _, o := range j.Ops {
			p := string(o.Path)
			if p == "" || p == "." || path.Clean(p) != p || path.IsAbs(p) || p == ".." || strings.HasPrefix(p, "../") || strings.Contains(p, "\x00") {
				t.Errorf("%q is accepted", p)
			}
			if o.New.Kind == regular && o.New.Mode > 0o777 {
				t.Errorf("mode %o is accepted", o.New.Mode)
			}
		}
		again, err := json.Marshal(j)
		if err != nil {
			t.Fatal(err)
		}
		k, err := parseJournal(again)
		if err != nil {
			t.Fatal(err)
		}
		for i := range j.Ops {
			if j.Ops[i].Path != k.Ops[i].Path || j.Ops[i].Old != k.Ops[i].Old || j.Ops[i].New != k.Ops[i].New {
				t.Errorf("%+v, and then %+v", j.Ops[i], k.Ops[i])
			}
		}
	})
}

// FuzzQuote holds that a quoted name is safe to show and leads back to the
// name.
func FuzzQuote(f *testing.F) {
	for _, s := range []string{"a", "a b", "\"", "\\", "é", "\x1b[31m", `"a\303"`, `"\1"`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		_, _ = Unquote(name)
		if name == "" {
			return
		}
		q := Quote(name)
		if back, ok := Unquote(q); !ok || back != name {
			t.Errorf("%q: %s leads to %q", name, q, back)
		}
		if strings.IndexFunc(q, func(r rune) bool { return r < ' ' || r >= 0x7f }) >= 0 {
			t.Errorf("%q is not safe", q)
		}
	})
}

// FuzzSettings holds that settings files of git are read to their end, whatever
// is in them, and that what is found stays in the folder.
func FuzzSettings(f *testing.F) {
	f.Add([]byte("[core]\n\thooksPath = a/b\n[filter \"x\"] clean=\"./c %f\"\n"))
	f.Add([]byte("[submodule \"x\"]\n\tpath = ../x\n\tpath=\"lib\"\n"))
	f.Add([]byte("* filter=x\n[attr]y diff\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		_ = drivers(data)
		for _, p := range modulePaths(data) {
			if p == "." || p == ".." || strings.HasPrefix(p, "../") || strings.HasPrefix(p, "/") {
				t.Errorf("%q", p)
			}
		}
		words, included := configWords(data)
		for _, w := range append(words, included...) {
			if strings.HasPrefix(w, "/") || w == "" {
				t.Errorf("%q", w)
			}
		}
	})
}

// FuzzNames holds that a path with a name that some file system takes for .git
// is a risk, whatever is around it.
func FuzzNames(f *testing.F) {
	for _, s := range []string{"a", "sub/x", "\xff", "é/\u200c", "a\\b", "x~1", "..", "con"} {
		f.Add(s, uint8(3))
	}
	p, rows, err := names()
	if err != nil {
		f.Fatal(err)
	}
	r := risks{policy: p, rows: rows}
	disguises := []string{".git", ".GIT", ".git ", ".git.", ".git::$DATA", "git~1", ".g\u200dit", ".Git...", ".git\ufeff"}
	f.Fuzz(func(t *testing.T, name string, n uint8) {
		if checkPath("test", name) != nil || name == "." {
			return
		}
		var e Entry
		r.name(&e, path.Join(name, disguises[int(n)%len(disguises)], "hooks/x"))
		if e.Level() != Own {
			t.Errorf("%q with %q: %+v", name, disguises[int(n)%len(disguises)], e.Findings)
		}
		other := foreign(name)
		if strings.Contains(other, "\\") || strings.Contains("/"+other+"/", "/../") || strings.HasPrefix(other, "/") {
			t.Errorf("%q: %q", name, other)
		}
	})
}
