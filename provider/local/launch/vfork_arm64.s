//go:build linux

#include "textflag.h"

// func vfork(flags uintptr) (pid, errno uintptr)
//
// clone(2), where the process that it makes goes on with the memory and the
// stack of this one, which waits meanwhile. The return address is in a register
// all the time.
TEXT ·vfork(SB), NOSPLIT|NOFRAME, $0-24
	MOVD flags+0(FP), R0
	MOVD $0, R1
	MOVD $0, R2
	MOVD $0, R3
	MOVD $0, R4
	MOVD $220, R8
	SVC
	CMN  $4095, R0
	BCS  failed
	MOVD R0, pid+8(FP)
	MOVD ZR, errno+16(FP)
	RET

failed:
	NEG  R0, R0
	MOVD ZR, pid+8(FP)
	MOVD R0, errno+16(FP)
	RET
