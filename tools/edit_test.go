package tools

import (
	"errors"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
)

func TestEditText(t *testing.T) {
	one := func(old, new string) []textEdit { return []textEdit{{Old: old, New: new}} }
	for name, tt := range map[string]struct {
		text  string
		edits []textEdit
		want  string
		line  int // of the last edit
	}{
		"a word":                        {"a b c\n", one("b", "x"), "a x c\n", 1},
		"a line":                        {"a\nb\nc\n", one("b\n", ""), "a\nc\n", 2},
		"no newline at the end":         {"a\nb", one("b", "c"), "a\nc", 2},
		"all":                           {"a a\na", []textEdit{{Old: "a", New: "bb", All: true}}, "bb bb\nbb", 1},
		"all that overlap":              {"aaaaa", []textEdit{{Old: "aa", New: "b", All: true}}, "bba", 1},
		"in order":                      {"a", []textEdit{{Old: "a", New: "b"}, {Old: "b", New: "c"}}, "c", 1},
		"a new file":                    {"", one("", "x\n"), "x\n", 1},
		"a file that became empty":      {"a", []textEdit{{Old: "a"}, {New: "b"}}, "b", 1},
		"carriage returns kept":         {"a\r\nb\r\n", one("a\nb", "x\ny\nz"), "x\r\ny\r\nz\r\n", 1},
		"carriage returns spelled":      {"a\r\nb\r\n", one("a\r\nb", "x\ny"), "x\ny\r\n", 1},
		"mixed endings":                 {"a\r\nb\nc", one("b\nc", "x"), "a\r\nx", 2},
		"a mark kept":                   {"\ufeffa\n", one("a", "b"), "\ufeffb\n", 1},
		"a mark spelled":                {"\ufeffa\n", one("\ufeffa", "b"), "b\n", 1},
		"a mark alone":                  {"\ufeff", one("", "b"), "\ufeffb", 1},
		"no text":                       {"\x00\xff\xfea\x00", one("\xfea", "b"), "\x00\xffb\x00", 1},
		"more than a short search":      {"x" + strings.Repeat("ab", 100) + "y", one(strings.Repeat("ab", 100)+"y", "z"), "xz", 1},
		"a line far down":               {strings.Repeat("\n", 99) + "a", one("a", "b"), strings.Repeat("\n", 99) + "b", 100},
		"a carriage return in the line": {"a\r\r\nb\r\n", one("b", "c"), "a\r\r\nc\r\n", 2},
	} {
		t.Run(name, func(t *testing.T) {
			before := tt.text
			in := []byte(tt.text)
			got, err := applyEdits(in, tt.edits)
			if err != nil {
				t.Fatal(err)
			}
			if string(got.Text) != tt.want {
				t.Errorf("got %q, want %q", got.Text, tt.want)
			}
			if len(got.Changes) != len(tt.edits) || got.Changes[len(tt.edits)-1].Line != tt.line {
				t.Errorf("changes %+v, want the last in line %d", got.Changes, tt.line)
			}
			if string(in) != before {
				t.Error("the text that was handed in has changed")
			}
		})
	}
}

