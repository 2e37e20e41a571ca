package docker_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/internal/testenv/dockertest"
)

// TestExec holds what an exec of the engine promises: the identity and the streams
// of docker exec, and an end of the whole process group.
func TestExec(t *testing.T) {
	t.Parallel()
	w := dockertest.New(t)
	s := w.Spec("exec")
	sb := w.Create(s)
	e := sb.(sandbox.Execer)
	start := func(ctx context.Context, c sandbox.Command, line string, args ...string) sandbox.Process {
		t.Helper()
		c.Args, c.Dir = append([]string{"sh", "-c", line, "sh"}, args...), "/"
		p, err := e.Exec(ctx, c)
		must(t, err)
		return p
	}
	// running reports whether a process with the word in its command line is there.
	running := func(word string) bool {
		out, _ := sh(t, sb, `for p in /proc/[0-9]*; do tr "\0" " " <$p/cmdline; echo; done 2>/dev/null | grep -c "^sleep `+word+` " || :`)
		return out != "0"
	}

	t.Run("streams, status and identity", func(t *testing.T) {
		var out, complaints bytes.Buffer
		p := start(t.Context(), sandbox.Command{Stdin: strings.NewReader("in\x00put"), Stdout: &out, Stderr: &complaints, Env: map[string]string{"B": "2", "A": "x y"}},
			`printf '%s|' "$1" "$A" "$B" "$(id -u)"; cat; pwd >&2; exit 7`, "ä\nb")
		exit, err := p.Wait()
		if err != nil || exit.Code != 7 {
			t.Errorf("ended with %+v, %v", exit, err)
		}
		id, _ := sh(t, sb, "id -u")
		if got, want := out.String(), "ä\nb|x y|2|"+id+"|in\x00put"; got != want {
			t.Errorf("output %q, want %q", got, want)
		}
		if complaints.String() != "/\n" {
			t.Errorf("stderr %q", complaints.String())
		}
	})
	t.Run("much output in small pieces", func(t *testing.T) {
		var out bytes.Buffer
		_, err := start(t.Context(), sandbox.Command{Stdout: &out}, `seq 100000`).Wait()
		if err != nil || strings.Count(out.String(), "\n") != 100000 || !strings.HasPrefix(out.String(), "1\n2\n") {
			t.Errorf("%d bytes, %v", out.Len(), err)
		}
	})
	t.Run("the end of the context ends the group", func(t *testing.T) {
		for name, c := range map[string]sandbox.Command{"71": {}, "72": {Grace: 300 * time.Millisecond}} {
			ctx, cancel := context.WithCancel(t.Context())
			p := start(ctx, c, `trap '' TERM; sleep "$1" & sleep "$1"`, name)
			testenv.Until(t, "it runs", func() bool { return running(name) })
			cancel()
			if exit, err := p.Wait(); err != nil || exit.Code == 0 {
				t.Errorf("%s: %+v, %v", name, exit, err)
			}
			if running(name) {
				t.Errorf("sleep %s runs on", name)
			}
		}
	})
	t.Run("with grace it may clean up", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		pr, pw := io.Pipe()
		p := start(ctx, sandbox.Command{Grace: time.Minute, Stdout: pw}, `trap 'exit 9' TERM; echo ready; while :; do sleep 0.1; done`)
		_, err := io.ReadFull(pr, make([]byte, len("ready\n")))
		must(t, err)
		cancel()
		if exit, err := p.Wait(); err != nil || exit.Code != 9 {
			t.Errorf("%+v, %v", exit, err)
		}
	})
	t.Run("a writer that fails ends it", func(t *testing.T) {
		pr, pw := io.Pipe()
		pr.Close()
		if exit, err := start(t.Context(), sandbox.Command{Stdout: pw}, `echo x; exec sleep "$1"`, "73").Wait(); err != nil || exit.Code == 0 {
			t.Errorf("%+v, %v", exit, err)
		}
		if running("73") {
			t.Error("it runs on")
		}
	})
	t.Run("input that nobody reads", func(t *testing.T) {
		exit, err := start(t.Context(), sandbox.Command{Stdin: strings.NewReader(strings.Repeat("x", 4<<20))}, `exit 3`).Wait()
		if err != nil || exit.Code != 3 {
			t.Errorf("%+v, %v", exit, err)
		}
	})
	t.Run("a signal", func(t *testing.T) {
		p := start(t.Context(), sandbox.Command{}, `sleep "$1"`, "74")
		must(t, p.Signal(t.Context(), "TERM"))
		if exit, err := p.Wait(); err != nil || exit.Code != 128+15 {
			t.Errorf("%+v, %v", exit, err)
		}
		must(t, p.Kill(t.Context())) // it is over
	})
	t.Run("what cannot be started", func(t *testing.T) {
		var out bytes.Buffer
		p, err := e.Exec(t.Context(), sandbox.Command{Args: []string{"true"}, Dir: "/not/there", Stdout: &out})
		must(t, err)
		if exit, err := p.Wait(); sandbox.CodeOf(err) != sandbox.CodeUnavailable || !strings.Contains(err.Error(), "/not/there") && !w.Posture.Podman || out.Len() > 0 {
			t.Errorf("%+v, %v, %q", exit, err, out.String())
		}
		if exit, err := start(t.Context(), sandbox.Command{}, `exec /not/there 2>/dev/null`).Wait(); err != nil || exit.Code != 127 {
			t.Errorf("a program that is not there: %+v, %v", exit, err)
		}
	})
	t.Run("what it cannot do is refused", func(t *testing.T) {
		for name, c := range map[string]sandbox.Command{
			"a terminal": {TTY: &sandbox.TTY{}}, "detached": {Detach: true}, "bare": {Bare: true}, "limits": {Limits: sandbox.Limits{FileSize: 1}},
		} {
			c.Args = []string{"true"}
			if _, err := e.Exec(t.Context(), c); sandbox.CodeOf(err) != sandbox.CodeUnsupported {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, err := e.Exec(t.Context(), sandbox.Command{}); sandbox.CodeOf(err) != sandbox.CodeValidation {
			t.Errorf("no program: %v", err)
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := e.Exec(gone, sandbox.Command{Args: []string{"true"}}); !errors.Is(err, context.Canceled) {
			t.Errorf("an ended context: %v", err)
		}
	})
	t.Run("it is ended in a container without room for processes", func(t *testing.T) {
		needGroups(t, w)
		ctx, cancel := context.WithCancel(t.Context())
		p := start(ctx, sandbox.Command{}, `sleep "$1"`, "76")
		testenv.Until(t, "it runs", func() bool { return running("76") })
		stop := full(t, sb)
		cancel()
		if exit, err := p.Wait(); err != nil || exit.Code == 0 {
			t.Errorf("%+v, %v", exit, err)
		}
		stop()
		if running("76") {
			t.Error("it runs on")
		}
	})
	t.Run("a container that ends", func(t *testing.T) {
		p := start(t.Context(), sandbox.Command{}, `sleep "$1"`, "75")
		testenv.Until(t, "it runs", func() bool { return running("75") })
		must(t, w.Engine.Remove(context.Background(), sb.Info().ID))
		if exit, err := p.Wait(); err == nil && exit.Code == 0 {
			t.Errorf("%+v, %v", exit, err)
		}
		if _, err := e.Exec(t.Context(), sandbox.Command{Args: []string{"true"}}); err == nil {
			t.Error("an exec in a container that is gone")
		}
	})
}

// full fills the sandbox with processes until hardly another fits.
func full(t *testing.T, sb sandbox.Sandbox) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	in, input := io.Pipe()
	p, err := sb.Start(ctx, sandbox.Command{Args: []string{"sh", "-c", `(while :; do sleep 1000 & done) 2>/dev/null; read x`}, Stdin: in})
	must(t, err)
	testenv.Until(t, "the sandbox is full", func() bool {
		u, err := sb.Usage(t.Context())
		return err == nil && u.PIDsLimit > 0 && u.PIDs >= u.PIDsLimit-1
	})
	return func() { cancel(); _, _ = p.Wait(); input.Close() }
}

// needGroups skips the test where containers of the engine have no control groups, so
// that they can neither be frozen nor be killed as a whole.
func needGroups(t testing.TB, w *dockertest.Rig) {
	t.Helper()
	if !w.Engine.Groups() {
		testenv.Lack(t, "cgroups", "the engine gives containers no control groups")
	}
}
