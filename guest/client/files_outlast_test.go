package client_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/client"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"go.uber.org/goleak"
)

// writerEnv makes the test binary a client that begins to write without end:
// the folder of the socket, and the file.
const writerEnv = "GUEST_TEST_WRITER"

// endlessWriter is that client. It says when the guest has taken some.
func endlessWriter(dir, file string) error {
	conn, _, err := client.Dial(context.Background(), dir, "guest.sock")
	if err != nil {
		return err
	}
	c, err := client.New(context.Background(), conn, client.Options{})
	if err != nil {
		return err
	}
	return plainFiles(c, filepath.Dir(file)).Write(context.Background(), file, &taken{}, sandbox.WriteOptions{})
}

// plainFiles serves one folder.
func plainFiles(c *client.Client, root string) *client.Files {
	f, err := c.Files(func(p string) (client.Spot, error) {
		return client.Spot{Root: root, Rel: strings.TrimPrefix(strings.TrimPrefix(p, root), "/")}, nil
	})
	if err != nil {
		panic(err)
	}
	return f
}

// A taken is content that says so once much of it was read, and stops.
type taken struct{ n int }

func (s *taken) Read(p []byte) (int, error) {
	if s.n += len(p); s.n > 8<<20 {
		fmt.Println("taken")
		select {}
	}
	return len(p), nil
}

// startWriter runs the client until much was taken.
func startWriter(t *testing.T, g *guest, file string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	cmd := exec.Command(self)
	cmd.Env = []string{writerEnv + "=" + g.dir + ":" + file}
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	_, err = io.ReadFull(out, make([]byte, len("taken")))
	must(t, err)
	return cmd
}

// unchanged holds that the file has its old content, and that there are as
// many staged files beside it, and nothing else.
func unchanged(t *testing.T, file string, staged int) {
	t.Helper()
	got, err := os.ReadFile(file)
	must(t, err)
	beside, err := os.ReadDir(filepath.Dir(file))
	must(t, err)
	found := 0
	for _, e := range beside {
		if strings.HasPrefix(e.Name(), ".sbx-") && strings.HasSuffix(e.Name(), ".tmp") {
			found++
		}
	}
	if string(got) != "old" || found != staged || len(beside) != staged+1 {
		t.Errorf("the file holds %.20q, the folder %v", got, beside)
	}
}

// TestKilledMidWrite ends the client, and then the guest, by SIGKILL while
// content is on its way.
func TestKilledMidWrite(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		options []guestOption
		staged  int // names to be seen meanwhile, and left when the guest is killed
	}{
		{"without a name", nil, 0},
		{"named", []guestOption{likeGVisor()}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPlaces(t)
			file := filepath.Join(p.work, "f")
			g := startGuest(t, tt.options...)
			c := g.client(client.Options{})
			must(t, plainFiles(c, p.work).Write(t.Context(), file, strings.NewReader("old"), sandbox.WriteOptions{}))
			g.rest(c)
			idle := descriptors(t, g.pid())

			writer := startWriter(t, g, file)
			if got := descriptors(t, g.pid()); got <= idle {
				t.Errorf("%d descriptors while it writes, %d before", got, idle)
			}
			unchanged(t, file, tt.staged)
			must(t, writer.Process.Kill())
			eventually(t, 10*time.Second, "the guest lets go", func() bool { return descriptors(t, g.pid()) <= idle })
			unchanged(t, file, 0)

			startWriter(t, g, file)
			must(t, g.cmd.Process.Kill())
			_ = g.cmd.Wait()
			unchanged(t, file, tt.staged)
		})
	}
}

