package local

import (
	"bytes"
	"runtime"
	"sync"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/provider/seccomp"
)

// TestFiltersAreComputedOnce holds that sandboxes get the filters of package
// seccomp, each by its own options, and that what was prepared is what they get.
func TestFiltersAreComputedOnce(t *testing.T) {
	arch, err := seccomp.ArchOf(runtime.GOARCH)
	if err != nil {
		t.Fatal(err)
	}
	f := newFilters()
	f.prepare(sandbox.Spec{})
	whole, err := f.whole()
	if err != nil || !bytes.Equal(whole, seccomp.Filter(arch).Bytes()) {
		t.Error("the filter of a sandbox as a whole is another", err)
	}
	for _, o := range []seccomp.Options{
		{}, {UnixSockets: true}, {Observe: true}, {Observe: true, OwnSockets: true}, {Observe: true, OwnSockets: true, Trace: true}, {Trace: true},
	} {
		var got [8][]byte
		var all sync.WaitGroup
		for i := range got {
			all.Go(func() { got[i], _ = f.command(o) })
		}
		all.Wait()
		for _, text := range got {
			if !bytes.Equal(text, seccomp.Command(arch, o).Bytes()) {
				t.Fatalf("the filter of %+v is another", o)
			}
			if &text[0] != &got[0][0] {
				t.Errorf("the filter of %+v was computed twice", o)
			}
		}
	}
}

// TestPreparedFiltersAreThoseOfAnOrdinarySandbox holds that the guess is right
// for a sandbox without options, where the kernel lets it be.
func TestPreparedFiltersAreThoseOfAnOrdinarySandbox(t *testing.T) {
	set, err := parseSettings(nil)
	if err != nil {
		t.Fatal(err)
	}
	f := newFilters()
	f.prepare(sandbox.Spec{})
	filters, _, err := f.confinement(sandbox.Spec{}, set, set.observe, planned{})
	if err != nil {
		t.Fatal(err)
	}
	if whole, _ := f.whole(); len(filters) != 1 || &filters[0][0] != &whole[0] {
		t.Error("the filter of the sandbox as a whole was not the prepared one")
	}
	n := 0
	f.commands.Range(func(any, any) bool { n++; return true })
	if n != 1 {
		t.Errorf("%d filters of commands were computed, want the prepared one", n)
	}
}
