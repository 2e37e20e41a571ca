package provider_test

import (
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox/provider"
)

// TestCurrentCommand holds that the newest program below a shim is the current
// command, whatever programs inside call themselves.
func TestCurrentCommand(t *testing.T) {
	guest := []provider.RunningProcess{
		{PID: 2, Parent: 1, Started: 1, Args: []string{"/.sandbox/bin/sandbox-guest", "init", "--accept=3"}},
		{PID: 3, Parent: 2, Started: 2, Args: []string{"sandbox-guest", "stage"}},
		{PID: 4, Parent: 2, Started: 9, Args: []string{"sandbox-guest", "stage"}}, // one that waits for a command
	}
	add := func(more ...provider.RunningProcess) []provider.RunningProcess {
		return append(append([]provider.RunningProcess{}, guest...), more...)
	}
	for name, c := range map[string]struct {
		all  []provider.RunningProcess
		want string
	}{
		"none":                       {guest, ""},
		"one, with a child":          {add(provider.RunningProcess{PID: 5, Parent: 3, Started: 3, Args: []string{"sh", "-c", "make all"}}, provider.RunningProcess{PID: 6, Parent: 5, Started: 4, Args: []string{"make"}}), "sh -c make all"},
		"the newest of two":          {add(provider.RunningProcess{PID: 9, Parent: 3, Started: 3, Args: []string{"old"}}, provider.RunningProcess{PID: 5, Parent: 4, Started: 10, Args: []string{"new"}}), "new"},
		"of the same moment":         {add(provider.RunningProcess{PID: 9, Parent: 3, Started: 3, Args: []string{"second"}}, provider.RunningProcess{PID: 5, Parent: 4, Started: 3, Args: []string{"first"}}), "second"},
		"a kernel thread's no words": {add(provider.RunningProcess{PID: 9, Parent: 3, Started: 3}), ""},
		"a long one":                 {add(provider.RunningProcess{PID: 9, Parent: 3, Args: []string{strings.Repeat("x", 9000)}}), strings.Repeat("x", provider.MaxCommand)},
		"one that calls itself shim": {add(provider.RunningProcess{PID: 9, Parent: 3, Started: 3, Args: []string{"sandbox-guest", "stage"}}), ""},
	} {
		if got := provider.CurrentCommand(c.all); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
