//go:build linux

package server

import (
	"reflect"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/guest/wire"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// asked are limits of every kind, as a client sends them.
func asked() []wire.Limit {
	return []wire.Limit{
		{Kind: wire.LimitCore}, {Kind: wire.LimitCPU, Value: 5}, {Kind: wire.LimitTreeCPU, Value: 5},
		{Kind: wire.LimitData, Value: 1000}, {Kind: wire.LimitTreeMemory, Value: 500},
		{Kind: wire.LimitFileSize, Value: 70}, {Kind: wire.LimitOpenFiles, Value: 9}, {Kind: wire.LimitTreeProcesses, Value: 4},
	}
}

func TestNewAudit(t *testing.T) {
	rest, a := newAudit(asked())
	want := []wire.Limit{
		{Kind: wire.LimitCore}, {Kind: wire.LimitCPU, Value: 5}, {Kind: wire.LimitData, Value: 1000},
		{Kind: wire.LimitFileSize, Value: 70}, {Kind: wire.LimitOpenFiles, Value: 9},
	}
	if !reflect.DeepEqual(rest, want) {
		t.Errorf("the kernel is to hold %+v, want %+v", rest, want)
	}
	if b := (meterBounds{CPU: 5 * time.Second, Memory: 500, Processes: 4, Files: 9}); a == nil || a.bounds != b {
		t.Errorf("%+v, want %+v", a, b)
	}
	huge := ^uint64(0)
	if _, a := newAudit([]wire.Limit{{Kind: wire.LimitTreeCPU, Value: huge}, {Kind: wire.LimitTreeMemory, Value: huge}}); a.bounds.CPU <= 0 || a.bounds.Memory <= 0 {
		t.Errorf("the largest bounds became %+v", a.bounds)
	}
	for _, limits := range [][]wire.Limit{nil, {{Kind: wire.LimitCore}}, {{Kind: wire.LimitCPU, Value: 5}, {Kind: wire.LimitAddressSpace, Value: 5}}} {
		if rest, a := newAudit(limits); a != nil || len(rest) != len(limits) {
			t.Errorf("%+v: %+v, %+v", limits, rest, a)
		}
	}
}

func TestExceeded(t *testing.T) {
	b := meterBounds{CPU: 5 * time.Second, Memory: 500, Processes: 4, Files: 9}
	for _, tt := range []struct {
		use  meterUse
		want *wire.LimitHit
	}{
		{meterUse{CPU: 4999 * time.Millisecond, Memory: 500, Processes: 4, Files: 9}, nil},
		{meterUse{CPU: 5 * time.Second}, hitOf(wire.LimitTreeCPU, 5, 5)},
		{meterUse{CPU: 7900 * time.Millisecond}, hitOf(wire.LimitTreeCPU, 7, 5)},
		{meterUse{Memory: 501}, hitOf(wire.LimitTreeMemory, 501, 500)},
		{meterUse{Processes: 5, Memory: 501}, hitOf(wire.LimitTreeProcesses, 5, 4)},
	} {
		if got := exceeded(b, tt.use); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%+v: %+v, want %+v", tt.use, got, tt.want)
		}
		if got := exceeded(meterBounds{}, tt.use); got != nil {
			t.Errorf("%+v without bounds: %+v", tt.use, got)
		}
	}
}

// TestEnded checks what is reported at the end of a command.
func TestEnded(t *testing.T) {
	const second = uint64(time.Second)
	for _, tt := range []struct {
		name string
		look meterUse // seen while it ran
		exit wire.Exit
		want *wire.LimitHit
	}{
		{"a success", meterUse{Files: 9}, wire.Exit{User: 9 * second, MaxRSS: 900}, nil},
		{"a failure", meterUse{Files: 8}, wire.Exit{Code: 1, User: second, MaxRSS: 500}, nil},
		{"ended when it was seen", meterUse{Memory: 600}, wire.Exit{Signal: 9}, hitOf(wire.LimitTreeMemory, 600, 500)},
		{"a success when it was seen", meterUse{Memory: 600}, wire.Exit{}, hitOf(wire.LimitTreeMemory, 600, 500)},
		{"XCPU", meterUse{}, wire.Exit{Signal: 24, User: 4 * second, System: second}, hitOf(wire.LimitTreeCPU, 5, 5)},
		{"XCPU of a child of a shell", meterUse{}, wire.Exit{Code: 152}, hitOf(wire.LimitTreeCPU, 5, 5)},
		{"the time is used up", meterUse{}, wire.Exit{Signal: 9, User: 6 * second}, hitOf(wire.LimitTreeCPU, 6, 5)},
		{"XFSZ", meterUse{}, wire.Exit{Signal: 25}, hitOf(wire.LimitFileSize, 70, 70)},
		{"XFSZ of a child of a shell", meterUse{}, wire.Exit{Code: 153}, hitOf(wire.LimitFileSize, 70, 70)},
		{"memory between two looks", meterUse{}, wire.Exit{Code: 1, MaxRSS: 700}, hitOf(wire.LimitTreeMemory, 700, 500)},
		{"all files open", meterUse{Files: 9}, wire.Exit{Code: 1}, hitOf(wire.LimitOpenFiles, 9, 9)},
		{"numbers that cannot be", meterUse{}, wire.Exit{Code: 1, User: ^uint64(0), System: ^uint64(0), MaxRSS: ^uint64(0)},
			hitOf(wire.LimitTreeCPU, 2*int64(maxCPU/time.Second), 5)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, a := newAudit(asked())
			a.look(tt.look)
			got := a.ended(tt.exit)
			if !reflect.DeepEqual(got.Limit, tt.want) {
				t.Errorf("%+v, want %+v", got.Limit, tt.want)
			}
			if got.Limit = nil; got != tt.exit {
				t.Errorf("%+v became %+v", tt.exit, got)
			}
		})
	}
	var none *audit
	if e := none.ended(wire.Exit{Signal: 25}); e.Limit != nil {
		t.Errorf("%+v without limits", e.Limit)
	}
}

// TestAuditorRests holds that nothing runs for commands without bounds that
// have to be looked at, and that nothing does once those with some are gone.
func TestAuditorRests(t *testing.T) {
	o := newAuditor()
	running := func() bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		return o.running
	}
	m := &command{shim: &shimProc{pid: 1 << 30}, gone: make(chan struct{})}
	_, fileSize := newAudit([]wire.Limit{{Kind: wire.LimitFileSize, Value: 1}})
	for _, a := range []*audit{nil, fileSize} {
		if o.watch(m, a, false); running() || len(o.watched) > 0 {
			t.Fatal("a command without bounds is looked at")
		}
	}
	_, a := newAudit(asked())
	o.watch(m, a, false)
	if !running() {
		t.Fatal("a command with bounds is not looked at")
	}
	close(m.gone)
	testenv.Until(t, "a command that is gone is looked at no more", func() bool { return !running() })
	m.gone = make(chan struct{})
	o.watch(m, a, false)
	o.release(m)
	testenv.Until(t, "a command that was let go of is looked at no more", func() bool { return !running() })
}
