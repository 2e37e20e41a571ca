//go:build linux

package local_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
)

// TestSwappedRoot has a command exchange a folder that settings open with a
// link to one that they do not, while sandboxes are built again and again.
func TestSwappedRoot(t *testing.T) {
	k := newKit(t)
	s := newFixture(t, k, func(s *fixture) {
		s.file(s.write+"/root/inside", "plain\n")
		s.must(os.Symlink(s.outside, s.write+"/link"))
		s.spec.Filesystem.AllowWrite = append(s.spec.Filesystem.AllowWrite, s.write+"/root")
	})
	s.up()
	// A new file that a rule closes asks for a new sandbox.
	round := 0
	build := func() (string, error) {
		must(t, os.RemoveAll(filepath.Join(s.agent, fmt.Sprintf("round%d", round))))
		round++
		dir := filepath.Join(s.agent, fmt.Sprintf("round%d", round))
		must(t, os.Mkdir(dir, 0o755))
		must(t, os.WriteFile(dir+"/.env", []byte("x"), 0o600))
		return try(t, s.sb, `cat `+s.write+`/root/file `+s.write+`/link/file; echo x >`+s.write+`/root/file; echo x >`+s.write+`/root/sub/new; ls `+s.write+`/root `+s.write+`/link/`)
	}
	begun := time.Now()
	_, err := build()
	must(t, err)
	// The root itself is a mount inside, so that the command cannot rename it;
	// the host's own programs can, and so can another sandbox. Two exchanges
	// are at most so far apart that they hit every step of a sandbox, and not
	// every sandbox. What is refused takes no time, so the number of those says
	// nothing of how long that is.
	var pause atomic.Int64
	pause.Store(int64(2 * time.Since(begun)))
	stop, stopped := make(chan struct{}), make(chan struct{})
	var still sync.Mutex // held while we look, or our own look would be led astray
	go func() {
		defer close(stopped)
		for {
			still.Lock()
			_ = exchange(s.write+"/root", s.write+"/link")
			still.Unlock()
			select {
			case <-stop:
				return
			case <-time.After(time.Duration(rand.Int64N(pause.Load()))):
			}
		}
	}()
	defer func() { close(stop); <-stopped }()
	built, refused := 0, 0
	begun = time.Now()
	more := func() bool {
		if built < 5 || refused == 0 {
			return time.Since(begun) < patience
		}
		return built < 30 && time.Since(begun) < 3*time.Second
	}
	for more() {
		out, err := build()
		if err != nil {
			if refused++; built == 0 { // the machine has become slower
				pause.Store(max(pause.Load(), int64(time.Since(begun)/10)))
			}
			continue
		}
		built++
		still.Lock()
		found := s.damage(out)
		still.Unlock()
		if len(found) > 0 {
			t.Fatalf("%q after %d rounds\noutput: %s", found, round, out)
		}
	}
	t.Logf("%d sandboxes were built, %d refused", built, refused)
	if built == 0 || refused == 0 {
		t.Error("the exchange was never in the way, or always, so this shows nothing")
	}
}

// try is say for what may fail.
func try(t testing.TB, sb sandbox.Sandbox, script string) (string, error) {
	out := &watched{}
	p, err := sb.Start(t.Context(), sandbox.Command{Args: []string{"bash", "-c", script}, Stdout: out, Stderr: out})
	if err != nil {
		return "", err
	}
	_, err = p.Wait()
	return out.String(), err
}

