package journal

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestTampering changes a journal of three files, each with a header and five
// records, and checks what Verify reports, how many records are still read, and
// the journal after one more append.
func TestTampering(t *testing.T) {
	path := func(j *Journal, n uint64) string { return filepath.Join(j.dir, fileName(n)) }
	edit := func(number uint64, fn func([][]byte) [][]byte) func(*testing.T, *Journal) {
		return func(t *testing.T, j *Journal) { save(t, j, number, fn(load(t, j, number))...) }
	}
	rehash := func(l []byte) []byte { // as an attacker does who knows the format
		e, _ := parseLine(bytes.TrimSuffix(l, []byte("\n")))
		e.data = bytes.Replace(e.data, []byte(`"who":"a"`), []byte(`"who":"b"`), 1)
		return appendLine(nil, &e)
	}
	tests := []struct {
		name   string
		do     func(*testing.T, *Journal)
		want   string // file:line by Verify, before the append
		read   int    // of 15 records
		damage int    // that Records reports
		after  string // by Verify after an append, when it differs
	}{
		{"nothing", func(*testing.T, *Journal) {}, "", 15, 0, ""},
		{"one byte of a record", edit(2, func(l [][]byte) [][]byte { l[3][len(l[3])-8] ^= 1; return l }), "edit 2:4", 14, 1, ""},
		{"one byte of a hash", edit(2, func(l [][]byte) [][]byte { copy(l[3][12:], other(l[3][12])); return l }), "edit 2:4", 14, 1, ""},
		{"a record to rubbish", edit(2, func(l [][]byte) [][]byte { l[3] = []byte("rubbish\n"); return l }), "edit 2:4", 14, 1, ""},
		{"a record with a new hash", edit(2, func(l [][]byte) [][]byte { l[3] = rehash(l[3]); return l }), "edit 2:5", 15, 0, ""},
		{"a line removed", edit(2, func(l [][]byte) [][]byte { return slices.Delete(l, 2, 3) }), "gap 2:3", 14, 0, ""},
		{"two lines swapped", edit(2, func(l [][]byte) [][]byte { l[2], l[3] = l[3], l[2]; return l }), "gap 2:3, reorder 2:4", 15, 0, ""},
		{"a line doubled", edit(2, func(l [][]byte) [][]byte { return slices.Insert(l, 3, l[2]) }), "reorder 2:4", 16, 0, ""},
		{"a line from another file", edit(2, func(l [][]byte) [][]byte { return slices.Insert(l, 3, l[5]) }), "gap 2:4, reorder 2:5, reorder 2:6, reorder 2:7", 16, 0, ""},
		{"a line added", edit(2, func(l [][]byte) [][]byte { return slices.Insert(l, 3, []byte("hello\n")) }), "edit 2:4", 15, 1, ""},
		{"an empty line", edit(2, func(l [][]byte) [][]byte { return slices.Insert(l, 3, []byte("\n")) }), "edit 2:4", 15, 1, ""},
		{"a huge line", edit(2, func(l [][]byte) [][]byte {
			return slices.Insert(l, 3, []byte(strings.Repeat("x", 300<<10)+"\n"))
		}), "edit 2:4", 15, 1, ""},
		{"bytes that are no text", edit(2, func(l [][]byte) [][]byte { return slices.Insert(l, 3, []byte("\xff\x00\xfe\r\n")) }), "edit 2:4", 15, 1, ""},
		{"no header", edit(2, func(l [][]byte) [][]byte { return l[1:] }), "reorder 2:1, truncated 1:0", 15, 0, ""},
		{"end of an old file", edit(2, func(l [][]byte) [][]byte { return l[:4] }), "truncated 2:0", 13, 0, ""},
		{"end of an old file in a line", edit(2, func(l [][]byte) [][]byte { l[5] = l[5][:40]; return l }), "truncated 2:6", 14, 1, ""},
		{"end of the newest file", edit(3, func(l [][]byte) [][]byte { return l[:4] }), "truncated 3:0", 13, 0, "truncated 3:5"},
		{"end of the newest file in a line", edit(3, func(l [][]byte) [][]byte { l[4] = l[4][:40]; return l[:5] }), "truncated 3:5", 13, 1, "truncated 3:5"},
		{"all but the header", edit(3, func(l [][]byte) [][]byte { return l[:1] }), "truncated 3:0", 10, 0, "truncated 3:2"},
		{"a new end", edit(3, func(l [][]byte) [][]byte { return append(l, []byte("hello\n")) }), "edit 3:7", 15, 1, "edit 3:7"},
		{"a torn line", edit(3, func(l [][]byte) [][]byte { return append(l, l[5][:77]) }), "torn 3:7", 15, 1, "torn 3:7"},
		{"the last line feed overwritten", edit(3, func(l [][]byte) [][]byte { l[5][len(l[5])-1] = 'x'; return l }), "truncated 3:6", 14, 1, "edit 3:6"},
		{"a whole line without line feed", func(t *testing.T, j *Journal) {
			l := load(t, j, 3)
			forget(t, j, -len(l[5]))
			save(t, j, 3, append(l[:5], l[5][:len(l[5])-1])...)
		}, "", 15, 0, ""},
		{"a middle file removed", func(t *testing.T, j *Journal) { os.Remove(path(j, 2)) }, "missing 2:0", 10, 0, ""},
		{"the oldest file removed", func(t *testing.T, j *Journal) { os.Remove(path(j, 1)) }, "missing 1:0", 10, 0, ""},
		{"two files removed", func(t *testing.T, j *Journal) { os.Remove(path(j, 1)); os.Remove(path(j, 2)) }, "missing 1:0", 5, 0, ""},
		{"the newest file removed", func(t *testing.T, j *Journal) { os.Remove(path(j, 3)) }, "missing 3:0", 10, 0, ""},
		{"every file removed", func(t *testing.T, j *Journal) {
			for n := range uint64(3) {
				os.Remove(path(j, n+1))
			}
		}, "missing 1:0", 0, 0, ""},
		{"files swapped", func(t *testing.T, j *Journal) {
			os.Rename(path(j, 1), path(j, 9))
			os.Rename(path(j, 2), path(j, 1))
			os.Rename(path(j, 9), path(j, 2))
		}, "reorder 1:1, reorder 2:1, reorder 2:1, reorder 2:2, reorder 2:3, reorder 2:4, reorder 2:5, reorder 2:6", 15, 0, ""},
		{"a file doubled as the next one", func(t *testing.T, j *Journal) { save(t, j, 4, load(t, j, 2)...) }, "stranger 4:0", 15, 0, ""},
		{"a file doubled as a later one", func(t *testing.T, j *Journal) { save(t, j, 40, load(t, j, 2)...) }, "stranger 40:0", 15, 0, ""},
		{"a file doubled by another name", func(t *testing.T, j *Journal) {
			os.WriteFile(filepath.Join(j.dir, "2 copy.jsonl"), bytes.Join(load(t, j, 2), nil), 0o600)
		}, "stranger 2 copy:0", 15, 0, ""},
		{"a link for a file", func(t *testing.T, j *Journal) { link(t, path(j, 2)) }, "missing 2:0", 10, 1, ""},
		{"a link for the newest file", func(t *testing.T, j *Journal) { link(t, path(j, 3)) }, "missing 3:0", 10, 1, ""},
		{"a folder for a file", func(t *testing.T, j *Journal) { os.Remove(path(j, 2)); os.Mkdir(path(j, 2), 0o700) }, "missing 2:0", 10, 1, ""},
		{"the head removed", func(t *testing.T, j *Journal) { os.Remove(filepath.Join(j.dir, headName)) }, "missing head:0", 15, 0, "missing 3:7"},
		{"the head to rubbish", func(t *testing.T, j *Journal) {
			os.WriteFile(filepath.Join(j.dir, headName), []byte(strings.Repeat("9", 5000)), 0o600)
		}, "missing head:0", 15, 0, "missing 3:7"},
		{"a link for the head", func(t *testing.T, j *Journal) { link(t, filepath.Join(j.dir, headName)) }, "missing head:0", 15, 0, "missing 3:7, stranger"},
		{"the lock removed", func(t *testing.T, j *Journal) { os.Remove(filepath.Join(j.dir, lockName)) }, "", 15, 0, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			j := open(t, t.TempDir(), small(40))
			for n := range 3 {
				appendNotes(t, j, "a", 5*n, 5*n+5, "")
				if err := j.Rotate(t.Context()); err != nil && n < 2 {
					t.Fatal(err)
				}
			}
			unrotate(t, j)
			tt.do(t, j)
			if got := kinds(verify(t, j)); got != tt.want {
				t.Errorf("verify tells %q, want %q", got, tt.want)
			}
			got, damage := read(t, j, Range{})
			back, backDamage := read(t, j, Range{Backward: true})
			if len(got) != tt.read || len(damage) != tt.damage {
				t.Errorf("read %d records and %v, want %d and %d", len(got), damage, tt.read, tt.damage)
			}
			slices.Reverse(back)
			if !slices.Equal(got, back) || len(backDamage) != len(damage) {
				t.Errorf("backwards %d records and %v", len(back), backDamage)
			}
			wantGoesOn(t, j, tt.read, tt.want, tt.after)
		})
	}
}

