//go:build linux

package server

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/bulkhead-dev/sandbox/guest/wire"
	"golang.org/x/sys/unix"
)

const testAt = 0x7f0000020000

// decoded is a request as the kernel would read it in the shim.
type decoded struct {
	request
	t    testing.TB
	body []byte
}

func decodeRequest(t testing.TB, body []byte) decoded {
	t.Helper()
	d := decoded{t: t, body: body}
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&d.request)), unsafe.Sizeof(d.request)), body)
	if d.size != uintptr(len(body)) {
		t.Fatalf("says %d bytes, has %d", d.size, len(body))
	}
	return d
}

// text reads the C string at an address, which must lie in the request.
func (d decoded) text(at uintptr) string {
	d.t.Helper()
	if at < testAt+unsafe.Sizeof(request{}) || at >= testAt+uintptr(len(d.body)) {
		d.t.Fatalf("address %#x is outside", at)
	}
	s, _, ok := bytes.Cut(d.body[at-testAt:], []byte{0})
	if !ok {
		d.t.Fatalf("no end of the string at %#x", at)
	}
	return string(s)
}

// list reads a list of C strings.
func (d decoded) list(at uintptr) []string {
	d.t.Helper()
	all := []string{}
	for ; ; at += unsafe.Sizeof(at) {
		from := at - testAt
		if at < testAt || from%unsafe.Sizeof(at) != 0 || from+unsafe.Sizeof(at) > uintptr(len(d.body)) {
			d.t.Fatalf("the list goes on at %#x", at)
		}
		entry := *(*uintptr)(unsafe.Pointer(&d.body[from]))
		if entry == 0 {
			return all
		}
		all = append(all, d.text(entry))
	}
}

func TestEncode(t *testing.T) {
	base := wire.Start{Env: []string{"PATH=/a:/b", "X=1"}, Limits: []wire.Limit{{Kind: wire.LimitOpenFiles, Value: 1024}}}
	s := wire.Start{
		Flags: wire.FlagTTY, Dir: "/dir", Args: []string{"prog", "", "a b"}, Env: []string{"X=2"},
		Limits: []wire.Limit{{Kind: wire.LimitCPU, Value: 5}, {Kind: wire.LimitFileSize, Value: 1 << 40}},
	}
	hard := func(resource int) uint64 {
		if resource == unix.RLIMIT_FSIZE {
			return 1 << 30
		}
		return unix.RLIM_INFINITY
	}
	body, failure := encode(s, base, testAt, hard)
	if failure != nil {
		t.Fatalf("%+v", failure)
	}
	d := decodeRequest(t, body)
	if got := d.list(d.argv); !slices.Equal(got, s.Args) {
		t.Errorf("arguments %q", got)
	}
	if got := d.list(d.envv); !slices.Equal(got, []string{"PATH=/a:/b", "X=2"}) {
		t.Errorf("environment %q", got)
	}
	if got := d.list(testAt + d.candidates); !slices.Equal(got, []string{"/a/prog", "/b/prog"}) {
		t.Errorf("candidates %q", got)
	}
	if got := d.text(d.dir); got != "/dir" || d.tty != 1 {
		t.Errorf("directory %q, terminal %d", got, d.tty)
	}
	want := []rlimit{
		{unix.RLIMIT_NOFILE, unix.Rlimit{Cur: 1024, Max: unix.RLIM_INFINITY}},
		{unix.RLIMIT_CPU, unix.Rlimit{Cur: 5, Max: 6}},
		{unix.RLIMIT_FSIZE, unix.Rlimit{Cur: 1 << 30, Max: 1 << 30}},
	}
	if got := d.limits[:d.nlimits]; !slices.Equal(got, want) {
		t.Errorf("limits %+v", got)
	}
}

