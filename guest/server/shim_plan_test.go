//go:build linux

package server

import (
	"runtime"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/bulkhead-dev/sandbox/guest/wire"
	"golang.org/x/sys/unix"
)

func TestOverlay(t *testing.T) {
	for _, tt := range []struct {
		name             string
		base, over, want []string
	}{
		{"nothing", nil, nil, []string{}},
		{"base only", []string{"A=1"}, nil, []string{"A=1"}},
		{"added", []string{"A=1"}, []string{"B=2"}, []string{"A=1", "B=2"}},
		{"replaced in place", []string{"A=1", "B=1"}, []string{"A=2"}, []string{"A=2", "B=1"}},
		{"twice in the base", []string{"A=1", "A=2"}, nil, []string{"A=2"}},
		{"empty value", []string{"A=1"}, []string{"A="}, []string{"A="}},
		{"value with equals signs", nil, []string{"A=b=c"}, []string{"A=b=c"}},
		{"no equals sign", []string{"A"}, []string{"B"}, []string{}},
	} {
		if got := overlay(tt.base, tt.over); !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestCandidates(t *testing.T) {
	for _, tt := range []struct {
		name, program, path string
		want                []string
	}{
		{"in PATH", "x", "PATH=/a:/b/", []string{"/a/x", "/b/x"}},
		{"empty elements are the working directory", "x", "PATH=:/a:", []string{"./x", "/a/x", "./x"}},
		{"the root", "x", "PATH=/", []string{"/x"}},
		{"a path", "./x", "PATH=/a", []string{"./x"}},
		{"an absolute path", "/x", "PATH=/a", []string{"/x"}},
		{"empty PATH", "x", "PATH=", []string{"./x"}},
	} {
		if got, failure := candidates(tt.program, []string{"OTHER=/o", tt.path}); failure != nil || !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
	if got, failure := candidates("x", nil); failure != nil || len(got) != 6 || got[5] != "/bin/x" {
		t.Errorf("without PATH: got %q", got)
	}
}

func TestNewPlanRefuses(t *testing.T) {
	for name, s := range map[string]wire.Start{
		"no program":       {},
		"empty program":    {Args: []string{""}},
		"NUL in argument":  {Args: []string{"x", "\x00"}},
		"NUL in directory": {Args: []string{"x"}, Dir: "\x00"},
		"NUL in variable":  {Args: []string{"x"}, Env: []string{"A=\x00"}},
		"unknown limit":    {Args: []string{"x"}, Limits: []wire.Limit{{Kind: 99}}},
	} {
		if _, failure := encode(s, wire.Start{}, 0, unlimited); failure == nil || failure.Kind != shimFailed {
			t.Errorf("%s: got %+v", name, failure)
		}
	}
}

func unlimited(int) uint64 { return unix.RLIM_INFINITY }

func TestReport(t *testing.T) {
	want := shimReport{Kind: shimExited, Empty: true, Step: stepExec, Errno: 1, PID: 2, Status: 3, MaxRSS: 4, User: 5, System: 6}
	sent := unsafe.Slice((*byte)(unsafe.Pointer(&want)), reportLen)
	if got := decodeReport(sent); got != want {
		t.Errorf("got %+v", got)
	}
}

// TestRequestIsBoundedBeforeItIsMade holds that what is small on the wire
// cannot become large here: a long name in a long PATH is their product.
func TestRequestIsBoundedBeforeItIsMade(t *testing.T) {
	name, path := strings.Repeat("n", 1<<20), "PATH="+strings.Repeat(":", 1<<10)
	for what, s := range map[string]wire.Start{
		"a long name in a long PATH":  {Args: []string{name}, Env: []string{path}},
		"many folders in PATH":        {Args: []string{"x"}, Env: []string{"PATH=" + strings.Repeat(":", 2<<20)}},
		"a long name in a usual PATH": {Args: []string{name}},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, failure := encode(s, wire.Start{}, 0, unlimited)
		runtime.ReadMemStats(&after)
		if failure == nil || failure.Step != stepExec {
			t.Errorf("%s: got %+v", what, failure)
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > 2*requestSize {
			t.Errorf("%s: took %d MiB", what, took>>20)
		}
	}
}
