package seccomp

import (
	"encoding/binary"
	"fmt"
)

// A bpfArch is the system-call numbering that a program is compiled for.
type bpfArch struct {
	audit  uint32 // AUDIT_ARCH_* of the kernel
	column int    // in the table of numbers
	alien  uint32 // calls from this number on belong to another numbering; 0 if there is none
}

// ArchOf returns the numbering of a processor by its GOARCH name. It returns an
// error for processors other than amd64 and arm64.
func ArchOf(goarch string) (bpfArch, error) {
	switch goarch {
	case "amd64":
		return bpfArch{audit: 0xc000003e, column: 0, alien: 0x40000000}, nil // x32
	case "arm64":
		return bpfArch{audit: 0xc00000b7, column: 1}, nil
	}
	return bpfArch{}, fmt.Errorf("there is no filter of system calls for %s", goarch)
}

// A bpfInstruction is struct sock_filter of the kernel.
type bpfInstruction struct {
	Code   uint16
	Jt, Jf uint8
	K      uint32
}

// A bpfProgram is a filter in the form that the kernel takes. It decides about
// every system call of a thread in this order: whether the call uses the
// numbering that the filter is compiled for, whether the table knows the call,
// and then by the rules for the call.
type bpfProgram []bpfInstruction

// Bytes returns the program in its memory layout on the processors that have a
// numbering here.
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

// An Action is the result of a filter for a call.
type Action uint32

// The actions.
const (
	bpfAllow Action = 0x7fff0000
	Notify   Action = 0x7fc00000 // pass the call to the listener
	bpfKill  Action = 0x80000000 // end the process
)

// refuseBpf returns the action that fails the call with an error number.
func refuseBpf(errno uint16) Action { return Action(0x00050000 | uint32(errno)) }

// bpfSkip reports success to the program without making the call.
const bpfSkip Action = 0x00050000

// Error numbers, the same on both processors.
const (
	eperm        = 1
	enosys       = 38
	eafnosupport = 97
)

// A test checks one argument.
type test struct {
	kind  uint8
	arg   uint8
	mask  uint32
	value uint32
}

// Kinds of tests.
const (
	always = iota
	is     // the argument equals value
	isNot  // it does not
	hasAny // it has at least one bit of value
	maskIs // its bits under mask equal value
	null   // it is a null pointer
)

// A rule gives the action for a call whose test succeeds. The first rule of a
// call whose test succeeds decides; if there is none, the filter allows the
// call.
type rule struct {
	call   string
	test   test
	action Action
}

// compile makes a program of rules. Calls appear in the order in which the
// rules first name them; compile leaves out those that the processor does not
// have. Calls with a number above newest get the action unknown, unless newest
// is 0.
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

// block returns the code of a rule. If the test fails, control continues behind
// the block.
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
	case null: // the only test that reads both halves
		p = append(p, bpfInstruction{Code: equal, Jf: 3}, bpfInstruction{Code: load, K: p[0].K + 4}, bpfInstruction{Code: equal, Jf: 1})
	case maskIs:
		p = append(p, bpfInstruction{Code: and, K: r.test.mask}, bpfInstruction{Code: equal, K: r.test.value, Jf: 1})
	}
	return append(p, result)
}
