// This file describes how the connections that a listener accepts are carried
// over one WebSocket. The daemon, which has the listener, calls [ServeForward];
// the client calls [OpenForward], which returns a net.Listener.
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
//	2 end: no more data follows                      2 end
//	3 credit, with four bytes: how much more         3 credit
//	4 close: no more data follows or is read         4 close
//	5 reset: the connection broke                    5 reset
//
// The first frame is "listening". "closed" answers "close", when the address is
// free again; "ended" says that the listener has failed. Connections outlive
// both: the client ends the WebSocket when it needs none of them any more. The
// end of the WebSocket ends everything.
//
// Numbers count up from one, so that frames for a connection that one side has
// closed can be distinguished from frames for one that never existed. The former
// are dropped, the latter end the WebSocket, as does more data than was granted.
//
// Each direction of a connection has a [Window]: a slow reader delays that
// direction of that connection alone, and neither side ever buffers more than
// the window. A connection costs the daemon up to a window, two buffers of 32
// KiB, a frame and two goroutines; Most in the options bounds the number of
// connections, and further ones wait inside. Both sides send a ping when they
// have received nothing for a while.

package stream
