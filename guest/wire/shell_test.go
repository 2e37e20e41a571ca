package wire_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox/guest/wire"
)

func TestShellMessages(t *testing.T) {
	shell := wire.Shell{Dir: "/d", Limits: []wire.Limit{{Kind: wire.LimitCPU, Value: 5}}, Env: []string{"K=v", "\xff=\n"}, Name: "n"}
	unnamed := len(shell.Encode()) - 5 // bytes of a shell without what was added to it later: these are as good
	line := wire.Line{Shell: 3, Flags: wire.FlagNoStdin | wire.FlagMergeErr, Text: "echo '\xff\n"}
	for name, tt := range map[string]struct {
		payload []byte
		decode  func([]byte) (any, error)
		want    any
	}{
		"shell":        {shell.Encode(), as(wire.DecodeShell), shell},
		"opened":       {wire.ShellOpened{Program: "bash"}.Encode(), as(wire.DecodeShellOpened), wire.ShellOpened{Program: "bash"}},
		"line":         {line.Encode(), as(wire.DecodeLine), line},
		"longest line": {wire.Line{Text: strings.Repeat("x", wire.MaxLine)}.Encode(), as(wire.DecodeLine), wire.Line{Text: strings.Repeat("x", wire.MaxLine)}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := tt.decode(tt.payload)
			if err != nil || !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got %.100v, %v", got, err)
			}
			if _, err := tt.decode(append(tt.payload[:len(tt.payload):len(tt.payload)], "later fields"...)); err != nil {
				t.Errorf("a longer message: %v", err)
			}
			for n := range min(len(tt.payload), 100) {
				if name == "shell" && n == unnamed {
					continue
				}
				if _, err := tt.decode(tt.payload[:n]); !isViolation(err) {
					t.Errorf("cut to %d bytes: %v", n, err)
				}
			}
		})
	}
	for name, err := range map[string]error{
		"line too long":     second(wire.DecodeLine(wire.Line{Text: strings.Repeat("x", wire.MaxLine+1)}.Encode())),
		"line with NUL":     second(wire.DecodeLine(wire.Line{Text: "a\x00b"}.Encode())),
		"line on a tty":     second(wire.DecodeLine(wire.Line{Flags: wire.FlagTTY}.Encode())),
		"line detached":     second(wire.DecodeLine(wire.Line{Flags: wire.FlagDetach}.Encode())),
		"too many limits":   second(wire.DecodeShell(wire.Shell{Limits: make([]wire.Limit, 17)}.Encode())),
		"program's name":    second(wire.DecodeShellOpened(wire.ShellOpened{Program: strings.Repeat("x", 17)}.Encode())),
		"name too long":     second(wire.DecodeShell(wire.Shell{Name: strings.Repeat("x", 257)}.Encode())),
		"list of 4 billion": second(wire.DecodeShell(append(make([]byte, 8), 0xff, 0xff, 0xff, 0xff))),
	} {
		if !isViolation(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestExitRestarted holds that the field that came later may be missing.
func TestExitRestarted(t *testing.T) {
	long := wire.Exit{Code: 1, Restarted: true}.Encode()
	short := wire.Exit{Code: 1}.Encode()
	for _, tt := range []struct {
		payload []byte
		want    bool
	}{{long, true}, {short, false}, {append(short[:len(short):len(short)], 0), false}} {
		m, err := wire.DecodeExit(tt.payload)
		if err != nil || m.Restarted != tt.want || m.Code != 1 {
			t.Errorf("%x: got %+v, %v", tt.payload, m, err)
		}
	}
}

func FuzzShellMessages(f *testing.F) {
	f.Add(wire.Shell{Dir: "/d", Env: []string{"a=b"}}.Encode())
	f.Add(wire.Line{Shell: 1, Text: "x"}.Encode())
	f.Add(wire.ShellOpened{Program: "sh"}.Encode())
	f.Add(wire.Exit{Restarted: true}.Encode())
	f.Fuzz(func(t *testing.T, in []byte) {
		if m, err := wire.DecodeShell(in); err == nil {
			if again, err := wire.DecodeShell(m.Encode()); err != nil || !reflect.DeepEqual(m, again) {
				t.Errorf("%+v became %+v, %v", m, again, err)
			}
		}
		if m, err := wire.DecodeLine(in); err == nil {
			if again, err := wire.DecodeLine(m.Encode()); err != nil || m != again {
				t.Errorf("%+v became %+v, %v", m, again, err)
			}
		}
		if m, err := wire.DecodeShellOpened(in); err == nil {
			if again, err := wire.DecodeShellOpened(m.Encode()); err != nil || m != again {
				t.Errorf("%+v became %+v, %v", m, again, err)
			}
		}
		if m, err := wire.DecodeExit(in); err == nil {
			if again, err := wire.DecodeExit(m.Encode()); err != nil || m != again {
				t.Errorf("%+v became %+v, %v", m, again, err)
			}
		}
	})
}

func TestKeptShell(t *testing.T) {
	shell := wire.Shell{Dir: "/d", Limits: []wire.Limit{{Kind: wire.LimitCPU, Value: 5}}, Env: []string{"K=v"}}
	for _, want := range []wire.KeptShell{{Ticket: 1, Shell: shell}, {Ticket: 1 << 31, From: "bash", Shell: shell}, {Ticket: 2, From: "sh"}} {
		p := want.Encode()
		if got, err := wire.DecodeKeptShell(append(p[:len(p):len(p)], "later fields"...)); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, %v", got, err)
		}
		for n := range len(p) - 4 { // the name was added later
			if _, err := wire.DecodeKeptShell(p[:n]); !isViolation(err) {
				t.Errorf("cut to %d bytes: %v", n, err)
			}
		}
	}
	for name, m := range map[string]wire.KeptShell{
		"no ticket": {Shell: shell}, "another program": {Ticket: 1, From: "zsh"}, "path": {Ticket: 1, From: "/bin/sh"},
		"too many limits": {Ticket: 1, Shell: wire.Shell{Limits: make([]wire.Limit, 17)}},
	} {
		if _, err := wire.DecodeKeptShell(m.Encode()); !isViolation(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzKeptShell(f *testing.F) {
	f.Add(wire.KeptShell{Ticket: 1, From: "sh", Shell: wire.Shell{Dir: "/d", Env: []string{"a=b"}}}.Encode())
	f.Fuzz(func(t *testing.T, in []byte) {
		m, err := wire.DecodeKeptShell(in)
		if err != nil {
			return
		}
		if again, err := wire.DecodeKeptShell(m.Encode()); err != nil || !reflect.DeepEqual(m, again) {
			t.Errorf("%+v became %+v, %v", m, again, err)
		}
	})
}
