package tools

import (
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/tools/schema"
)

func TestWriteThenRead(t *testing.T) {
	r := newRig(t, plain)
	a := r.call("write", obj{"path": "dir/a.txt", "content": "one\ntwo\nthree\n"})
	if d := data[schema.WriteResult](t, a); !d.Created || d.Bytes != 14 || d.Path != "dir/a.txt" {
		t.Errorf("%+v", d)
	}
	a = r.call("write", obj{"path": "/workspace/dir/a.txt", "content": "1\n2\n3\n"})
	if d := data[schema.WriteResult](t, a); d.Created {
		t.Errorf("a file that was there counts as made: %+v", d)
	}
	a = r.call("read", obj{"path": "dir/a.txt", "offset": 2, "limit": 1})
	d := data[schema.ReadResult](t, a)
	if d.Kind != "text" || d.Text != "     2\t2\n" || d.First != 2 || d.Last != 2 || d.Lines != 3 || !d.More || d.Size != 6 {
		t.Errorf("%+v", d)
	}
	if !strings.Contains(a.Text, "     2\t2\n") || !strings.Contains(a.Text, "go on with offset 3") {
		t.Errorf("%q", a.Text)
	}
	r.write("empty", "")
	if a := r.call("read", obj{"path": "empty"}); a.Text == "" {
		t.Error("nothing is said of an empty file")
	}
	r.write("bin", "\x00\x01\x02")
	if d := data[schema.ReadResult](t, r.call("read", obj{"path": "bin"})); d.Kind != "binary" || d.Text != "" || d.Size != 3 {
		t.Errorf("%+v", d)
	}
	r.refused(sandbox.CodeNotFound, "read", obj{"path": "nothing"})
	r.refused(sandbox.CodeValidation, "read", obj{"path": "dir"})
	r.refused(sandbox.CodeCapabilityBlocked, "read", obj{"path": "/etc/shadow"})
	r.refused(sandbox.CodeCapabilityBlocked, "write", obj{"path": "../out", "content": ""})
	r.refused(sandbox.CodeValidation, "write", obj{"path": "dir", "content": ""})
	r.refused(sandbox.CodeValidation, "write", obj{"path": "dir/a.txt/below", "content": ""})
}

// TestURLs holds that a URL names the file that it means, for every tool that
// takes a path, and that none makes a folder "file:".
func TestURLs(t *testing.T) {
	r := newRig(t, plain)
	a := r.call("write", obj{"path": "file:///workspace/dir/a%20b.txt", "content": "one\n"})
	if d := data[schema.WriteResult](t, a); d.Path != "/workspace/dir/a b.txt" || r.content("dir/a b.txt") != "one\n" {
		t.Errorf("%+v", d)
	}
	const at = "sandbox:///workspace/dir/a%20b.txt"
	if d := data[schema.ReadResult](t, r.call("read", obj{"path": at, "limit": "5"})); d.Lines != 1 {
		t.Errorf("%+v", d)
	}
	r.call("edit", obj{"path": at, "old": "one", "new": "two"})
	r.call("apply_patch", obj{"patch": "*** Begin Patch\n*** Update File: " + at + "\n@@\n-two\n+three\n*** End Patch\n"})
	if got := r.content("dir/a b.txt"); got != "three\n" {
		t.Errorf("%q", got)
	}
	if d := data[schema.LsResult](t, r.call("ls", obj{"path": "file:///workspace/dir"})); len(d.Entries) != 1 {
		t.Errorf("%+v", d)
	}
	for _, in := range []obj{{"pattern": "file:///workspace/**/*%20b.txt"}, {"pattern": "*.txt", "path": "file:///workspace/dir"}} {
		if d := data[schema.GlobResult](t, r.call("glob", in)); len(d.Paths) != 1 || d.Paths[0] != "/workspace/dir/a b.txt" {
			t.Errorf("%v: %+v", in, d)
		}
	}
	if d := data[schema.GrepResult](t, r.call("grep", obj{"pattern": "three", "path": "file:///workspace"})); len(d.Lines) != 1 {
		t.Errorf("%+v", d)
	}
	if d := data[schema.LsResult](t, r.call("ls", nil)); len(d.Entries) != 1 {
		t.Errorf("more was made than a folder and a file: %+v", d)
	}
	r.refused(sandbox.CodeCapabilityBlocked, "read", obj{"path": "file:///workspace/..%2f..%2fetc%2fpasswd"})
	r.refused(sandbox.CodeCapabilityBlocked, "read", obj{"path": "file:///etc/shadow"})
}

