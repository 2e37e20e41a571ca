package wire_test

import (
	"errors"
	"io"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bulkhead-dev/sandbox/guest/wire"
)

const window = 64

// TestWindow holds that what is under way is a window at most, and that what
// was read is granted anew.
func TestWindow(t *testing.T) {
	r, s := wire.NewReceiver(window), wire.NewSender(window)
	p := make([]byte, window)
	for round := range 10 {
		n, err := s.Take(2 * window)
		if err != nil || n != window {
			t.Fatalf("round %d: %d may be sent, %v", round, n, err)
		}
		if err := r.Put(p); err != nil {
			t.Fatal(err)
		}
		if r.Put(p[:1]) == nil {
			t.Fatal("more than a window is taken")
		}
		n, grant, err := r.Read(make([]byte, 2*window))
		if err != nil || n != window || grant != window {
			t.Fatalf("%d bytes, %d granted, %v", n, grant, err)
		}
		if err := s.Grant(grant); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range []uint32{1, window + 1, 1<<32 - 1} {
		if s.Grant(n) == nil {
			t.Errorf("%d more than a window is granted", n)
		}
	}
}

// TestSmallReads holds that grants are not worth a frame each.
func TestSmallReads(t *testing.T) {
	r := wire.NewReceiver(window)
	if err := r.Put(make([]byte, window)); err != nil {
		t.Fatal(err)
	}
	grants, sum := 0, uint32(0)
	for range window {
		_, grant, err := r.Read(make([]byte, 1))
		if err != nil {
			t.Fatal(err)
		}
		if sum += grant; grant > 0 {
			grants++
		}
	}
	if grants != 4 || sum != window {
		t.Errorf("%d grants of %d bytes", grants, sum)
	}
}

// TestEnds holds what reads and writes come to in the end.
func TestEnds(t *testing.T) {
	r := wire.NewReceiver(window)
	if err := r.Put([]byte("ab")); err != nil {
		t.Fatal(err)
	}
	r.End(io.EOF)
	r.End(io.ErrUnexpectedEOF) // the first counts
	if n, _, err := r.Read(make([]byte, 8)); n != 2 || err != nil {
		t.Errorf("what came before the end: %d, %v", n, err)
	}
	if _, _, err := r.Read(make([]byte, 8)); err != io.EOF {
		t.Errorf("then %v", err)
	}
	if r.Put([]byte("c")) == nil {
		t.Error("data after the end is taken")
	}
	r.Close(os.ErrClosed)
	if _, _, err := r.Read(make([]byte, 8)); err != os.ErrClosed {
		t.Errorf("after Close %v", err)
	}

	s := wire.NewSender(window)
	s.Stop(io.ErrClosedPipe, false)
	s.Stop(io.EOF, false)
	if _, err := s.Take(1); err != io.ErrClosedPipe {
		t.Errorf("the other side's end: %v", err)
	}
	s.Stop(os.ErrClosed, true)
	if _, err := s.Take(1); err != os.ErrClosed {
		t.Errorf("our own end: %v", err)
	}
	s = wire.NewSender(window)
	if n, err := s.Take(window); n != window || err != nil {
		t.Fatal(n, err)
	}
	s.GiveBack(3)
	if n, err := s.Take(window); n != 3 || err != nil {
		t.Errorf("of 3 given back %d can be taken, %v", n, err)
	}
}

// TestDeadlines holds that a wait ends at its deadline, which can be moved, and
// that what passed is over with the next one.
func TestDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, s := wire.NewReceiver(window), wire.NewSender(0)
		read := func() error { _, _, err := r.Read(make([]byte, 1)); return err }
		take := func() error { _, err := s.Take(1); return err }
		for name, side := range map[string]struct {
			set  func(time.Time)
			wait func() error
		}{"read": {r.SetDeadline, read}, "write": {s.SetDeadline, take}} {
			began := time.Now()
			side.set(began.Add(time.Hour))
			time.AfterFunc(time.Second, func() { side.set(began.Add(time.Minute)) })
			if err := side.wait(); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) != time.Minute {
				t.Errorf("%s: %v after %v", name, err, time.Since(began))
			}
			if err := side.wait(); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%s again: %v", name, err)
			}
			side.set(time.Now().Add(-time.Second))
			if err := side.wait(); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%s in the past: %v", name, err)
			}
			side.set(time.Time{})
		}
		time.AfterFunc(time.Hour, func() { r.End(io.EOF); s.Stop(io.ErrClosedPipe, false) })
		if err := read(); err != io.EOF {
			t.Errorf("without a deadline: %v", err)
		}
		if err := take(); err != io.ErrClosedPipe {
			t.Errorf("without a deadline: %v", err)
		}
	})
}
