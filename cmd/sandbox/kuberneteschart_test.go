//go:build !sandbox_front && !sandbox_engine

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// An installation is the chart in a namespace of its own.
type installation struct {
	*site
	namespace string
	rendered  string // what was applied
	secret    string // of an admin
}

func (i *installation) kubectl(stdin string, args ...string) string {
	i.t.Helper()
	ctx, done := context.WithTimeout(i.t.Context(), 4*time.Minute)
	defer done()
	cmd := testenv.Kubectl(ctx, i.t, append([]string{"--namespace", i.namespace}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		about, _ := testenv.Kubectl(ctx, i.t, "--namespace", i.namespace, "get", "pods,events", "-o", "wide").CombinedOutput()
		logs, _ := testenv.Kubectl(ctx, i.t, "--namespace", i.namespace, "logs", "deployment/sandbox", "--tail=20").CombinedOutput()
		i.t.Fatalf("kubectl %v: %v: %s\n%s\n%s", args, err, out, about, logs)
	}
	return strings.TrimSpace(string(out))
}

// install builds the image of the daemon from this tree, and applies what the chart
// renders with these values.
func install(t *testing.T, values ...string) *installation {
	t.Helper()
	testenv.Require(t, "helm")
	i := &installation{namespace: testenv.KubeNamespace(t), site: newSite(t)}
	bin := t.TempDir()
	buildProgram(t, filepath.Join(bin, "sandbox-daemon"), "")
	guest, err := os.ReadFile(testenv.TLSGuest(t))
	if err == nil {
		err = os.WriteFile(filepath.Join(bin, "sandbox-guest-tls"), guest, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	tag := "sandbox-daemon:" + i.namespace
	if out, err := exec.CommandContext(t.Context(), filepath.Join("..", "..", "scripts", "daemon-image.sh"), bin, tag).CombinedOutput(); err != nil {
		t.Fatalf("the image: %v: %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("docker", "rmi", tag).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	repository, digest, _ := strings.Cut(strings.TrimSpace(testenv.KubeNode(t, "import", tag)), "@")
	image := strings.TrimSpace(testenv.KubeNode(t, "import", "sandbox:bookworm-slim"))
	args := []string{"template", "sandbox", filepath.Join("..", "..", "deploy", "helm", "sandbox"), "--namespace", i.namespace, "--kube-version", "1.34.4",
		"--set", "image.repository=" + repository, "--set", "image.digest=" + digest, "--set", "image.pullPolicy=Never", "--set", "sandbox.image=" + image}
	for _, v := range append(values, "settings.kubernetes.workspaceSize=64m", "settings.kubernetes.requestPercent=1", "resources.requests.cpu=10m") {
		args = append(args, "--set", v)
	}
	out, err := testenv.Helm(t.Context(), t, args...).Output()
	if err != nil {
		var exit *exec.ExitError
		errors.As(err, &exit)
		t.Fatalf("%v: %s", err, exit.Stderr)
	}
	i.rendered = string(out)
	made, err := i.command("token", "create", "--role", "admin").Output()
	if err != nil {
		t.Fatal(err)
	}
	i.secret = strings.TrimSpace(string(made))
	i.kubectl("", "create", "secret", "generic", "sandbox-token", "--from-literal=token="+i.secret)
	i.kubectl(i.rendered, "apply", "-f", "-")
	return i
}

// forward reaches the daemon from this machine through the API server, until the end of
// the test, and returns its address.
func (i *installation) forward(to string) string {
	i.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	cmd := testenv.Kubectl(ctx, i.t, "--namespace", i.namespace, "port-forward", to, ":80")
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		i.t.Fatal(err)
	}
	i.t.Cleanup(func() { stop(); cmd.Wait() })
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if rest, ok := strings.CutPrefix(lines.Text(), "Forwarding from 127.0.0.1:"); ok {
			port, _, _ := strings.Cut(rest, " ")
			go func() {
				for lines.Scan() { // one line for each connection
				}
			}()
			return "tcp:127.0.0.1:" + port
		}
	}
	i.t.Fatalf("kubectl port-forward has ended: %v: %s", lines.Err(), complaints.Bytes())
	return ""
}

// TestKubernetesChart holds that what the chart renders runs on a real cluster: the
// daemon becomes ready, reaches sandboxes by the port of their guests alone, serves them
// with the profile that is installed on the node, ends what runs before it ends itself,
// and leaves nothing.
func TestKubernetesChart(t *testing.T) {
	t.Parallel()
	testenv.Require(t, "kube")
	profile := fmt.Sprintf("test-%d/profile.json", time.Now().UnixNano())
	i := install(t, "seccomp.enabled=true", "seccomp.profile="+profile, "settings.kubernetes.way=tls")
	defer testenv.KubeNode(t, "run", "rm", "-rf", "/var/lib/kubelet/seccomp/"+filepath.Dir(profile))
	i.kubectl("", "rollout", "status", "daemonset/sandbox-seccomp", "--timeout=120s")
	i.kubectl("", "rollout", "status", "deployment/sandbox", "--timeout=120s")

	// All that is optional is accepted by the API server as well, but for what needs
	// resources that are not installed.
	more, err := testenv.Helm(t.Context(), t, "template", "sandbox", filepath.Join("..", "..", "deploy", "helm", "sandbox"), "--namespace", i.namespace, "--kube-version", "1.34.4",
		"--values", filepath.Join("..", "..", "deploy", "helm", "manifests.yaml"), "--set", "autoscaling.enabled=true", "--show-only", "templates/horizontalpodautoscaler.yaml",
		"--set", "namespaces[0].name="+i.namespace+"-acme", "--set", "namespaces[0].quota.pods=50", "--show-only", "templates/namespaces.yaml").Output()
	if err != nil {
		t.Fatal(err)
	}
	for object := range strings.SplitSeq(string(more), "---\n") {
		if strings.Contains(object, "kind: HorizontalPodAutoscaler") || strings.Contains(object, "kind: Namespace") {
			i.kubectl(object, "apply", "--dry-run=server", "-f", "-")
		}
	}

	at := i.forward("service/sandbox")
	i.env = append(i.env, "SANDBOX_TOKEN="+i.secret)
	i.prints("from the cluster\n", "", "--server", at, "run", "--", "echo", "from the cluster")
	i.prints("2\n", "", "--server", at, "exec", "--", "sh", "-c", "sed -n 's/^Seccomp:[^0-9]*//p' /proc/self/status")
	if out := i.kubectl("", "get", "pods", "--selector", "dev.bulkhead.sandbox.format", "-o", "jsonpath={.items[*].spec.securityContext.seccompProfile.localhostProfile}"); out != profile {
		t.Errorf("the sandbox has the profile %q", out)
	}

	// Nothing that stands in the pod of the daemon is open to its sandboxes.
	ip := i.kubectl("", "get", "pods", "--selector", "app.kubernetes.io/component=daemon", "-o", "jsonpath={.items[0].status.podIP}")
	i.said(1, "", "--server", at, "exec", "--", "python3", "-c", "import socket; socket.create_connection(('"+ip+"', 8080), 3)")

	// A request without the token is refused.
	i.env = i.env[:len(i.env)-1]
	if _, said := i.said(1, "", "--server", at, "list"); !strings.Contains(said, "token") {
		t.Errorf("without a token: %s", said)
	}
	i.env = append(i.env, "SANDBOX_TOKEN="+i.secret)

	// What runs has its time to end.
	old := i.kubectl("", "get", "pods", "--selector", "app.kubernetes.io/component=daemon", "-o", "jsonpath={.items[0].metadata.name}")
	cmd := i.command("--server", at, "run", "--", "sh", "-c", "echo begun; sleep 4; echo ended")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	if line, err := lines.ReadString('\n'); line != "begun\n" {
		t.Fatalf("%q, %v", line, err)
	}
	i.kubectl("", "delete", "pod", old, "--wait=false")
	if line, err := lines.ReadString('\n'); line != "ended\n" {
		t.Errorf("a command ended with its daemon: %q, %v", line, err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("a command ended with its daemon: %v", err)
	}
	i.kubectl("", "wait", "--for=delete", "pod/"+old, "--timeout=120s")
	i.kubectl("", "rollout", "status", "deployment/sandbox", "--timeout=120s")

	// It all goes.
	i.kubectl("", "delete", "pods", "--selector", "dev.bulkhead.sandbox.format")
	i.kubectl(i.rendered, "delete", "--wait=true", "-f", "-")
	i.kubectl("", "wait", "--for=delete", "pods", "--all", "--timeout=120s")
	var left struct {
		Items []struct{ Kind, Metadata any }
	}
	text := i.kubectl("", "get", "pods,deployments,daemonsets,services,serviceaccounts,roles,rolebindings,networkpolicies,poddisruptionbudgets,configmaps", "-o", "json", "--selector", "app.kubernetes.io/instance=sandbox")
	if err := json.Unmarshal([]byte(text), &left); err != nil || len(left.Items) > 0 {
		t.Errorf("left are %+v, %v", left.Items, err)
	}
}
