//go:build linux

package stage

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/guest/wire"
	"golang.org/x/sys/unix"
)

func BenchmarkTrue(b *testing.B) {
	null, err := os.OpenFile("/dev/null", os.O_RDWR, 0)
	if err != nil {
		b.Fatal(err)
	}
	m, err := NewMaker(wire.Start{Env: os.Environ()}, int(null.Fd()))
	if err != nil {
		b.Fatal(err)
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		b.Fatal(err)
	}
	var pipe [2]int
	unix.Pipe2(pipe[:], unix.O_CLOEXEC)
	t0 := time.Now()
	if _, err = m.Fork(pair[1], pipe[1]); err != nil {
		b.Fatal(err)
	}
	b.Log("fork took", time.Since(t0))
	req, f := m.Request(wire.Start{Args: []string{"/bin/true"}, Limits: []wire.Limit{{Kind: wire.LimitCore}}})
	if f != nil {
		b.Fatal(f)
	}
	var buf [ReportLen]byte
	var started, exited []time.Duration
	for b.Loop() {
		t0 := time.Now()
		unix.Sendmsg(pair[0], req, unix.UnixRights(int(null.Fd()), int(null.Fd()), int(null.Fd())), nil, 0)
		n, err := unix.Read(pipe[0], buf[:])
		if n != ReportLen || buf[0] != Started {
			b.Fatal(n, err, buf)
		}
		started = append(started, time.Since(t0))
		n, err = unix.Read(pipe[0], buf[:])
		if n != ReportLen || buf[0] != Exited {
			b.Fatal(n, err, buf)
		}
		exited = append(exited, time.Since(t0))
	}
	slices.Sort(started)
	slices.Sort(exited)
	b.Log(len(started), started[len(started)/10], started[len(started)/2], exited[len(started)/10], exited[len(exited)/2])
}
