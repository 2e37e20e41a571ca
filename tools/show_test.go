package tools

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"testing"
	"testing/iotest"
	"time"
	"unicode/utf8"
)

func TestLines(t *testing.T) {
	abc := "a\nb\nc\n"
	for name, tt := range map[string]struct {
		file string
		span showSpan
		text string
		hint string
		note string // all of them
	}{
		"all":              {abc, showSpan{}, "     1\ta\n     2\tb\n     3\tc\n", "", ""},
		"some":             {abc, showSpan{Offset: 2, Limit: 1}, "     2\tb\n", "lines 2 to 2 of 3; go on with offset 3", ""},
		"the end":          {abc, showSpan{Offset: 2}, "     2\tb\n     3\tc\n", "lines 2 to 3 of 3", ""},
		"behind the end":   {abc, showSpan{Offset: 4}, "", "the file has 3 lines, and none from offset 4 on", ""},
		"empty":            {"", showSpan{}, "", "the file is empty", ""},
		"no newline":       {"a\nb", showSpan{}, "     1\ta\n     2\tb\n", "", "the file has no newline at its end"},
		"carriage returns": {"a\r\nb\r\n", showSpan{}, "     1\ta\n     2\tb\n", "", "the lines end with carriage return and newline"},
		"one of them":      {"a\r\nb\n", showSpan{}, "     1\ta\n     2\tb\n", "", "1 of the lines end with a carriage return before the newline"},
		"a mark":           {"\ufeffa\n", showSpan{}, "     1\ta\n", "", "the file begins with a byte order mark"},
		"long lines":       {strings.Repeat("ü", 10) + "\nb\n", showSpan{Width: 5}, "     1\tüü… [16 more bytes]\n     2\tb\n", "", "1 lines are longer than 5 bytes and are cut"},
		"just as long":     {"abcde\r\n", showSpan{Width: 5}, "     1\tabcde\n", "", "the lines end with carriage return and newline"},
		"no UTF-8":         {strings.Repeat("a", 20) + "\xff\n", showSpan{}, "     1\t" + strings.Repeat("a", 20) + "\ufffd\n", "", "1 lines hold bytes that are no UTF-8, shown as \ufffd"},
		"a full text":      {abc, showSpan{Bytes: 20}, "     1\ta\n     2\tb\n", "lines 1 to 2 of 3; go on with offset 3", ""},
		"binary":           {"a\x00b", showSpan{}, "", "this is binary data of 3 bytes, not text", ""},
		"a picture":        {"\x89PNG\r\n\x1a\nxx", showSpan{}, "", "this is a PNG picture of 10 bytes, not text", ""},
	} {
		t.Run(name, func(t *testing.T) {
			for _, r := range []io.Reader{strings.NewReader(tt.file), iotest.OneByteReader(strings.NewReader(tt.file))} {
				l, err := linesShow(r, tt.span)
				if err != nil {
					t.Fatal(err)
				}
				if l.Text != tt.text || l.Hint != tt.hint || strings.Join(l.Notes, "; ") != tt.note || l.Size != int64(len(tt.file)) {
					t.Errorf("got %q, hint %q, notes %q, size %d", l.Text, l.Hint, l.Notes, l.Size)
				}
			}
		})
	}
}

func TestLinesOfLargeFile(t *testing.T) {
	const lines = 400_000
	l, err := linesShow(strings.NewReader(strings.Repeat(strings.Repeat("x", 99)+"\n", lines)), showSpan{Offset: lines - 1})
	if err != nil || l.Total != lines || l.First != lines-1 || l.Last != lines || l.More {
		t.Errorf("got %+v, %v", l, err)
	}
	one, err := linesShow(strings.NewReader(strings.Repeat("x", 32<<20)), showSpan{})
	if want := fmt.Sprintf("… [%d more bytes]\n", 32<<20-defaultWidth); err != nil || !strings.HasSuffix(one.Text, want) || len(one.Text) > defaultWidth+100 {
		t.Errorf("got %d bytes that end with %q, %v", len(one.Text), one.Text[len(one.Text)-40:], err)
	}
}

func TestLinesOfBrokenFile(t *testing.T) {
	broken := errors.New("broken")
	for _, before := range []string{"", "a\n", strings.Repeat("x", 100_000)} {
		if _, err := linesShow(io.MultiReader(strings.NewReader(before), iotest.ErrReader(broken)), showSpan{}); !errors.Is(err, broken) {
			t.Errorf("after %d bytes: %v", len(before), err)
		}
	}
}

func FuzzLines(f *testing.F) {
	f.Add("a\r\n\ufeffb\nüü\n", 1, 2, 3, 50)
	f.Fuzz(func(t *testing.T, file string, offset, limit, width, bytes int) {
		l, err := linesShow(strings.NewReader(file), showSpan{Offset: offset, Limit: limit, Width: width % 5000, Bytes: bytes})
		if err != nil {
			t.Fatal(err)
		}
		total := strings.Count(file, "\n")
		if file != "" && !strings.HasSuffix(file, "\n") {
			total++
		}
		if !utf8.ValidString(l.Text) || l.Size != int64(len(file)) || l.Binary == "" && l.Total != total {
			t.Fatalf("%+v of %d lines", l, total)
		}
		if n := strings.Count(l.Text, "\n"); n != l.Shown || l.Shown > 0 && l.Last-l.First+1 != l.Shown || limit > 0 && n > limit {
			t.Fatalf("%+v", l)
		}
	})
}

