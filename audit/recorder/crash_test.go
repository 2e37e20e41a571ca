package recorder

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/bulkhead-dev/sandbox/audit/evidence"
)

// helperEnv makes the test binary a process that has operations, or recovers.
const helperEnv = "WITNESS_TEST_HELPER"

// shortPipe lets a process be only a little ahead of the reader of its output,
// where the system supports that.
var shortPipe = func(*os.File) error { return nil }

// helper says on its output what it has begun and ended, as soon as it knows:
// "work" for ever, "hold" until its input ends, and "recover" once for each line
// of its input.
func helper(what string) error {
	how, dir, _ := strings.Cut(what, " ")
	store, err := evidence.Open(filepath.Join(dir, "evidence"), evidence.Options{})
	if err != nil {
		return err
	}
	o := Options{Sinks: []Sink{NewFile("file", store)}, Writers: filepath.Join(dir, "writers"), Log: (&logBook{}).logger()}
	switch how {
	case "recover":
		fmt.Println("ready")
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			w, err := Open(o)
			if err != nil {
				return err
			}
			fmt.Println("aborted", w.Counters().Aborted)
		}
		return nil
	case "hold":
		w, err := Open(o)
		if err != nil {
			return err
		}
		e, err := w.Begin(context.Background(), write("acme"), true)
		if err != nil {
			return err
		}
		fmt.Println("b", e.ID())
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		}
		return errors.Join(e.End(context.Background(), wrote()), w.Close())
	}
	if err := shortPipe(os.Stdout); err != nil {
		return err
	}
	w, err := Open(o)
	if err != nil {
		return err
	}
	failed := make(chan error)
	var say sync.Mutex
	tell := func(what string, e *Entry) {
		say.Lock()
		defer say.Unlock()
		fmt.Println(what, e.ID()) // one write; what was not read when we are killed is none
	}
	for n := range 6 {
		go func() {
			for {
				e, err := w.Begin(context.Background(), write([]string{"acme", "globex"}[n%2]), true)
				if err != nil {
					failed <- err
					return
				}
				if n >= 4 {
					tell("h", e)
					continue // never ends
				}
				tell("b", e)
				if err := e.End(context.Background(), wrote()); err != nil {
					failed <- err
					return
				}
				tell("e", e)
			}
		}()
	}
	return <-failed
}

// A child is the test binary as another process.
type child struct {
	*exec.Cmd
	out *bufio.Scanner
	in  interface{ Close() error }
	w   *bufio.Writer
}

func start(t *testing.T, how, dir string) *child {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), helperEnv+"="+how+" "+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return &child{cmd, bufio.NewScanner(out), in, bufio.NewWriter(in)}
}

// work has a process begin and end operations until it has said at least so many
// words, some of them of operations that never end, kills it, and returns which
// have ended as far as it has said.
func work(t *testing.T, dir string, words int) map[string]bool {
	t.Helper()
	c := start(t, "work", dir)
	ended := map[string]bool{}
	killed, held := false, 0
	for n := 0; c.out.Scan(); n++ {
		what, id, _ := strings.Cut(c.out.Text(), " ")
		ended[id] = what == "e"
		if what == "h" {
			held++
		}
		if n >= words && held > words/8 && !killed {
			killed = true
			if err := c.Process.Kill(); err != nil { // what it has said until now is still read
				t.Fatal(err)
			}
		}
	}
	var exit *exec.ExitError
	if err := c.Wait(); !errors.As(err, &exit) || exit.ExitCode() != -1 {
		t.Fatalf("it was not killed: %v", err)
	}
	return ended
}

// TestKilled kills a program at many moments. The next one that opens writes
// each end that is missing once, and never one of what has ended.
func TestKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	alive := newRig(t, dir, Options{})
	ours := alive.begin(t, true)
	ended := map[string]bool{}
	for round := range 12 {
		said := work(t, dir, 1+round*17)
		for id, e := range said {
			ended[id] = e
		}
		g := nextRig(t, dir)
		if g.Counters().Aborted == 0 {
			t.Errorf("round %d: nothing was aborted", round)
		}
		for _, r := range g.memory.Records() {
			if r.Type != evidence.TypeEnd {
				t.Errorf("in memory is %+v", r)
			}
		}
		if again := nextRig(t, dir).Counters().Aborted; again != 0 {
			t.Errorf("round %d: %d were aborted again", round, again)
		}
	}
	all := operations(t, alive.store, "acme")
	for id, o := range operations(t, alive.store, "globex") {
		all[id] = o
	}
	wantStatus(t, all, ours.ID(), "")
	delete(all, ours.ID())
	aborted := 0
	for id, o := range all {
		if o.Begin == nil || o.End == nil {
			t.Fatalf("%s: %+v", id, o)
		}
		if o.End.Status == evidence.Aborted {
			aborted++
			if o.End.Code != "TOOL.EXECUTION_FAILED" || o.End.Detail != abortedDetail || o.First().Agent != "main" {
				t.Errorf("aborted %+v", o.End)
			}
		}
		if ended[id] && o.End.Status != evidence.OK {
			t.Errorf("%s has ended and is %s", id, o.End.Status)
		}
	}
	for id := range ended {
		if _, ok := all[id]; !ok {
			t.Errorf("%s was begun and is not on record", id)
		}
	}
	if aborted < 12 {
		t.Errorf("%d were aborted", aborted)
	}
	if left := writers(t, dir); len(left) != 1 || left[0] != alive.Writer() {
		t.Errorf("files %v are left", left)
	}
	end(t, ours, wrote())
}

