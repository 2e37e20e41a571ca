package seccomp

import (
	"encoding/binary"
	"testing"
)

// A call is the part of a system call that a filter sees.
type call struct {
	arch   uint32
	number uint32
	args   [6]uint64
}

// data encodes c as struct seccomp_data.
func (c call) data() []byte {
	b := binary.LittleEndian.AppendUint32(nil, c.number)
	b = binary.LittleEndian.AppendUint32(b, c.arch)
	b = binary.LittleEndian.AppendUint64(b, 0x7fff_0000_1234) // the instruction pointer
	for _, a := range c.args {
		b = binary.LittleEndian.AppendUint64(b, a)
	}
	return b
}

// run executes the program as the kernel's BPF machine does, for the
// instructions that this package emits. Like the kernel it requires jumps to go
// forward and to stay inside the program.
func (p bpfProgram) run(t *testing.T, c call) Action {
	t.Helper()
	data := c.data()
	var a uint32
	for pc := 0; pc < len(p); pc++ {
		i := p[pc]
		holds := false
		switch i.Code {
		case load:
			if i.K%4 != 0 || int(i.K) > len(data)-4 {
				t.Fatalf("instruction %d loads from %d", pc, i.K)
			}
			a = binary.LittleEndian.Uint32(data[i.K:])
			continue
		case and:
			a &= i.K
			continue
		case give:
			return Action(i.K)
		case equal:
			holds = a == i.K
		case over:
			holds = a > i.K
		case least:
			holds = a >= i.K
		case bits:
			holds = a&i.K != 0
		default:
			t.Fatalf("instruction %d has the code %#x", pc, i.Code)
		}
		if holds {
			pc += int(i.Jt)
		} else {
			pc += int(i.Jf)
		}
	}
	t.Fatal("the program has no end")
	return 0
}

// architectures returns the numberings that have filters, by GOARCH.
func architectures(t *testing.T) map[string]bpfArch {
	t.Helper()
	m := map[string]bpfArch{}
	for _, name := range []string{"amd64", "arm64"} {
		a, err := ArchOf(name)
		if err != nil {
			t.Fatal(err)
		}
		m[name] = a
	}
	return m
}

// number returns the number of a call and fails the test if the processor lacks
// it.
func (a bpfArch) number(t *testing.T, name string) uint32 {
	t.Helper()
	n, known := numbers()[name]
	if !known || n[a.column] == none {
		t.Fatalf("the call %s has no number", name)
	}
	return uint32(n[a.column])
}

// has reports whether the processor has the call.
func (a bpfArch) has(name string) bool {
	n, known := numbers()[name]
	return known && n[a.column] != none
}

// wellFormed makes the checks that the kernel makes when it loads a program.
func wellFormed(t *testing.T, p bpfProgram) {
	t.Helper()
	if len(p) == 0 || len(p) > 4096 || p[len(p)-1].Code != give {
		t.Fatalf("%d instructions, the last one %+v", len(p), p[len(p)-1])
	}
	for at, i := range p {
		jump := max(i.Jt, i.Jf)
		if jump > 0 && (i.Code&7 != 5 || at+1+int(jump) >= len(p)) {
			t.Errorf("instruction %d of %d jumps by %d", at, len(p), jump)
		}
	}
	if b := p.Bytes(); len(b) != 8*len(p) || binary.LittleEndian.Uint16(b) != load {
		t.Errorf("%d bytes for %d instructions", len(b), len(p))
	}
}
