package seccomp

import (
	"encoding/binary"
	"fmt"
)

// An Arch is the numbering of system calls that a program is for.
type bpfArch struct {
	audit  uint32 // as the kernel names it
	column int    // of the table of numbers
	alien  uint32 // from this number on calls are of another numbering; 0: there is none
}

// ArchOf returns the numbering of a processor as Go names it (GOARCH). Other
// processors than amd64 and arm64 have no filter here.
func ArchOf(goarch string) (bpfArch, error) {
	switch goarch {
	case "amd64":
		return bpfArch{audit: 0xc000003e, column: 0, alien: 0x40000000}, nil // x32
	case "arm64":
		return bpfArch{audit: 0xc00000b7, column: 1}, nil
	}
	return bpfArch{}, fmt.Errorf("there is no filter of system calls for %s", goarch)
}

// An Instruction is struct sock_filter of the kernel.
type bpfInstruction struct {
	Code   uint16
	Jt, Jf uint8
	K      uint32
}

// A Program is a filter as the kernel takes it. It decides about every
// system call of a thread, in this order: whether it comes in the numbering
// that the filter is for, whether it is one that the table knows, and then by
// the rules of the call.
type bpfProgram []bpfInstruction

// Bytes returns the program as it lies in memory, on processors that this
// package has filters for.
func (p bpfProgram) Bytes() []byte {
	b := make([]byte, 0, 8*len(p))
	for _, i := range p {
		b = binary.LittleEndian.AppendUint16(b, i.Code)
		b = append(b, i.Jt, i.Jf)
		b = binary.LittleEndian.AppendUint32(b, i.K)
	}
	return b
}

// Instruction codes.
const (
	load  = 0x20 // BPF_LD | BPF_W | BPF_ABS
	and   = 0x54 // BPF_ALU | BPF_AND | BPF_K
	equal = 0x15 // BPF_JMP | BPF_JEQ | BPF_K
	over  = 0x25 // BPF_JMP | BPF_JGT | BPF_K
	least = 0x35 // BPF_JMP | BPF_JGE | BPF_K
	bits  = 0x45 // BPF_JMP | BPF_JSET | BPF_K
	give  = 0x06 // BPF_RET | BPF_K
)

// Offsets in struct seccomp_data. Both processors store the lower half of an
// argument first.
const (
	atNumber = 0
	atArch   = 4
	atArgs   = 16
)

// An Action is what becomes of a call.
type Action uint32

// The actions.
const (
	bpfAllow Action = 0x7fff0000
	Notify   Action = 0x7fc00000 // hand it to the listener
	bpfKill  Action = 0x80000000 // end the process
)

// Refuse fails the call with an error number.
func refuseBpf(errno uint16) Action { return Action(0x00050000 | uint32(errno)) }

// Skip answers that a call has succeeded, which is not made.
const bpfSkip Action = 0x00050000

// Error numbers, the same on both processors.
const (
	eperm        = 1
	enosys       = 38
	eafnosupport = 97
)

// A test looks at one argument.
type test struct {
	kind  uint8
	arg   uint8
	mask  uint32
	value uint32
}

// Kinds of tests.
const (
	always = iota
	is     // the argument is the value
	isNot  // it is not
	hasAny // it has a bit of the value
	maskIs // with the bits of mask alone it is the value
	null   // it is a pointer to nothing
)

// A rule says what becomes of a call if its test holds. The first rule of a
// call that holds decides; where none does the call is allowed.
type rule struct {
	call   string
	test   test
	action Action
}

// compile makes a program. Calls come in the order in which the rules first
// name them; those that a processor does not have are left out. Calls with
// numbers above newest get the action unknown; 0 is no such bound.
func compile(a bpfArch, rules []rule, newest uint32, unknown Action) bpfProgram {
	p := bpfProgram{
		{Code: load, K: atArch}, {Code: equal, K: a.audit, Jt: 1}, {Code: give, K: uint32(bpfKill)},
		{Code: load, K: atNumber},
	}
	if a.alien != 0 {
		p = append(p, bpfInstruction{Code: least, K: a.alien, Jf: 1}, bpfInstruction{Code: give, K: uint32(refuseBpf(enosys))})
	}
	if newest != 0 {
		p = append(p, bpfInstruction{Code: over, K: newest, Jf: 1}, bpfInstruction{Code: give, K: uint32(unknown)})
	}
	numbers := numbers()
	blocks := map[string]bpfProgram{}
	var order []string
	for _, r := range rules {
		if _, seen := blocks[r.call]; !seen {
			order = append(order, r.call)
		}
		blocks[r.call] = append(blocks[r.call], r.block()...)
	}
	for _, call := range order {
		n := numbers[call][a.column]
		if n == none {
			continue
		}
		block := append(blocks[call], bpfInstruction{Code: give, K: uint32(bpfAllow)})
		p = append(p, bpfInstruction{Code: equal, K: uint32(n), Jf: uint8(len(block))})
		p = append(p, block...)
	}
	return append(p, bpfInstruction{Code: give, K: uint32(bpfAllow)})
}

// block is the code of a rule, which goes on behind it if the test fails.
func (r rule) block() bpfProgram {
	result := bpfInstruction{Code: give, K: uint32(r.action)}
	if r.test.kind == always {
		return bpfProgram{result}
	}
	p := bpfProgram{{Code: load, K: atArgs + 8*uint32(r.test.arg)}}
	switch r.test.kind {
	case is:
		p = append(p, bpfInstruction{Code: equal, K: r.test.value, Jf: 1})
	case isNot:
		p = append(p, bpfInstruction{Code: equal, K: r.test.value, Jt: 1})
	case hasAny:
		p = append(p, bpfInstruction{Code: bits, K: r.test.value, Jf: 1})
	case null: // the one test of both halves
		p = append(p, bpfInstruction{Code: equal, Jf: 3}, bpfInstruction{Code: load, K: p[0].K + 4}, bpfInstruction{Code: equal, Jf: 1})
	case maskIs:
		p = append(p, bpfInstruction{Code: and, K: r.test.mask}, bpfInstruction{Code: equal, K: r.test.value, Jf: 1})
	}
	return append(p, result)
}
