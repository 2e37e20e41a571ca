package egress

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// sockets counts those that this process has open.
func sockets(t *testing.T) (n int) {
	t.Helper()
	list, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range list {
		if to, err := os.Readlink(path); err == nil && strings.HasPrefix(to, "socket:") {
			n++
		}
	}
	return n
}

// TestPumpMany checks that many concurrent connections share a meter, copy
// every byte, and leave no socket open, however they end.
func TestPumpMany(t *testing.T) {
	const pumps, size = 100, 300_000
	before := sockets(t)
	m := newMeter(Limits{BytesIn: pumps * size, BytesOut: pumps * size})
	defer m.Close()
	text := bytes.Repeat([]byte("x"), size)
	var all sync.WaitGroup
	for i := range pumps {
		program, inside := tcp(t)
		outside, host := tcp(t)
		all.Go(func() {
			_, _, err := bothPump(t.Context(), inside, outside, m)
			if breaks := i%3 == 0; breaks != (err != nil) {
				t.Errorf("pump %d ended with %v", i, err)
			}
		})
		all.Go(func() {
			_, _ = io.Copy(pumpPlain{host}, pumpPlain{host})
			_ = host.CloseWrite()
		})
		all.Go(func() {
			defer host.Close()
			defer program.Close()
			go func() {
				_, _ = program.Write(text)
				if i%3 != 0 {
					_ = program.CloseWrite()
				}
			}()
			got := make([]byte, size)
			if _, err := io.ReadFull(program, got); err != nil || !bytes.Equal(got, text) {
				t.Errorf("pump %d: %v", i, err)
			}
			if i%3 == 0 {
				_ = program.SetLinger(0)
				return
			}
			if _, err := program.Read(got); err != io.EOF {
				t.Errorf("pump %d ended with %v", i, err)
			}
		})
	}
	all.Wait()
	if c := m.Counts(); c.In != pumps*size || c.Out != pumps*size {
		t.Errorf("%+v", c)
	}
	if after := sockets(t); after > before {
		t.Errorf("%d sockets are open, %d were before", after, before)
	}
}
