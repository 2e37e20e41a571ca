package egress

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// helperEnv names the folder for the test binary as a helper process.
const helperEnv = "RECORD_TEST_HELPER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(helperEnv); dir != "" {
		fmt.Fprintln(os.Stderr, decideForever(dir))
		os.Exit(1)
	}
	testenv.Main(m)
}

// decideForever prints which decisions may pass, as soon as it knows.
func decideForever(dir string) error {
	kept, err := evidence.Open(dir, evidence.Options{})
	if err != nil {
		return err
	}
	log := logrus.New()
	log.SetOutput(io.Discard)
	r, err := NewRecorder(RecorderOptions{Evidence: kept, Log: log, Require: true, Within: testenv.Patience})
	if err != nil {
		return err
	}
	r.Sandbox(sbx, recordWho{Tenant: "acme"})
	var say sync.Mutex
	failed := make(chan error)
	for who := range uint64(4) {
		go func() {
			for n := who; ; n += 4 {
				e := allowed()
				e.ID = n
				if err := r.Decide(e); err != nil {
					failed <- err
				}
				say.Lock()
				_, err := fmt.Println(n) // one write, so that a line is printed completely or not at all
				say.Unlock()
				if err != nil {
					failed <- err
				}
			}
		}()
	}
	return <-failed
}

// TestNothingPassesOffTheRecord kills a process that requires evidence, at any
// moment: every decision that passed is recorded, and the record is intact.
func TestNothingPassesOffTheRecord(t *testing.T) {
	for round := range 5 {
		dir := t.TempDir()
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), helperEnv+"="+dir)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		check(t, err)
		check(t, cmd.Start())
		passed := map[uint64]bool{}
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			n, err := strconv.ParseUint(lines.Text(), 10, 64)
			check(t, err)
			passed[n] = true
			if len(passed) == 100+50*round {
				check(t, cmd.Process.Kill()) // the output up to now is still read
			}
		}
		err = cmd.Wait()
		var ended *exec.ExitError
		if !errors.As(err, &ended) || ended.ExitCode() != -1 {
			t.Fatalf("it was not killed: %v", err)
		}
		s, err := evidence.Open(dir, evidence.Options{})
		check(t, err)
		for _, r := range all(t, s, evidence.Filter{Tenant: "acme"}) {
			delete(passed, eventOf(t, r).ID)
		}
		if len(passed) > 0 {
			t.Errorf("%d passed that are not on record: %v", len(passed), passed)
		}
		for report, err := range s.Verify(t.Context(), evidence.Check{AllTenants: true}) {
			if err != nil || !report.OK() {
				t.Errorf("report %+v, %v", report, err)
			}
		}
	}
}
