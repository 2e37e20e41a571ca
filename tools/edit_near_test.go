package tools

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// naive is what Search should say.
func naive(text, want []byte) (out []int) {
	for i := 0; len(want) > 0 && i+len(want) <= len(text); i++ {
		if bytes.Equal(text[i:i+len(want)], want) {
			out = append(out, i)
		}
	}
	return out
}

func FuzzEditSearch(f *testing.F) {
	f.Add([]byte("aaaaa"), []byte("aa"))
	f.Add([]byte(strings.Repeat("ab", 99)), []byte(strings.Repeat("ab", 40)))
	f.Add([]byte(strings.Repeat("ab", 99)+"b"), []byte(strings.Repeat("ab", 40)+"b"))
	f.Fuzz(func(t *testing.T, text, want []byte) {
		text, want = text[:min(len(text), 4096)], want[:min(len(want), 512)]
		expect := naive(text, want)
		if got := slices.Collect(searchNear(text, want)); !slices.Equal(got, expect) {
			t.Fatalf("Search(%q, %q) = %v, want %v", text, want, got, expect)
		}
		if got := slices.Collect(sequence(text, want)); !slices.Equal(got, expect) {
			t.Fatalf("Sequence(%q, %q) = %v, want %v", text, want, got, expect)
		}
	})
}

func FuzzEditMiss(f *testing.F) {
	f.Add([]byte("a\n\tb\nc\n"), []byte("  b\nc\n"))
	f.Add([]byte("func f() {\r\n}\r\n"), []byte("func g() {\n}"))
	f.Add([]byte("a\nb"), []byte("b\n"))
	f.Fuzz(func(t *testing.T, text, want []byte) {
		if bytes.Contains(text, want) {
			return
		}
		m := nearest(text, want)
		if lines := bytes.Count(text, []byte("\n")) + 1; m.Line < 0 || m.Line > lines || m.Line > 0 && (m.At < m.Line || m.At > lines) {
			t.Fatalf("%+v in a text of %d lines", m, lines)
		}
		s := explainMiss(text, want, 500)
		if len(s) > 500 || !utf8.ValidString(s) || strings.ContainsAny(s, "\r\x1b\x00") {
			t.Fatalf("%q", s)
		}
	})
}

func FuzzEditForm(f *testing.F) {
	f.Add([]byte("\ufeffa\r\nb\r\r\n"), []byte("x\ny"))
	f.Fuzz(func(t *testing.T, text, other []byte) {
		form := formOf(text, other)
		if got := form.Dress(form.Strip(text)); !bytes.Equal(got, text) {
			t.Fatalf("%q became %q by %+v", text, got, form)
		}
	})
}

func TestEditNearestOfSeveral(t *testing.T) {
	var b strings.Builder
	for i := range 50 {
		b.WriteString("begin\n\tstep one\n\tstep two\nend\n")
		if i == 30 {
			b.WriteString("begin\n\tstep one\n\tstep 2\n\tstep three\nend\n")
		}
	}
	text := b.String()
	want := "begin\n\tstep one\n\tstep two\n\tstep three\nend\n"
	m := nearest([]byte(text), []byte(want))
	if m.Line != 31*4+1 || m.Lines != 5 || m.At != m.Line+2 || m.Want != 3 || m.Kind != "" {
		t.Errorf("got %+v, want line %d", m, 31*4+1)
	}
}
