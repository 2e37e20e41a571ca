package client

import (
	"bytes"
	"context"
	"errors"
	"os"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/wire"
)

// left is the state of a shell in files, as a guest leaves it.
func left(t *testing.T, s *shelf, content []byte) *keeping {
	t.Helper()
	return leftAs(t, s, wire.Record{Serial: 1, Size: uint32(len(content)), Sum: wire.Sum(0, content)}, content)
}

func leftAs(t *testing.T, s *shelf, r wire.Record, content []byte) *keeping {
	t.Helper()
	record, at := r.Encode()
	index := make([]byte, wire.IndexLen)
	copy(index[at:], record[:])
	k := &keeping{came: make(chan struct{}), shelf: s}
	var files []*os.File
	for _, b := range [][]byte{index, content, nil} {
		f, err := wire.Sealed(b)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	k.fill(files)
	t.Cleanup(k.drop)
	return k
}

// TestEndedShellsTakeBoundedMemory holds that the states of shells that have
// ended take no more of our memory than the shelf has room for, and that a
// state which is let go of makes room.
func TestEndedShellsTakeBoundedMemory(t *testing.T) {
	var s shelf
	content := bytes.Repeat([]byte("x"), wire.MaxSize-1)
	var all []*keeping
	for range 4 {
		k := left(t, &s, content)
		k.retire()
		all = append(all, k)
	}
	kept := func(k *keeping) bool {
		_, got, err := k.read()
		if err != nil && !errors.Is(err, errShelf) || err == nil && !bytes.Equal(got, content) {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
		return err == nil
	}
	for i, k := range all {
		if want := (i+1)*len(content) <= maxShelved; kept(k) != want {
			t.Errorf("%d: kept is %v", i, !want)
		}
	}
	for range 2 { // what is dropped twice makes room once
		all[0].drop()
	}
	for i, want := range []bool{true, false} {
		k := left(t, &s, content)
		k.retire()
		if kept(k) != want {
			t.Errorf("%d after one was dropped: kept is %v", i, !want)
		}
	}
	k := left(t, &s, content)
	if !kept(k) {
		t.Error("the files of a shell that lives count")
	}
}

// TestStateThatIsNotThere checks how a shell without a state and one whose
// state is lost are distinguished.
func TestStateThatIsNotThere(t *testing.T) {
	var room, full shelf
	full.take(maxShelved)
	closed := left(t, &room, []byte("x"))
	closed.drop()
	for name, tt := range map[string]struct {
		kept *keeping
		want sandbox.Code
	}{
		"it has one":         {left(t, &room, []byte("x")), ""},
		"none was restored":  {leftAs(t, &room, wire.Record{File: wire.None, Serial: 1}, nil), sandbox.CodeNotFound},
		"none, and no room":  {leftAs(t, &full, wire.Record{File: wire.None, Serial: 1}, nil), sandbox.CodeNotFound},
		"closed":             {closed, sandbox.CodeNotFound},
		"no room":            {left(t, &full, []byte("x")), sandbox.CodeUnavailable},
		"not all of it left": {leftAs(t, &room, wire.Record{Serial: 1, Size: 2}, []byte("x")), sandbox.CodeUnavailable},
	} {
		for _, when := range []string{"before its end", "after its end"} {
			want := tt.want
			if when == "after its end" {
				tt.kept.retire()
			} else if name == "no room" {
				want = "" // which only those need that have ended
			}
			state, err := keptShell{&shell{c: &Client{}, kept: tt.kept}}.State(context.Background())
			if sandbox.CodeOf(err) != want || (state == nil) != (err != nil) {
				t.Errorf("%s, %s: got %v, %v", name, when, state, err)
			}
		}
	}
}
