package tools

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
)

// A tree is files by path.
type tree map[string]string

func (t tree) Read(path string) ([]byte, error) {
	if s, ok := t[path]; ok {
		return []byte(s), nil
	}
	return nil, fs.ErrNotExist
}

// carry out a result as a caller would.
func (t tree) carry(r *patchResult) {
	for _, c := range r.Changes {
		if c.Action != actionDelete {
			t[c.Path] = string(c.Data)
		}
	}
	for _, name := range r.Removed() {
		delete(t, name)
	}
}

// show is a tree as one string.
func (t tree) show() string {
	var out []string
	for name, text := range t {
		out = append(out, name+"="+text)
	}
	slices.Sort(out)
	return strings.Join(out, "|")
}

func apply(t *testing.T, files tree, text string) (*patchResult, error) {
	t.Helper()
	p, err := parsePatch([]byte(text), "")
	if err != nil {
		return nil, err
	}
	return p.Apply(files)
}

func envelope(lines ...string) string {
	return "*** Begin Patch\n" + strings.Join(lines, "\n") + "\n*** End Patch\n"
}

func TestPatchApply(t *testing.T) {
	const abc = "a\nb\nc\nd\ne\n"
	for name, tt := range map[string]struct {
		files tree
		patch string
		want  tree
		note  string // part of the notes, or empty for none
	}{
		"git": {tree{"x": abc}, "diff --git a/x b/x\nindex 1..2 100644\n--- a/x\n+++ b/x\n@@ -2,3 +2,3 @@\n b\n-c\n+C\n d\n",
			tree{"x": "a\nb\nC\nd\ne\n"}, ""},
		"plain with times": {tree{"x": abc}, "--- x\t2026-01-01 00:00:00\n+++ x\t2026-01-01 00:00:01\n@@ -1,2 +1 @@\n-a\n b\n", tree{"x": "b\nc\nd\ne\n"}, ""},
		"a mail":           {tree{"x": "a\n"}, "From 1\nSubject: x\n\n---\n x | 2 +-\n\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n-- \n2.39.5\n\n", tree{"x": "b\n"}, ""},
		"a new file":       {tree{}, "--- /dev/null\n+++ b/d/x\n@@ -0,0 +1,2 @@\n+a\n+b\n\\ No newline at end of file\n", tree{"d/x": "a\nb"}, ""},
		"a new empty file": {tree{}, "diff --git a/x y b/x y\nnew file mode 100755\nindex 0..0\n", tree{"x y": ""}, ""},
		"deleted":          {tree{"x": "a\n"}, "--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n", tree{}, ""},
		"renamed":          {tree{"x": "a\n"}, "diff --git a/x b/y\nsimilarity index 100%\nrename from x\nrename to y\n", tree{"y": "a\n"}, ""},
		"renamed and changed": {tree{"x": abc}, "diff --git a/x b/y\nsimilarity index 90%\nrename from x\nrename to y\n--- a/x\n+++ b/y\n@@ -1,2 +1,2 @@\n-a\n+A\n b\n",
			tree{"y": "A\nb\nc\nd\ne\n"}, ""},
		"swapped": {tree{"x": "1", "y": "2"}, "diff --git a/x b/y\nrename from x\nrename to y\ndiff --git a/y b/x\nrename from y\nrename to x\n", tree{"x": "2", "y": "1"}, ""},
		"quoted": {tree{"a\tü\"": "a\n"}, "diff --git \"a/a\\t\\303\\274\\\"\" \"b/a\\t\\303\\274\\\"\"\n--- \"a/a\\t\\303\\274\\\"\"\n+++ \"b/a\\t\\303\\274\\\"\"\n@@ -1 +1 @@\n-a\n+b\n",
			tree{"a\tü\"": "b\n"}, ""},
		"other prefixes":       {tree{"x": "a\n"}, "diff --git i/x w/x\n--- i/x\n+++ w/x\n@@ -1 +1 @@\n-a\n+b\n", tree{"x": "b\n"}, ""},
		"no prefixes":          {tree{"a/x": "a\n"}, "diff --git a/x a/x\n--- a/x\n+++ a/x\n@@ -1 +1 @@\n-a\n+b\n", tree{"a/x": "b\n"}, ""},
		"renamed, no prefixes": {tree{"a/b": "a\nb\n"}, "diff --git a/b b/a\nrename from a/b\nrename to b/a\n--- a/b\n+++ b/a\n@@ -1,2 +1 @@\n-a\n b\n", tree{"b/a": "b\n"}, ""},
		"mode only":            {tree{"x": "a\n"}, "diff --git a/x b/x\nold mode 100644\nnew mode 100755\n", tree{"x": "a\n"}, ""},
		"newline put":          {tree{"x": "a"}, "--- x\n+++ x\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n", tree{"x": "a\n"}, ""},
		"newline taken":        {tree{"x": "a\n"}, "--- x\n+++ x\n@@ -1 +1 @@\n-a\n+a\n\\ No newline at end of file\n", tree{"x": "a"}, ""},
		"newline not said":     {tree{"x": "a\nb"}, "--- x\n+++ x\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n", tree{"x": "a\nc"}, "blanks at the ends"},
		"moved":                {tree{"x": "0\n0\n" + abc}, "--- x\n+++ x\n@@ -2,3 +2,3 @@\n b\n-c\n+C\n d\n", tree{"x": "0\n0\na\nb\nC\nd\ne\n"}, "line 4 instead of 2"},
		"moved and after":      {tree{"x": "0\na\nk\nk\na\nk\n"}, "--- x\n+++ x\n@@ -1,2 +1,1 @@\n-a\n k\n@@ -3 +2 @@\n-k\n+K\n", nil, ""},
		"at the line named":    {tree{"x": "a\na\na\n"}, "--- x\n+++ x\n@@ -2 +2 @@\n-a\n+b\n", tree{"x": "a\nb\na\n"}, ""},
		"blanks at the end":    {tree{"x": "a \nb\t\nc\n"}, "--- x\n+++ x\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n", tree{"x": "a \nB\nc\n"}, "blanks at the ends"},
		"an empty line":        {tree{"x": "a\n\nb\n"}, "--- x\n+++ x\n@@ -1,3 +1,3 @@\n a\n\n-b\n+c\n", tree{"x": "a\n\nc\n"}, ""},
		"carriage returns":     {tree{"x": "a\r\nb\r\n"}, "--- x\n+++ x\n@@ -1,2 +1,3 @@\n a\n-b\n+c\n+d\n", tree{"x": "a\r\nc\r\nd\r\n"}, ""},
		"all with returns":     {tree{"x": "a\nb\n"}, "--- x\r\n+++ x\r\n@@ -1,2 +1,2 @@\r\n a\r\n-b\r\n+c\r\n", tree{"x": "a\nc\n"}, ""},
		"a mark":               {tree{"x": "\ufeffa\nb\n"}, "--- x\n+++ x\n@@ -1,2 +1,2 @@\n-a\n+A\n b\n", tree{"x": "\ufeffA\nb\n"}, ""},
		"lines like heads":     {tree{"x": "-- y\n++ z\n"}, "--- x\n+++ x\n@@ -1,2 +1,2 @@\n--- y\n+++ y\n ++ z\n", tree{"x": "++ y\n++ z\n"}, ""},

		"agent: all kinds": {tree{"x": abc, "y": "1", "old": "o\np\n"}, envelope("*** Add File: n", "+1", "+", "*** Delete File: y", "*** Update File: x", "@@", " b", "-c", "+C",
			"*** Update File: old", "*** Move to: d/new", "@@", "-o", "+O"), tree{"x": "a\nb\nC\nd\ne\n", "n": "1\n\n", "d/new": "O\np\n"}, ""},
		"agent: move alone":    {tree{"x": "1"}, envelope("*** Update File: x", "*** Move to: y"), tree{"y": "1"}, ""},
		"agent: no head":       {tree{"x": abc}, envelope("*** Update File: x", " a", "-b", " c"), tree{"x": "a\nc\nd\ne\n"}, ""},
		"agent: end kept":      {tree{"x": "a\nb"}, envelope("*** Update File: x", "@@", "-b", "+c", "+d"), tree{"x": "a\nc\nd"}, "blanks at the ends"},
		"agent: anchor":        {tree{"x": "f:\n 1\n 2\ng:\n 1\n 2\n"}, envelope("*** Update File: x", "@@ g:", "  1", "- 2", "+ 3"), tree{"x": "f:\n 1\n 2\ng:\n 1\n 3\n"}, ""},
		"agent: anchors":       {tree{"x": "A\nf\n1\nB\nf\n1\n"}, envelope("*** Update File: x", "@@ B", "@@ f", "-1", "+2"), tree{"x": "A\nf\n1\nB\nf\n2\n"}, ""},
		"agent: begun anchor":  {tree{"x": "class A(B):\n  1\n"}, envelope("*** Update File: x", "@@ class A", "-  1", "+  2"), tree{"x": "class A(B):\n  2\n"}, ""},
		"agent: end of file":   {tree{"x": "a\nb\na\n"}, envelope("*** Update File: x", "@@", "-a", "+c", "*** End of File"), tree{"x": "a\nb\nc\n"}, ""},
		"agent: append":        {tree{"x": "a\n"}, envelope("*** Update File: x", "@@", "+b", "*** End of File"), tree{"x": "a\nb\n"}, ""},
		"agent: after anchor":  {tree{"x": "a\nb\n"}, envelope("*** Update File: x", "@@ a", "+c"), tree{"x": "a\nc\nb\n"}, ""},
		"agent: numbers":       {tree{"x": "a\na\n"}, envelope("*** Update File: x", "@@ -2,1 +2,1 @@ f", "-a", "+b"), tree{"x": "a\nb\n"}, ""},
		"agent: blank lines":   {tree{"x": abc}, "\n" + envelope("", "*** Update File: x", "@@", "-a", "+A", "", "@@", "-d", "+D", "") + "\n", tree{"x": "A\nb\nc\nD\ne\n"}, ""},
		"agent: into an empty": {tree{"x": ""}, envelope("*** Update File: x", "+a"), tree{"x": "a\n"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			files := tt.files
			r, err := apply(t, files, tt.patch)
			if tt.want == nil {
				if err == nil {
					t.Fatal("it was taken")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			files.carry(r)
			if files.show() != tt.want.show() {
				t.Errorf("got  %q\nwant %q", files.show(), tt.want.show())
			}
			var notes []string
			for _, c := range r.Changes {
				notes = append(notes, c.Notes...)
			}
			if all := strings.Join(notes, "; "); !strings.Contains(all, tt.note) || tt.note == "" && all != "" {
				t.Errorf("notes %q, want %q", all, tt.note)
			}
		})
	}
}

func TestRefused(t *testing.T) {
	const abc = "a\nb\nc\nd\ne\n"
	files := tree{"x": abc, "y": "y\n", "twice": "k\n1\nk\n1\n", "in": "f() {\n\tif x {\n\t}\n}\n", "bin": "\x00\x01"}
	on := func(name string, lines ...string) string {
		return "--- " + name + "\n+++ " + name + "\n" + strings.Join(lines, "\n") + "\n"
	}
	for name, tt := range map[string]struct {
		patch string
		want  []string // in the error
	}{
		"nothing":                {"", []string{"no change"}},
		"prose":                  {"please change x\n", []string{"no change", "Begin Patch"}},
		"binary":                 {"diff --git a/x b/x\nindex 1..2 100644\nGIT binary patch\nliteral 1\n", []string{"line 3", "binary"}},
		"binary, plain":          {"Binary files a/x and b/x differ\n", []string{"binary"}},
		"a link":                 {"diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+/etc/passwd\n", []string{"line 2", "links"}},
		"a changed link":         {"diff --git a/l b/l\nindex 1..2 120000\n--- a/l\n+++ b/l\n@@ -1 +1 @@\n-a\n+b\n", []string{"links"}},
		"a link that goes":       {"diff --git a/y b/y\ndeleted file mode 120000\n--- a/y\n+++ /dev/null\n@@ -1 +0,0 @@\n-y\n", []string{"line 2", "links"}},
		"a submodule":            {"diff --git a/s b/s\nindex 1..2 160000\n--- a/s\n+++ b/s\n@@ -1 +1 @@\n-a\n+b\n", []string{"submodules"}},
		"a copy":                 {"diff --git a/x b/z\ncopy from x\ncopy to z\n", []string{"copies"}},
		"only in":                {"Only in a: x\n", []string{"-N"}},
		"no names":               {"@@ -1 +1 @@\n-a\n+b\n", []string{"names of its file"}},
		"two names":              {"--- x\n+++ y\n@@ -1 +1 @@\n-a\n+b\n", []string{"two names"}},
		"contradiction":          {"diff --git a/x b/x\nnew file mode 100644\ndeleted file mode 100644\n", []string{"contradict"}},
		"too few lines":          {on("x", "@@ -1,3 +1,3 @@", "-a", "+A", " b"), []string{"line 7", "lacks 1 old and 1 new"}},
		"too many lines":         {on("x", "@@ -1,1 +1,1 @@", "-a", "+A", " b"), []string{"line 6", "more lines"}},
		"a bad head":             {on("x", "@@ 1,2 @@", "-a", "+A"), []string{"no head of a hunk"}},
		"no change in it":        {on("x", "@@ -1 +1 @@", " a"), []string{"changes nothing"}},
		"no hunks":               {on("x"), []string{"nothing changes"}},
		"no such file":           {on("z", "@@ -1 +1 @@", "-a", "+b"), []string{"no file", "SANDBOX.NOT_FOUND"}},
		"another word":           {on("x", "@@ -2,2 +2,2 @@", " b", "-q", "+r"), []string{"line 3 of the patch", "line 3 is not \"q\"", "     3\tc"}},
		"the second hunk":        {on("x", "@@ -1 +1 @@", "-a", "+A", "@@ -4 +4 @@", "-q", "+r"), []string{"hunk 2 of 2, line 6 of the patch"}},
		"indentation":            {on("in", "@@ -2,2 +2,2 @@", "-    if x {", "+    if y {", "     }"), []string{"indentation", "     2\t\tif x {"}},
		"made already":           {on("x", "@@ -1,2 +1,2 @@", "-z", "+a", " b"), []string{"may have been made already"}},
		"ambiguous":              {on("twice", "@@ -2,1 +2,1 @@", "-k", "+l"), []string{"2 places", "1, 3"}},
		"order":                  {on("x", "@@ -4 +4 @@", "-d", "+D", "@@ -1 +1 @@", "-a", "+A"), []string{"order", "line 1"}},
		"overlap":                {on("x", "@@ -1,2 +1,2 @@", "-a", "+A", " b", "@@ -2 +2 @@", "-b", "+B"), []string{"order", "line 2"}},
		"no context":             {on("x", "@@ -2,0 +3 @@", "+z"), []string{"no lines by which"}},
		"part of a line":         {"--- x\n+++ x\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n\\ No newline at end of file\n@@ -9 +9 @@\n-y\n+z\n", []string{"hunk 2"}},
		"more than it deletes":   {"--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n", []string{"does not know", "     1\tb"}},
		"there already":          {"--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+a\n", []string{"already", `"x"`}},
		"renamed onto":           {"diff --git a/x b/y\nrename from x\nrename to y\n", []string{"already", `"y"`}},
		"twice":                  {on("x", "@@ -1 +1 @@", "-a", "+A") + on("x", "@@ -2 +2 @@", "-b", "+B"), []string{"line 6", "already at line 1"}},
		"twice by another name":  {on("x", "@@ -1 +1 @@", "-a", "+A") + on("./x", "@@ -2 +2 @@", "-b", "+B"), []string{"already at line 1"}},
		"a file as folder":       {"--- a/x\n+++ /dev/null\n@@ -1,5 +0,0 @@\n-a\n-b\n-c\n-d\n-e\n--- /dev/null\n+++ b/x/y\n@@ -0,0 +1 @@\n+a\n", []string{"folder"}},
		"upwards":                {on("../x", "@@ -1 +1 @@", "-a", "+b"), []string{`".."`}},
		"upwards inside":         {on("d/../x", "@@ -1 +1 @@", "-a", "+b"), []string{`".."`}},
		"absolute":               {on("/etc/passwd", "@@ -1 +1 @@", "-a", "+b"), []string{"absolute"}},
		"NUL":                    {on("x\x00y", "@@ -1 +1 @@", "-a", "+b"), []string{"NUL"}},
		"NUL in quotes":          {on(`"x\000y"`, "@@ -1 +1 @@", "-a", "+b"), []string{"NUL"}},
		"no name":                {"--- \n+++ \n@@ -1 +1 @@\n-a\n+b\n", []string{"name of the file is missing"}},
		"a long name":            {on(strings.Repeat("x", 5000), "@@ -1 +1 @@", "-a", "+b"), []string{"5000 bytes"}},
		"a folder":               {on("d/", "@@ -1 +1 @@", "-a", "+b"), []string{"folder"}},
		"bad quotes":             {on(`"x\9"`, "@@ -1 +1 @@", "-a", "+b"), []string{"quoted"}},
		"agent: no end":          {"*** Begin Patch\n*** Delete File: x\n", []string{"does not end"}},
		"agent: more":            {envelope("*** Delete File: x") + "--- y\n+++ y\n", []string{"follows"}},
		"agent: not first":       {"here it is:\n" + envelope("*** Delete File: x"), []string{"not the first"}},
		"agent: no section":      {envelope("-a"), []string{"begins no file"}},
		"agent: unknown section": {envelope("*** Rename File: x"), []string{"begins no file"}},
		"agent: add with rest":   {envelope("*** Add File: n", "+a", "b"), []string{"does not begin with +"}},
		"agent: bad line":        {envelope("*** Update File: x", "@@", "a", "+b"), []string{`"a" begins with none`}},
		"agent: nothing":         {envelope("*** Update File: x"), []string{"nothing changes"}},
		"agent: to itself":       {envelope("*** Update File: x", "*** Move to: ./x"), []string{"itself"}},
		"agent: ambiguous":       {envelope("*** Update File: twice", "@@", "-k", "+l"), []string{"2 places"}},
		"agent: anchor unclear":  {envelope("*** Update File: twice", "@@ k", "-1", "+l"), []string{"2 places", "2, 4"}},
		"agent: no anchor":       {envelope("*** Update File: x", "@@ zzzzzz", "-a", "+l"), []string{"after which the hunk is to go"}},
		"agent: not at the end":  {envelope("*** Update File: x", "@@", "-a", "+l", "*** End of File"), []string{"end of the file"}},
		"agent: no place":        {envelope("*** Update File: x", "@@", "+l"), []string{"no lines by which"}},
	} {
		t.Run(name, func(t *testing.T) {
			before := files.show()
			r, err := apply(t, files, tt.patch)
			var e *sandbox.Error
			if !errors.As(err, &e) || e.Code != sandbox.CodeValidation && e.Code != sandbox.CodeNotFound {
				t.Fatalf("got %+v, %v", r, err)
			}
			for _, w := range tt.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%v\nlacks %q", err, w)
				}
			}
			if len(e.Message) > patchMaxMessage || r != nil || files.show() != before {
				t.Errorf("%d bytes of message, result %v", len(e.Message), r)
			}
		})
	}
}

