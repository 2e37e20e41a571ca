package wire_test

import (
	"bytes"
	"errors"
	"io"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox/guest/wire"
)

// TestRemountRefused holds that a Remount names one mount by its clean path.
func TestRemountRefused(t *testing.T) {
	for _, root := range []string{"", "/", "w", "/w/", "/w/../x", "/w//x", "/w\x00", "/" + strings.Repeat("x", 9000)} {
		if _, err := wire.DecodeRemount(wire.Remount{Root: root}.Encode()); !isViolation(err) {
			t.Errorf("%.20q: %v", root, err)
		}
	}
	for _, dir := range []string{"w", "/w\x00", "/" + strings.Repeat("x", 9000)} {
		if _, err := wire.DecodeExit(wire.Exit{LostDir: dir}.Encode()); !isViolation(err) {
			t.Errorf("lost %.20q: %v", dir, err)
		}
	}
}

func TestMessagesRoundTrip(t *testing.T) {
	start := wire.Start{
		Flags: wire.FlagTTY | wire.FlagDetach, Rows: 24, Cols: 80, Dir: "/d",
		Limits: []wire.Limit{{Kind: wire.LimitCPU, Value: 5}, {Kind: wire.LimitCore}},
		Args:   []string{"a", "", "\xff\n"}, Env: []string{"K=v"},
	}
	hello := wire.Hello{Version: 1, BootID: "b", Ready: "r", PID: 1, Features: []string{"x"}, Degraded: []string{"y"}}
	limited := wire.Exit{Signal: 9, Limit: &wire.LimitHit{Kind: wire.LimitTreeMemory, Current: 9, Bound: 8}}
	lost := wire.Exit{Code: 1, LostDir: "/workspace/a\xff"}
	// Lengths in bytes of an exit without what was added to it later: these are as good.
	whole := map[string][]int{"limited exit": {26, 27, 44, 52}, "lost folder": {26, 27, 28, 36}}
	for name, tt := range map[string]struct {
		payload []byte
		decode  func([]byte) (any, error)
		want    any
	}{
		"client hello":  {wire.ClientHello{Min: 1, Max: 2}.Encode(), as(wire.DecodeClientHello), wire.ClientHello{Min: 1, Max: 2}},
		"hello":         {hello.Encode(), as(wire.DecodeHello), hello},
		"go away":       {wire.GoAway{Min: 1, Max: 2, Reason: "why"}.Encode(), as(wire.DecodeGoAway), wire.GoAway{Min: 1, Max: 2, Reason: "why"}},
		"set ready":     {wire.SetReady{Tag: "t"}.Encode(), as(wire.DecodeSetReady), wire.SetReady{Tag: "t"}},
		"failed":        {wire.Failed{Kind: wire.KindBadDir, Errno: 2, Text: "x"}.Encode(), as(wire.DecodeFailed), wire.Failed{Kind: wire.KindBadDir, Errno: 2, Text: "x"}},
		"start":         {start.Encode(), as(wire.DecodeStart), start},
		"started":       {wire.Started{PID: 7}.Encode(), as(wire.DecodeStarted), wire.Started{PID: 7}},
		"exit":          {wire.Exit{Code: 1, Signal: 9, User: 2, System: 3, MaxRSS: 4}.Encode(), as(wire.DecodeExit), wire.Exit{Code: 1, Signal: 9, User: 2, System: 3, MaxRSS: 4}},
		"limited exit":  {limited.Encode(), as(wire.DecodeExit), limited},
		"lost folder":   {lost.Encode(), as(wire.DecodeExit), lost},
		"remount":       {wire.Remount{Root: "/w", Within: 5}.Encode(), as(wire.DecodeRemount), wire.Remount{Root: "/w", Within: 5}},
		"remounted":     {wire.Remounted{Exchanged: true}.Encode(), as(wire.DecodeRemounted), wire.Remounted{Exchanged: true}},
		"left as it is": {wire.Remounted{}.Encode(), as(wire.DecodeRemounted), wire.Remounted{}},
		"credit":        {wire.Credit{N: 9}.Encode(), as(wire.DecodeCredit), wire.Credit{N: 9}},
		"signal":        {wire.Signal{Number: 15}.Encode(), as(wire.DecodeSignal), wire.Signal{Number: 15}},
		"resize":        {wire.Resize{Rows: 1, Cols: 2}.Encode(), as(wire.DecodeResize), wire.Resize{Rows: 1, Cols: 2}},
		"attempt":       {wire.Attempt{PID: 3, Path: "/etc/x\xff", Program: "sh\n"}.Encode(), as(wire.DecodeAttempt), wire.Attempt{PID: 3, Path: "/etc/x\xff", Program: "sh\n"}},
		"kill":          {wire.Kill{GraceMillis: 10}.Encode(), as(wire.DecodeKill), wire.Kill{GraceMillis: 10}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := tt.decode(tt.payload)
			if err != nil || !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got %+v, %v", got, err)
			}
			if _, err := tt.decode(append(tt.payload[:len(tt.payload):len(tt.payload)], "later fields"...)); err != nil {
				t.Errorf("a longer message: %v", err)
			}
			for n := range len(tt.payload) {
				if slices.Contains(whole[name], n) {
					continue
				}
				if _, err := tt.decode(tt.payload[:n]); !isViolation(err) {
					t.Errorf("cut to %d bytes: %v", n, err)
				}
			}
		})
	}
}

