package testenv_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// hardened is a pod that the profile "restricted" admits. It serves its empty
// folder, so that policies have a connection to cut. A user namespace of a pod
// has the ids below 65536 alone.
const hardened = `
apiVersion: v1
kind: Pod
metadata: {name: %[1]s}
spec:
  hostUsers: %[3]t
  automountServiceAccountToken: false
  enableServiceLinks: false
  terminationGracePeriodSeconds: 0
  securityContext: {runAsNonRoot: true, runAsUser: 20001, runAsGroup: 20001, seccompProfile: {type: RuntimeDefault}}
  containers:
  - name: sandbox
    image: %[2]s
    imagePullPolicy: Never
    command: [python3, -m, http.server, "8080", --directory, /workspace]
    readinessProbe: {tcpSocket: {port: 8080}, periodSeconds: 1}
    securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
    resources: {requests: {cpu: 10m, memory: 32Mi}, limits: {memory: 256Mi}}
    volumeMounts: [{name: workspace, mountPath: /workspace}, {name: image, mountPath: /image}]
  volumes:
  - {name: workspace, emptyDir: {sizeLimit: 16Mi}}
  - {name: image, image: {reference: "%[2]s", pullPolicy: Never}}
---
`

// The cluster of make kube is what tests may rely on: it admits and runs a
// hardened pod, with a user namespace and with an image as a volume, refuses
// others where its namespace says so, and enforces network policies, also
// between the machine and a pod.
func TestKube(t *testing.T) {
	testenv.Require(t, "kube")
	testenv.Require(t, "docker")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	run := func(stdin string, args ...string) (string, error) {
		cmd := testenv.Kubectl(ctx, t, args...)
		cmd.Stdin = strings.NewReader(stdin)
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		err := cmd.Run()
		return strings.TrimSpace(out.String()), err
	}
	must := func(stdin string, args ...string) string {
		t.Helper()
		out, err := run(stdin, args...)
		if err != nil {
			t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return out
	}

	image := strings.TrimSpace(testenv.KubeNode(t, "import", "sandbox:bookworm-slim"))
	if !strings.Contains(image, "@sha256:") {
		t.Fatalf("import printed %q, which is no name by digest", image)
	}
	space := fmt.Sprintf("kube-test-%d", time.Now().UnixNano())
	must("", "create", "namespace", space)
	t.Cleanup(func() {
		if out, err := testenv.Kubectl(context.Background(), t, "delete", "namespace", space, "--wait=false").CombinedOutput(); err != nil {
			t.Errorf("delete namespace %s: %v\n%s", space, err, out)
		}
	})
	must("", "label", "namespace", space, "pod-security.kubernetes.io/enforce=restricted")
	testenv.Success(t, func() error {
		_, err := run("", "-n", space, "get", "serviceaccount", "default")
		return err
	})

	out, err := run("", "-n", space, "run", "privileged", "--image", image, "--privileged")
	if err == nil || !strings.Contains(out, "violates PodSecurity") {
		t.Errorf("a privileged pod: %v\n%s", err, out)
	}

	began := time.Now()
	pods := fmt.Sprintf(hardened, "server", image, true) + fmt.Sprintf(hardened, "client", image, false)
	must(pods, "-n", space, "apply", "-f", "-")
	must("", "-n", space, "wait", "--for=condition=Ready", "pod/server", "pod/client", "--timeout=2m")
	t.Logf("two hardened pods were ready after %v", time.Since(began).Round(time.Millisecond))

	began = time.Now()
	state := must("", "-n", space, "exec", "client", "--", "cat", "/proc/self/status")
	t.Logf("exec took %v", time.Since(began).Round(time.Millisecond))
	for _, line := range []string{"Uid:\t20001\t20001\t20001\t20001", "CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"} {
		if !strings.Contains(state, line) {
			t.Errorf("a process of the pod lacks %q:\n%s", line, state)
		}
	}
	for what, script := range map[string]string{
		"writes into the image":           "echo >/file",
		"has a token of the API server's": "ls /var/run/secrets",
	} {
		if out, err := run("", "-n", space, "exec", "client", "--", "sh", "-c", script); err == nil {
			t.Errorf("a process of the pod %s\n%s", what, out)
		}
	}

	if users := must("", "-n", space, "exec", "client", "--", "cat", "/proc/self/uid_map"); strings.Contains(users, "4294967295") {
		t.Errorf("a pod without the host's users has all of them: %s", users)
	}
	must("", "-n", space, "exec", "client", "--", "test", "-x", "/image/usr/bin/python3")

	address := must("", "-n", space, "get", "pod", "server", "-o", "jsonpath={.status.podIP}")
	connect := func() error {
		out, err := run("", "-n", space, "exec", "client", "--", "curl", "-sS", "--max-time", "2", "-o", "/dev/null", "http://"+address+":8080/")
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	}
	if err := connect(); err != nil {
		t.Fatalf("without a policy one pod does not reach the other: %v", err)
	}
	dial := func() error {
		conn, err := net.DialTimeout("tcp", net.JoinHostPort(address, "8080"), 2*time.Second)
		if err == nil {
			err = conn.Close()
		}
		return err
	}
	if err := dial(); err != nil {
		t.Fatalf("without a policy the machine does not reach a pod: %v", err)
	}
	began = time.Now()
	must(`{"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "none"},
		"spec": {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}}`, "-n", space, "apply", "-f", "-")
	testenv.Until(t, "a policy that denies everything is enforced", func() bool { return connect() != nil })
	t.Logf("the policy was enforced at most %v after it was made", time.Since(began).Round(time.Millisecond))
	if err := connect(); err == nil || !strings.Contains(err.Error(), "exit code 28") && !strings.Contains(err.Error(), "exit code 7") {
		t.Errorf("with a policy that denies everything, connecting gives %v; want curl's status 7 or 28", err)
	}
	if err := dial(); err == nil {
		t.Error("with a policy that denies everything the machine reaches a pod")
	}
	must("", "-n", space, "delete", "networkpolicy", "none")
	testenv.Success(t, connect)
	testenv.Success(t, dial)
}
