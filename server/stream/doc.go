// Package stream carries one running command over one WebSocket, and implements
// both ends. The daemon calls [Serve], the client [Open], whose [Process] is a
// sandbox.Process. [Conn] carries plain bytes.
//
// The first frame is the client's, a text frame with a [Request]. After that
//
//	binary frames   the first byte is the channel, the rest is data:
//	                0 stdin (from the client), 1 stdout, 2 stderr
//	text frames     JSON with a "type"
//
//	from the client                                    from the server
//	{"type":"signal","id":1,"signal":"INT"}            {"type":"started"}
//	{"type":"resize","id":2,"rows":24,"cols":80}       {"type":"done","id":1} or with "error"
//	{"type":"kill","id":3}                             {"type":"done","id":4,"used":{…}}
//	{"type":"used","id":4}                             {"type":"exit","exit":{"code":0,…}}
//	{"type":"stdin-eof"}                               {"type":"error","error":{problem}}
//	{"type":"cancel"}
//	{"type":"credit","channel":1,"bytes":65536}        {"type":"credit","channel":0,"bytes":65536}
//	{"type":"stop","channel":1}
//
// The last frame of the server is "exit" or "error"; then it closes. A socket
// that ends without either leaves the result of the command unknown, which is an
// error at the client and never success. "cancel" ends the command as the end of
// a context does, with its grace; "kill" at once. The end of the socket ends the
// command, unless it is detached.
//
// Buffers are bounded. With "window" in the request both sides grant credit for
// each channel: a slow reader delays that channel alone. A client without it, as
// a browser may be, is delayed by TCP, and cut off when it reads nothing for
// [Options.SendWithin]; while a program does not read its input the control
// frames of such a client wait behind the input, and the server notices that it
// has gone when even a ping cannot be sent.
//
// Both sides send a WebSocket ping when they have received nothing for a while,
// so that a peer that has disappeared without closing the connection does not
// keep a command running.
package stream
