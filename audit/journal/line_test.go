package journal

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestLineComesBack(t *testing.T) {
	for _, data := range []string{`{}`, `null`, `{"a":"\u001b[2J\u2028 \"}"}`, `"` + strings.Repeat("日", 5000) + `"`} {
		in := entry{seq: 1<<63 + 5, prev: digest{1, 2, 3}, at: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC), kind: kindRecord, data: json.RawMessage(data)}
		line := appendLine([]byte("before"), &in)[len("before"):]
		out, err := parseLine(bytes.TrimSuffix(line, []byte("\n")))
		if err != nil || out.seq != in.seq || out.prev != in.prev || out.hash != in.hash || !out.at.Equal(in.at) || out.kind != in.kind || string(out.data) != data {
			t.Errorf("%s comes back as %+v, %v", line, out, err)
		}
		if !json.Valid(line) {
			t.Errorf("%s is no JSON", line)
		}
	}
}

func TestHeadComesBack(t *testing.T) {
	in := tail{file: 3, size: 4, seq: 5, oldest: 2, hash: digest{0xfe}}
	text := appendHead(nil, in)
	if out, ok := decodeHead(text); !ok || out != in {
		t.Errorf("%q comes back as %+v, %v", text, out, ok)
	}
	for i := range text {
		changed := bytes.Clone(text)
		changed[i] ^= 1
		if out, ok := decodeHead(changed); ok {
			t.Errorf("%q is believed: %+v", changed, out)
		}
	}
	if _, ok := decodeHead(text[:len(text)-1]); ok {
		t.Error("a part of it is believed")
	}
}

func FuzzParseLine(f *testing.F) {
	good := entry{seq: 1, kind: kindHeader, data: json.RawMessage(`{"format":1}`)}
	f.Add(bytes.TrimSuffix(appendLine(nil, &good), []byte("\n")))
	f.Add([]byte(`{"hash":"` + strings.Repeat("0", 64) + `","prev":"` + strings.Repeat("A", 64) + `","seq":1`))
	f.Fuzz(func(t *testing.T, line []byte) {
		e, err := parseLine(line)
		if err != nil {
			return
		}
		if len(line) > maxLine || !json.Valid(e.data) || !knownKind(e.kind) {
			t.Errorf("%q is taken", line)
		}
	})
}

func FuzzDecodeHead(f *testing.F) {
	f.Add(appendHead(nil, tail{file: 1, size: 2, seq: 3, oldest: 1}))
	f.Fuzz(func(t *testing.T, data []byte) {
		if out, ok := decodeHead(data); ok && !bytes.Equal(appendHead(nil, out), data) {
			t.Errorf("%q is taken for %+v", data, out)
		}
	})
}

// FuzzFiles puts anything into a file and the head of a journal. Both
// directions must agree and an append must find its place.
func FuzzFiles(f *testing.F) {
	j := open(f, f.TempDir(), small(2))
	appendNotes(f, j, "a", 0, 4, "")
	data := bytes.Join(load(f, j, 1), nil)
	head, err := os.ReadFile(filepath.Join(j.dir, headName))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data, head)
	f.Add(data[:len(data)-9], head)
	f.Add(append(bytes.Clone(data), "\n\nx"...), head)
	f.Add(data, []byte{})
	f.Add([]byte("\n"), []byte("x"))
	f.Fuzz(func(t *testing.T, data, head []byte) {
		j := open(t, t.TempDir(), small(2))
		save(t, j, 1, data)
		if err := os.WriteFile(filepath.Join(j.dir, headName), head, 0o600); err != nil {
			t.Fatal(err)
		}
		count := func(r Range) (records, damaged int) {
			for _, err := range j.Records(t.Context(), r) {
				if err != nil {
					damaged++
				} else {
					records++
				}
			}
			return records, damaged
		}
		forth, damaged := count(Range{})
		back, backDamaged := count(Range{Backward: true})
		if forth != back || damaged != backDamaged {
			t.Errorf("%d records and %d damaged forth, %d and %d back", forth, damaged, back, backDamaged)
		}
		verify(t, j)
		if err := j.Append(t.Context(), "new"); err != nil {
			if h, ok := decodeHead(head); ok && (h.seq > 1<<62 || h.file > 1<<62) {
				return
			}
			t.Fatal(err)
		}
		for r, err := range j.Records(t.Context(), Range{Backward: true}) {
			if err == nil && string(r.Data) != `"new"` {
				t.Errorf("the newest is %s", r.Data)
			}
			if err == nil {
				break
			}
		}
		verify(t, j)
	})
}
