//go:build linux

package server

import (
	"bytes"
	"fmt"
	"os"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/bulkhead-dev/sandbox/guest/wire"
	"golang.org/x/sys/unix"
)

// TestOutputLastBytes holds that what was written before settle or finish was
// called is sent, also when that comes between the pump's finding nothing and
// its going to wait: there it gives back a buffer, which the test delays.
func TestOutputLastBytes(t *testing.T) {
	free := &sync.Pool{New: func() any { b := make([]byte, wire.HeaderLen+wire.MaxData); return &b }}
	for name, end := range map[string]func(*output){"settle": (*output).settle, "finish": (*output).finish} {
		t.Run(name, func(t *testing.T) {
			for i := range 50 {
				synctest.Test(t, func(t *testing.T) {
					if sent := lastBytes(t, &buffers{slots: make(chan struct{}), free: free}, end); sent != "end" {
						t.Fatalf("round %d: %q was sent", i, sent)
					}
				})
			}
		})
	}
}

// lastBytes runs one output and returns what it sent. The slots of the buffers
// are full, so that a goroutine that gets a buffer, or gives it back, waits for
// the test.
func lastBytes(t *testing.T, bufs *buffers, end func(*output)) string {
	f, write := pipe(t)
	w := write()
	defer w.Close()
	var sent bytes.Buffer
	o := &output{
		file: f, channel: wire.Stdout, credits: wire.NewCredits(), bufs: bufs, ended: make(chan struct{}),
		send: func(_ wire.Frame, b []byte) error {
			sent.Write(b[wire.HeaderLen:])
			return nil
		},
	}
	go o.pump()
	<-bufs.slots
	synctest.Wait() // it has found nothing, and gives its buffer back
	if _, err := w.WriteString("end"); err != nil {
		t.Fatal(err)
	}
	end(o)
	for {
		select {
		case bufs.slots <- struct{}{}:
		case <-bufs.slots:
		case <-o.ended:
			return sent.String()
		}
	}
}

// TestOutputUnwanted holds that the output of a line which the client does not
// want is read to the end of the line, however often no process can write
// there, and that no goroutine reads there afterwards.
func TestOutputUnwanted(t *testing.T) {
	free := &sync.Pool{New: func() any { b := make([]byte, wire.HeaderLen+wire.MaxData); return &b }}
	f, write := pipe(t)
	o := &output{
		file: f, channel: wire.Stdout, endless: true, credits: wire.NewCredits(), bufs: newBuffers(free), ended: make(chan struct{}),
		send: func(wire.Frame, []byte) error {
			t.Error("it was sent")
			return nil
		},
	}
	o.credits.Close(errDetached)
	go o.pump()
	go o.dropRest()
	for range 3 { // writers that come and go, each with more than a pipe holds
		w := write()
		if _, err := w.Write(make([]byte, 200_000)); err != nil {
			t.Fatal(err)
		}
		w.Close()
	}
	o.settle()
	<-o.ended
	w := write()
	defer w.Close()
	if _, err := w.WriteString("next"); err != nil {
		t.Fatal(err)
	}
	if n, err := pending(f); n != 4 || err != nil {
		t.Errorf("%d bytes of the next line are there, %v", n, err)
	}
}

// pipe returns the read end of a pipe, and what opens write ends of it.
func pipe(t *testing.T) (read *os.File, write func() *os.File) {
	t.Helper()
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(p[1])
	if err := unix.SetNonblock(p[0], true); err != nil {
		t.Fatal(err)
	}
	read = os.NewFile(uintptr(p[0]), "pipe")
	t.Cleanup(func() { read.Close() })
	return read, func() *os.File {
		w, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", p[0]), os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
}
