package tools

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
)

// FuzzParse holds that whatever is handed in is taken within the bounds or
// refused with a code, and that what is taken names only clean paths.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"diff --git a/x b/y\nsimilarity index 90%\nrename from x\nrename to y\n--- a/x\n+++ b/y\n@@ -1,2 +1,2 @@ f\n-a\n+A\n b\n\\ No newline at end of file\n",
		"--- \"a/\\303\\274\"\t2026\n+++ \"b/\\303\\274\"\n@@ -0,0 +1 @@\n+a\n",
		envelope("*** Add File: n", "+a", "*** Update File: x", "*** Move to: y", "@@ a", " b", "-c", "*** End of File", "*** Delete File: z"),
		"diff --git a/x b/x\nnew file mode 100755\n",
	} {
		f.Add([]byte(s), "a\nb\nc")
	}
	f.Fuzz(func(t *testing.T, text []byte, file string) {
		p, err := parsePatch(text, "/w")
		if err != nil {
			coded(t, err)
			return
		}
		for _, name := range p.Paths() {
			if !strings.HasPrefix(name, "/") || strings.Contains(name+"/", "/../") || strings.ContainsRune(name, 0) || len(name) > maxPath {
				t.Fatalf("path %q", name)
			}
		}
		read := map[string]bool{}
		for _, name := range p.Paths() {
			read[name] = true
		}
		res, err := p.Apply(readerFunc(func(path string) ([]byte, error) {
			if !read[path] {
				t.Fatalf("%q is read, and Paths does not name it", path)
			}
			return tree{p.Files[0].Path: file}.Read(path)
		}))
		if err != nil {
			coded(t, err)
			return
		}
		for _, c := range res.Changes {
			if !read[c.Path] {
				t.Fatalf("%q changes, and Paths does not name it", c.Path)
			}
		}
	})
}

func coded(t *testing.T, err error) {
	t.Helper()
	var e *sandbox.Error
	if !errors.As(err, &e) || e.Code == sandbox.CodeInternal || len(e.Message) > patchMaxMessage || strings.ContainsAny(e.Message, "\x1b\x00\r") {
		t.Fatalf("%q", err)
	}
}

// FuzzEdits makes a diff of one hunk of random lines, with random numbers, and
// holds that the outcome is the file with the lines replaced at one place, or
// an error.
func FuzzEdits(f *testing.F) {
	f.Add("abcabcabc", uint8(3), uint8(2), "xy", uint8(3))
	f.Add("aaaa", uint8(1), uint8(1), "b", uint8(9))
	f.Fuzz(func(t *testing.T, letters string, at, length uint8, put string, says uint8) {
		file := perLetter(letters)
		if int(at)+int(length) > len(file) || length == 0 || len(put) > 50 || len(file) > 200 {
			return
		}
		old, now := file[at:at+length], perLetter(put)
		if strings.Join(old, "") == strings.Join(now, "") {
			return
		}
		var b strings.Builder
		b.WriteString(envelope("*** Update File: x", strings.TrimSuffix("-"+strings.Join(old, "-")+prefixed(now), "\n")))
		numbered := strings.Replace(b.String(), "*** Update File: x\n", "*** Update File: x\n@@ -"+number(says)+" +1 @@\n", 1)
		whole := strings.Join(file, "")
		for _, text := range []string{b.String(), numbered} {
			res, err := apply(t, tree{"x": whole}, text)
			if err != nil {
				coded(t, err)
				continue
			}
			got := string(res.Changes[0].Data)
			if !oneReplaced(whole, strings.Join(old, ""), strings.Join(now, ""), got) {
				t.Fatalf("%q became %q by\n%s", whole, got, text)
			}
		}
	})
}

func number(n uint8) string { return string([]byte{'0' + n/100, '0' + n/10%10, '0' + n%10}) + ",1" }

func prefixed(lines []string) string {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString("+" + l)
	}
	return b.String()
}

// perLetter makes a line of each byte.
func perLetter(s string) (out []string) {
	for _, c := range []byte(s) {
		out = append(out, string('a'+rune(c%5))+"\n")
	}
	return out
}

// oneReplaced reports whether got is whole with old replaced by now once.
func oneReplaced(whole, old, now, got string) bool {
	for i := 0; i+len(old) <= len(whole); i++ {
		if whole[i:i+len(old)] == old && whole[:i]+now+whole[i+len(old):] == got {
			return true
		}
	}
	return false
}

