//go:build linux

package server

import (
	"os"
	"time"

	"github.com/bulkhead-dev/sandbox/guest/wire"
)

// endOfInput is the character that ends input on a terminal in its usual
// mode (VEOF of termios(3)).
const endOfInput = 0x04

// An input carries what the client sends to a command's standard input.
type input struct {
	file  *os.File
	tty   bool
	inbox *wire.Inbox
	send  func(f wire.Frame) error
	ended chan struct{} // closed when pump has returned
}

// pump writes until the channel ends or the command stops reading. Bytes that
// are not read are dropped, and the guest sends Stop.
func (in *input) pump() {
	defer close(in.ended)
	lineStart := true
	for {
		chunk, err := in.inbox.Take()
		if err != nil {
			break
		}
		for len(chunk) > 0 {
			piece := chunk[:min(len(chunk), wire.MaxData)]
			chunk = chunk[len(piece):]
			if _, err := in.file.Write(piece); err != nil {
				in.refuse()
				return
			}
			lineStart = piece[len(piece)-1] == '\n'
			if n := in.inbox.Consumed(len(piece)); n > 0 {
				// A failed write is the connection's end, which ends the channel too.
				_ = in.send(wire.Frame{Type: wire.TypeCredit, Flags: wire.Stdin, Payload: wire.Credit{N: n}.Encode()})
			}
		}
	}
	in.end(lineStart)
}

// end tells the command that there is no more input. On a terminal that is
// a character, and within a line it takes two: the first one delivers the
// line.
func (in *input) end(lineStart bool) {
	if !in.tty {
		in.file.Close()
		return
	}
	eof := []byte{endOfInput}
	if !lineStart {
		eof = append(eof, endOfInput)
	}
	_, _ = in.file.Write(eof) // the command may be gone
}

// refuse drops what is there and what is to come.
func (in *input) refuse() {
	in.inbox.Discard()
	_ = in.send(wire.Frame{Type: wire.TypeStop, Flags: wire.Stdin})
	if !in.tty {
		in.file.Close()
	}
}

// finish makes pump return, also one that waits for a reader.
func (in *input) finish() {
	in.inbox.Discard() // first, so that what still comes is not out of place
	in.inbox.Close(errDetached)
	_ = in.file.SetWriteDeadline(time.Now()) // closed already is fine
	<-in.ended
	if !in.tty {
		in.file.Close()
	}
}
