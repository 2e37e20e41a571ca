//go:build linux

package server

import (
	"os"
	"os/exec"
	"runtime"
	"testing"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

func TestMeterParse(t *testing.T) {
	// The fields of a process as the kernel writes them, from the state on.
	const rest = ` S 7 12 12 0 -1 4194304 1 2 3 4 50 60 700 800 20 0 3 0 12345 1000000 25 18446744073709551615 1 1`
	want := stat{pid: 12, parent: 7, start: 12345, own: 110, reaped: 1500, system: 60, reapedSys: 800, rss: 25 * 4096}
	for _, tt := range []struct {
		in string
		ok bool
	}{
		{"12 (sh)" + rest, true},
		{"12 (a) b (c)" + rest, true},
		{"12 (x) R 1 1 1 1 1 1 1 1 1 1 9999 9999 (y)" + rest, true},
		{"12 (evil) S 1 ) Z 7 12 )" + rest, true},
		{"12 ()" + rest, true},
		{"12 (line\nbreak)" + rest, true},
		{"12 (sh)" + rest[:len(rest)-50], false},
		{"12 (sh) S", false},
		{"12 (sh)", false},
		{"-3 (sh)" + rest, false},
		{"x (sh)" + rest, false},
		{") (" + rest, false},
		{"12 (sh) S 7 12 12 0 -1 4194304 1 2 3 4 -50 60 700 800 20 0 3 0 12345 1000000 25 1", false},
		{"12 (sh) S 7 12 12 0 -1 4194304 1 2 3 4 99999999999999999999 60 700 800 20 0 3 0 12345 1000000 25 1", false},
		{"", false},
	} {
		got, ok := parseMeter([]byte(tt.in), 4096)
		if ok != tt.ok || ok && got != want {
			t.Errorf("%q: got %+v, %v", tt.in, got, ok)
		}
	}
}

func FuzzMeterParse(f *testing.F) {
	f.Add([]byte("12 (sh) S 7 12 12 0 -1 4194304 1 2 3 4 50 60 700 800 20 0 3 0 12345 1000000 25 18446744073709551615 1"))
	f.Add([]byte("12 (a) b) R 1"))
	f.Fuzz(func(t *testing.T, in []byte) {
		s, ok := parseMeter(in, 4096)
		if ok && (s.pid <= 0 || s.parent < 0 || s.rss < 0) {
			t.Fatalf("%+v", s)
		}
	})
}

func TestKilobytes(t *testing.T) {
	const status = "Name:\tRssAnon: 7 kB\nVmRSS:\t    900 kB\nRssAnon:\t     100 kB\nRssFile:\t     700 kB\nRssShmem:\t      20 kB\nVmSwap:\t       3 kB\n"
	for _, tt := range []struct {
		in    string
		names []string
		want  int64
	}{
		{status, []string{"RssAnon:", "RssShmem:", "VmSwap:"}, 123 << 10},
		{status, []string{"RssFile:"}, 700 << 10},
		{"RssAnon:\t-5 kB\nRssAnon: 99999999999999999999 kB\nRssAnon:\n", []string{"RssAnon:"}, 0},
		{"", []string{"RssAnon:"}, 0},
	} {
		if got := kilobytes([]byte(tt.in), tt.names...); got != tt.want {
			t.Errorf("%.20q: %d, want %d", tt.in, got, tt.want)
		}
	}
}

func TestAnonymous(t *testing.T) {
	for in, want := range map[string]int64{
		"Name:\tx\nVmRSS:\t 14 kB\nRssAnon:\t  5 kB\nRssFile:\t 9 kB\n": 5 << 10,
		"Name:\tRssAnon: 1 kB\nVmRSS:\t 9 kB\n":                         7777, // that of another kernel
		"Name:\tx\nState:\tZ (zombie)\nThreads:\t1\n":                   0,
		"Name:\tVmRSS: 1 kB\nState:\tX (dead)\n":                        0,
		"":                                                              0,
	} {
		if got := anonymous([]byte(in), 7777); got != want {
			t.Errorf("%q: %d, want %d", in, got, want)
		}
	}
}

// TestReadSelf holds that the table knows this process as the kernel does.
func TestReadSelf(t *testing.T) {
	var tab meterTable
	if err := tab.Read(); err != nil {
		t.Fatal(err)
	}
	s, ok := tab.find(os.Getpid())
	if !ok || s.parent != os.Getppid() || s.start == 0 || s.rss < 1<<20 {
		t.Errorf("%+v, %v", s, ok)
	}
	found := false
	for _, c := range tab.children(os.Getppid()) {
		found = found || c.pid == os.Getpid()
	}
	if !found {
		t.Error("our parent does not have us")
	}
	f, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	before := openFiles(stat{pid: os.Getpid()})
	f.Close()
	if after := openFiles(stat{pid: os.Getpid()}); before < 4 || after != before-1 {
		t.Errorf("%d open files, and %d after one was closed", before, after)
	}
}

// TestReadHeadless holds that a process whose first thread has ended hides
// nothing: its memory and its files are those of the threads that go on.
func TestReadHeadless(t *testing.T) {
	perl, err := exec.LookPath("perl")
	if err != nil {
		testenv.Lack(t, "perl", "it is not installed")
	}
	exit := map[string]string{"amd64": "60", "arm64": "93"}[runtime.GOARCH]
	cmd := exec.Command(perl, "-e", `use threads; threads->create(sub {
		my $n = 100 << 20; my $x = "a" x $n; my @f; open($f[$_], "<", "/dev/null") for 0..19;
		sleep 1000;
	}); syscall(`+exit+`, 0);`)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	var s stat
	testenv.Until(t, "the first thread has ended, and the other one has all it wants", func() bool {
		var tab meterTable
		if err := tab.Read(); err != nil {
			t.Fatal(err)
		}
		s, _ = tab.find(cmd.Process.Pid)
		return s.ended && s.rss > 100<<20 && openFiles(s) > 20
	})
	tree := newTree(os.Getpid(), meterBounds{Memory: 1}, meterOptions{})
	tree.members = []stat{s}
	all := tree.memory() // first: it has what the others read into
	for what, n := range map[string]int64{"in all": all, "apart": tree.sum(tree.apart), "shared": tree.sum(tree.shared)} {
		if n < 100<<20 || n > 400<<20 {
			t.Errorf("%s it has %d MiB", what, n>>20)
		}
	}
}
