package egress

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// soon is far more time than an end takes, also on a busy machine.
const soon = time.Minute

// cutOff checks that a connection ends by a reset, and returns the bytes
// received before.
func cutOff(t *testing.T, c net.Conn) []byte {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(soon))
	got, err := io.ReadAll(c)
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the connection ended with %v", err)
	}
	return got
}

// ended returns the result of a pump, which must come soon.
func ended(t *testing.T, end <-chan result) result {
	t.Helper()
	select {
	case r := <-end:
		return r
	case <-time.After(soon):
		t.Fatal("the pump has not ended")
	}
	return result{}
}

func TestResetIsCarried(t *testing.T) {
	for name, inside := range map[string]bool{"from inside": true, "from outside": false} {
		t.Run(name, func(t *testing.T) {
			program, host, _, end := pumped(t, Limits{})
			breaks, other := program, host
			if !inside {
				breaks, other = host, program
			}
			if _, err := io.WriteString(breaks, "x"); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(other, make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			_ = breaks.SetLinger(0)
			_ = breaks.Close()
			cutOff(t, other)
			if r := ended(t, end); !errors.Is(r.err, syscall.ECONNRESET) {
				t.Errorf("%+v", r)
			}
		})
	}
}

// TestResetAfterHalfClose checks that an end seen only when writing counts
// too.
func TestResetAfterHalfClose(t *testing.T) {
	program, host, _, end := pumped(t, Limits{})
	_ = program.Close()
	if _, err := io.ReadAll(host); err != nil {
		t.Fatal(err)
	}
	_ = host.SetWriteDeadline(time.Now().Add(soon))
	var err error
	for err == nil {
		_, err = host.Write(make([]byte, 1<<16))
	}
	if !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
		t.Errorf("%v", err)
	}
	if r := ended(t, end); r.err == nil {
		t.Errorf("%+v", r)
	}
}

// TestByteBounds checks that not a byte beyond the limit arrives, in either
// direction.
func TestByteBounds(t *testing.T) {
	const bound = 100_000
	for name, tt := range map[string]struct {
		limits Limits
		in     bool
		want   error
	}{
		"in":  {Limits{BytesIn: bound}, true, errBytesIn},
		"out": {Limits{BytesOut: bound}, false, errBytesOut},
	} {
		t.Run(name, func(t *testing.T) {
			program, host, m, end := pumped(t, tt.limits)
			from, to := program, host
			if tt.in {
				from, to = host, program
			}
			written := make(chan struct{})
			go func() {
				defer close(written)
				for {
					if _, err := from.Write(make([]byte, 3000)); err != nil {
						return
					}
				}
			}()
			got := cutOff(t, to)
			r := ended(t, end)
			<-written
			if passed := r.in + r.out; !errors.Is(r.err, tt.want) || int64(len(got)) > passed || passed > bound || passed == 0 {
				t.Errorf("%+v, %d bytes arrived", r, len(got))
			}
			if c := m.Counts(); c.In+c.Out != r.in+r.out {
				t.Errorf("%+v, %+v", c, r)
			}
		})
	}
}

// TestLimitEndsAll checks that an idle connection ends when another one
// exceeds a limit.
func TestLimitEndsAll(t *testing.T) {
	m := newMeter(Limits{BytesIn: 1})
	defer m.Close()
	program, inside := tcp(t)
	outside, host := tcp(t)
	end := make(chan result, 1)
	go func() {
		in, out, err := bothPump(t.Context(), inside, outside, m)
		end <- result{in, out, err}
	}()
	_ = m.In(2)
	if r := ended(t, end); !errors.Is(r.err, errBytesIn) {
		t.Errorf("%+v", r)
	}
	cutOff(t, program)
	cutOff(t, host)
}

func TestTotalAndContext(t *testing.T) {
	t.Run("total", func(t *testing.T) {
		program, host, _, end := pumped(t, Limits{Total: 30 * time.Millisecond})
		cutOff(t, program)
		cutOff(t, host)
		if r := ended(t, end); !errors.Is(r.err, errTotal) {
			t.Errorf("%+v", r)
		}
	})
	t.Run("context while the reader takes nothing", func(t *testing.T) {
		program, inside := tcp(t)
		outside, host := tcp(t)
		m := newMeter(Limits{})
		defer m.Close()
		cause := errors.New("called off")
		ctx, cancel := context.WithCancelCause(t.Context())
		end := make(chan result, 1)
		go func() {
			in, out, err := bothPump(ctx, inside, outside, m)
			end <- result{in, out, err}
		}()
		stuffed := stuff(t, host)
		if stuffed > 64<<20 {
			t.Errorf("%d bytes were taken from the host for a reader that takes none", stuffed)
		}
		cancel(cause)
		if r := ended(t, end); !errors.Is(r.err, cause) {
			t.Errorf("%+v", r)
		}
		cutOff(t, program)
	})
}

// stuff writes until the connection accepts no more, and returns the number of
// bytes.
func stuff(t *testing.T, c net.Conn) (total int) {
	t.Helper()
	for {
		_ = c.SetWriteDeadline(time.Now().Add(300 * time.Millisecond))
		n, err := c.Write(make([]byte, 1<<20))
		if total += n; err != nil {
			return total
		}
		if total > 100<<20 {
			return total
		}
	}
}

// TestIdle checks that only silence in both directions ends a connection.
func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const idle = time.Minute
		program, inside := net.Pipe()
		outside, host := net.Pipe()
		m := newMeter(Limits{Idle: idle})
		defer m.Close()
		end := make(chan result, 1)
		go func() {
			in, out, err := bothPump(t.Context(), inside, outside, m)
			end <- result{in, out, err}
		}()
		for range 20 { // one direction only
			time.Sleep(idle * 3 / 4)
			if _, err := io.WriteString(host, "x"); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(program, make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
		}
		start := time.Now()
		r := <-end
		if d := time.Since(start); d < idle || d > idle*3/2 || !errors.Is(r.err, errPumpIdle) || r.in != 20 {
			t.Errorf("%+v after %v", r, d)
		}
		if _, err := program.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("%v", err)
		}
		program.Close()
		host.Close()
	})
}

// TestFirst checks that bytes read before are sent first, and counted.
func TestFirst(t *testing.T) {
	for name, tt := range map[string]struct {
		limits Limits
		want   error
	}{"allowed": {Limits{BytesOut: 6}, nil}, "too much": {Limits{BytesOut: 2}, errBytesOut}} {
		t.Run(name, func(t *testing.T) {
			program, inside := tcp(t)
			outside, host := tcp(t)
			_ = inside.SetDeadline(time.Unix(1, 0)) // a deadline of an earlier use
			_ = outside.SetDeadline(time.Unix(1, 0))
			m := newMeter(tt.limits)
			defer m.Close()
			end := make(chan result, 1)
			go func() {
				in, out, err := pumpPair{Inside: inside, Outside: outside, First: []byte("abc"), Meter: m}.Run(t.Context())
				end <- result{in, out, err}
			}()
			if tt.want != nil {
				if got := cutOff(t, host); len(got) != 0 {
					t.Errorf("%q arrived", got)
				}
			} else {
				_, _ = io.WriteString(program, "def")
				_ = program.CloseWrite()
				if got, err := io.ReadAll(host); err != nil || !bytes.Equal(got, []byte("abcdef")) {
					t.Errorf("%q, %v", got, err)
				}
				_ = host.Close()
			}
			if r := ended(t, end); !errors.Is(r.err, tt.want) {
				t.Errorf("%+v", r)
			}
		})
	}
}
