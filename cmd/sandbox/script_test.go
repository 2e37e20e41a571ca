package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/audit/violation"
	"github.com/bulkhead-dev/sandbox/egress"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/policy"
)

func TestMain(m *testing.M) {
	testenv.AtOnce(6)
	if filepath.Base(os.Args[0]) != "sandbox" {
		testenv.HearSignals()
	}
	testscript.Main(asShipped{m}, map[string]func(){"sandbox": main})
}

// daemonProgram is the program that the tests start daemons with: this test
// program, with the race detector where the tests have it.
var daemonProgram string

// asShipped are tests whose commands are those of the program without the race
// detector, which takes several times as long to start as most of them to run.
// What it would find there it finds in the daemons, which run the same code for
// many callers at once, and in the tests of the packages. "make test-all" has it
// in all of them.
type asShipped struct{ *testing.M }

func (a asShipped) Run() int {
	var err error
	if daemonProgram, err = exec.LookPath("sandbox"); err != nil {
		log.Println(err)
		return 1
	}
	defer func() {
		if dir, err := builtDir(); err == nil {
			os.RemoveAll(dir)
		}
	}()
	if !raceDetector() || testenv.All() {
		return a.M.Run()
	}
	program, err := builtProgram("")
	if err == nil {
		err = os.Setenv("PATH", filepath.Dir(program)+string(os.PathListSeparator)+os.Getenv("PATH"))
	}
	if err != nil {
		log.Println(err)
		return 1
	}
	return a.M.Run()
}

// raceDetector reports whether this program has the race detector.
func raceDetector() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.ContainsFunc(info.Settings, func(s debug.BuildSetting) bool { return s.Key == "-race" && s.Value == "true" })
}

// TestScripts needs no engine.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, params(t, "testdata/script"))
}

// TestDockerScripts runs commands in real containers.
func TestDockerScripts(t *testing.T) {
	t.Parallel()
	testenv.Require(t, "docker")
	testscript.Run(t, params(t, "testdata/docker"))
}

// TestBrowserScripts uses real browsers in real containers.
func TestBrowserScripts(t *testing.T) {
	t.Parallel()
	testenv.Require(t, "browser")
	testscript.Run(t, params(t, "testdata/browser"))
}

// TestLocalScripts runs commands in local sandboxes, without an engine.
func TestLocalScripts(t *testing.T) {
	t.Parallel()
	testenv.Require(t, "local")
	testscript.Run(t, params(t, "testdata/local"))
}

// TestBothProvidersScripts uses one session with both providers of this machine.
func TestBothProvidersScripts(t *testing.T) {
	t.Parallel()
	testenv.Require(t, "docker")
	testenv.Require(t, "local")
	testscript.Run(t, params(t, "testdata/both"))
}

// openSecured serves https on the loopback with a certificate of an authority that
// no machine knows, made in dir, whose own certificate is written to file. It
// answers with the header X-Token.
func openSecured(dir, file string) (at string, end func(), err error) {
	a, err := egress.Open(dir)
	if err != nil {
		return "", nil, err
	}
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.Certificate().Raw}), 0o644); err != nil {
		return "", nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	leaf, err := a.Leaf("127.0.0.1")
	if err != nil {
		return "", nil, err
	}
	s := &http.Server{
		ReadHeaderTimeout: 10 * time.Second, TLSConfig: &tls.Config{Certificates: []tls.Certificate{*leaf}}, ErrorLog: log.New(io.Discard, "", 0),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, "hello from the company"+r.Header.Get("X-Token")+"\n")
		}),
	}
	go s.ServeTLS(l, "", "")
	return l.Addr().String(), func() { s.Close() }, nil
}

