//go:build linux

package egress

import (
	"bytes"
	"context"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/internal/testenv/dockertest"
	"github.com/bulkhead-dev/sandbox/policy/network"
)

// patience bounds one program. npm takes seconds on a busy machine.
const patience = 3 * time.Minute

// allowedHosts returns the hosts that the policy of a stage allows; all
// others, like internet.Other, are refused.
func allowedHosts() []string {
	return []string{
		testenv.Files, testenv.Index, testenv.Registry, testenv.Modules, testenv.Git,
		testenv.Echo, testenv.Redirect, testenv.Slow, testenv.Upgrade,
	}
}

// A stage is a sandbox without network, and its egress session.
type fixture struct {
	net     *testenv.Internet
	sb      sandbox.Sandbox
	plane   *Plane
	session *Session
	// bound reports that all hosts have secrets bound to them: then the
	// proxy's variables name the trusted roots, otherwise the test does.
	bound bool

	mu     sync.Mutex
	events []Event
}

// newFixture opens an egress session of sb. workspace is the host folder of its
// workspace.
func newFixture(t *testing.T, sb sandbox.Sandbox, workspace string) *fixture {
	t.Helper()
	s := &fixture{net: testenv.NewInternet(t), sb: sb}
	toolsMust(t, os.WriteFile(filepath.Join(workspace, "ca.crt"), s.net.Authority.PEM, 0o644))
	// wget reads no variable for its authorities, only a file of settings.
	toolsMust(t, os.WriteFile(filepath.Join(workspace, "wgetrc"), []byte("ca_certificate="+sandbox.WorkspaceDir+"/ca.crt\n"), 0o644))
	s.open(t, SessionOptions{})
	return s
}

// open opens the egress session, with the secrets of o.
func (s *fixture) open(t *testing.T, o SessionOptions) {
	t.Helper()
	s.net.ServeGit()
	s.plane = New(Options{
		Dialer: NewDialer(DialerOptions{Resolver: s.net.Names}), Roots: s.net.Authority.Pool,
		Record: func(e Event) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.events = append(s.events, e)
		},
	})
	t.Cleanup(func() { s.plane.Close() })
	var err error
	o.Sandbox = "sbx-tools"
	o.Policy, err = network.New(network.Options{Allowed: s.net.Allowed(allowedHosts()...)})
	toolsMust(t, err)
	l, err := s.sb.(sandbox.Listener).Listen(t.Context(), "tcp", "127.0.0.1:0")
	toolsMust(t, err)
	s.session, err = s.plane.Open(l, o)
	toolsMust(t, err)
}

// localFixture returns a stage in the local sandbox.
func localFixture(t *testing.T) *fixture {
	t.Helper()
	w := dockertest.NewLocal(t)
	spec := w.Spec("tools")
	return newFixture(t, openLocal(t, w, spec), dockertest.Workspace(spec))
}

// openLocal opens the sandbox of spec with the local provider.
func openLocal(t *testing.T, w *dockertest.Local, spec sandbox.Spec) sandbox.Sandbox {
	t.Helper()
	ctx, done := context.WithTimeout(t.Context(), patience)
	defer done()
	_, err := w.P.Create(ctx, spec)
	toolsMust(t, err)
	t.Cleanup(func() { toolsMust(t, w.P.Remove(context.Background(), spec.Name)) })
	sb, err := w.P.Open(ctx, spec)
	toolsMust(t, err)
	t.Cleanup(func() { sb.Close() })
	return sb
}

// goRoot returns the folder of the host's Go, or "". It asks once a process.
var goRoot = sync.OnceValue(func() string {
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
})

// wantShown skips or fails the test of a tool in a folder that is not visible
// in sandboxes, such as a Go in a home folder.
func (tt tool) wantShown(t *testing.T) {
	t.Helper()
	root := goRoot()
	if strings.HasPrefix(tt.name, "go ") && !strings.HasPrefix(root, "/usr/") && !strings.HasPrefix(root, "/opt/") {
		testenv.Lack(t, "nettools", "Go is in "+root+", which sandboxes do not show")
	}
}

// env returns the environment of a command: the proxy's variables, the test's
// own authority, and the addresses for the command lines of the tests.
func (s *fixture) env(c *Caller) map[string]string {
	env := map[string]string{"PATH": testenv.SystemPath + ":" + filepath.Join(goRoot(), "bin")}
	if !s.bound {
		for _, name := range []string{
			"SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "PIP_CERT", "GIT_SSL_CAINFO", "NODE_EXTRA_CA_CERTS", "npm_config_cafile",
		} {
			env[name] = sandbox.WorkspaceDir + "/ca.crt"
		}
		env["WGETRC"] = sandbox.WorkspaceDir + "/wgetrc"
	}
	for name, host := range map[string]string{
		"FILES": testenv.Files, "OTHER": testenv.Other, "INDEX": testenv.Index, "REGISTRY": testenv.Registry,
		"MODULES": testenv.Modules, "GIT": testenv.Git, "REDIRECT": testenv.Redirect, "ECHO": testenv.Echo,
	} {
		env[name] = s.net.URL("https", host, "")
		env[name+"_PLAIN"] = s.net.URL("http", host, "")
	}
	maps.Copy(env, c.Env())
	return env
}

// An outcome is the result of a command and its refusals.
type outcome struct {
	out     string // both outputs
	code    int
	refused []Event
}

// run runs a line as the command id.
func (s *fixture) run(t *testing.T, id, line string) outcome {
	t.Helper()
	ctx, done := context.WithTimeout(t.Context(), patience)
	defer done()
	c := s.session.Caller(id)
	var out bytes.Buffer
	p, err := s.sb.Start(ctx, sandbox.Command{Args: []string{"sh", "-c", line}, Env: s.env(c), Stdout: &out, Stderr: &out})
	toolsMust(t, err)
	exit, err := p.Wait()
	toolsMust(t, err)
	return outcome{out: out.String(), code: exit.Code, refused: c.End()}
}

// recorded returns the events of the command id.
func (s *fixture) recorded(id string) []Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.events), func(e Event) bool { return e.Caller != id })
}

func toolsMust(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
