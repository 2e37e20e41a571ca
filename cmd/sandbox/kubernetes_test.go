//go:build !sandbox_front && !sandbox_engine

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/server/api"
)

// podSite is a site whose sandboxes are pods, in a namespace of its own. more stands
// in the settings of the cluster, and agent in those of the agent.
func podSite(t *testing.T, more, agent string) (s *site, namespace string) {
	t.Helper()
	namespace = testenv.KubeNamespace(t) // deleted after the site's sandboxes are removed
	guest := testenv.KubeProgram(t, testenv.Guest(t), "sandbox-guest")
	image := strings.TrimSpace(testenv.KubeNode(t, "import", "sandbox:bookworm-slim"))
	s = newSite(t)
	file := filepath.Join(t.TempDir(), "settings.json")
	text := fmt.Sprintf(`{
		"kubernetes": {"kubeconfig": %q, "namespace": %q, "guestImage": %q, "imagePullPolicy": "Never", "workspaceSize": "256m", "requestPercent": 1%s},
		"agents": {"defaults": {"sandbox": {"provider": "kubernetes", "prune": {"every": "0s"}, "docker": {"image": %q, "memory": "512m"}%s}}}}`,
		testenv.Kube(t), namespace, guest, more, image, agent)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s.env = append(s.env, "SANDBOX_CONFIG="+file)
	t.Cleanup(func() {
		// A server that was killed holds its sandboxes until its Lease is over.
		testenv.Success(t, func() error {
			out, err := s.command("recreate", "--all", "--force").CombinedOutput()
			if err != nil && !bytes.Contains(out, []byte("SANDBOX.BUSY")) {
				t.Errorf("%v: %s", err, out)
				return nil
			}
			return err
		})
	})
	return s, namespace
}

// said runs a command, which has to end with a status, and returns its output and
// what it complains of.
func (s *site) said(status int, stdin string, args ...string) (stdout, stderr string) {
	s.t.Helper()
	cmd := s.command(args...)
	var out, complaints bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &complaints
	err := cmd.Run()
	if got := cmd.ProcessState.ExitCode(); got != status {
		s.t.Fatalf("sandbox %s: status %d, want %d: %v\n%s%s", strings.Join(args, " "), got, status, err, out.Bytes(), complaints.Bytes())
	}
	return out.String(), complaints.String()
}

// prints is said for a command that succeeds, and whose output is want.
func (s *site) prints(want, stdin string, args ...string) {
	s.t.Helper()
	if got, _ := s.said(0, stdin, args...); got != want {
		s.t.Errorf("sandbox %s prints %q, want %q", strings.Join(args, " "), got, want)
	}
}

