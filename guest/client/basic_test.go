package client_test

import (
	"strings"
	"testing"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/client"
)

func TestRun(t *testing.T) {
	g := startGuest(t)
	c := g.client(client.Options{Env: map[string]string{"BASE": "1", "OVER": "base"}, Dir: "/usr"})
	t.Logf("%+v", c.Hello())
	for _, tt := range []struct {
		name string
		cmd  sandbox.Command
		want result
	}{
		{"true", sandbox.Command{Args: []string{"true"}}, result{}},
		{"status", sh("exit 41"), result{exit: sandbox.Exit{Code: 41}}},
		{"signal", sh("kill -9 $$"), result{exit: sandbox.Exit{Code: 137, Signal: "KILL"}}},
		{"streams", sh("echo out; echo err >&2"), result{stdout: "out\n", stderr: "err\n"}},
		{"default directory", sh("pwd"), result{stdout: "/usr\n"}},
		{"stdin", sandbox.Command{Args: []string{"cat"}, Stdin: strings.NewReader("in")}, result{stdout: "in"}},
		{"no stdin", sandbox.Command{Args: []string{"cat"}}, result{}},
		{"environment", sandbox.Command{Args: []string{"sh", "-c", "echo $BASE $OVER $LANG"}, Env: map[string]string{"OVER": "own"}}, result{stdout: "1 own C.UTF-8\n"}},
		{"umask", sh("umask"), result{stdout: "0022\n"}},
		{"descriptors", sh("ls /proc/self/fd | tr '\\n' ' '"), result{stdout: "0 1 2 3 "}},
		{"session leader", sh("read -r pid c s pp pg sid rest </proc/self/stat; test $pid = $pg && test $pid = $sid && echo yes"), result{stdout: "yes\n"}},
		{"oom score", sh("cat /proc/self/oom_score_adj"), result{stdout: "1000\n"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := run(t, c, tt.cmd)
			got.exit.Usage = sandbox.Rusage{}
			if got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
	g.empty(0)
}
