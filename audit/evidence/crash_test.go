package evidence

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// helper is what the test binary does as another process: it appends so many
// records of a tenant in batches, says after each how many it has written, and
// closes the store.
func helper(what string) error {
	var dir, tenant string
	var every, count, batch int
	if _, err := fmt.Sscanf(what, "%s %s %d %d %d", &dir, &tenant, &every, &count, &batch); err != nil {
		return err
	}
	s, err := Open(dir, Options{CheckpointEvery: every, Sync: SyncOff})
	if err != nil {
		return err
	}
	for n := 0; n < count; n += batch {
		if err := s.Append(context.Background(), of(tenant, n, n+batch)...); err != nil {
			return err
		}
		if _, err := fmt.Println(n + batch); err != nil {
			return err
		}
	}
	return s.Close()
}

// start begins a helper and returns its output, line by line.
func start(t *testing.T, dir, tenant string, every, count, batch int) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), helperEnv+"="+fmt.Sprint(dir, " ", tenant, " ", every, " ", count, " ", batch))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return cmd, bufio.NewScanner(out)
}

// TestKilledWriters kills writers during a write: what they acknowledged is
// there, the chain is whole, and the next writer, or Checkpoint, signs what
// they left.
func TestKilledWriters(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{CheckpointEvery: 16})
	for round := range 8 {
		cmd, out := start(t, dir, "acme", 16, 1<<30, 1+round%3)
		before := everything(t, s, Check{})["acme"].Records
		var said int64
		for out.Scan() {
			n, err := strconv.ParseInt(out.Text(), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			if said = n; said == int64(40+7*round) || said > 60+7*int64(round) {
				cmd.Process.Kill()
			}
		}
		cmd.Wait()
		r := everything(t, s, Check{})["acme"]
		if !r.OK() || r.Records < said || round > 0 && r.Records < before || r.Unsigned >= 16+mostBatch {
			t.Fatalf("round %d: %d records after %d, %d unsigned, broken %+v", round, r.Records, said, r.Unsigned, r.Broken)
		}
		if err := s.Checkpoint(t.Context()); err != nil {
			t.Fatal(err)
		}
		if r = everything(t, s, Check{})["acme"]; !r.OK() || r.Unsigned != 0 || int64(r.Signed.Records) != r.Records {
			t.Fatalf("round %d, signed: %d unsigned, %+v of %d, broken %+v", round, r.Unsigned, r.Signed, r.Records, r.Broken)
		}
	}
}

// TestTornLine checks that half a line is reported and is no damage, before and
// after the next append.
func TestTornLine(t *testing.T) {
	for name, keep := range map[string]func(line string) string{
		"one byte":              func(l string) string { return l[:1] },
		"half":                  func(l string) string { return l[:len(l)/2] },
		"all but the line feed": func(l string) string { return l },
	} {
		t.Run(name, func(t *testing.T) {
			dir := victim(t)
			s := open(t, dir, Options{CheckpointEvery: 4})
			add(t, s, of("acme", 12, 13)...)
			lines := load(t, dir, "acme")
			last := len(lines) - 1
			text := strings.Join(lines[:last], "\n") + "\n"
			forge(t, dir, "acme", lines[:last]) // the head, as it was before the write
			if err := os.WriteFile(fileOf(dir, "acme"), []byte(text+keep(lines[last])), 0o600); err != nil {
				t.Fatal(err)
			}
			torn, records := 1, int64(12)
			if name == "all but the line feed" { // which is all there
				torn, records = 0, 13
			}
			r := everything(t, s, Check{})["acme"]
			wantWhole(t, r, records, 4, records-12)
			if r.Torn != torn {
				t.Errorf("%d torn, want %d: %+v", r.Torn, torn, r.Damage)
			}
			s = open(t, dir, Options{CheckpointEvery: 4})
			add(t, s, of("acme", 13, 14)...)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			r = everything(t, s, Check{})["acme"]
			wantWhole(t, r, records+1, 5, 0)
			if r.Torn != torn || r.Signed.Records != uint64(records+1) {
				t.Errorf("afterwards %d torn, %+v signed", r.Torn, r.Signed)
			}
		})
	}
}

// TestTwoProcessesWriteOneChain checks that each checkpoint of either process
// signs the line before it, whichever process wrote it, and that none is
// missing or superfluous.
func TestTwoProcessesWriteOneChain(t *testing.T) {
	const count = 600
	dir := t.TempDir()
	one, saysOne := start(t, dir, "acme", 8, count, 1)
	two, saysTwo := start(t, dir, "acme", 1000, count, 3)
	for saysOne.Scan() {
	}
	for saysTwo.Scan() {
	}
	for _, cmd := range []*exec.Cmd{one, two} {
		if err := cmd.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	r := everything(t, open(t, dir, Options{}), Check{})["acme"]
	if !r.OK() || r.Records != 2*count || r.Unsigned != 0 || r.Signed.Records != 2*count || len(r.Keys) != 1 {
		t.Errorf("%d records, %d unsigned, %+v signed, keys %v, broken %+v", r.Records, r.Unsigned, r.Signed, r.Keys, r.Broken)
	}
	// Behind a checkpoint of the first no more than 8 are left, and one more batch.
	if r.Checkpoints < count/8 {
		t.Errorf("%d checkpoints", r.Checkpoints)
	}
}

// TestFullDisk fills the disk at every distance to the end of what a writer
// needs: an append either keeps all or nothing, the chain stays whole, and goes
// on when there is room.
func TestFullDisk(t *testing.T) {
	disk := testenv.Disk(t, "300k")
	filler := filepath.Join(disk, "filler")
	for room := range 8 {
		dir := filepath.Join(disk, fmt.Sprint("evidence", room))
		s := open(t, dir, Options{CheckpointEvery: 4})
		if room > 0 { // else it cannot even begin
			each(t, s, of("acme", 0, 3))
		}
		had := 3 * min(room, 1)
		if err := os.WriteFile(filler, make([]byte, 1<<20), 0o600); err == nil {
			t.Fatal("the disk did not fill up")
		}
		fi, err := os.Stat(filler)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(filler, fi.Size()&^4095-int64(room)*4096); err != nil {
			t.Fatal(err)
		}
		var failed error
		for failed == nil {
			if failed = s.Append(t.Context(), of("acme", had, had+2)...); failed == nil {
				had += 2
			}
		}
		wantCode(t, failed, sandbox.CodeUnavailable, "is full")
		if r := audit(t, s, "acme"); !r.OK() || r.Records != int64(had) || len(r.Damage) > 0 {
			t.Fatalf("room %d: %d records of %d, %+v", room, r.Records, had, r.Damage)
		}
		if err := os.Remove(filler); err != nil {
			t.Fatal(err)
		}
		each(t, s, of("acme", had, had+3))
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if r := audit(t, s, "acme"); !r.OK() || r.Records != int64(had+3) || r.Unsigned != 0 || r.Signed.Records != uint64(had+3) || len(r.Damage) > 0 {
			t.Fatalf("room %d, afterwards: %d records of %d, %+v signed, %+v", room, r.Records, had+3, r.Signed, r.Damage)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
}
