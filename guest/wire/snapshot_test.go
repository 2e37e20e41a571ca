package wire

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
)

// index returns an index in which the records were written one after the
// other.
func index(records ...Record) []byte {
	b := make([]byte, IndexLen)
	for _, r := range records {
		one, at := r.Encode()
		copy(b[at:], one[:])
	}
	return b
}

// record names file 0 or 1 with content.
func record(serial uint64, file uint32, content string) Record {
	return Record{
		File: file, Serial: serial, Kept: uint32(serial), Over: uint32(serial) + 1,
		Size: uint32(len(content)), Sum: Sum(0, []byte(content)),
	}
}

func files(a, b string) [2]io.ReaderAt {
	return [2]io.ReaderAt{strings.NewReader(a), strings.NewReader(b)}
}

func TestRead(t *testing.T) {
	one, two := record(1, 0, "one"), record(2, 1, "second")
	none := Record{File: None, Serial: 3}
	torn := index(one, two)
	torn[20] ^= 1 // of the record with an even number
	forged := record(3, 0, "one")
	forged.Size = MaxSize + 1
	beyond := record(3, 3, "one")
	for name, tt := range map[string]struct {
		index   []byte
		files   [2]io.ReaderAt
		want    Record
		content string
		err     error
	}{
		"one record":                {index: index(one), files: files("one", ""), want: one, content: "one"},
		"the later one counts":      {index: index(one, two), files: files("one", "second"), want: two, content: "second"},
		"in any order":              {index: index(two, record(1, 0, "one")), files: files("one", "second"), want: two, content: "second"},
		"a file with older rest":    {index: index(two), files: files("", "second, and more"), want: two, content: "second"},
		"a record that is torn":     {index: torn, files: files("one", "x"), want: one, content: "one"},
		"no state":                  {index: index(one, two, none), files: files("one", "second"), want: none},
		"empty state":               {index: index(record(1, 0, "")), files: files("", ""), want: record(1, 0, ""), content: ""},
		"nothing":                   {index: nil, files: files("", ""), err: ErrNoRecord},
		"zeros":                     {index: make([]byte, IndexLen), files: files("", ""), err: ErrNoRecord},
		"a short index":             {index: index(one)[:IndexLen-1], files: files("one", ""), err: ErrNoRecord},
		"a record in a wrong place": {index: append(make([]byte, recordLen), index(two)[:recordLen]...), files: files("", "second"), err: ErrNoRecord},
		"content of another time":   {index: index(one), files: files("two", ""), err: errTorn},
		"too little content":        {index: index(one), files: files("on", ""), err: errTorn},
		"too large":                 {index: index(forged), files: files("one", ""), err: ErrNoRecord},
		"a third file":              {index: index(beyond), files: files("one", ""), err: ErrNoRecord},
	} {
		t.Run(name, func(t *testing.T) {
			got, content, err := Read(bytes.NewReader(tt.index), tt.files)
			if !errors.Is(err, tt.err) || err == nil && (got != tt.want || string(content) != tt.content || (content == nil) != (got.File == None)) {
				t.Errorf("got %+v, %q, %v", got, content, err)
			}
		})
	}
}

// A restless index is one that is written while it is read.
type restless struct {
	looks int
	now   func(look int) []byte
}

func (r *restless) ReadAt(b []byte, off int64) (int, error) {
	r.looks++
	return bytes.NewReader(r.now(r.looks)).ReadAt(b, off)
}

// TestReadAgain holds that a reader who meets a writer looks again, and does
// so only that often.
func TestReadAgain(t *testing.T) {
	i := &restless{now: func(look int) []byte {
		if look < 3 {
			return index(record(1, 0, "old"))
		}
		return index(record(1, 0, "old"), record(2, 1, "new"))
	}}
	got, content, err := Read(i, files("being written", "new"))
	if err != nil || string(content) != "new" || got.Serial != 2 {
		t.Errorf("got %+v, %q, %v", got, content, err)
	}
	i = &restless{now: func(look int) []byte { return index(record(uint64(look), 0, "never")) }}
	if _, _, err := Read(i, files("so", "")); !errors.Is(err, errTorn) || i.looks > 100 {
		t.Errorf("%v after %d looks", err, i.looks)
	}
}

func TestSumIsContinued(t *testing.T) {
	if Sum(Sum(0, []byte("ab")), []byte("c")) != Sum(0, []byte("abc")) {
		t.Error("the sum depends on how content is cut")
	}
}

// FuzzDecode holds that a record that is taken is within its bounds, and the
// one that was written.
func FuzzDecode(f *testing.F) {
	f.Add(index(record(1, 0, "one"), record(2, 1, "two")))
	f.Add(index(Record{File: None, Serial: 1}))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, in []byte) {
		r, err := decodeSnapshot(in)
		if err != nil {
			return
		}
		b, at := r.Encode()
		if r.File > None || r.Size > MaxSize || !bytes.Equal(b[:], in[at:at+recordLen]) {
			t.Errorf("%x became %+v", in, r)
		}
	})
}
