//go:build linux

package local_test

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
)

// TestMaskTakenByGit leaves a loop behind that waits until git on the host has
// replaced the configuration of the repository, which takes away what closes
// it in every sandbox that stands.
func TestMaskTakenByGit(t *testing.T) {
	k := newKit(t)
	for _, how := range []string{"detached", "in a shell"} {
		t.Run(how, func(t *testing.T) {
			s := newFixture(t, k, repository)
			s.up()
			mark := "76" + strconv.FormatInt(time.Now().UnixNano()%1e9, 10)
			loop := `while ! ` + strings.ReplaceAll(evil, `"$MARK"`, s.outside+"/mark") + ` >>.git/config; do sleep ` + mark + `; done`
			said := &watched{want: "ready\n", seen: make(chan struct{})}
			switch how {
			case "detached":
				_, err := s.sb.Start(t.Context(), sandbox.Command{Args: []string{"bash", "-c", "echo ready; " + loop}, Detach: true, Stdout: said})
				must(t, err)
			default:
				shell, err := s.sb.OpenShell(t.Context(), sandbox.ShellOptions{})
				must(t, err)
				defer shell.Close()
				p, err := shell.Run(t.Context(), "("+loop+") & echo ready", sandbox.Command{Stdout: said})
				must(t, err)
				_, err = p.Wait()
				must(t, err)
			}
			select {
			case <-said.seen:
			case <-time.After(patience):
				t.Fatal("it does not start")
			}
			eventually(t, "the loop does not wait", func() bool { return len(running("sleep\x00"+mark)) > 0 })
			began := time.Now()
			s.git(s.agent, "config", "branch.main.remote", "origin")
			eventually(t, "the loop goes on where the configuration is open", func() bool { return len(running(mark)) == 0 })
			t.Logf("it was gone after %v", time.Since(began))
			s.remember() // git has changed the file
			for _, what := range s.damage("") {
				t.Error(what)
			}
		})
	}
}

// TestKnownMoment makes the attempt that ending a sandbox does not stop, as
// [TestKnownLimits] does: between the moment in which the host takes a mask
// away and the end of the sandbox there is time enough for who does nothing but
// wait for it. Which of them is first is chance, and on a busy machine mostly the
// end, so that it is tried until it has worked once.
func TestKnownMoment(t *testing.T) {
	k := newKit(t)
	locked := func(s *fixture) string { return s.write + "/locked" }
	for range 200 {
		s := newFixture(t, k)
		s.up()
		p, _ := begin(t, s.sb, `echo ready; until echo WORKED >>$FILE; do :; done 2>/dev/null`, map[string]string{"FILE": locked(s)})
		s.file(locked(s)+".new", "plain\n")
		s.own()
		must(t, os.Rename(locked(s)+".new", locked(s)))
		if _, err := p.Wait(); err != nil && sandbox.CodeOf(err) != sandbox.CodeUnavailable {
			t.Errorf("the command's end: %v", err)
		}
		text, err := os.ReadFile(locked(s))
		must(t, err)
		if strings.Contains(string(text), "WORKED") {
			return
		}
	}
	t.Error("it is stopped now; documented is: what the host replaces is open to what runs until the sandbox has ended, for milliseconds")
}
