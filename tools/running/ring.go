package running

import "slices"

// maxPieces bounds how finely the order of two streams is kept.
const maxPieces = 4096

// A ring keeps the end of one stream, and where each piece of it stands among
// the output of both streams.
type ring struct {
	data   []byte // as long as the ring is large
	start  int    // of the oldest byte
	size   int    // bytes kept
	pieces []piece
}

// A piece is n bytes that follow each other, of which the first is at a place
// counted from the beginning of all output.
type piece struct {
	at int64
	n  int
}

// grow makes the ring hold more.
func (r *ring) grow(size int) {
	data := make([]byte, size)
	r.copyOut(data, 0, r.size)
	r.data, r.start = data, 0
}

// add keeps p, which stands at a place, and drops what is older where the ring
// is full. p is not longer than the ring.
func (r *ring) add(p []byte, at int64) {
	r.drop(r.size + len(p) - len(r.data))
	if n := len(r.pieces); n > 0 && r.pieces[n-1].at+int64(r.pieces[n-1].n) == at {
		r.pieces[n-1].n += len(p)
	} else {
		if n >= maxPieces {
			r.drop(r.pieces[0].n)
		}
		r.pieces = append(r.pieces, piece{at, len(p)})
	}
	to := (r.start + r.size) % len(r.data)
	n := copy(r.data[to:], p)
	copy(r.data, p[n:])
	r.size += len(p)
}

// drop forgets the n oldest bytes.
func (r *ring) drop(n int) {
	if n <= 0 {
		return
	}
	r.start = (r.start + n) % len(r.data)
	r.size -= n
	gone := 0
	for n > 0 {
		p := &r.pieces[gone]
		if p.n > n {
			p.at += int64(n)
			p.n -= n
			break
		}
		n -= p.n
		gone++
	}
	r.pieces = slices.Delete(r.pieces, 0, gone)
}

// copyOut copies n bytes that begin off behind the oldest one.
func (r *ring) copyOut(to []byte, off, n int) {
	if n == 0 {
		return
	}
	from := (r.start + off) % len(r.data)
	k := copy(to[:n], r.data[from:min(len(r.data), from+n)])
	copy(to[k:n], r.data)
}

// A slot is a requested part of a piece, and its place in the ring.
type slot struct {
	piece
	off int
}

// from returns what is kept from a place on.
func (r *ring) from(at int64) []slot {
	var out []slot
	off := 0
	for _, p := range r.pieces {
		if skip := at - p.at; skip < int64(p.n) {
			skip = max(skip, 0)
			out = append(out, slot{piece{p.at + skip, p.n - int(skip)}, off + int(skip)})
		}
		off += p.n
	}
	return out
}
