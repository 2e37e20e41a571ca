package client_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/fsbridge"
	"github.com/bulkhead-dev/sandbox/guest/client"
	"github.com/bulkhead-dev/sandbox/guest/wire"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// A swapped folder stands for a mount in which another file system is put: what the
// guest has open is at another name afterwards.
type swapped struct {
	t   testing.TB
	dir string
	n   int
}

func newSwapped(t testing.TB) *swapped {
	t.Helper()
	// Below a folder that the guest's user may pass through.
	base, err := os.MkdirTemp("/tmp", "remount")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(base) })
	must(t, os.Chmod(base, 0o755))
	s := &swapped{t: t, dir: filepath.Join(base, "mount")}
	must(t, s.fresh())
	return s
}

// fresh makes the folder with the file n and the folder sub.
func (s *swapped) fresh() error {
	sub := filepath.Join(s.dir, "sub")
	return errors.Join(
		os.MkdirAll(sub, 0o755), os.WriteFile(filepath.Join(s.dir, "n"), []byte(strconv.Itoa(s.n)), 0o644),
		os.Chown(s.dir, guestUID, guestUID), os.Chown(sub, guestUID, guestUID),
	)
}

// old is where what was the folder lies after so many exchanges.
func (s *swapped) old(n int) string { return s.dir + "-" + strconv.Itoa(n) }

func (s *swapped) exchange(context.Context) error {
	if err := os.Rename(s.dir, s.old(s.n)); err != nil {
		return err
	}
	s.n++
	return s.fresh()
}

func (s *swapped) files(c *client.Client) *client.Files {
	s.t.Helper()
	f, err := c.Files(func(path string) (client.Spot, error) {
		return client.Spot{Root: s.dir, Rel: strings.TrimPrefix(strings.TrimPrefix(path, s.dir), "/")}, nil
	})
	must(s.t, err)
	return f
}

// content reads a small file.
func content(t testing.TB, f *client.Files, path string) string {
	t.Helper()
	r, err := f.Read(t.Context(), path, 0, -1)
	must(t, err)
	defer r.Close()
	b, err := io.ReadAll(r)
	must(t, err)
	return string(b)
}

// TestRemount holds that files, watches and shells go on in what is at the mount,
// and that what an error leaves is what was there.
func TestRemount(t *testing.T) {
	s := newSwapped(t)
	g := startGuest(t)
	c, other := g.client(client.Options{}), g.client(client.Options{})
	f, plain := s.files(c), s.files(other)
	plain, err := plain.Plain()
	must(t, err)
	watch, err := f.Changes(t.Context(), s.dir, true)
	must(t, err)
	defer watch.Close()
	_, err = plain.Changes(t.Context(), s.dir+"/gone", true)
	codeIs(t, err, sandbox.CodeNotFound)
	must(t, f.Mkdir(t.Context(), s.dir+"/gone", 0o755))
	below, err := plain.Changes(t.Context(), s.dir+"/gone", true)
	must(t, err)
	defer below.Close()
	shell := openShell(t, other, sandbox.ShellOptions{Dir: s.dir + "/sub"})
	lost := openShell(t, c, sandbox.ShellOptions{Dir: s.dir + "/gone"})
	if got := line(t, shell, "echo $$"); got.exit.Code != 0 {
		t.Fatal(got)
	}
	reader, err := f.Read(t.Context(), s.dir+"/n", 0, -1)
	must(t, err)
	defer reader.Close()

	failed := errors.New("not exchanged")
	if err := c.Remount(t.Context(), s.dir, func(context.Context) error { return failed }); err != failed {
		t.Errorf("an exchange that fails: %v", err)
	}
	if got := content(t, f, s.dir+"/n"); got != "0" {
		t.Errorf("after it: %q", got)
	}
	must(t, c.Remount(t.Context(), s.dir, s.exchange))
	for name, f := range map[string]*client.Files{"files": f, "of another connection": plain} {
		if got := content(t, f, s.dir+"/n"); got != "1" {
			t.Errorf("%s: %q", name, got)
		}
	}
	must(t, f.Write(t.Context(), s.dir+"/sub/w", strings.NewReader("w"), sandbox.WriteOptions{}))
	if _, err := os.Stat(s.old(0) + "/sub/w"); err == nil {
		t.Error("it was written to what was there")
	}
	for overflows := 0; ; {
		got, err := watch.Next()
		must(t, err)
		if got.Kind == fsbridge.ChangeOverflow {
			overflows++
		}
		if strings.HasPrefix(got.Name, "sub/") {
			if overflows != 1 {
				t.Errorf("%d overflows were reported", overflows)
			}
			break
		}
	}
	for err = nil; err == nil; {
		_, err = below.Next()
	}
	codeIs(t, err, sandbox.CodeNotFound)
	if got := line(t, shell, "echo $PWD; cat ../n; >made; ls"); got.stdout != s.dir+"/sub\n1made\nw\n" || got.exit.LostDir != "" || got.stderr != "" {
		t.Errorf("a shell: %+v", got)
	}
	if got := line(t, lost, "pwd"); got.stdout != s.dir+"\n" || got.exit.LostDir == "" || got.exit.Restarted {
		t.Errorf("a shell whose folder is gone: %+v", got)
	}
	if got := line(t, lost, "pwd"); got.exit.LostDir != "" {
		t.Errorf("its next line: %+v", got)
	}
	for range 80 { // more than the guest remembers
		must(t, c.Remount(t.Context(), s.dir, s.exchange))
	}
	if got := line(t, shell, "cat ../n"); got.stdout != "81" {
		t.Errorf("the shell after many: %+v", got)
	}
	if got := content(t, plain, s.dir+"/n"); got != "81" {
		t.Errorf("files after many: %q", got)
	}
}