// TestKubernetesCommands holds that the command line does with a pod what it does
// with a container, and that it refuses what needs a folder of this machine.
func TestKubernetesCommands(t *testing.T) {
	t.Parallel()
	s, _ := podSite(t, "", "")

	s.prints("out\n", "", "run", "--", "sh", "-c", "echo out; echo kept >kept.txt")
	s.said(7, "", "run", "--", "sh", "-c", "exit 7")
	s.prints("kept\n", "", "exec", "--", "cat", "kept.txt")
	s.prints("of stdin", "of stdin", "run", "-i", "--", "cat")
	s.said(124, "", "run", "--timeout", "1s", "--", "sleep", "60")
	s.prints("/tmp\n", "", "shell", "-c", "cd /tmp; pwd")

	// A shell at a terminal.
	shell := s.command("shell")
	terminal, err := pty.Start(shell)
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	go io.WriteString(terminal, "stty size; echo at-$((6*7)); exit 3\n")
	var shown bytes.Buffer
	io.Copy(&shown, terminal) // which ends with the terminal
	if err := shell.Wait(); shell.ProcessState.ExitCode() != 3 || !strings.Contains(shown.String(), "at-42") {
		t.Errorf("the shell: %v\n%s", err, shown.Bytes())
	}

	// Files.
	folder := t.TempDir()
	content := strings.Repeat("0123456789abcdef", 1<<16) // 1 MiB
	if err := os.WriteFile(filepath.Join(folder, "in"), []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	s.said(0, "", "cp", filepath.Join(folder, "in"), "sandbox:in")
	s.said(0, "", "cp", "sandbox:in", filepath.Join(folder, "out"))
	if data, err := os.ReadFile(filepath.Join(folder, "out")); err != nil || string(data) != content {
		t.Errorf("%d bytes came back: %v", len(data), err)
	}
	s.said(0, "written", "fs", "write", "dir/file")
	s.prints("written", "", "fs", "read", "dir/file")
	s.prints("in\n", "", "fs", "glob", "i*")
	if out, _ := s.said(0, "", "fs", "ls"); !strings.Contains(out, "dir") || !strings.Contains(out, "kept.txt") {
		t.Errorf("fs ls prints %q", out)
	}
	s.said(0, "", "fs", "rm", "dir/file")
	s.said(1, "", "fs", "read", "dir/file")

	// What other commands say about it.
	type row struct{ Name, Status, Provider string }
	var list struct{ Containers []row }
	s.json(&list, "list")
	if len(list.Containers) != 1 || list.Containers[0].Status != "running" || list.Containers[0].Provider != "kubernetes" {
		t.Errorf("list: %+v", list)
	}
	if out, _ := s.said(0, "", "stats"); !strings.Contains(out, "not measured") || strings.Contains(out, "0B") {
		t.Errorf("stats shows figures that were not measured:\n%s", out)
	}
	out, _ := s.said(0, "", "explain", "--all")
	for _, want := range []string{"a volume of the pod (emptyDir), at most 256Mi", "is no folder of this machine", "use: it is as wanted and running"} {
		if !strings.Contains(out, want) {
			t.Errorf("explain does not say %q:\n%s", want, out)
		}
	}
	if strings.Contains(out, s.state) || strings.Contains(out, "overlay") {
		t.Errorf("explain names folders of this machine:\n%s", out)
	}

	// The roots of the image of a pod cannot be read.
	certificates := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(certificates, testenv.NewInternet(t).Authority.PEM, 0o600); err != nil {
		t.Fatal(err)
	}
	s.env = append(s.env, config.CAVariable+"="+certificates)
	if _, said := s.said(125, "", "run", "--", "true"); !strings.Contains(said, "docker.caFile") || !strings.Contains(said, "UNSUPPORTED") {
		t.Errorf("with certificates of a company: %s", said)
	}
	s.env = s.env[:len(s.env)-1]

	// Checkpoints would be those of an empty folder.
	for _, args := range [][]string{{"checkpoint", "create"}, {"run", "--workspace", folder, "--", "true"}} {
		if _, said := s.said(125, "", args...); !strings.Contains(said, "folder") && !strings.Contains(said, "workspace") {
			t.Errorf("sandbox %s: %s", strings.Join(args, " "), said)
		}
	}

	if out, _ := s.said(0, "", "prune", "--dry-run"); !strings.Contains(out, "kept 1") && !strings.Contains(out, "keep") {
		t.Errorf("prune: %s", out)
	}
	s.said(0, "", "recreate", "--session", "default", "--force")
	if s.json(&list, "list"); len(list.Containers) != 0 {
		t.Errorf("after recreate: %+v", list)
	}
	s.said(1, "", "run", "--", "test", "-e", "kept.txt")
}

// json runs a command and reads what it prints with -o json.
func (s *site) json(v any, args ...string) {
	s.t.Helper()
	out, _ := s.said(0, "", append(args, "-o", "json")...)
	if err := json.Unmarshal([]byte(out), v); err != nil {
		s.t.Fatalf("sandbox %s: %v: %s", strings.Join(args, " "), err, out)
	}
}

// TestKubernetesDaemon holds that a daemon serves pods: over HTTP, to the command
// line, and to the client of E2B, whose sandbox is a pod that was kept ready.
func TestKubernetesDaemon(t *testing.T) {
	t.Parallel()
	s, _ := podSite(t, "", `, "pool": {"size": 1}`)
	d := s.server(filepath.Join(t.TempDir(), "d.sock"), tcp)
	secret := s.token("acme")
	p := d.guest(secret)

	box := must[api.Sandbox](t, p, "POST", "/v1/sandboxes", map[string]any{"session": "one"})
	for _, events := range []bool{false, true} {
		if out, err := p.output(box.Name, fmt.Sprint("id-", events), "echo from a pod", events); err != nil || out != "from a pod\n" {
			t.Errorf("exec, events %v: %q, %v", events, out, err)
		}
	}
	put, err := p.ask("PUT", "/v1/sandboxes/"+box.Name+"/files/workspace/f.txt", strings.NewReader("over HTTP"), "Content-Type", "application/octet-stream")
	if err != nil {
		t.Fatal(err)
	}
	put.Body.Close()
	if out, err := p.output(box.Name, "cat", "cat f.txt", false); err != nil || out != "over HTTP" {
		t.Errorf("%q, %v", out, err)
	}
	usage, _, err := asked[api.Usage](p, "GET", "/v1/sandboxes/"+box.Name+"/usage", nil)
	if err == nil && usage.Error == "" {
		t.Errorf("the usage of a pod is said to be measured: %+v", usage)
	}

	s.env = append(s.env, "SANDBOX_TOKEN="+secret)
	at := "tcp:" + strings.TrimPrefix(p.base, "http://")
	s.prints("over HTTP", "", "--server", at, "--session", "one", "exec", "--", "cat", "f.txt")
	s.env = s.env[:len(s.env)-1]

	t.Run("E2B", func(t *testing.T) {
		testenv.Require(t, "e2b")
		ctx, done := context.WithTimeout(t.Context(), 5*time.Minute)
		defer done()
		testenv.Until(t, "a pod is ready", func() bool { return d.metric(`sandbox_pool_slots{state="ready"}`) == 1 })
		hits, misses := d.metric("sandbox_pool_hits_total"), d.metric("sandbox_pool_misses_total")
		cmd := testenv.E2B(ctx, t, filepath.Join("testdata", "e2b", "pods.py"))
		cmd.Env = append(cmd.Env, "E2B_API_URL="+p.base, "E2B_SANDBOX_URL="+p.base, "E2B_API_KEY="+secret)
		if out, err := cmd.CombinedOutput(); err != nil || string(out) != "ok\n" {
			t.Errorf("%v\n%s", err, out)
		}
		if hits, misses := d.metric("sandbox_pool_hits_total")-hits, d.metric("sandbox_pool_misses_total")-misses; hits != 1 || misses != 0 {
			t.Errorf("%v sandboxes are pods that were kept ready, and %v are not", hits, misses)
		}
	})
	res, err := p.ask("DELETE", "/v1/sandboxes/"+box.Name, nil)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if _, _, err := asked[api.Sandbox](p, "GET", "/v1/sandboxes/"+box.Name, nil); err == nil {
		t.Error("the sandbox is there after its end")
	} else if r, is := err.(*refusal); !is || r.status != http.StatusNotFound {
		t.Errorf("%v", err)
	}
	d.quiet()
}

// metric returns the sum of the series of a metric whose names begin with name.
func (d *server) metric(name string) (sum float64) {
	d.t.Helper()
	res := d.get("/metrics")
	defer res.Body.Close()
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		series, value, _ := strings.Cut(lines.Text(), " ")
		if n, err := strconv.ParseFloat(value, 64); err == nil && strings.HasPrefix(series, name) {
			sum += n
		}
	}
	return sum
}

