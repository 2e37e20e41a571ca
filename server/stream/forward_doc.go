// Arrivals: this part of the package carries the connections that come in at a listener over one
// WebSocket, and is both ends of it. [Serve] is the daemon's, which has the
// listener; [Open] the client's, whose [Listener] is a net.Listener.
//
//	text frames     JSON with a "type"
//	binary frames   the first byte says what it is, four bytes the number of
//	                the connection, big-endian; the rest is its content
//
//	from the server                                  from the client
//	{"type":"listening","at":{network,addr}}
//	                                                 {"type":"close"}
//	{"type":"closed"} or with "error"
//	{"type":"ended","error":{problem}}
//	0 open, with JSON {local,remote}
//	1 data                                           1 data
//	2 end: no more comes                             2 end
//	3 credit, with four bytes: how much more         3 credit
//	4 close: no more comes, and nothing is read      4 close
//	5 reset: it broke                                5 reset
//
// The first frame is "listening". "closed" answers "close", when the address is
// free again; "ended" says that the listener has failed. Connections outlive
// both: the client ends the WebSocket when it wants none of them any more. The
// end of the WebSocket ends everything.
//
// Numbers count up from one, so that frames for a connection which one side has
// let go of are told from those for one that never was. The former are dropped,
// the latter end the WebSocket, as does more data than was granted.
//
// Each direction of a connection has a [Window]: a reader that waits holds up
// that direction of that connection alone, and neither side ever keeps more of
// it. A connection costs the daemon up to a window, two buffers of 32 KiB, a
// frame and two goroutines; how many there may be is [Options].Most, and
// further ones wait inside. Both sides ask for a sign of life when they have
// heard nothing for a while.

package stream