func TestEdit(t *testing.T) {
	r := newRig(t, plain)
	r.write("a.go", "x := 1\ny := 1\nz := 1\n")
	a := r.call("edit", obj{"path": "a.go", "old": "y := 1", "new": "y := 2"})
	if d := data[schema.EditResult](t, a); len(d.Edits) != 1 || d.Edits[0] != (schema.EditChange{Places: 1, Line: 2}) || d.Created {
		t.Errorf("%+v", d)
	}
	a = r.call("edit", obj{"path": "a.go", "edits": []obj{{"old": ":= 1", "new": "= 3", "all": true}, {"old": "y := 2\n", "new": ""}}})
	if got := r.content("a.go"); got != "x = 3\nz = 3\n" {
		t.Errorf("%q", got)
	}
	if d := data[schema.EditResult](t, a); d.Edits[0].Places != 2 {
		t.Errorf("%+v", d)
	}
	if e := r.refused(sandbox.CodeValidation, "edit", obj{"path": "a.go", "old": "x = 4\n", "new": ""}); !strings.Contains(e.Message, "x = 3") || e.Field != "edits[0].old" {
		t.Errorf("a miss does not show the nearest lines: %v", e)
	}
	r.refused(sandbox.CodeValidation, "edit", obj{"path": "a.go", "old": "= 3", "new": "= 4"})
	r.refused(sandbox.CodeNotFound, "edit", obj{"path": "none", "old": "a", "new": "b"})
	a = r.call("edit", obj{"path": "new/file", "old": "", "new": "hello\n"})
	if d := data[schema.EditResult](t, a); !d.Created || r.content("new/file") != "hello\n" {
		t.Errorf("%+v", d)
	}
	if got := r.content("a.go"); got != "x = 3\nz = 3\n" {
		t.Errorf("edits that were refused changed the file: %q", got)
	}
}

func TestApplyPatch(t *testing.T) {
	r := newRig(t, plain)
	r.write("a", "1\n2\n3\n")
	r.write("b", "old\n")
	r.write("c", "gone\n")
	a := r.call("apply_patch", obj{"patch": "*** Begin Patch\n*** Update File: a\n@@\n-2\n+two\n*** Update File: b\n*** Move to: sub/b2\n@@\n-old\n+new\n*** Delete File: c\n*** Add File: d\n+fresh\n*** End Patch\n"})
	d := data[schema.PatchResult](t, a)
	if len(d.Files) != 4 || d.Files[1].From != "/workspace/b" || d.Files[3].Path != "/workspace/d" || !d.Files[3].Created {
		t.Errorf("%+v", d)
	}
	for path, want := range map[string]string{"a": "1\ntwo\n3\n", "sub/b2": "new\n", "d": "fresh\n"} {
		if got := r.content(path); got != want {
			t.Errorf("%s is %q", path, got)
		}
	}
	for _, path := range []string{"b", "c"} {
		r.refused(sandbox.CodeNotFound, "read", obj{"path": path})
	}
	r.refused(sandbox.CodeValidation, "apply_patch", obj{"patch": "*** Begin Patch\n*** Update File: a\n@@\n-1\n+one\n*** Update File: d\n@@\n-stale\n+x\n*** End Patch\n"})
	if got := r.content("a"); got != "1\ntwo\n3\n" {
		t.Errorf("a patch that does not fit changed a file: %q", got)
	}
	r.call("apply_patch", obj{"patch": "--- a/d\n+++ b/d\n@@ -1 +1 @@\n-fresh\n+stale\n"})
	if got := r.content("d"); got != "stale\n" {
		t.Errorf("%q", got)
	}
}

