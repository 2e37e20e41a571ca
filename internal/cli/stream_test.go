package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// countingWriter counts how often it is written to.
type countingWriter struct {
	bytes.Buffer
	writes int
}

func (w *countingWriter) Write(p []byte) (int, error) {
	w.writes++
	return w.Buffer.Write(p)
}

func streamTo(w *countingWriter, format string, columns ...string) *stream {
	return &stream{to: w, json: format == "json", name: "list", table: newTable(columns...)}
}

// TestStreamIsWhatIsWrittenWhole holds that a list in JSON is written like any
// other object, none, one or several of it.
func TestStreamIsWhatIsWrittenWhole(t *testing.T) {
	type one struct {
		A string `json:"a"`
		B []int  `json:"b"`
	}
	for n := range 4 {
		list := []one{}
		var got countingWriter
		s := streamTo(&got, "json")
		for i := range n {
			v := one{A: fmt.Sprint(hostile, "<&>", i), B: []int{i, i}}
			list = append(list, v)
			if err := s.entry(v); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.end(member{"more", n > 2}, member{"count", n}); err != nil {
			t.Fatal(err)
		}
		var want bytes.Buffer
		if err := writeJSON(&want, struct {
			List  []one `json:"list"`
			More  bool  `json:"more"`
			Count int   `json:"count"`
		}{list, n > 2, n}); err != nil {
			t.Fatal(err)
		}
		if got.String() != want.String() || got.writes != 1 {
			t.Errorf("%d writes of\n%s, want one of\n%s", got.writes, got.String(), want.String())
		}
	}
}

// TestStreamHoldsLittle checks that a long list is printed while it arrives.
func TestStreamHoldsLittle(t *testing.T) {
	text := strings.Repeat("x", 1000)
	for _, format := range []string{"json", "table"} {
		var got countingWriter
		s, most := streamTo(&got, format, "A", "B"), 0
		for range 9_000 {
			var err error
			if format == "json" {
				err = s.entry(text)
			} else {
				err = s.row(text, "b")
			}
			if err != nil {
				t.Fatal(err)
			}
			most = max(most, s.held.Len())
		}
		if err := s.end(member{"more", false}); err != nil {
			t.Fatal(err)
		}
		if most > 2*maxHeld+maxRows*1100 || got.writes < 5 || got.Len() < 9_000*1000 {
			t.Errorf("%s: %d bytes were held, %d written in %d parts", format, most, got.Len(), got.writes)
		}
		if format == "json" && !json.Valid(got.Bytes()) {
			t.Error("what was written in parts is no JSON")
		}
		if format == "table" && (strings.Count(got.String(), "\n") != 9_001 || strings.Count(got.String(), "A ") != 1) {
			t.Error("the table has not one header and all rows")
		}
	}
}
