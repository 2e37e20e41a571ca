package store

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// helperEnv makes the test binary a process that uses keys; see helper.
const decisionHelperEnv = "DECISION_TEST_HELPER"

func TestMain(m *testing.M) {
	for env, help := range map[string]func(string) error{decisionHelperEnv: decisionHelper, helperEnv: helper} {
		if what := os.Getenv(env); what != "" {
			if err := help(what); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			os.Exit(0)
		}
	}
	testenv.Main(m)
}

// decisionHelper is the body of the test binary as another process: it says
// that it is ready, waits until its input ends, and then uses the keys key:0 to
// key:n, and prints after each the call that owns it.
func decisionHelper(what string) error {
	var dir, call string
	var n int
	if _, err := fmt.Sscan(what, &dir, &call, &n); err != nil {
		return err
	}
	k, err := OpenDecision(dir)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	for i := range n {
		by, err := k.Use("t", fmt.Sprint("key:", i), call, time.Now().Add(time.Hour))
		if err != nil {
			return err
		}
		fmt.Println(by)
	}
	return nil
}

// A racer is a process of ours.
type racer struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

func startRacer(t *testing.T, dir, call string, n int) *racer {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), decisionHelperEnv+"="+fmt.Sprint(dir, " ", call, " ", n))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return &racer{cmd: cmd, in: in, out: bufio.NewScanner(out)}
}

// ready waits until the process has said so.
func (r *racer) ready(t *testing.T) {
	t.Helper()
	if !r.out.Scan() || r.out.Text() != "ready" {
		t.Fatalf("the process says %q, %v", r.out.Text(), r.out.Err())
	}
}

// rest is what else the process says until it ends.
func (r *racer) rest() (lines []string) {
	for r.out.Scan() {
		lines = append(lines, r.out.Text())
	}
	return lines
}

func openDecision(t testing.TB, dir string) *Keys {
	t.Helper()
	k, err := OpenDecision(dir)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// decisionOpenAt is open on a machine.
func decisionOpenAt(t testing.TB, dir string, m *testenv.Machine) *Keys {
	t.Helper()
	k := openDecision(t, dir)
	k.now, k.passed = m.Now, &statedir.Clock{Path: k.passed.Path, Source: m.Source()}
	return k
}

// decisionMachine is one whose clock has gone evenly for long, by what is kept
// in dir.
func decisionMachine(t testing.TB, dir string) *testenv.Machine {
	t.Helper()
	m := testenv.New(time.Now())
	if err := m.Seen(&statedir.Clock{Path: filepath.Join(dir, statedir.FileName), Source: m.Source()}, statedir.AfterStep); err != nil {
		t.Fatal(err)
	}
	return m
}

// soon is when the grants of this process expire.
var soon = sync.OnceValue(func() time.Time { return time.Now().Add(time.Hour) })

// wantUse has call use a key and checks whose it is.
func wantUse(t testing.TB, k *Keys, tenant, key, call, want string) {
	t.Helper()
	if by, err := k.Use(tenant, key, call, soon()); by != want || err != nil {
		t.Errorf("Use(%s, %s, %s) = %q, %v; want %q", tenant, key, call, by, err, want)
	}
}

func decisionWantCode(t testing.TB, err error, code sandbox.Code, text string) {
	t.Helper()
	if sandbox.CodeOf(err) != code || !strings.Contains(fmt.Sprintf("%+v", err), text) {
		t.Errorf("%v; want %s with %q", err, code, text)
	}
}

// fileOf is the entry of a key of the tenant t.
func fileOf(dir, key string) string {
	name := nameOf("t", key)
	return filepath.Join(dir, shardOf(name), name)
}

// files are all files below dir.
func files(t testing.TB, dir string) (all []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() && d.Name() != statedir.FileName {
			all = append(all, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