// TestPlaceholderGone has the host, and a second sandbox that may write there, remove
// what holds the place of a closed path.
func TestPlaceholderGone(t *testing.T) {
	s := newFixture(t, newKit(t))
	s.up()
	git := s.agent + "/.git"
	if _, err := os.Lstat(git); err != nil {
		t.Fatal("there is no stub, so this shows nothing")
	}
	for _, attempt := range []string{"rm -rf .git", "rmdir .git", "mv .git g", "mkdir -p x; mv -T x .git", "$TOOL attempt exchange shared .git"} {
		if out := output(t, s.sb, "export TOOL="+s.kit.tool+"; "+attempt+"; git init -q . 2>/dev/null; mkdir -p .git/hooks && echo WORKED"); strings.Contains(out, "WORKED") {
			t.Errorf("%s: %s", attempt, out)
		}
	}
	must(t, os.Remove(git)) // which takes the mask along
	if out := output(t, s.sb, "mkdir -p .git/hooks && echo WORKED"); strings.Contains(out, "WORKED") {
		t.Errorf("after the host has removed the stub: %s", out)
	}
}

// TestSecondSession has two sandboxes on one folder, of which one may more,
// try to open what is closed in the other.
func TestSecondSession(t *testing.T) {
	s := newFixture(t, newKit(t))
	s.up()
	second := s.second(sandbox.Grant{Operation: sandbox.OpWrite, Path: s.home + "/notes"})
	for _, sb := range []sandbox.Sandbox{second, s.sb} {
		for _, script := range []string{
			"cat secret.txt .env sub/.env", "mv vault v2; mv sub s2; rm -rf vault frozen; mv secret.txt x; cat x v2/inner/key s2/.env",
			"echo x >frozen/file; echo x >secret.txt", "cat " + s.home + "/.ssh/id",
		} {
			if found := s.damage(output(t, sb, script)); len(found) > 0 {
				t.Errorf("%s: %q", script, found)
			}
		}
	}
	if out := output(t, second, "cat "+s.home+"/notes/note"); out != "plain" {
		t.Errorf("the grant gives nothing: %q", out)
	}
	if out := output(t, s.sb, "cat "+s.home+"/notes/note"); strings.HasPrefix(out, "plain") {
		t.Error("the grant of one session holds for the other")
	}
}

// TestOldSandboxCannotOpenTheNew has a command that began before a rule had
// anything to close try to take the mask off in the sandbox that came after. That
// sandbox goes on where the command in it is over soon, and is ended by its guard
// where it is not.
func TestOldSandboxCannotOpenTheNew(t *testing.T) {
	s := newFixture(t, newKit(t))
	s.up()
	old, _ := begin(t, s.sb, await+`rm -f late/.env; mv late late2; mkdir -p late; echo mine >late/.env; touch done`, nil)
	must(t, os.Mkdir(s.agent+"/late", 0o755))
	s.file(s.agent+"/late/.env", s.token)
	s.extra = append(s.extra, s.agent+"/late/.env")
	s.own()
	next, out := begin(t, s.sb, `cat late/.env; echo ready; for i in $(seq 2000); do test -e done && break; sleep 0.005; done; cat late/.env late2/.env`, nil)
	s.give(s.agent + "/go")
	_, err := old.Wait()
	must(t, err)
	_, err = next.Wait()
	if err != nil && (sandbox.CodeOf(err) != sandbox.CodeUnavailable || !strings.Contains(err.Error(), "late/.env")) {
		t.Error(err)
	}
	if strings.Contains(out.String(), s.token) {
		t.Errorf("it was read: %q", out.String())
	}
}

// TestManyClosedFiles holds that of a hundred closed files the last is as
// closed as the first.
func TestManyClosedFiles(t *testing.T) {
	s := newFixture(t, newKit(t), func(s *fixture) {
		for i := range 100 {
			s.file(fmt.Sprintf("%s/many/d%03d/.env", s.agent, i), s.token)
			s.extra = append(s.extra, fmt.Sprintf("%s/many/d%03d/.env", s.agent, i))
		}
	})
	start := time.Now()
	s.up()
	t.Logf("up after %s", time.Since(start))
	if found := s.damage(output(t, s.sb, "cat many/*/.env; find . -name .env -exec cp {} copy \\;; cat copy")); len(found) > 0 {
		t.Errorf("%q", found)
	}
}