// TestRemountWaits holds that an exchange waits for a write that is under way, and
// gives up on one that does not end, and that what begins meanwhile waits for it.
func TestRemountWaits(t *testing.T) {
	s := newSwapped(t)
	g := startGuest(t)
	c, other := g.client(client.Options{}), g.client(client.Options{})
	f := s.files(other)
	in, feed := io.Pipe()
	wrote := make(chan error, 1)
	go func() {
		wrote <- f.Write(context.Background(), s.dir+"/slow", in, sandbox.WriteOptions{})
	}()
	_, err := feed.Write(make([]byte, 1<<20))
	must(t, err)
	short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	err = c.Remount(short, s.dir, s.exchange)
	if code := sandbox.CodeOf(err); code != sandbox.CodeBusy && code != sandbox.CodeTimeout {
		t.Errorf("with a write that does not end: %v", err)
	}
	if s.n != 0 {
		t.Fatal("it was exchanged")
	}
	done := make(chan error, 1)
	go func() { done <- c.Remount(context.Background(), s.dir, s.exchange) }()
	feed.Close()
	must(t, <-wrote)
	must(t, <-done)
	if st, err := os.Stat(s.old(0) + "/slow"); err != nil || st.Size() != 1<<20 {
		t.Errorf("the write has gone elsewhere: %v", err)
	}

	shell := openShell(t, other, sandbox.ShellOptions{Dir: s.dir})
	began := make(chan struct{})
	must(t, c.Remount(t.Context(), s.dir, func(ctx context.Context) error {
		for _, what := range []func() error{
			func() error { return f.Mkdir(context.Background(), s.dir+"/late", 0o755) },
			func() error {
				p, err := shell.Run(context.Background(), ">line", sandbox.Command{})
				if err == nil {
					_, err = p.Wait()
				}
				return err
			},
		} {
			go func() { began <- struct{}{}; done <- what() }()
			<-began
		}
		// Another exchange at the same time is refused.
		codeIs(t, other.Remount(ctx, s.dir, s.exchange), sandbox.CodeBusy)
		select {
		case err := <-done:
			t.Errorf("something has ended meanwhile: %v", err)
		case <-time.After(100 * time.Millisecond):
		}
		return s.exchange(ctx)
	}))
	must(t, <-done)
	must(t, <-done)
	for _, name := range []string{"late", "line"} {
		if _, err := os.Stat(filepath.Join(s.dir, name)); err != nil {
			t.Errorf("what waited has gone elsewhere: %v", err)
		}
	}
}

