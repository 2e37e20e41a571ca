package wire_test

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox/guest/wire"
)

func TestConfig(t *testing.T) {
	full := wire.Config{
		Landlock: true, Observe: true, Processes: 512,
		Readable: []string{"/", "/usr"}, Writable: []string{"/workspace"}, Filter: make([]byte, 16),
		Limits: []wire.Rlimit{{Resource: 7, Soft: 1, Hard: 1<<64 - 1}},
		Checks: []wire.Check{{Path: "/a", Want: wire.Unreadable}, {Path: "/b\xff", Want: wire.Pinned}},
	}
	for name, want := range map[string]wire.Config{"full": full, "empty": {}, "landlock alone": {Landlock: true}} {
		got, err := wire.DecodeConfig(want.Encode())
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	payload := full.Encode()
	for n := range len(payload) {
		if _, err := wire.DecodeConfig(payload[:n]); !isViolation(err) {
			t.Errorf("cut to %d bytes: %v", n, err)
		}
	}
	changed := func(at int, value byte) []byte {
		p := bytes.Clone(payload)
		p[at] = value
		return p
	}
	for name, p := range map[string][]byte{
		"later field":         append(full.Encode(), 0),
		"later version":       changed(0, 4),
		"earlier version":     changed(0, 2),
		"soft above hard":     wire.Config{Limits: []wire.Rlimit{{Soft: 2, Hard: 1}}}.Encode(),
		"no such limit":       wire.Config{Limits: []wire.Rlimit{{Resource: 64}}}.Encode(),
		"nothing wanted":      wire.Config{Checks: []wire.Check{{Path: "/a"}}}.Encode(),
		"unknown want":        wire.Config{Checks: []wire.Check{{Path: "/a", Want: 5}}}.Encode(),
		"relative check":      wire.Config{Checks: []wire.Check{{Path: "a", Want: 1}}}.Encode(),
		"many limits":         wire.Config{Limits: make([]wire.Rlimit, 65)}.Encode(),
		"unknown bit":         changed(1, 0x80),
		"relative path":       wire.Config{Readable: []string{"usr"}}.Encode(),
		"empty path":          wire.Config{Writable: []string{""}}.Encode(),
		"NUL":                 wire.Config{Writable: []string{"/a\x00b"}}.Encode(),
		"long path":           wire.Config{Writable: []string{"/" + strings.Repeat("x", 4095)}}.Encode(),
		"half an instruction": wire.Config{Filter: make([]byte, 12)}.Encode(),
		"long filter":         wire.Config{Filter: make([]byte, 4097*8)}.Encode(),
		"nothing to observe":  wire.Config{Observe: true}.Encode(),
		"too large":           wire.Config{Readable: manyPaths(1400)}.Encode(),
	} {
		if _, err := wire.DecodeConfig(p); !isViolation(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func manyPaths(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = "/" + strings.Repeat("x", 4000)
	}
	return list
}

func TestWants(t *testing.T) {
	if w := wire.Want(1).String() + wire.Want(4).String() + wire.Want(9).String(); w != "unreadablepinnedunknown" {
		t.Error(w)
	}
}

func TestMisses(t *testing.T) {
	want := []wire.Miss{{Index: 0}, {Index: 3, Errno: 13}}
	got, err := wire.DecodeMisses(wire.EncodeMisses(want), 4)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := wire.DecodeMisses(wire.EncodeMisses(nil), 4); err != nil || got != nil {
		t.Errorf("none: %+v, %v", got, err)
	}
	full := make([]wire.Miss, wire.MaxMisses)
	for i := range full {
		full[i].Index = uint32(i)
	}
	if got, err := wire.DecodeMisses(wire.EncodeMisses(full), len(full)); err != nil || len(got) != len(full) || len(wire.EncodeMisses(full)) > wire.MaxData {
		t.Errorf("as many as fit: %d, %v", len(got), err)
	}
	for name, p := range map[string][]byte{
		"no answer":    nil,
		"cut":          wire.EncodeMisses(want)[:19],
		"more":         append(wire.EncodeMisses(want), 0),
		"not asked":    wire.EncodeMisses([]wire.Miss{{Index: 4}}),
		"twice":        wire.EncodeMisses([]wire.Miss{{Index: 1}, {Index: 1}}),
		"out of order": wire.EncodeMisses([]wire.Miss{{Index: 1}, {Index: 0}}),
		"4 billion":    {0xff, 0xff, 0xff, 0xff},
	} {
		if _, err := wire.DecodeMisses(p, 4); !isViolation(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestBadAttempts(t *testing.T) {
	for name, m := range map[string]wire.Attempt{
		"relative": {Path: "etc/passwd"}, "empty": {}, "NUL": {Path: "/a\x00"},
		"long path": {Path: "/" + strings.Repeat("x", 4095)}, "long name": {Path: "/", Program: strings.Repeat("x", 17)},
	} {
		if _, err := wire.DecodeAttempt(m.Encode()); !isViolation(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzSetup holds that what is read beside the connection is bounded by its
// size, and that what is accepted means the same when it is written again.
func FuzzSetup(f *testing.F) {
	f.Add(wire.Config{Readable: []string{"/usr"}, Writable: []string{"/w"}, Landlock: true, Limits: []wire.Rlimit{{Resource: 7, Soft: 1, Hard: 2}}}.Encode())
	f.Add(wire.Config{Checks: []wire.Check{{Path: "/a", Want: wire.Writable}}}.Encode())
	f.Add(wire.EncodeMisses([]wire.Miss{{Index: 2, Errno: 1}}))
	f.Add(wire.Attempt{PID: 3, Path: "/etc/passwd", Program: "sh"}.Encode())
	f.Fuzz(func(t *testing.T, p []byte) {
		if m, err := wire.DecodeConfig(p); err == nil && !bytes.Equal(m.Encode(), p) {
			t.Errorf("the configuration %x became %x", p, m.Encode())
		}
		if list, err := wire.DecodeMisses(p, 100); err == nil && (len(list) > 100 || !bytes.Equal(wire.EncodeMisses(list), p)) {
			t.Errorf("the misses %x became %x", p, wire.EncodeMisses(list))
		}
		if m, err := wire.DecodeAttempt(p); err == nil && !bytes.HasPrefix(p, m.Encode()) {
			t.Errorf("the attempt %x became %x", p, m.Encode())
		}
	})
}