// other returns another hex digit.
func other(c byte) string {
	if c == '0' {
		return "1"
	}
	return "0"
}

// wantGoesOn appends and holds that nothing else is lost by it.
func wantGoesOn(t *testing.T, j *Journal, had int, before, after string) {
	t.Helper()
	appendNotes(t, j, "c", 0, 2, "")
	got, _ := read(t, j, Range{})
	if len(got) != had+2 || got[had] != "c 0" || got[had+1] != "c 1" {
		t.Errorf("after an append there are %d records, want %d: %v", len(got), had+2, got)
	}
	if after == "" {
		after = before
	}
	if reported := kinds(verify(t, j)); !strings.HasPrefix(reported, after) && !strings.HasSuffix(reported, after) && !strings.Contains(reported, "stranger") {
		t.Errorf("after an append verify tells %q, want %q", reported, after)
	}
	if err := j.Rotate(t.Context()); err != nil {
		t.Error(err)
	}
	appendNotes(t, j, "c", 2, 3, "")
	if got, _ := read(t, j, Range{}); len(got) != had+3 {
		t.Errorf("after a rotation there are %d records, want %d: %v", len(got), had+3, got)
	}
	if _, err := j.Clear(t.Context(), "me", "", nil); err != nil {
		t.Error(err)
	}
	if r := verify(t, j); before != "" && !strings.Contains(before, "torn") && (len(r.Clearings) != 1 || r.Clearings[0].Damaged == 0) {
		t.Errorf("the clearing does not tell of damage: %+v", r)
	}
	if r := verify(t, j); r.Records != 0 || strings.Contains(kinds(r), "edit") || strings.Contains(kinds(r), "missing") {
		t.Errorf("after a clearing: %+v", r)
	}
}

