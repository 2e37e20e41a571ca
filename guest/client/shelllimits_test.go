package client_test

import (
	"context"
	"testing"
	"time"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/client"
)

// TestShellLineLimits holds that a line beyond a limit ends its shell, says so,
// and leaves the shell that follows as it was before; and that lines which stay
// within them are let be, however many they are.
func TestShellLineLimits(t *testing.T) {
	long(t)
	g := startGuest(t)
	c := g.client(client.Options{})
	for _, tt := range []struct {
		name, good, bad string
		bounds          sandbox.Limits
		want            string
	}{
		{"processes", "sleep 0.1 & sleep 0.1; wait", "for i in 1 2 3 4 5 6; do setsid sleep 1000 & done; wait", sandbox.Limits{Processes: 4}, sandbox.LimitProcesses},
		{"processor time", "i=0; while [ $i -lt 2000 ]; do i=$((i+1)); done", "while :; do (i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done); done", sandbox.Limits{CPUSeconds: 1}, sandbox.LimitCPUSeconds},
		{"file size", "echo small >/tmp/shelllimit", "head -c 9000 /dev/zero >/tmp/shelllimit", sandbox.Limits{FileSize: 8192}, sandbox.LimitFileSize},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, err := c.OpenShell(context.Background(), sandbox.ShellOptions{}, tt.bounds)
			must(t, err)
			defer s.Close()
			line(t, s, "kept=1")
			for range 5 {
				if r := line(t, s, tt.good); r.exit.Code != 0 || r.exit.Limit != nil || r.exit.Restarted {
					t.Errorf("%+v, limit %v, stderr %q", r.exit, r.exit.Limit, r.stderr)
				}
			}
			r := line(t, s, tt.bad)
			if h := r.exit.Limit; h == nil || h.Limit != tt.want || r.exit.Code == 0 {
				t.Errorf("%+v, limit %v, stderr %q", r.exit, h, r.stderr)
			}
			if r := line(t, s, "echo $kept"); r.stdout != "1\n" || r.exit.Limit != nil {
				t.Errorf("the next line: %+v, limit %v", r, r.exit.Limit)
			}
		})
	}
	g.empty(10 * time.Second)
}