// TestFilesAtProcessLimit does many operations at once while user code has
// used up the process limit, so that the guest's runtime gets no thread more.
func TestFilesAtProcessLimit(t *testing.T) {
	p := newPlaces(t)
	group := pidsCgroup(t, 256)
	g := startGuest(t, inCgroup(group))
	c := g.client(client.Options{})
	bomb, err := c.Start(t.Context(), filler)
	must(t, err)
	eventually(t, time.Minute, "the limit is reached", group.limitReached)
	f := plainFiles(c, p.work)
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			if err := everything(ctx, f, fmt.Sprintf("%s/d%d", p.work, i)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	must(t, c.Ping(t.Context()))
	must(t, bomb.Kill(t.Context()))
	if got := run(t, c, sh("echo works")); got.stdout != "works\n" {
		t.Errorf("got %+v", got)
	}
}

// everything does every operation once, in a folder of its own.
func everything(ctx context.Context, f *client.Files, dir string) error {
	if err := f.Mkdir(ctx, dir, 0); err != nil {
		return err
	}
	for name, size := range map[string]int64{"small": 100, "big": 1 << 20} {
		if err := f.Write(ctx, dir+"/a/"+name, io.LimitReader(zeros{}, size), sandbox.WriteOptions{}); err != nil {
			return err
		}
		r, err := f.Read(ctx, dir+"/a/"+name, 0, -1)
		if err != nil {
			return err
		}
		n, err := io.Copy(io.Discard, r)
		if r.Close(); err != nil || n != size {
			return fmt.Errorf("%d bytes of %d: %w", n, size, err)
		}
	}
	if err := f.Symlink(ctx, "a", dir+"/l"); err != nil {
		return err
	}
	if err := f.Rename(ctx, dir+"/l/small", dir+"/moved"); err != nil {
		return err
	}
	if list, err := f.ReadDir(ctx, dir); err != nil || len(list) != 3 {
		return fmt.Errorf("%v, %w", list, err)
	}
	return f.Remove(ctx, dir, true)
}

// TestFilesLeakNothing holds that descriptors, goroutines and folders are as
// before after many operations, also after those that were called off.
func TestFilesLeakNothing(t *testing.T) {
	p := newPlaces(t)
	g := startGuest(t)
	g.connect().Close()
	known := goleak.IgnoreCurrent()
	c, err := client.New(t.Context(), g.connect(), client.Options{})
	must(t, err)
	f := plainFiles(c, p.work)
	must(t, everything(t.Context(), f, p.work+"/first"))
	g.rest(c)
	own, theirs := descriptors(t, os.Getpid()), descriptors(t, g.pid())
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 60 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(j)*100*time.Microsecond)
				dir := fmt.Sprintf("%s/d%d-%d", p.work, i, j)
				_ = everything(ctx, f, dir) // called off somewhere
				cancel()
				if err := f.Remove(t.Context(), dir, true); err != nil && !sandbox.IsNotFound(err) {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	eventually(t, 10*time.Second, "descriptors are given back", func() bool {
		return descriptors(t, os.Getpid()) <= own && descriptors(t, g.pid()) <= theirs
	})
	if entries, err := os.ReadDir(p.work); err != nil || len(entries) > 0 {
		t.Errorf("left: %v, %v", entries, err)
	}
	c.Close()
	testenv.None(t, known)
}

// TestUnreadFiles opens many files without reading them: they delay neither
// each other nor anything else, and take no memory to speak of.
func TestUnreadFiles(t *testing.T) {
	long(t)
	p := newPlaces(t)
	g := startGuest(t)
	c := g.client(client.Options{})
	f := plainFiles(c, p.work)
	file := p.work + "/big"
	must(t, f.Write(t.Context(), file, io.LimitReader(zeros{}, 4<<20), sandbox.WriteOptions{}))
	before := rssOf(t, g.pid())
	var readers []io.ReadCloser
	for range 300 {
		r, err := f.Read(t.Context(), file, 0, -1)
		must(t, err)
		readers = append(readers, r)
	}
	must(t, everything(t.Context(), f, p.work+"/d"))
	if got := run(t, c, sh("echo works")); got.stdout != "works\n" {
		t.Errorf("got %+v", got)
	}
	if grown := rssOf(t, g.pid()) - before; grown > 8<<20 {
		t.Errorf("the guest has grown by %d bytes", grown)
	}
	for i, r := range readers {
		if i%10 == 0 {
			n, err := io.Copy(io.Discard, r)
			if err != nil || n != 4<<20 {
				t.Fatalf("%d bytes, %v", n, err)
			}
		}
		must(t, r.Close())
	}
}

// TestUnreadFilesLeaveRoom holds that a client that opens what it may and
// reads nothing does not keep others from their files.
func TestUnreadFilesLeaveRoom(t *testing.T) {
	p := newPlaces(t)
	g := startGuest(t)
	greedy, other := plainFiles(g.client(client.Options{}), p.work), plainFiles(g.client(client.Options{}), p.work)
	file := p.work + "/big"
	must(t, other.Write(t.Context(), file, io.LimitReader(zeros{}, 4<<20), sandbox.WriteOptions{}))
	for opened := 0; ; opened++ {
		r, err := greedy.Read(t.Context(), file, 0, -1)
		if err != nil {
			if opened < 256 || opened > 1024 {
				t.Errorf("after %d files: %v", opened, err)
			}
			break
		}
		defer r.Close()
	}
	must(t, everything(t.Context(), other, p.work+"/d"))
}

// TestMkdirUnreadable makes folders that their owner cannot read, whose mode
// the umask would change.
func TestMkdirUnreadable(t *testing.T) {
	p := newPlaces(t)
	g := startGuest(t)
	f := plainFiles(g.client(client.Options{}), p.work)
	for _, perm := range []os.FileMode{0o333, 0o222, 0o777, 0o022} {
		dir := fmt.Sprintf("%s/%o", p.work, perm)
		if err := f.Mkdir(t.Context(), dir, perm); err != nil {
			t.Errorf("%o: %v", perm, err)
		}
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != perm {
			t.Errorf("%o: %v, %v", perm, info.Mode(), err)
		}
	}
}