// TestKubernetesMCP holds that an agent's tools work in a pod, over standard streams
// and over HTTP.
func TestKubernetesMCP(t *testing.T) {
	t.Parallel()
	s, _ := podSite(t, "", "")
	a := s.agent(nil)
	for _, c := range toolInputs() {
		r := a.try(t.Context(), c[0], c[1])
		wrong := c[0] == "image" || c[0] == "run_code" || c[0] == "checkpoint" // pods have no checkpoints
		if r.IsError != wrong {
			t.Errorf("%s %s: error %v: %q", c[0], c[1], r.IsError, said(r))
		}
	}
	a.call("exec", `{"command":"mkdir -p d; cd d"}`)
	if got := a.call("exec", `{"command":"pwd"}`); !strings.Contains(got, "/workspace/d") {
		t.Errorf("the shell does not keep its folder: %q", got)
	}
	id := backgroundID(t, a.try(t.Context(), "exec", `{"command":"sleep 4713","background":true}`))
	if got := a.call("process", `{"action":"list"}`); !strings.Contains(got, id) {
		t.Errorf("%q does not list %s", got, id)
	}
	if err := a.Close(); err != nil {
		t.Errorf("the program has not ended well: %v", err)
	}

	d := s.server(filepath.Join(t.TempDir(), "d.sock"), tcp)
	p := d.guest(s.token("acme"))
	transport := &mcp.StreamableClientTransport{Endpoint: p.base + "/mcp", HTTPClient: &http.Client{Transport: bearer{p.headers["Authorization"]}}}
	c, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), transport, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	over := &agent{c, t, (*exec.Cmd)(nil)}
	if got := over.call("exec", `{"command":"echo over HTTP"}`); !strings.Contains(got, "over HTTP") {
		t.Errorf("%q", got)
	}
}