// TestWorkIsBounded holds that patches whose every hunk has to be looked for in
// a large file end, with an error, in a time that does not depend on their
// number.
func TestWorkIsBounded(t *testing.T) {
	file := strings.Repeat("a\n", 1<<19)
	var b strings.Builder
	b.WriteString("--- x\n+++ x\n")
	for range maxHunks {
		b.WriteString("@@ -1,2 +1,2 @@\n a\n-a\n+b\n")
	}
	start := time.Now()
	_, err := apply(t, tree{"x": file}, b.String())
	t.Logf("%v: %v", time.Since(start), err)
	if sandbox.CodeOf(err) != sandbox.CodeValidation {
		t.Errorf("got %v", err)
	}
	// Each hunk is at a place of its own, and none where it says.
	b.Reset()
	b.WriteString("--- x\n+++ x\n")
	var lines []byte
	for i := range 2000 {
		n := string(number(uint8(i/100))) + string(number(uint8(i%100)))
		lines = append(lines, (n + "\na\n")...)
		b.WriteString("@@ -1 +1 @@\n-" + n + "\n+b\n")
	}
	start = time.Now()
	lines = append(lines, bytes.Repeat([]byte("a\n"), 1<<19)...)
	_, err = apply(t, tree{"x": string(lines)}, b.String())
	t.Logf("%v: %v", time.Since(start), err)
	if err == nil || !strings.Contains(err.Error(), "too much work") {
		t.Errorf("got %v", err)
	}
}

// TestAnchorsAreBounded does the same for lines after which hunks go.
func TestAnchorsAreBounded(t *testing.T) {
	hunk := strings.Repeat("@@ a\n", maxAnchors) + "-a\n+b"
	hunks := strings.TrimSuffix(strings.Repeat(hunk+"\n", 1000), "\n")
	_, err := apply(t, tree{"x": "b\n" + strings.Repeat("a\n", 1<<19)}, envelope("*** Update File: x", hunks))
	if sandbox.CodeOf(err) != sandbox.CodeValidation {
		t.Errorf("got %v", err)
	}
	_, err = apply(t, tree{"x": strings.Repeat("z\n", 1<<19) + strings.Repeat("a\n", 20)}, envelope("*** Update File: x", strings.Repeat("@@ z\n", 16)+"-a\n+b", strings.Repeat("@@ a\n@@ z\n", 8)+"-a\n+b"))
	if sandbox.CodeOf(err) != sandbox.CodeValidation {
		t.Errorf("got %v", err)
	}
}

func TestBounds(t *testing.T) {
	many := func(n int, s string) string { return strings.Repeat(s, n) }
	var files strings.Builder
	for i := range maxFiles + 1 {
		files.WriteString("*** Delete File: " + many(i+1, "x") + "\n")
	}
	for name, tt := range map[string]struct {
		files tree
		patch string
		code  sandbox.Code
	}{
		"patch":        {nil, many(maxPatch+1, "\n"), sandbox.CodeValidation},
		"files":        {nil, envelope(files.String()), sandbox.CodeValidation},
		"hunks":        {nil, "--- x\n+++ x\n" + many(maxHunks+1, "@@ -1 +1 @@\n-a\n+b\n"), sandbox.CodeValidation},
		"file":         {tree{"x": many(patchMaxFile+1, "x")}, envelope("*** Update File: x", "-a", "+b"), sandbox.CodeCapabilityBlocked},
		"lines":        {tree{"x": many(maxLines+1, "\n")}, envelope("*** Update File: x", "-a", "+b"), sandbox.CodeCapabilityBlocked},
		"becomes":      {tree{"x": many(patchMaxFile-2, "x") + "\na"}, envelope("*** Update File: x", "-a", "+bbbb"), sandbox.CodeCapabilityBlocked},
		"anchors":      {tree{"x": "a\n"}, envelope("*** Update File: x", many(maxAnchors+1, "@@ a\n")+"-a", "+b"), sandbox.CodeValidation},
		"head numbers": {tree{"x": "a\n"}, "--- x\n+++ x\n@@ -99999999999999999999 +1 @@\n-a\n+b\n", sandbox.CodeValidation},
		"counts":       {tree{"x": "a\n"}, "--- x\n+++ x\n@@ -1,2000000000 +1,2000000000 @@\n-a\n+b\n", sandbox.CodeValidation},
	} {
		t.Run(name, func(t *testing.T) {
			if r, err := apply(t, tt.files, tt.patch); sandbox.CodeOf(err) != tt.code {
				t.Errorf("got %+v, %v", r, err)
			}
		})
	}
}

func BenchmarkApply(b *testing.B) {
	var file, text strings.Builder
	text.WriteString("--- x\n+++ x\n")
	for i := range 50_000 {
		file.WriteString("some line of a file " + number(uint8(i)) + "\n")
		if i%100 == 50 {
			l := "some line of a file " + number(uint8(i)) + "\n"
			text.WriteString("@@ -" + itoa(i+1) + " +" + itoa(i+1) + " @@\n-" + l + "+x" + l)
		}
	}
	p, err := parsePatch([]byte(text.String()), "")
	if err != nil {
		b.Fatal(err)
	}
	files := tree{"x": file.String()}
	b.SetBytes(int64(file.Len()))
	for b.Loop() {
		if _, err := p.Apply(files); err != nil {
			b.Fatal(err)
		}
	}
}

func itoa(n int) string {
	s := ""
	for ; n > 0; n /= 10 {
		s = string(rune('0'+n%10)) + s
	}
	return s
}
