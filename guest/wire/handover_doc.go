// This file describes the channel for file descriptors between the guest and
// the client, beside the frames: a pair of SOCK_SEQPACKET sockets that both
// were started with, or of which the client has sent one end with the first
// bytes of the connection. It exists only where host and sandbox share a
// kernel; everything else works without it.
//
// # Messages
//
// A message is one packet of [MessageLen] bytes and the descriptors that
// came with it. Numbers are little-endian.
//
//	offset 0  magic   "BKFD"
//	offset 4  kind    uint8   see [Kind]
//	offset 5  count   uint8   of descriptors that come along, 1 to [MaxFiles]
//	offset 6  zero    uint16  must be 0
//	offset 8  ticket  uint32  the request that it belongs to, never 0
//
// A ticket is a number that the client draws, never twice on one channel, and
// names in a request on the connection. The sender of descriptors sends them
// first: the client before the request, the guest before the answer. So a
// receiver of a request or an answer knows that the descriptors lie in its
// socket already, and needs to wait for its own reader alone.
//
//	KindState    from the guest, before the answer to a KeptShell: the index
//	             of its state and the two files of package snapshot
//	KindRestore  from the client, before a KeptShell that takes up a state:
//	             one file with it
//	KindListener from the guest, before the answer to a Pass: the listening
//	             socket, of which the guest keeps no descriptor
//	KindConnection from the guest, before the answer to a PassDial: the
//	             connected socket, of which the guest keeps no descriptor
//
// A further use is a further kind, with a request that names its ticket and a
// feature that says so. There are no answers. A packet of any other form, of a
// kind or ticket that was not asked for, or with other descriptors than it says
// is a violation, and ends the channel and the connection that it belongs to.
//
// # Trust
//
// Neither side trusts the other: the receiver of descriptors checks what they
// are before it uses them, and closes those that it does not want on another
// goroutine, because closing what a peer has made may take any time.

package wire
