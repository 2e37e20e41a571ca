//go:build linux

package server

import "github.com/bulkhead-dev/sandbox/guest/wire"

// A filler puts content into b and says whether there may be more. It gives
// nothing only at the end.
type filler func(b []byte) (n int, more bool, err error)

// send sends what first and then rest give: in the answer, and in Data
// frames when that is not all. It holds a buffer only between filling it and
// sending it, never while it waits for credit.
func (o *fileOp) send(first filler, about *wire.FileInfo, rest filler) error {
	more, err := o.sendAnswer(first, about)
	if err != nil || !more {
		return err
	}
	for more {
		n, err := o.credits.Take(wire.MaxData)
		if err != nil {
			return err
		}
		if more, err = o.sendData(rest, n); err != nil {
			return err
		}
	}
	return o.done(nil)
}

func (o *fileOp) sendAnswer(fill filler, about *wire.FileInfo) (more bool, err error) {
	const head = wire.HeaderLen + wire.FileAnswerHead
	buf := o.conn.fileBufs.get()
	defer o.conn.fileBufs.put(buf)
	n, more, err := fill((*buf)[head : head+wire.MaxInline])
	if err != nil {
		return false, err
	}
	frame := wire.Frame{Type: wire.TypeFileAnswer, Stream: o.id}
	if more {
		frame.Flags = wire.FlagMore
	}
	b := (*buf)[:head+n]
	wire.PutFileAnswer(b[wire.HeaderLen:], *about)
	return more, o.conn.w.WriteInPlace(frame, b)
}

// sendData sends one frame of at most n bytes, for which there is credit.
func (o *fileOp) sendData(fill filler, n int) (more bool, err error) {
	buf := o.conn.fileBufs.get()
	defer o.conn.fileBufs.put(buf)
	got, more, err := fill((*buf)[wire.HeaderLen : wire.HeaderLen+n])
	if err != nil {
		return false, err
	}
	o.credits.Return(n - got)
	if got == 0 {
		return more, nil
	}
	return more, o.conn.w.WriteInPlace(wire.Frame{Type: wire.TypeData, Flags: wire.FileChannel, Stream: o.id}, (*buf)[:wire.HeaderLen+got])
}
