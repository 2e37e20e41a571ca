// Package stream carries one running command over one WebSocket, and is both
// ends of it. [Serve] is the daemon's, [Open] the client's, whose [Process] is
// a sandbox.Process. [Conn] carries plain bytes.
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
// that ends without either has not told how the command ended, which is an
// error at the client and never success. "cancel" ends the command as the end
// of a context does, with its grace; "kill" at once. The end of the socket
// ends the command, unless it is detached.
//
// Nothing is buffered without bound. With "window" in the request both sides
// count, each channel for itself: a reader that waits holds up that channel
// alone. A client without it, as a browser may be, is held up by TCP, and cut
// when it takes nothing for [Options.SendWithin]; while a program does not
// read its input such a client's controls wait behind the input, and that it
// has gone shows when a sign of life cannot even be asked for.
//
// Both sides ask for a sign of life when they have heard nothing for a while,
// by the pings of WebSocket, so that a peer that has gone without a word does
// not keep a command running.
package stream