func TestLook(t *testing.T) {
	r := newRig(t, plain)
	for path, content := range map[string]string{"src/a.go": "package a\nfunc A() {}\n", "src/b.txt": "func text\nA\n", "src/deep/c.go": "package c\n// func\n", ".git/x": "func hidden\n", "bin": "\x00func"} {
		r.write(path, content)
	}
	a := r.call("ls", obj{})
	ls := data[schema.LsResult](t, a)
	if ls.Page.Total != 3 || ls.Entries[1].Name != "bin" || ls.Entries[1].Kind != "file" || ls.Entries[1].Size != 5 || ls.Entries[2].Kind != "folder" {
		t.Errorf("%+v", ls)
	}
	if ls := data[schema.LsResult](t, r.call("ls", obj{"offset": 1, "limit": 1})); len(ls.Entries) != 1 || ls.Entries[0].Name != "bin" || !ls.Page.More {
		t.Errorf("%+v", ls)
	}
	if ls := data[schema.LsResult](t, r.call("ls", obj{"offset": 50})); len(ls.Entries) != 0 || ls.Page.More {
		t.Errorf("%+v", ls)
	}
	if g := data[schema.GlobResult](t, r.call("glob", obj{"pattern": "**/*.go"})); strings.Join(g.Paths, " ") != "src/a.go src/deep/c.go" {
		t.Errorf("%+v", g)
	}
	if g := data[schema.GlobResult](t, r.call("glob", obj{"pattern": "*.go", "path": "src"})); strings.Join(g.Paths, " ") != "src/a.go" {
		t.Errorf("%+v", g)
	}
	if g := data[schema.GlobResult](t, r.call("glob", obj{"pattern": "nothing*"})); len(g.Paths) != 0 || g.Paths == nil {
		t.Errorf("%+v", g)
	}
	r.refused(sandbox.CodeValidation, "glob", obj{"pattern": "[", "path": "src"})
	r.refused(sandbox.CodeValidation, "glob", obj{"pattern": "/etc/*", "path": "src"})
	r.refused(sandbox.CodeCapabilityBlocked, "glob", obj{"pattern": "/etc/*"})

	g := data[schema.GrepResult](t, r.call("grep", obj{"pattern": "^func"}))
	if len(g.Lines) != 2 || g.Lines[0].Path != "src/a.go" || g.Lines[0].Line != 2 || !g.Lines[0].Hit || g.Search.Binary != 1 || g.Search.Repository != 1 || g.Search.Files != 3 {
		t.Errorf("%+v", g)
	}
	a = r.call("grep", obj{"pattern": "FUNC", "ignoreCase": true, "glob": "*.go", "context": 1})
	if !strings.HasPrefix(a.Text, "src/a.go-1-package a\nsrc/a.go:2:func A() {}\n--\nsrc/deep/c.go-1-package c\n") {
		t.Errorf("%q", a.Text)
	}
	if g := data[schema.GrepResult](t, r.call("grep", obj{"pattern": "func", "mode": "files"})); len(g.Files) != 3 || g.Files[0] != (schema.GrepFile{Path: "src/a.go"}) {
		t.Errorf("%+v", g)
	}
	if g := data[schema.GrepResult](t, r.call("grep", obj{"pattern": "A", "mode": "count", "path": "src", "glob": "*.txt"})); len(g.Files) != 1 || g.Files[0] != (schema.GrepFile{Path: "src/b.txt", Count: 1}) {
		t.Errorf("%+v", g)
	}
	if g := data[schema.GrepResult](t, r.call("grep", obj{"pattern": "a", "limit": 1})); len(g.Lines) != 1 || !g.Page.More {
		t.Errorf("%+v", g)
	}
	if g := data[schema.GrepResult](t, r.call("grep", obj{"pattern": "func(", "literal": true})); len(g.Lines) != 0 {
		t.Errorf("%+v", g)
	}
	r.refused(sandbox.CodeValidation, "grep", obj{"pattern": "(?=x)"})
	r.refused(sandbox.CodeNotFound, "grep", obj{"pattern": "x", "path": "nothing"})
	r.refused(sandbox.CodeCapabilityBlocked, "grep", obj{"pattern": "x", "path": "/etc"})
}