func TestEncodeBounds(t *testing.T) {
	many := wire.Start{Args: []string{"x"}, Limits: slices.Repeat([]wire.Limit{{Kind: wire.LimitCore}}, maxLimits)}
	if _, failure := encode(many, wire.Start{}, testAt, unlimited); failure == nil || failure.Step != stepLimits {
		t.Errorf("too many limits: %+v", failure)
	}
	large := wire.Start{Args: []string{"x", strings.Repeat("x", requestSize)}}
	if _, failure := encode(large, wire.Start{}, testAt, unlimited); failure == nil || failure.Errno != uint32(unix.E2BIG) {
		t.Errorf("too large: %+v", failure)
	}
}

// FuzzEncode holds for whatever a client sends that a shim gets nothing but
// addresses of strings in the request itself, and the strings that were sent.
func FuzzEncode(f *testing.F) {
	f.Add(wire.Start{Args: []string{"x", "y"}, Env: []string{"A=1"}, Dir: "/"}.Encode())
	f.Add(wire.Start{Flags: wire.FlagTTY, Args: []string{"./x"}, Env: []string{"PATH=:", "PATH"}, Limits: []wire.Limit{{Kind: wire.LimitCPU, Value: ^uint64(0)}}}.Encode())
	base := wire.Start{Env: []string{"PATH=/bin", "HOME=/"}}
	f.Fuzz(func(t *testing.T, payload []byte) {
		s, err := wire.DecodeStart(payload)
		if err != nil {
			return
		}
		body, failure := encode(s, base, testAt, unlimited)
		if failure != nil {
			return
		}
		d := decodeRequest(t, body)
		if got := d.list(d.argv); !slices.Equal(got, s.Args) {
			t.Errorf("arguments %q, sent %q", got, s.Args)
		}
		if got := d.list(d.envv); !slices.Equal(got, overlay(base.Env, s.Env)) {
			t.Errorf("environment %q", got)
		}
		if len(d.list(testAt+d.candidates)) == 0 || d.nlimits > maxLimits {
			t.Errorf("%d limits", d.nlimits)
		}
		if s.Dir != "" && d.text(d.dir) != s.Dir || s.Dir == "" && d.dir != 0 {
			t.Errorf("directory %#x", d.dir)
		}
	})
}

func TestParseMaps(t *testing.T) {
	const maps = `00400000-00508000 r-xp 00000000 fe:00 1 /opt/a guest
00508000-0065b000 r--p 00108000 fe:00 1 /opt/a guest
0065b000-0066a000 rw-p 0025b000 fe:00 1 /opt/a guest
c000000000-c000400000 rw-p 00000000 00:00 0
7f0000000000-7f0000001000 r--p 00000000 fe:00 2 /lib/other
7fff00000000-7fff00021000 rw-p 00000000 00:00 0 [stack]
7fff00030000-7fff00032000 r-xp 00000000 00:00 0 [vdso]
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]
`
	code, top, err := parseMaps(strings.NewReader(maps), 0x509000)
	if err != nil || code != (span{0x400000, 0x65b000}) || top != 0x7fff00032000 {
		t.Errorf("code %#x, top %#x, %v", code, top, err)
	}
	for name, text := range map[string]string{
		"nothing":          "",
		"another program":  "00700000-00800000 r-xp 00000000 fe:00 1 /x\n",
		"no file":          "00500000-00800000 r-xp 00000000 00:00 0\n",
		"no range":         "x r-xp 00000000 00:00 0\n",
		"backwards":        "00800000-00500000 r-xp 00000000 00:00 0 /x\n",
		"a line too short": "00500000-00800000 r-xp\n",
	} {
		if _, _, err := parseMaps(strings.NewReader(text), 0x509000); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestInOrder(t *testing.T) {
	three := [3]span{{1, 2}, {5, 6}, {9, 9}}
	for _, one := range []span{{0, 1}, {3, 4}, {7, 8}, {9, 10}} {
		if got := inOrder(three, one); !slices.IsSortedFunc(got[:], func(a, b span) int { return int(a.from) - int(b.from) }) {
			t.Errorf("%v", got)
		}
	}
}