func TestKind(t *testing.T) {
	for head, want := range map[string]string{
		"": "", "text\n": "", "\x1b[31mred\x1b[0m": "", "ü\u4e16": "", "\x89PNG\r\n\x1a\n": "a PNG picture", "\xff\xd8\xff\xe0": "a JPEG picture",
		"GIF89a..": "a GIF picture", "RIFF\x01\x02\x03\x04WEBPVP8": "a WebP picture", "RIFFx": "", "\x7fELF\x02": "a program",
		"\xff\xfea\x00": "UTF-16 text", "a\x00": "binary data", "\x01\x02\x03abc": "binary data", strings.Repeat("a", 8190) + "\u4e16": "",
	} {
		if got := kindShow([]byte(head)); got != want {
			t.Errorf("Kind(%.20q) = %q, want %q", head, got, want)
		}
	}
	if got := pictureShow([]byte("\xff\xd8\xff")); got != "image/jpeg" {
		t.Errorf("got %q", got)
	}
	if got := pictureShow([]byte("%PDF-1.7")); got != "" {
		t.Errorf("got %q", got)
	}
}

func TestEntries(t *testing.T) {
	when := time.Date(2026, 11, 21, 9, 5, 0, 0, time.FixedZone("", 3600))
	list := []showEntry{
		{Name: "d", Mode: fs.ModeDir | 0o755, Size: 4096, Modified: when},
		{Name: "f\nforged", Mode: 0o644, Size: 12},
		{Name: "l", Mode: fs.ModeSymlink | 0o777, Target: "d "},
	}
	const d, f, l = "drwxr-xr-x          -  2026-11-21 08:05  d/\n", "-rw-r--r--         12                 -  \"f\\nforged\"\n", "Lrwxrwxrwx          0                 -  l -> \"d \"\n"
	for name, tt := range map[string]struct {
		list          []showEntry
		offset, limit int
		text, hint    string
	}{
		"all":            {list, 0, 0, d + f + l, ""},
		"some":           {list, 1, 1, f, "2 to 2 of 3 entries; go on with offset 2"},
		"the end":        {list, 2, 5, l, ""},
		"behind the end": {list, 9, 0, "", "the folder has 3 entries, and none after the first 3"},
		"empty":          {nil, 0, 0, "", "the folder is empty"},
	} {
		if p := entriesShow(tt.list, tt.offset, tt.limit, 0); p.Text != tt.text || p.Hint != tt.hint || p.Total != len(tt.list) {
			t.Errorf("%s: got %+v", name, p)
		}
	}
	if p := entriesShow(list, 0, 0, 60); p.Shown != 1 || !p.More {
		t.Errorf("got %+v", p)
	}
}

func TestShowPaths(t *testing.T) {
	if p := pathsShow([]string{"a", "b\t"}, 0, 0, false); p.Text != "a\n\"b\\t\"\n" || p.Hint != "" || p.More {
		t.Errorf("got %+v", p)
	}
	if p := pathsShow([]string{"a", "b"}, 1, 0, true); p.Text != "a\n" || p.Hint != "1 of at least 2 paths; narrow the search to see the others" {
		t.Errorf("got %+v", p)
	}
	if p := pathsShow(nil, 1, 0, false); p.Hint != "nothing matches" {
		t.Errorf("got %+v", p)
	}
}

func TestMatches(t *testing.T) {
	type line struct {
		path string
		n    int
		text string
		hit  bool
	}
	found := []line{{"x", 1, "a", false}, {"x", 2, "hit", true}, {"x", 9, "hit:9", true}, {"y\n", 1, "hit", true}, {"z", 3, "no", false}}
	const cut = "; narrow the search to see the others"
	for name, tt := range map[string]struct {
		o          matchOptions
		text, hint string
		added      int // lines that were taken before it was enough
	}{
		"lines":       {matchOptions{}, "x-1-a\nx:2:hit\nx:9:hit:9\n\"y\\n\":1:hit\nz-3-no\n", "", 5},
		"context":     {matchOptions{Context: true}, "x-1-a\nx:2:hit\n--\nx:9:hit:9\n--\n\"y\\n\":1:hit\n--\nz-3-no\n", "", 5},
		"two":         {matchOptions{Limit: 2}, "x-1-a\nx:2:hit\nx:9:hit:9\n", "2 of at least 3 lines that match" + cut, 3},
		"exactly all": {matchOptions{Limit: 3}, "x-1-a\nx:2:hit\nx:9:hit:9\n\"y\\n\":1:hit\nz-3-no\n", "", 5},
		"few bytes":   {matchOptions{Bytes: 15}, "x-1-a\nx:2:hit\n", "1 of at least 2 lines that match" + cut, 2},
		"short lines": {matchOptions{Width: 2, Limit: 1}, "x-1-a\nx:2:hi… [1 more bytes]\n", "1 of at least 2 lines that match" + cut, 2},
		"files":       {matchOptions{Mode: modeFiles}, "x\n\"y\\n\"\n", "", 5},
		"one file":    {matchOptions{Mode: modeFiles, Limit: 1}, "x\n", "1 of at least 2 files" + cut, 3},
		"count":       {matchOptions{Mode: modeCount}, "x:2\n\"y\\n\":1\n", "", 5},
		"count one":   {matchOptions{Mode: modeCount, Limit: 1}, "x:2\n", "1 of at least 2 files" + cut, 4},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMatches(tt.o)
			added := 0
			for _, l := range found {
				if !m.Add(l.path, l.n, []byte(l.text), l.hit) {
					break
				}
				added++
			}
			if p := m.Page(); p.Text != tt.text || p.Hint != tt.hint || added != tt.added {
				t.Errorf("got %q, hint %q after %d lines, want %q, %q after %d", p.Text, p.Hint, added, tt.text, tt.hint, tt.added)
			}
		})
	}
	if p := newMatches(matchOptions{}).Page(); p.Hint != "nothing matches" {
		t.Errorf("got %+v", p)
	}
}
