package wire_test

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox/guest/wire"
)

func fileRequest() wire.File {
	return wire.File{
		Op: wire.FileWrite, Flags: wire.FileInline | wire.FileExclusive, Perm: 0o640, Offset: 3, Limit: 1 << 40,
		Root: "/workspace", Path: "a/b\xff", Other: "../x", Content: []byte("content"),
	}
}

func TestFileMessages(t *testing.T) {
	want := fileRequest()
	if got, err := wire.DecodeFile(want.Encode()); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v became %+v, %v", want, got, err)
	}
	later := append(want.Encode(), "a later field"...)
	if got, err := wire.DecodeFile(later); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("with a later field: %+v, %v", got, err)
	}
	answer := wire.FileAnswer{Info: wire.FileInfo{Mode: 0o100644, Size: 7, Seconds: -1, Nanos: 999_999_999}, Content: []byte("content")}
	if got, err := wire.DecodeFileAnswer(answer.Encode()); err != nil || !reflect.DeepEqual(got, answer) {
		t.Errorf("%+v became %+v, %v", answer, got, err)
	}
	in := []wire.FileEntry{{Info: answer.Info, Name: "a"}, {Name: strings.Repeat("\xff", 255)}, {Name: "...\n"}}
	var b []byte
	for _, e := range in {
		before := len(b)
		if b = wire.AppendFileEntry(b, e); len(b)-before > wire.MaxFileEntry {
			t.Errorf("%q takes %d bytes", e.Name, len(b)-before)
		}
	}
	if got, err := wire.DecodeFileEntries(b); err != nil || !reflect.DeepEqual(got, in) {
		t.Errorf("%+v became %+v, %v", in, got, err)
	}
}

// TestFileMessagesAreBounded gives each decoder what it must not take.
func TestFileMessagesAreBounded(t *testing.T) {
	long := strings.Repeat("x", 9000)
	for name, m := range map[string]wire.File{
		"long root": {Root: long}, "long path": {Path: long}, "long target": {Other: long}, "NUL": {Path: "a\x00b"},
		"unknown flag": {Flags: 0x80}, "too much content": {Content: make([]byte, wire.MaxInline+1)},
	} {
		if _, err := wire.DecodeFile(m.Encode()); !isViolation(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{"", ".", "..", "a/b", "/", "a\x00", strings.Repeat("n", 256)} {
		if _, err := wire.DecodeFileEntries(wire.AppendFileEntry(nil, wire.FileEntry{Name: name})); !isViolation(err) {
			t.Errorf("the name %.10q: %v", name, err)
		}
	}
	for name, info := range map[string]wire.FileInfo{"size": {Size: 1 << 63}, "nanoseconds": {Nanos: 1e9}} {
		if _, err := wire.DecodeFileAnswer(wire.FileAnswer{Info: info}.Encode()); !isViolation(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	whole := wire.FileAnswer{Content: []byte("content")}.Encode()
	for n := range whole {
		if _, err := wire.DecodeFileAnswer(whole[:n]); !isViolation(err) {
			t.Errorf("cut at %d: %v", n, err)
		}
	}
}

func FuzzFileRequest(f *testing.F) {
	f.Add(fileRequest().Encode())
	f.Add(wire.File{Op: wire.FileStat, Root: "/w"}.Encode())
	f.Fuzz(func(t *testing.T, in []byte) {
		m, err := wire.DecodeFile(in)
		if err != nil {
			return
		}
		if again, err := wire.DecodeFile(m.Encode()); err != nil || !reflect.DeepEqual(m, again) {
			t.Errorf("%+v became %+v, %v", m, again, err)
		}
	})
}

func FuzzFileAnswer(f *testing.F) {
	f.Add(wire.FileAnswer{Info: wire.FileInfo{Size: 3}, Content: []byte("abc")}.Encode())
	f.Add(wire.AppendFileEntry(wire.AppendFileEntry(nil, wire.FileEntry{Name: "a"}), wire.FileEntry{Name: "b"}))
	f.Fuzz(func(t *testing.T, in []byte) {
		if m, err := wire.DecodeFileAnswer(in); err == nil && !bytes.HasPrefix(in, m.Encode()) {
			t.Errorf("%+v is not what was there", m)
		}
		list, err := wire.DecodeFileEntries(in)
		var again []byte
		for _, e := range list {
			if strings.ContainsAny(e.Name, "/\x00") || e.Name == ".." {
				t.Errorf("the name %q", e.Name)
			}
			again = wire.AppendFileEntry(again, e)
		}
		if err == nil && !bytes.Equal(in, again) {
			t.Errorf("%+v is not what was there", list)
		}
	})
}

// TestFileChanges holds that records survive the way, in any pieces, and that what
// can be no name in the watched folder is a violation.
func TestFileChanges(t *testing.T) {
	in := []wire.FileChange{
		{Kind: wire.ChangeReady, Name: ".", Info: wire.FileInfo{Size: 3}},
		{Kind: wire.ChangeRename, Name: "a/b\xff", To: "...", Info: wire.FileInfo{Mode: 0o100600, Seconds: -1, Nanos: 5}},
		{Kind: wire.ChangeRemove, Name: strings.Repeat("n/", 4000) + "n"},
	}
	var all []byte
	for _, m := range in {
		before := len(all)
		if all = wire.AppendFileChange(all, m); len(all)-before > wire.MaxFileChange {
			t.Errorf("%.10s takes %d bytes", m.Name, len(all)-before)
		}
	}
	var got []wire.FileChange
	for pending, n := []byte(nil), 0; n < len(all); n++ {
		pending = append(pending, all[n])
		m, rest, ok, err := wire.DecodeFileChange(pending)
		if err != nil {
			t.Fatal(err)
		}
		if ok {
			got, pending = append(got, m), rest
		}
	}
	if !reflect.DeepEqual(got, in) {
		t.Errorf("%.300v", got)
	}
	for name, m := range map[string]wire.FileChange{
		"no name": {Kind: wire.ChangeWrite}, "absolute": {Kind: wire.ChangeWrite, Name: "/etc"}, "up": {Kind: wire.ChangeWrite, Name: "a/../.."},
		"NUL": {Kind: wire.ChangeWrite, Name: "a\x00"}, "new name that climbs": {Kind: wire.ChangeRename, Name: "a", To: ".."},
		"new name of no rename": {Kind: wire.ChangeWrite, Name: "a", To: "b"}, "too long": {Kind: wire.ChangeWrite, Name: strings.Repeat("n/", 5000) + "n"},
		"size": {Kind: wire.ChangeWrite, Name: "a", Info: wire.FileInfo{Size: 1 << 63}},
	} {
		if _, _, _, err := wire.DecodeFileChange(append(wire.AppendFileChange(nil, m), make([]byte, wire.MaxFileChange)...)); !isViolation(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzFileChange(f *testing.F) {
	f.Add(wire.AppendFileChange(nil, wire.FileChange{Kind: wire.ChangeRename, Name: "a/b", To: "c"}))
	f.Fuzz(func(t *testing.T, in []byte) {
		m, rest, ok, err := wire.DecodeFileChange(in)
		if err != nil || !ok {
			return
		}
		if m.Name != "." && (strings.HasPrefix(m.Name, "/") || strings.Contains("/"+m.Name+"/", "/../")) {
			t.Errorf("the name %q", m.Name)
		}
		if again := append(wire.AppendFileChange(nil, m), rest...); !bytes.Equal(in, again) {
			t.Errorf("%+v is not what was there", m)
		}
	})
}