// as erases the type of a decoder's result.
func as[M any](decode func([]byte) (M, error)) func([]byte) (any, error) {
	return func(p []byte) (any, error) { return decode(p) }
}

func isViolation(err error) bool {
	var v *wire.ProtocolError
	return errors.As(err, &v)
}

func TestBadMessages(t *testing.T) {
	for name, err := range map[string]error{
		"unknown flag":         second(wire.DecodeStart(wire.Start{Flags: 1 << 20}.Encode())),
		"too many limits":      second(wire.DecodeStart(wire.Start{Limits: make([]wire.Limit, 17)}.Encode())),
		"signal 0":             second(wire.DecodeSignal([]byte{0})),
		"signal 65":            second(wire.DecodeSignal([]byte{65})),
		"long tag":             second(wire.DecodeSetReady(wire.SetReady{Tag: strings.Repeat("x", 257)}.Encode())),
		"exit beyond 63 bits":  second(wire.DecodeExit(wire.Exit{Limit: &wire.LimitHit{Kind: wire.LimitTreeCPU, Current: 1 << 63}}.Encode())),
		"bound beyond 63 bits": second(wire.DecodeExit(wire.Exit{Limit: &wire.LimitHit{Kind: wire.LimitTreeCPU, Bound: 1 << 63}}.Encode())),
		"exit by signal 200":   second(wire.DecodeExit(wire.Exit{Signal: 200}.Encode())),
		"wrong magic":          second(wire.DecodeHello([]byte("HTTP/1.1 200 OK"))),
		"list of 4 billion":    second(wire.DecodeStart(append(make([]byte, 16), 0xff, 0xff, 0xff, 0xff))),
	} {
		if !isViolation(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func second[M any](_ M, err error) error { return err }

func TestNegotiate(t *testing.T) {
	for _, tt := range []struct {
		min, max, want uint16
		ok             bool
	}{{1, 1, 1, true}, {1, 9, 1, true}, {2, 9, 1, false}, {0, 0, 0, false}, {9, 1, 1, false}} {
		v, ok := wire.ClientHello{Min: tt.min, Max: tt.max}.Negotiate()
		if ok != tt.ok || ok && v != tt.want {
			t.Errorf("%+v: got %d, %v", tt, v, ok)
		}
	}
}

func TestReader(t *testing.T) {
	frame := func(t wire.Type, n int) []byte {
		return wire.AppendFrame(nil, wire.Frame{Type: t, Stream: 3, Payload: make([]byte, n)})
	}
	claim := func(t wire.Type, n uint32) []byte {
		b := frame(t, 0)
		b[8], b[9], b[10], b[11] = byte(n), byte(n>>8), byte(n>>16), byte(n>>24)
		return b
	}
	reserved := frame(wire.TypeData, 0)
	reserved[2] = 1
	for _, tt := range []struct {
		name      string
		in        []byte
		violation bool
		err       error
	}{
		{"largest data", frame(wire.TypeData, wire.MaxData), false, nil},
		{"largest request", frame(wire.TypeStart, wire.MaxRequest), false, nil},
		{"data too large", claim(wire.TypeData, wire.MaxData+1), true, nil},
		{"4 GiB of data", claim(wire.TypeData, math.MaxUint32), true, nil},
		{"request too large", claim(wire.TypeStart, wire.MaxRequest+1), true, nil},
		{"4 GiB request", claim(wire.TypeStart, math.MaxUint32), true, nil},
		{"type 0", frame(0, 0), true, nil},
		{"reserved bytes", reserved, true, nil},
		{"end", nil, false, io.EOF},
		{"half a header", frame(wire.TypeData, 0)[:5], false, io.ErrUnexpectedEOF},
		{"no payload", claim(wire.TypeData, 5), false, io.ErrUnexpectedEOF},
		{"half a payload", frame(wire.TypeData, 10)[:17], false, io.ErrUnexpectedEOF},
		{"half a request", frame(wire.TypeStart, 1<<20)[:1<<19], false, io.ErrUnexpectedEOF},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f, err := wire.NewReader(bytes.NewReader(tt.in), wire.MaxRequest).Next()
			switch {
			case tt.violation && !isViolation(err), !tt.violation && !errors.Is(err, tt.err):
				t.Errorf("got %v", err)
			case err == nil && len(f.Payload) != len(tt.in)-wire.HeaderLen:
				t.Errorf("%d bytes", len(f.Payload))
			}
		})
	}
}

// TestClaimCostsNothing: a frame that claims a large request and sends
// nothing makes no large buffer.
func TestClaimCostsNothing(t *testing.T) {
	b := wire.AppendFrame(nil, wire.Frame{Type: wire.TypeStart, Stream: 1})
	b[10] = 0x20 // 2 MiB
	allocated := testing.Benchmark(func(bm *testing.B) {
		for bm.Loop() {
			_, _ = wire.NewReader(bytes.NewReader(b), wire.MaxRequest).Next()
		}
	}).AllocedBytesPerOp()
	if allocated > 256<<10 {
		t.Errorf("%d bytes", allocated)
	}
}

func TestSignals(t *testing.T) {
	for n := 1; n <= 64; n++ {
		name := wire.SignalName(n)
		if got := wire.SignalNumber(name); got != n && n != 32 && n != 33 {
			t.Errorf("%d: %q is %d", n, name, got)
		}
	}
	for name, want := range map[string]int{"SIGTERM": 15, "TERM": 15, "KILL": 9, "": 0, "SIG": 0, "NOPE": 0, "term": 0, "32": 0} {
		if got := wire.SignalNumber(name); got != want {
			t.Errorf("%q: got %d, want %d", name, got, want)
		}
	}
}

func TestInbox(t *testing.T) {
	b := wire.NewInbox()
	full := make([]byte, wire.Window)
	if err := b.Put(full); err != nil {
		t.Fatal(err)
	}
	if err := b.Put([]byte{1}); !isViolation(err) {
		t.Errorf("more than a window: %v", err)
	}
	got, err := b.Take()
	if err != nil || len(got) != wire.Window {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	if err := b.Put([]byte{1}); !isViolation(err) {
		t.Errorf("before it was consumed: %v", err)
	}
	if n := b.Consumed(wire.Window); n != wire.Window {
		t.Errorf("granted %d", n)
	}
	if n := b.Consumed(0); n != 0 {
		t.Errorf("granted %d for nothing", n)
	}
	if err := b.Put([]byte("rest")); err != nil {
		t.Fatal(err)
	}
	b.Close(nil)
	if err := b.Put([]byte("late")); !isViolation(err) {
		t.Errorf("after the end: %v", err)
	}
	if got, err := b.Take(); string(got) != "rest" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := b.Take(); err != io.EOF {
		t.Errorf("got %v", err)
	}
}

func TestInboxDiscard(t *testing.T) {
	b := wire.NewInbox()
	waiting := make(chan error)
	go func() {
		_, err := b.Take()
		waiting <- err
	}()
	b.Discard()
	if err := <-waiting; err != io.EOF {
		t.Errorf("got %v", err)
	}
	if err := b.Put(make([]byte, wire.Window)); err != nil {
		t.Error(err)
	}
	if err := b.Put([]byte{1}); !isViolation(err) {
		t.Errorf("more than a window: %v", err)
	}
}

func TestCredits(t *testing.T) {
	c := wire.NewCredits()
	if err := c.Grant(1); !isViolation(err) {
		t.Errorf("more than a window: %v", err)
	}
	if n, err := c.Take(1 << 30); n != wire.Window || err != nil {
		t.Errorf("got %d, %v", n, err)
	}
	taken := make(chan int)
	go func() {
		n, _ := c.Take(10)
		taken <- n
	}()
	if err := c.Grant(4); err != nil {
		t.Fatal(err)
	}
	if n := <-taken; n != 4 {
		t.Errorf("took %d", n)
	}
	if err := c.Grant(math.MaxUint32); !isViolation(err) {
		t.Errorf("4 GiB: %v", err)
	}
	gone := errors.New("gone")
	c.Close(gone)
	if _, err := c.Take(1); err != gone {
		t.Errorf("got %v", err)
	}
}

func TestQuote(t *testing.T) {
	for in, want := range map[string]string{
		"plain text": "plain text", "\x1b[31m": `"\x1b[31m"`, "a\nb": `"a\nb"`, "\u202e": `"\u202e"`, "\xff": `"\xff"`,
	} {
		if got := wire.Quote(in); got != want {
			t.Errorf("%q: got %s", in, got)
		}
	}
}

func FuzzReader(f *testing.F) {
	f.Add(wire.AppendFrame(nil, wire.Frame{Type: wire.TypeStart, Stream: 1, Payload: wire.Start{Args: []string{"x"}}.Encode()}))
	f.Add(wire.AppendFrame(nil, wire.Frame{Type: wire.TypeData, Flags: 0x81, Stream: 1, Payload: []byte("data")}))
	f.Fuzz(func(t *testing.T, in []byte) {
		r := wire.NewReader(bytes.NewReader(in), wire.MaxRequest)
		var again []byte
		for {
			frame, err := r.Next()
			if err != nil {
				break
			}
			again = wire.AppendFrame(again, frame)
		}
		if !bytes.HasPrefix(in, again) {
			t.Errorf("read something else than there was")
		}
	})
}

func FuzzMessages(f *testing.F) {
	f.Add(wire.Start{Args: []string{"x"}, Env: []string{"a=b"}}.Encode())
	f.Add(wire.Hello{Version: 1, Features: []string{"x"}}.Encode())
	f.Add(wire.Failed{Text: "x"}.Encode())
	f.Add(wire.Exit{Code: 3}.Encode())
	f.Fuzz(func(t *testing.T, in []byte) {
		if m, err := wire.DecodeStart(in); err == nil {
			if again, err := wire.DecodeStart(m.Encode()); err != nil || !reflect.DeepEqual(m, again) {
				t.Errorf("%+v became %+v, %v", m, again, err)
			}
		}
		if m, err := wire.DecodeHello(in); err == nil {
			if again, err := wire.DecodeHello(m.Encode()); err != nil || !reflect.DeepEqual(m, again) {
				t.Errorf("%+v became %+v, %v", m, again, err)
			}
		}
		_, _ = wire.DecodeClientHello(in)
		_, _ = wire.DecodeGoAway(in)
		_, _ = wire.DecodeFailed(in)
		_, _ = wire.DecodeExit(in)
		_, _ = wire.DecodeSetReady(in)
	})
}

// TestGoAwayStopping holds that the field that came later may be missing.
func TestGoAwayStopping(t *testing.T) {
	long := wire.GoAway{Min: 1, Max: 2, Reason: "why", Stopping: true}.Encode()
	for _, tt := range []struct {
		payload []byte
		want    bool
	}{{long, true}, {long[:len(long)-1], false}, {append(long[:len(long)-1:len(long)-1], 0), false}} {
		m, err := wire.DecodeGoAway(tt.payload)
		if err != nil || m.Stopping != tt.want || m.Reason != "why" {
			t.Errorf("%x: got %+v, %v", tt.payload, m, err)
		}
	}
}
