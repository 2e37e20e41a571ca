//go:build linux

#include "textflag.h"

// func vfork(flags uintptr) (pid, errno uintptr)
//
// clone(2), where the process that it makes goes on with the memory and the
// stack of this one, which waits meanwhile. What that process calls overwrites
// the place of our return address, so it is kept in a register.
TEXT ·vfork(SB), NOSPLIT|NOFRAME, $0-24
	MOVQ flags+0(FP), DI
	XORL SI, SI
	XORL DX, DX
	XORL R10, R10
	XORL R8, R8
	MOVQ $56, AX
	POPQ R12
	SYSCALL
	PUSHQ R12
	CMPQ AX, $0xfffffffffffff001
	JCC  failed
	MOVQ AX, pid+8(FP)
	MOVQ $0, errno+16(FP)
	RET

failed:
	NEGQ AX
	MOVQ $0, pid+8(FP)
	MOVQ AX, errno+16(FP)
	RET