// bearer sends a header with each request.
type bearer struct{ authorization string }

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", b.authorization)
	return http.DefaultTransport.RoundTrip(r)
}

// TestKubernetesDoctor holds that doctor finds nothing wrong with the cluster, and that
// nothing gets out of a pod with the profile that the chart installs.
func TestKubernetesDoctor(t *testing.T) {
	profile, err := os.ReadFile(filepath.Join("..", "..", "deploy", "helm", "sandbox", "files", "seccomp.json"))
	if err != nil {
		t.Fatal(err)
	}
	testenv.Require(t, "kube")
	folder := fmt.Sprintf("test-%d", time.Now().UnixNano())
	testenv.KubeNode(t, "run", "sh", "-euc", `mkdir "/var/lib/kubelet/seccomp/$1"; printf '%s' "$2" >"/var/lib/kubelet/seccomp/$1/profile.json"`, "sh", folder, string(profile))
	defer testenv.KubeNode(t, "run", "rm", "-r", "/var/lib/kubelet/seccomp/"+folder)
	s, namespace := podSite(t, `, "seccompProfile": "`+folder+`/profile.json"`, "")
	var d struct {
		Failed   bool
		Checks   []struct{ Name, Status, Detail string }
		Attempts []struct{ Name, Outcome, Seen string }
	}
	s.json(&d, "doctor", "--attack")
	checked := map[string]string{}
	for _, c := range d.Checks {
		if checked[c.Name] = c.Status; c.Status == "fail" {
			t.Errorf("%+v", c)
		}
	}
	for _, name := range []string{"cluster", "cluster-rights", "cluster-nodes", "guest-image", "runtime-class", "pod"} {
		if checked[name] != "ok" {
			t.Errorf("the check %s is %q", name, checked[name])
		}
	}
	if _, looked := checked["engine"]; looked {
		t.Error("an engine is looked for, which pods do not need")
	}
	contained := 0
	for _, a := range d.Attempts {
		switch a.Outcome {
		case "contained":
			contained++
		case "skipped":
		default:
			t.Errorf("%+v", a)
		}
	}
	if contained < 80 || d.Failed {
		t.Errorf("%d attempts were contained, failed %v", contained, d.Failed)
	}
	left, err := testenv.Kubectl(t.Context(), t, "--namespace", namespace, "get", "pods", "-o", "name").Output()
	if err != nil || len(left) > 0 {
		t.Errorf("doctor leaves %s, %v", left, err)
	}
}