// TestWrapped holds that a patch in a fence or a here-document is that patch, and
// that lines of a changed file that look like these are lines of the file.
func TestWrapped(t *testing.T) {
	agents := "*** Begin Patch\n*** Update File: a\n@@\n-1\n+one\n*** End Patch\n"
	git := "diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1,2 +1,2 @@\n-1\n+one\n 2\n"
	for _, p := range []string{agents, git} {
		for _, text := range []string{
			"```\n" + p + "```\n", "\n ```diff\n" + p + "```\n\n", "~~~~ patch x\n" + p + "~~~~~", "```diff\r\n" + strings.ReplaceAll(p, "\n", "\r\n") + "```\r\n",
			"apply_patch <<'EOF'\n" + p + "EOF\n", "apply_patch << \"PATCH\"\n" + p + "PATCH", "<<EOF\n" + p + "EOF\n\n", "applypatch <<EOF\n" + p + "EOF",
			"git apply -p1 - <<'EOF'\n" + p + "EOF\n", "patch -p1 <<'EOF'\n" + p + "EOF\n", "apply_patch <<-EOF\n\t" + strings.ReplaceAll(strings.TrimSpace(p), "\n", "\n\t") + "\n\tEOF\n",
			"```bash\napply_patch <<'EOF'\n" + p + "EOF\n```\n", "<<'EOF'\n```diff\n" + p + "```\nEOF",
		} {
			files := tree{"a": "1\n2\n"}
			r, err := apply(t, files, text)
			if err != nil {
				t.Errorf("%q: %v", text, err)
				continue
			}
			if files.carry(r); files.show() != "a=one\n2\n" {
				t.Errorf("%q: %q", text, files.show())
			}
		}
		for _, text := range []string{
			"```diff\n" + p, "~~~\n" + p + "```\n", "````\n" + p + "```\n", "apply_patch <<'EOF'\n" + p, "<<EOF\n" + p + "EOF2\n", "<<EOF\n" + p + " EOF\n", "```", "<<EOF",
			"cd sub && apply_patch <<'EOF'\n" + agents + "EOF\n", "apply_patch <<'EOF\"\n" + agents + "EOF\n", "rm -rf . <<'EOF'\n" + agents + "EOF\n",
		} {
			if _, err := apply(t, tree{"a": "1\n2\n"}, text); sandbox.CodeOf(err) != sandbox.CodeValidation {
				t.Errorf("%q: %v", text, err)
			}
		}
	}
	files := tree{"a.md": "x\n```\ny\n```\n"}
	r, err := apply(t, files, "```diff\n--- a/a.md\n+++ b/a.md\n@@ -2,3 +2,3 @@\n ```\n-y\n+EOF\n ```\n```\n")
	if err != nil {
		t.Fatal(err)
	}
	if files.carry(r); files.show() != "a.md=x\n```\nEOF\n```\n" {
		t.Errorf("%q", files.show())
	}
	if _, err := apply(t, tree{"a": "1\n"}, "```\n*** Begin Patch\n*** Update File: a\n@@\n-2\n+3\n*** End Patch\n```\n"); err == nil || !strings.Contains(err.Error(), "line 4 of the patch") {
		t.Errorf("lines do not keep their numbers: %v", err)
	}
}

