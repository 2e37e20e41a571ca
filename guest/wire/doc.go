// Package wire is the protocol that the guest, our process inside a sandbox,
// and the client outside speak over one byte stream: a Unix socket in a mounted
// folder, a socket pair, the standard streams of a relay, or TLS over a TCP port.
//
// # Frames
//
// Everything is a frame: a header of [HeaderLen] bytes and a payload.
// Numbers are little-endian.
//
//	offset 0  type    uint8
//	offset 1  flags   uint8   Data, Credit, Stop: bits 0-6 the channel; Data: bit 7 ends the channel
//	offset 2  zero    uint16  must be 0
//	offset 4  stream  uint32  0 is the connection itself
//	offset 8  length  uint32  bytes of payload that follow
//
// A payload is at most [MaxData] bytes, and at most [MaxRequest] for a
// request. A reader checks the claim before it allocates, and allocates as
// the bytes arrive, so that a claim costs nothing. The only request that the
// guest sends is Accepted, which is small: the client's limit is [MaxData].
//
// # Types
//
//	0x01-0x0f  the connection: Hello, GoAway, Ping, Pong, Bye
//	0x10-0x3f  requests from the client; each opens the stream it names
//	0x40-0x6f  answers and events of a stream
//	0x70-0x7f  requests from the guest: Accepted
//	0x80-0xff  hints: a receiver that does not know one skips it
//
// A hint of a stream may come from the moment when it is opened to its last
// answer, and one for a stream that has ended is skipped too. There is one so
// far: Attempt, of a command or a line, at most [MaxAttempts] on a stream.
//
// An unknown request is answered with Failed (KindUnsupported) and the
// connection lives on. Any other unknown type, a malformed payload, a frame
// for a stream that never was, a broken window or a header that breaks its
// rules is a protocol violation: the connection is closed, by the guest
// with a GoAway that says why.
//
// # Versions
//
// The client speaks first: Hello with a magic number and the range of
// versions it knows. The guest answers with the highest version both know
// and with what it can do (features), or with GoAway and closes. What a
// frame means changes only with the version; what can be asked for grows by
// features and new request types. A message may grow at its end: a decoder
// ignores bytes after the last field it knows.
//
// # Streams
//
// The client numbers its streams upwards from 1 and never reuses a number;
// numbers from [FirstAccepted] on are for streams that the guest opens. A
// stream ends with its last answer: Exit, Done, Failed or the only one. Frames that the
// client sent before it saw the end are ignored by the guest; the client
// treats a frame for an ended stream as a violation.
//
//	Start      → Started, then Data…, then Exit      | Failed
//	SetReady   → Done                                | Failed
//	Proof      → Proven                              | Failed
//	Enroll     → Enrolled                            | Failed
//	Shell      → ShellOpened, then Done              | Failed
//	KeptShell  → as Shell
//	ShellFrom  → as Shell
//	Snapshot   → as a File that reads
//	Line       → as Start
//	Dial       → Connected, then Data…, then Done or Failed | Failed
//	Listen     → Listening, later Done                      | Failed
//	Pass       → Listening, later Done                      | Failed
//	PassDial   → Connected                                  | Failed
//	Accepted   ← from the guest; then Data…, then Done or Failed
//	File       → FileAnswer                                | Failed
//	File       → FileAnswer (FlagMore), Data…, then Done   | Failed
//	File       → Done                                      | Failed
//	File, Data… (the last one with FlagEOF) → Done         | Failed
//	Remount    → Quiet; Remounted → Done                   | Failed
//	Signal, Resize, Kill, Data, Credit, Stop belong to a started command,
//	Kill, Data, Credit, Stop to a connection, Kill to a listener and a PassDial
//
// A command may have to wait until others have started. Killed before that it
// is answered with Failed (KindCalledOff) and never starts.
//
// Signal and Resize are followed in the order in which they were sent, and
// before Data that was sent later. Before the program runs the last Signal of
// a number, and the last Resize, wait for it.
//
// Use, of a command that runs, asks what it has used so far. The guest answers
// with Used, unless it answers a later question at the same time or the command
// ends before. A line is not asked, because the costs of a shell are not
// divided among its lines.
//
// Kill on the stream of a shell ends the shell. A line is a started command
// but for its end: processes that it has left running in its shell may live
// on, and what they write after Exit is dropped.
//
// A KeptShell is a Shell whose state outlives the guest. It names what goes
// over the channel for descriptors beside the connection, see package
// handover. Its first line says that it found its shell gone (Restarted) when
// it was opened with a state.
//
// Exit comes last: the program has ended, none of its processes is left
// (unless it was started with [FlagDetach]) and all output has been sent.
// It ends every channel of the stream, and names the limit of the command that
// was reached, if any was.
//
// # Files
//
// A File request names a mount and a path below it. Describing, and reading
// or listing what fits into [MaxInline] bytes, is one FileAnswer. More
// content follows in Data frames on [FileChannel], for which the client
// gives Credit, and Done says that it was all. The content of a listing is
// its entries one after the other ([FileEntry]), in no order; their borders
// are not those of frames.
//
// A write carries its content in the request ([FileInline]) or in Data
// frames, for which the guest gives Credit. It may fail at any time. Nothing
// is to be seen of it until the last byte has come: when the connection ends
// before that, the old content stays.
//
// With [FileNoLinks] no link is followed: neither below the root, nor one by
// which the root itself is reached. A guest without [FeatureFilesNoLinks] is
// not asked so.
//
// A watch (FileWatch) is an answer whose content has no end: it begins with the
// record ChangeReady, and a record follows for each change ([FileChange]). While
// the client gives no Credit the guest takes no changes from the kernel; what the
// kernel drops then is reported (ChangeOverflow). Done ends a watch whose folder
// has gone, after ChangeGone; Kill ends any other.
//
// Kill calls an operation off. The guest answers it with Failed
// (KindCalledOff), or with its result when it was too late.
//
// # Another file system at a mount
//
// The guest keeps a descriptor of each mount, and shells keep their working
// directory, so both have to learn that the host has put another file system at
// a mount. From Quiet to Remounted the guest begins no file operation below the
// mount and no line of a shell; both wait. It then opens the mount anew, has
// watches look for their folders anew (ChangeOverflow, or ChangeGone), and has
// shells whose working directory is in the old file system enter it by its path
// before their next line. Programs that run keep what they have open.
//
// # Channels and flow control
//
// A command has the channels [Stdin], [Stdout] and [Stderr]; further numbers
// are free for later kinds of streams. The sender of a channel may have
// [Window] bytes under way. The receiver gives credit back with Credit frames
// as its consumer takes the bytes. A consumer that does not read stops the
// producer, never the connection, and nothing is buffered beyond the window.
// Stop tells the sender of a channel that the receiver reads no more: the
// sender sends nothing further on it.
//
// # Forwarded connections
//
// Dial and Accepted make a connection with the channels [Inward] and
// [Outward], each with a window of [ConnWindow]. FlagEOF ends one direction
// (a half close); Stop says that one direction is not read any more, or
// cannot be written to. The guest ends the stream when both directions have
// ended: with Done, or with Failed and its errno when the connection broke.
// Kill drops the connection at once; what is under way is lost.
//
// The guest dials and listens in its own namespaces only, at addresses and not
// at names. A connection that came in at a listener opens a stream by itself
// (Accepted). The guest opens at most as many of them as the Listen allows,
// counted from Accepted to Done or Failed; more is a violation, and so is one
// for a listener that never stood. Kill closes a listener; Accepted may still
// be under way until its last answer, and connections that were accepted live
// on. After its last answer the guest sends none. A guest from before that rule
// may: the client drops those connections at once.
//
// A Pass is a Listen whose socket the guest gives away: the client accepts by
// itself, and no frames carry the connections. The guest keeps nothing of it
// but the stream, which ends with Done when the client kills it. Until then
// its end is the end of the guest.
//
// A PassDial is a Dial whose socket the guest gives away: the client reads and
// writes it, and no frames carry its bytes. The guest keeps nothing of it.
// Connected is its last answer. Kill calls the connecting off, and is answered
// with Failed, or with Connected when it was too late.
//
// # Beside the connection
//
// Descriptors go over a channel of their own, see package handover. A guest
// that was not born with one takes one that comes with the very first bytes of
// a connection at the socket in the mounted folder: as the only descriptor
// (SCM_RIGHTS) of the message that begins with the client's Hello. The guest's
// Hello tells by [FeaturePass] that it has taken it; one from before that
// loses it with the bytes that it came with, and everything else works.
//
// [Config] is no frame: a guest that gets a configuration reads it before it
// serves. It begins to try the checks in it at once; the answer to a Proof
// waits until it has tried them all.
//
// # The end
//
// When the connection ends, the guest kills every command it started that
// is not detached, and drops every forwarded connection and listener. Bye asks for exactly that: the guest kills them, and
// closes the connection when they are gone.
//
// When the sandbox itself is being stopped the guest first says so with a
// GoAway (Stopping) on every connection and closes it, and only then ends what
// runs: no Exit ever reports a command that ended with the sandbox.
package wire