// TestLivingWriter checks that a recovery does not abort the running operations
// of another process.
func TestLivingWriter(t *testing.T) {
	dir := t.TempDir()
	c := start(t, "hold", dir)
	if !c.out.Scan() {
		t.Fatal("it does not begin")
	}
	id := strings.TrimPrefix(c.out.Text(), "b ")
	for range 3 {
		if n := nextRig(t, dir).Counters().Aborted; n != 0 {
			t.Errorf("%d were aborted", n)
		}
	}
	c.in.Close()
	for c.out.Scan() {
	}
	c.Wait()
	g := nextRig(t, dir)
	wantStatus(t, operations(t, g.store, "acme"), id, evidence.OK)
	if left := writers(t, dir); len(left) != 0 {
		t.Errorf("files %v are left", left)
	}
}

// TestManyRecover has processes and goroutines recover at once.
func TestManyRecover(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var others []*child
	for range 3 {
		c := start(t, "recover", dir)
		if !c.out.Scan() {
			t.Fatal("it does not start")
		}
		others = append(others, c)
	}
	for round := range 6 {
		work(t, dir, 40+round)
		work(t, dir, 40+round)
		var ours sync.WaitGroup
		for _, c := range others {
			fmt.Fprintln(c.w, "now")
			c.w.Flush()
		}
		for range 2 {
			ours.Go(func() { newRig(t, dir, Options{}) })
		}
		ours.Wait()
		for _, c := range others {
			if !c.out.Scan() {
				t.Fatal("it has ended")
			}
		}
		nextRig(t, dir) // one may have looked while another one did
		if left := writers(t, dir); len(left) != 0 {
			t.Errorf("files %v are left", left)
		}
	}
	store := openStore(t, dir)
	for _, tenant := range []string{"acme", "globex"} {
		for id, o := range operations(t, store, tenant) { // none twice
			if o.Begin == nil || o.End == nil {
				t.Errorf("%s: %+v", id, o)
			}
		}
	}
}

// TestKilledRecovery kills programs while they recover. Nothing is written
// twice, and at last nothing is missing.
func TestKilledRecovery(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for range 5 {
		work(t, dir, 300)
		for range 3 {
			c := start(t, "recover", dir)
			if !c.out.Scan() {
				t.Fatal("it does not start")
			}
			fmt.Fprintln(c.w, "now")
			c.w.Flush()
			c.Process.Kill() // somewhere in it, or before
			c.Wait()
		}
	}
	g := nextRig(t, dir)
	for _, tenant := range []string{"acme", "globex"} {
		for id, o := range operations(t, g.store, tenant) {
			if o.Begin == nil || o.End == nil {
				t.Errorf("%s: %+v", id, o)
			}
		}
	}
	if left := writers(t, dir); len(left) != 0 {
		t.Errorf("files %v are left", left)
	}
}

// TestRecoveryStopsHalfway checks that a recovery which ends behind its write and
// before it has cleaned up is done again without writing anything twice.
func TestRecoveryStopsHalfway(t *testing.T) {
	dir := t.TempDir()
	work(t, dir, 100)
	g := newRig(t, t.TempDir(), Options{})
	half := &halfway{Keeper: NewFile("half", openStore(t, dir))}
	g.keepers, g.o.Writers = []Keeper{half}, filepath.Join(dir, "writers")
	if _, err := g.Recover(t.Context()); !errors.Is(err, errNoDisk) || len(writers(t, dir)) != 1 {
		t.Fatalf("recovery: %v", err)
	}
	for again := 0; ; again++ { // the other tenant, if it has some, and what is left to do
		_, err := g.Recover(t.Context())
		if err == nil {
			break
		}
		if !errors.Is(err, errNoDisk) || again == 10 {
			t.Fatal(err)
		}
	}
	if half.writes > 2 {
		t.Errorf("%d writes", half.writes)
	}
	next := nextRig(t, dir)
	if n := next.Counters().Aborted; n != 0 {
		t.Errorf("%d were aborted again", n)
	}
	for _, tenant := range []string{"acme", "globex"} {
		for id, o := range operations(t, next.store, tenant) { // none twice
			if o.Begin == nil || o.End == nil {
				t.Errorf("%s: %+v", id, o)
			}
		}
	}
	if left := writers(t, dir); len(left) != 0 {
		t.Errorf("files %v are left", left)
	}
}

// halfway is a Keeper whose writes fail after they are done.
type halfway struct {
	Keeper
	writes int
}

func (h *halfway) Write(ctx context.Context, rs ...evidence.Record) error {
	h.writes++
	return errors.Join(h.Keeper.Write(ctx, rs...), errNoDisk)
}