// params gives each script a home and a state folder of its own. Every
// container that a script leaves is removed with it: the state folder's
// instance id marks them, so containers of other programs are not touched.
func params(t *testing.T, dir string) testscript.Params {
	guest := testenv.Guest(t)
	return testscript.Params{
		Dir:                 dir,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("HOME", e.WorkDir+"/home")
			e.Setenv("SANDBOX_STATE_DIR", e.WorkDir+"/state")
			if filepath.Base(e.WorkDir) == "script-attack" {
				// A workspace in memory is rightly found: it takes memory without a bound.
				disk, err := os.MkdirTemp("/var/tmp", "sandbox-attack-")
				if err != nil {
					return err
				}
				e.Defer(func() {
					_ = testenv.Unmount(disk)
					_ = os.RemoveAll(disk)
				})
				e.Setenv("SANDBOX_STATE_DIR", disk+"/state")
			}
			e.Setenv("SANDBOX_GUEST", guest)
			e.Setenv("DOCKER_HOST", os.Getenv("DOCKER_HOST"))
			e.Setenv("GORACE", os.Getenv("GORACE")) // of the program under test
			e.Setenv("SECRET_OF_THE_HOST", "tell-nobody")
			e.Defer(func() { _ = testenv.Unmount(e.WorkDir) })
			e.Defer(func() { removeAll(e) })
			for _, name := range []string{"NEARBY", "OTHER"} {
				host, end, err := openNearby()
				if err != nil {
					return err
				}
				e.Defer(end)
				e.Setenv(name, host.at)
			}
			at, end, err := openSecured(e.WorkDir+"/company", e.WorkDir+"/company.pem")
			if err != nil {
				return err
			}
			e.Defer(end)
			e.Setenv("SECURED", at)
			return os.Mkdir(e.WorkDir+"/home", 0o700)
		},
		Condition: func(cond string) (bool, error) {
			switch cond {
			case "root":
				return os.Geteuid() == 0, nil
			case "host": // a daemon carries commands out; see TestHostScripts
				return false, nil
			}
			return false, errors.New("unknown condition " + cond)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"status": status, "record": record, "prove": prove, "operate": operate},
	}
}

// removeAll ends what a script left running.
func removeAll(e *testscript.Env) {
	for _, kind := range []string{"--browser=false", "--browser"} {
		cmd := exec.Command("sandbox", "--state-dir", e.Getenv("SANDBOX_STATE_DIR"), "recreate", "--all", "--force", kind)
		if out, err := cmd.CombinedOutput(); err != nil && !strings.Contains(string(out), "PROVIDER.UNAVAILABLE") {
			e.T().Log("clean up:", err, string(out))
		}
	}
}

// record writes a violation into the script's state folder:
//
//	record TENANT SESSION TYPE RESOURCE
func record(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 4 {
		ts.Fatalf("usage: record TENANT SESSION TYPE RESOURCE")
	}
	state, err := statedir.Open(ts.Getenv("SANDBOX_STATE_DIR"))
	ts.Check(err)
	s, err := violation.Open(state.Violations(), violation.Options{})
	ts.Check(err)
	ts.Check(s.Append(context.Background(), violation.Record{
		Tenant: args[0], Agent: "main", Session: args[1], Type: violation.Type(args[2]), Op: sandbox.OpRead, Resource: args[3],
	}))
	ts.Check(s.Close())
}

// prove writes evidence of a connection into the script's state folder:
//
//	prove TENANT SESSION HOST
func prove(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: prove TENANT SESSION HOST")
	}
	state, err := statedir.Open(ts.Getenv("SANDBOX_STATE_DIR"))
	ts.Check(err)
	s, err := evidence.Open(state.Evidence(), evidence.Options{})
	ts.Check(err)
	data, err := json.Marshal(egress.Event{Phase: egress.PhaseDecision, Protocol: egress.ProtocolConnect, Host: args[2], Port: 443, Verdict: policy.Allow, Rule: "network.allowPublic"})
	ts.Check(err)
	ts.Check(s.Append(context.Background(), evidence.Record{
		Tenant: args[0], Agent: "main", Session: args[1], Command: "run-1", Type: evidence.TypeEgress, Data: data,
	}))
	ts.Check(s.Close())
}

// status runs a program and checks its exit status:
//
//	status 124 sandbox run --timeout 1s -- sleep 60
func status(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status N program [arguments]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		got = exit.ExitCode()
	case err != nil:
		ts.Fatalf("%v", err)
	}
	if got != want {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
}