// TestRemountClientGone holds that a guest whose client goes in the middle looks for
// what is at the mount, and goes on.
func TestRemountClientGone(t *testing.T) {
	s := newSwapped(t)
	g := startGuest(t)
	c, other := g.client(client.Options{}), g.client(client.Options{})
	f := s.files(other)
	if got := content(t, f, s.dir+"/n"); got != "0" {
		t.Fatal(got)
	}
	err := c.Remount(t.Context(), s.dir, func(ctx context.Context) error {
		err := s.exchange(ctx)
		c.Cut()
		return err
	})
	codeIs(t, err, sandbox.CodeUnavailable)
	testenv.Until(t, "the guest has looked", func() bool { return content(t, f, s.dir+"/n") == "1" })
}

// TestRemountOfHostileGuests holds that nothing is exchanged for a guest that does
// not say that it is quiet, and that one that does not answer afterwards is named.
func TestRemountOfHostileGuests(t *testing.T) {
	quiet := wire.Frame{Type: wire.TypeQuiet, Stream: 1}
	busy := wire.Frame{Type: wire.TypeFailed, Stream: 1, Payload: wire.Failed{Kind: wire.KindBusy, Text: "\x1b[31m"}.Encode()}
	for name, tt := range map[string]struct {
		features  []string
		answers   []wire.Frame
		code      sandbox.Code
		exchanged bool
	}{
		"of before":             {nil, nil, sandbox.CodeUnsupported, false},
		"silent":                {[]string{wire.FeatureRemount}, nil, sandbox.CodeUnavailable, false},
		"busy":                  {[]string{wire.FeatureRemount}, []wire.Frame{busy}, sandbox.CodeBusy, false},
		"done at once":          {[]string{wire.FeatureRemount}, []wire.Frame{{Type: wire.TypeDone, Stream: 1}}, sandbox.CodeUnavailable, false},
		"quiet twice":           {[]string{wire.FeatureRemount}, []wire.Frame{quiet, quiet}, sandbox.CodeUnavailable, true},
		"quiet and then silent": {[]string{wire.FeatureRemount}, []wire.Frame{quiet}, sandbox.CodeUnavailable, true},
		"another frame":         {[]string{wire.FeatureRemount}, []wire.Frame{{Type: wire.TypeStarted, Stream: 1, Payload: wire.Started{}.Encode()}}, sandbox.CodeUnavailable, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ours, theirs := net.Pipe()
				w, r := wire.NewWriter(theirs), wire.NewReader(theirs, wire.MaxRequest)
				begun := make(chan struct{})
				go func() {
					for {
						f, err := r.Next()
						switch {
						case err != nil:
							return
						case f.Type == wire.TypeHello:
							_ = w.Write(wire.Frame{Type: wire.TypeHello, Payload: wire.Hello{Version: wire.Version, Features: tt.features}.Encode()})
						case f.Type == wire.TypeRemount:
							for i, a := range tt.answers {
								if i > 0 {
									<-begun // or the client could read both before it begins
								}
								_ = w.Write(a)
							}
						}
					}
				}()
				c, err := client.New(t.Context(), ours, client.Options{Name: "box"})
				must(t, err)
				exchanged := false
				err = c.Remount(context.Background(), "/m", func(context.Context) error {
					close(begun)
					synctest.Wait()
					exchanged = true
					return nil
				})
				if sandbox.CodeOf(err) != tt.code || exchanged != tt.exchanged {
					t.Errorf("%v, exchanged %v", err, exchanged)
				}
				if err != nil && strings.Contains(err.Error(), "\x1b") {
					t.Errorf("%q", err)
				}
				theirs.Close()
				c.Close()
			})
		})
	}
}