// unrotate takes back an empty newest file.
func unrotate(t *testing.T, j *Journal) {
	t.Helper()
	numbers, _, err := list(j.dir)
	if err != nil {
		t.Fatal(err)
	}
	last := numbers[len(numbers)-1]
	if last == 3 {
		return
	}
	if err := os.Remove(filepath.Join(j.dir, fileName(last))); err != nil {
		t.Fatal(err)
	}
	_, h, ok, err := readHeader(j.dir, 3)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	e := end{tail: tail{file: 3, oldest: h.Oldest}}
	line, _, _, _ := readHeader(j.dir, 3)
	e.seq, e.hash = line.seq-1, line.prev
	if err := e.follow(j.dir); err != nil {
		t.Fatal(err)
	}
	if err := new(kept).writeHead(j.dir, e.tail); err != nil {
		t.Fatal(err)
	}
}

// forget sets the head back by one line of that many bytes.
func forget(t *testing.T, j *Journal, by int) {
	t.Helper()
	h, ok, err := readHead(j.dir)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	l := load(t, j, h.file)
	e, err := parseLine(bytes.TrimSuffix(l[len(l)-1], []byte("\n")))
	if err != nil {
		t.Fatal(err)
	}
	h.size, h.seq, h.hash = h.size+int64(by), e.seq-1, e.prev
	if err := new(kept).writeHead(j.dir, h); err != nil {
		t.Fatal(err)
	}
}

// link puts a link to a file elsewhere at path.
func link(t *testing.T, path string) {
	t.Helper()
	elsewhere := filepath.Join(t.TempDir(), "elsewhere")
	data, _ := os.ReadFile(path)
	if err := os.WriteFile(elsewhere, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(elsewhere, path); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if now, _ := os.ReadFile(elsewhere); !bytes.Equal(now, data) {
			t.Errorf("%s was written through the link", elsewhere)
		}
	})
}
