package running

import (
	"bytes"
	"context"
	"testing"
)

// FuzzOutput holds what is kept against all that was written: every byte that
// is returned stands where it was written, the last ones of each stream are
// kept, and what is missing is counted.
func FuzzOutput(f *testing.F) {
	f.Add([]byte("\x01a\x02bc\x03"), 100, 50)
	f.Add(bytes.Repeat([]byte("\x01x\x82yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy"), 2000), 3000, 777)
	f.Fuzz(func(t *testing.T, script []byte, from, most int) {
		left := 20 << 10
		o := newOutput(context.Background(), 16<<10, func(n int64) bool {
			if int64(left) < n {
				return false
			}
			left -= int(n)
			return true
		})
		var all []byte // what was written, in order
		var of []int   // by which stream
		for i, b := range script {
			stream := int(b&1) + 1
			p := bytes.Repeat([]byte{byte(i)}, int(b>>1)*37)
			n, err := writer{o, stream}.Write(p)
			if n != len(p) || err != nil {
				t.Fatal(n, err)
			}
			all = append(all, p...)
			for range p {
				of = append(of, stream)
			}
			if len(all) > 1<<20 {
				break
			}
		}
		if from%3 == 0 {
			o.end()
		}
		o.mu.Lock()
		r := o.read(int64(from), most)
		whole := o.read(0, 1<<30)
		o.mu.Unlock()
		if o.total != int64(len(all)) || whole.next != o.total || whole.more {
			t.Fatalf("%d bytes, next %d, of %d", o.total, whole.next, len(all))
		}
		check(t, all, of, 0, whole)
		check(t, all, of, min(max(from, 0), len(all)), r)
		kept := 0
		for _, c := range r.chunks {
			kept += len(c.Data)
		}
		if kept > max(most, 0) {
			t.Errorf("%d bytes, of at most %d", kept, most)
		}
		for i := range o.rings {
			if len(o.rings[i].pieces) > maxPieces || o.rings[i].size > 16<<10 {
				t.Errorf("%d pieces, %d bytes", len(o.rings[i].pieces), o.rings[i].size)
			}
		}
	})
}

// check holds a reading against what was written: for each stream, what it has
// is the end of what that stream wrote before r.next.
func check(t *testing.T, all []byte, of []int, from int, r reading) {
	t.Helper()
	got := map[int][]byte{}
	n := 0
	for _, c := range r.chunks {
		got[c.Stream] = append(got[c.Stream], c.Data...)
		n += len(c.Data)
	}
	if r.next < int64(from) || int64(n)+r.dropped != r.next-int64(from) {
		t.Fatalf("from %d to %d: %d bytes and %d dropped", from, r.next, n, r.dropped)
	}
	for stream := Stdout; stream <= Stderr; stream++ {
		var want []byte
		for i := from; i < int(r.next); i++ {
			if of[i] == stream {
				want = append(want, all[i])
			}
		}
		if !bytes.HasSuffix(want, got[stream]) {
			t.Fatalf("stream %d from %d to %d: %d bytes are not the end of %d", stream, from, r.next, len(got[stream]), len(want))
		}
		if len(want) > 0 && len(got[stream]) == 0 && !r.more && len(all) > 0 && last(of, stream) < int(r.next) {
			t.Fatalf("nothing is kept of stream %d", stream)
		}
	}
}

// last is the place of the last byte of a stream.
func last(of []int, stream int) int {
	for i := len(of) - 1; i >= 0; i-- {
		if of[i] == stream {
			return i
		}
	}
	return len(of)
}