// TestNamesOfURLs holds that a URL in a patch names the file that it means.
func TestNamesOfURLs(t *testing.T) {
	for _, text := range []string{
		"*** Begin Patch\n*** Add File: file:///workspace/a%20b\n+x\n*** End Patch\n", "--- /dev/null\n+++ file:///workspace/a%20b\n@@ -0,0 +1 @@\n+x\n",
		"*** Begin Patch\n*** Add File: sandbox:///workspace/a%20b\n+x\n*** End Patch\n",
	} {
		p, err := parsePatch([]byte(text), sandbox.WorkspaceDir)
		if err != nil || !slices.Equal(p.Paths(), []string{"/workspace/a b"}) {
			t.Errorf("%q: %v, %v", text, p, err)
		}
	}
	for _, name := range []string{"file:x", "file://host/x", "https://example.com/x", "file:///workspace/%2e%2e/x"} {
		if _, err := parsePatch([]byte("*** Begin Patch\n*** Delete File: "+name+"\n*** End Patch\n"), sandbox.WorkspaceDir); sandbox.CodeOf(err) != sandbox.CodeValidation {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestPatchPaths(t *testing.T) {
	p, err := parsePatch([]byte(envelope("*** Update File: ./a//x", "*** Move to: /workspace/y", "*** Delete File: /etc/passwd", "*** Delete File: b")), "/workspace")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(p.Paths(), " "), "/workspace/a/x /workspace/y /etc/passwd /workspace/b"; got != want {
		t.Errorf("paths %q, want %q", got, want)
	}
	if _, err := parsePatch([]byte(envelope("*** Delete File: /workspace")), "/workspace"); err == nil {
		t.Error("the workspace itself was taken for a file")
	}
}

func TestMode(t *testing.T) {
	r, err := apply(t, tree{"x": "a\n"}, "diff --git a/x b/x\nold mode 100644\nnew mode 100755\ndiff --git a/n b/n\nnew file mode 100755\n")
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Changes) != 2 || r.Changes[0].Mode != 0o755 || r.Changes[0].New || r.Changes[1].Mode != 0o755 || !r.Changes[1].New {
		t.Errorf("got %+v", r.Changes)
	}
}

// Paths returns every path that the patch reads, writes or removes, once each,
// in the order of the patch.
func (p *patch) Paths() []string {
	var out []string
	for _, f := range p.Files {
		for _, name := range []string{f.Path, f.To} {
			if name != "" && !slices.Contains(out, name) {
				out = append(out, name)
			}
		}
	}
	return out
}