func TestEditRefused(t *testing.T) {
	one := func(old, new string) []textEdit { return []textEdit{{Old: old, New: new}} }
	const text = "package p\n\nfunc f() {\n\tif x {\n\t\treturn 1\n\t}\n}\n"
	for name, tt := range map[string]struct {
		text  string
		edits []textEdit
		field string
		want  []string // in the message
	}{
		"no edits":              {text, nil, "edits", []string{"1 to 100"}},
		"too many":              {text, make([]textEdit, 101), "edits", []string{"not 101"}},
		"the same":              {text, one("x", "x"), "edits[0].new", []string{"nothing would change"}},
		"empty":                 {text, one("", ""), "edits[0].old", []string{"empty"}},
		"empty old":             {text, one("", "x"), "edits[0].old", []string{"new or empty file"}},
		"in an empty file":      {"", one("x", "y"), "edits[0].old", []string{"file is empty"}},
		"the second":            {text, []textEdit{{Old: "p", New: "q"}, {Old: "package p", New: ""}}, "edits[0].old", []string{"2 times"}},
		"what the first took":   {text, []textEdit{{Old: "package p", New: "package q"}, {Old: "package p", New: ""}}, "edits[1].old", []string{"line 1", "package q"}},
		"several":               {"a\nb\na\na\n", one("a", "x"), "edits[0].old", []string{"3 times, at the lines 1, 3, 4"}},
		"many":                  {strings.Repeat("a\n", 50), one("a", "x"), "edits[0].old", []string{"50 times", "1, 2, 3, 4, 5 and 45 more"}},
		"overlapping":           {"aaa", one("aa", "x"), "edits[0].old", []string{"2 times"}},
		"indentation":           {text, one("    if x {\n        return 1\n", "y"), "edits[0].old", []string{"line 4-5", "differs in indentation", "     5\t\t\treturn 1"}},
		"blanks at the end":     {"a \nb\n", one("a\nb", "y"), "edits[0].old", []string{"blanks at the ends of lines"}},
		"blanks within":         {"f( a,b )\n", one("f(a, b)", "y"), "edits[0].old", []string{"blanks within lines"}},
		"endings":               {"a\r\nb\nc\n", one("a\nb", "y"), "edits[0].old", []string{"line endings", `\r`}},
		"endings of the edit":   {"a\nb\n", one("a\r\nb", "y"), "edits[0].old", []string{"line endings"}},
		"case":                  {"Hello World\n", one("hello world", "y"), "edits[0].old", []string{"upper and lower case"}},
		"the last newline":      {"a\nb", one("a\nb\n", "y"), "edits[0].old", []string{"line 1-2", "newline at the end"}},
		"numbers of a listing":  {text, one("     4\t\tif x {\n     5\t\t\treturn 1\n", "y"), "edits[0].old", []string{"line numbers"}},
		"another word":          {text, one("\tif x {\n\t\treturn 2\n\t}\n", "y"), "edits[0].old", []string{"line 4-6, line 5 is not \"\t\treturn 2\"", "     5\t\t\treturn 1"}},
		"another word, alone":   {text, one("func g() {", "y"), "edits[0].old", []string{"line 3", "func f() {"}},
		"nothing alike":         {text, one("zzzzzzzz", "y"), "edits[0].old", []string{"nothing in it is like that"}},
		"escapes in the text":   {"\x1b[31mred one\n", one("red one too", "y"), "edits[0].old", []string{`\x1b[31mred one`}},
		"a line beyond showing": {strings.Repeat("long ", 1000) + "\n", one(strings.Repeat("long ", 999)+"x", "y"), "edits[0].old", []string{"…"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := applyEdits([]byte(tt.text), tt.edits)
			var e *sandbox.Error
			if !errors.As(err, &e) || e.Code != sandbox.CodeValidation {
				t.Fatalf("got %q, %v", got.Text, err)
			}
			if e.Field != tt.field {
				t.Errorf("field %q, want %q", e.Field, tt.field)
			}
			for _, w := range tt.want {
				if !strings.Contains(e.Message, w) {
					t.Errorf("message\n%s\nlacks %q", e.Message, w)
				}
			}
			if len(e.Message) > maxEditMessage {
				t.Errorf("the message has %d bytes", len(e.Message))
			}
			if got.Text != nil || got.Changes != nil {
				t.Error("there is a result beside the error")
			}
		})
	}
}

func TestEditTooLarge(t *testing.T) {
	half := strings.Repeat("a", 1<<10)
	for name, tt := range map[string]struct {
		text  []byte
		edits []textEdit
	}{
		"before":           {make([]byte, maxEditText+1), []textEdit{{Old: "a", New: "b"}}},
		"old":              {nil, []textEdit{{Old: strings.Repeat("a", maxEditText+1), New: "b"}}},
		"after":            {[]byte("ab"), []textEdit{{Old: "a", New: strings.Repeat("a", maxEditText)}}},
		"by many":          {[]byte(strings.Repeat("a", 1<<20)), []textEdit{{Old: "a", New: half, All: true}}},
		"by steps":         {[]byte("a"), []textEdit{{Old: "a", New: half, All: true}, {Old: "a", New: half, All: true}, {Old: "a", New: half, All: true}}},
		"by line endings":  {[]byte("x\r\n" + strings.Repeat("a", maxEditText/2)), []textEdit{{Old: "a", New: "\n", All: true}}},
		"in between alone": {[]byte("a"), []textEdit{{Old: "a", New: strings.Repeat("b", maxEditText)}, {Old: "b", New: "cc", All: true}, {Old: "c", New: "", All: true}}},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := applyEdits(tt.text, tt.edits); sandbox.CodeOf(err) != sandbox.CodeCapabilityBlocked {
				t.Errorf("got %v", err)
			}
		})
	}
}

func FuzzEdit(f *testing.F) {
	f.Add("a\nb\n", "a", "x", "b", "", false)
	f.Add("a\r\na\r\n", "a\n", "x\n", "x", "y", true)
	f.Add("\ufeffa", "a", "", "", "b", false)
	f.Fuzz(func(t *testing.T, text, old1, new1, old2, new2 string, all bool) {
		edits := []textEdit{{Old: old1, New: new1, All: all}, {Old: old2, New: new2, All: !all}}
		got, err := applyEdits([]byte(text), edits)
		if err != nil {
			var e *sandbox.Error
			if !errors.As(err, &e) || e.Code != sandbox.CodeValidation && e.Code != sandbox.CodeCapabilityBlocked || len(e.Message) > maxEditMessage {
				t.Fatalf("%v", err)
			}
			return
		}
		if plain := !strings.Contains(text, "\r") && !strings.HasPrefix(text, "\ufeff"); plain {
			want := text
			for _, e := range edits {
				if e.Old == "" {
					want = e.New
				} else {
					want = strings.ReplaceAll(want, e.Old, e.New)
				}
			}
			if string(got.Text) != want {
				t.Fatalf("got %q, want %q", got.Text, want)
			}
		}
	})
}
