// This file describes the shell protocol: what to write into the pipe from
// which a shell reads its script so that it runs a line, and how to read what
// it answers. It is pure.
//
// # A line
//
// For each line the guest writes two lines into the script's pipe, for bash
//
//	\builtin eval 'LINE' </dev/null >/proc/H/fd/3 2>/proc/H/fd/4; \__sandbox "$?" new TOKEN
//	(an empty one)
//
// H is the process number of the descriptor store (fdstore_doc.go). A shell
// that reads a script from a pipe takes no more of it than what it executes
// next; bash reads single bytes, and for others, which are asked for their
// answer in a line of its own, the pipe keeps packets apart. So while the line
// runs the rest lies in the pipe, out of reach of what the line does to the
// shell, and once the last byte is gone all before it has been executed. A
// shell that has taken everything and has not answered never will: there is no
// guessing by time. What a line of LINE makes bash forget (an assignment to a
// read-only variable does that to the rest of its line) is of LINE only, since
// eval ends with it.
//
// Each byte of the script costs bash a call, and each command of what answers
// a copy of itself: what a builtin takes is for the most part this.
//
// # The answer
//
// __sandbox is a function that the prelude defines. It answers over the shell's
// standard error, which is a pipe to the guest, with a zero byte, the token and
// the status of the line. Then it writes its state, as a script, to the shell's
// standard output, which is a pipe to the guest too, after a zero byte and the
// token and before another zero byte, and says over standard error that the
// state is whole, where the guest has to wait for that, which it usually need
// not. The next line may be written meanwhile, which the shell reads after
// that. The token is drawn anew for each line and no variable can hold a zero
// byte, so no output of any kind is taken for a mark, not even a trace of this
// function, nor what a trap or the shell itself says there between lines. Of
// the state only its ends are looked at ([Usual]): only a new shell ever reads
// it.
//
// Traps on DEBUG, ERR and RETURN are gone in a function, so __sandbox cannot tell
// them. A shell that may have some ([MayTrap]), or is not usual, lists them before
// __sandbox is called, at the beginning of the state.
//
// A line that is known to leave its shell as it was ([Effect]), in a shell that is
// known to be usual ([Usual]), is asked for its end alone, by __sandboX: the state
// that is kept is the one after it, too. Of the time of a builtin, most is that of
// the state. If all that it does is to write, and the shell has its outputs, it
// is read as it is,
//
//	{ LINE
//	}>&250 2>&251;__SandboX "$?" TOKEN
//	(an empty one)
//
// since there is nothing in it that could reach the shell, its script, or its
// other descriptors.
//
// The redirections of __sandbox need at least as many free descriptors as those
// of the line, and it looks whether the descriptor store is still there, or its
// own outputs are, so a shell that could not run a line does not answer for it;
// nor does one that has lost its own outputs to the line's. It opens nothing:
// where opening is observed, each file is a round trip to the guest.
//
// # What can go wrong inside
//
// Words that the driver needs cannot be aliased (they are quoted) and, but
// for builtin in bash and command in sh, be replaced by functions. Where
// user code does that, or takes away what the driver needs in another way,
// the shell does not answer, and the next one comes without it.

package server
