package wire_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox/guest/wire"
)

func TestSnapshotMessages(t *testing.T) {
	want := wire.Snapshot{
		Shells: []wire.ShellState{
			{ID: "one", Program: "bash", Dir: "/d\xff", Line: "echo", Processes: 3, Kept: true, State: []byte("state\x00\n")}, {ID: "two"},
		},
		Commands: []wire.Running{{PID: 7, Detach: true, TTY: true, Started: 5, Dir: "/", Args: []string{"a", "", "\xff"}}, {}},
	}
	p := want.Encode()
	got, err := wire.DecodeSnapshot(p)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
	for n := range len(p) {
		if _, err := wire.DecodeSnapshot(p[:n]); !isViolation(err) {
			t.Errorf("cut to %d bytes: %v", n, err)
		}
	}
	for name, m := range map[string]wire.Snapshot{
		"id":            {Shells: []wire.ShellState{{ID: strings.Repeat("x", 257)}}},
		"program":       {Shells: []wire.ShellState{{Program: "fish"}}},
		"line":          {Shells: []wire.ShellState{{Line: strings.Repeat("x", wire.MaxRunningText+1)}}},
		"state":         {Shells: []wire.ShellState{{State: make([]byte, wire.MaxSize+1)}}},
		"many shells":   {Shells: make([]wire.ShellState, wire.MaxRunning+1)},
		"many commands": {Commands: make([]wire.Running, wire.MaxRunning+1)},
		"arguments":     {Commands: []wire.Running{{Args: []string{strings.Repeat("x", wire.MaxRunningText), "y"}}}},
		"pid":           {Commands: []wire.Running{{PID: 1<<22 + 1}}},
		"started":       {Commands: []wire.Running{{Started: 1 << 63}}},
		"dir":           {Commands: []wire.Running{{Dir: strings.Repeat("x", 9000)}}},
	} {
		if _, err := wire.DecodeSnapshot(m.Encode()); !isViolation(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := wire.DecodeSnapshot([]byte{0xff, 0xff, 0xff, 0xff}); !isViolation(err) {
		t.Errorf("a list of 4 billion: %v", err)
	}
}

func TestShellFromMessages(t *testing.T) {
	want := wire.ShellFrom{Program: "sh", State: []byte("x"), Shell: wire.Shell{Dir: "/d", Env: []string{"K=v"}, Name: "n"}}
	p := want.Encode()
	if got, err := wire.DecodeShellFrom(p); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
	for name, m := range map[string]wire.ShellFrom{
		"program": {Program: "fish", State: []byte("x")}, "no state": {Program: "sh"}, "too much": {Program: "sh", State: make([]byte, wire.MaxShellFrom+1)},
	} {
		if _, err := wire.DecodeShellFrom(m.Encode()); !isViolation(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzDecodeSnapshot(f *testing.F) {
	f.Add(wire.Snapshot{Shells: []wire.ShellState{{ID: "a", State: []byte("s")}}, Commands: []wire.Running{{Args: []string{"a"}}}}.Encode())
	f.Fuzz(func(t *testing.T, in []byte) {
		m, err := wire.DecodeSnapshot(in)
		if err != nil {
			return
		}
		if again, err := wire.DecodeSnapshot(m.Encode()); err != nil || !reflect.DeepEqual(m, again) {
			t.Errorf("%+v became %+v, %v", m, again, err)
		}
	})
}
