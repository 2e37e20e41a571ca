package testenv

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// Kube returns the path of a kubeconfig file of an administrator of the cluster
// that `make kube` starts, or skips the test as Require(t, "kube") does. The
// cluster is shared: a test makes a namespace of its own and deletes it.
func Kube(t testing.TB) (kubeconfig string) {
	t.Helper()
	Require(t, "kube")
	return kubeconfigPath()
}

// Kubectl returns a command of kubectl, in the version of the cluster of [Kube]
// and with its kubeconfig.
func Kubectl(ctx context.Context, t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	return kubectl(ctx, Kube(t), args...)
}

// KubeNode runs scripts/kube.sh for the cluster of [Kube], such as with "import"
// and the names of images that the node is to have, or with "signal", the name
// of a program of the cluster and a signal. It returns what the command prints.
func KubeNode(t testing.TB, args ...string) string {
	t.Helper()
	Require(t, "kube")
	cmd := exec.CommandContext(t.Context(), filepath.Join(root(), "scripts", "kube.sh"), args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("kube.sh %s: %v\n%s", strings.Join(args, " "), err, stderr.Bytes())
	}
	return string(out)
}

// KubeGuest gives a node an image that has nothing but [TLSGuest], and returns its
// name, by digest. tag makes the image a test's own; node is [KubeNode] or the same of
// another cluster.
func KubeGuest(t testing.TB, tag string, node func(testing.TB, ...string) string) string {
	t.Helper()
	Require(t, "docker")
	name := "sandbox-guest:test-" + tag
	pack := exec.Command("tar", "--create", "--owner=0", "--group=0", "--mode=0755", "--transform=s|.*|sandbox-guest|", "--absolute-names", TLSGuest(t))
	load := exec.Command("docker", "import", "-", name)
	var err error
	if load.Stdin, err = pack.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	if err := pack.Start(); err != nil {
		t.Fatal(err)
	}
	out, err := load.CombinedOutput()
	if err = errors.Join(err, pack.Wait()); err != nil {
		t.Fatalf("the image of the guest: %v: %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("docker", "rmi", name).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	return strings.TrimSpace(node(t, "import", name))
}

// KubeAddress returns the address of this machine, as the node of the cluster sees it.
func KubeAddress(t testing.TB) string {
	t.Helper()
	out, err := Kubectl(t.Context(), t, "get", "nodes", "-o", "jsonpath={.items[0].status.addresses[?(@.type=='InternalIP')].address}").Output()
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("udp", net.JoinHostPort(string(out), "9")) // which sends nothing
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return c.LocalAddr().(*net.UDPAddr).IP.String()
}

// kubeMissing asks once a process whether the API server is ready.
var kubeMissing = sync.OnceValue(func() string {
	const hint = ", which `make kube` starts"
	kubeconfig := kubeconfigPath()
	if _, err := os.Stat(kubeconfig); err != nil {
		return "there is no cluster" + hint + ": " + err.Error()
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if out, err := kubectl(ctx, kubeconfig, "get", "--raw", "/readyz").CombinedOutput(); err != nil {
		return fmt.Sprintf("the API server is not ready%s: %v\n%s", hint, err, out)
	}
	return ""
})

func kubectl(ctx context.Context, kubeconfig string, args ...string) *exec.Cmd {
	program := filepath.Join(root(), "bin", "kube", "kubectl")
	return exec.CommandContext(ctx, program, append([]string{"--kubeconfig", kubeconfig}, args...)...)
}

// kubeconfigPath is where scripts/kube.sh writes it for the cluster that the
// environment names.
func kubeconfigPath() string {
	number := cmp.Or(os.Getenv("SANDBOX_KUBE_NUMBER"), "0")
	state := cmp.Or(os.Getenv("SANDBOX_KUBE_STATE"), filepath.Join("/var/lib/sandbox-kube", number))
	return filepath.Join(state, "kubeconfig")
}

// KubeNamespace makes a namespace in the cluster of [Kube] and returns its name. It
// is deleted, with all that is in it, at the end of the test.
func KubeNamespace(t testing.TB) string {
	t.Helper()
	Require(t, "kube")
	var id [6]byte
	rand.Read(id[:]) // never fails
	name := "test-" + hex.EncodeToString(id[:])
	if out, err := Kubectl(t.Context(), t, "create", "namespace", name).CombinedOutput(); err != nil {
		t.Fatalf("make a namespace: %v: %s", err, out)
	}
	t.Cleanup(func() {
		ctx, done := context.WithTimeout(context.Background(), 5*time.Minute)
		defer done()
		if out, err := Kubectl(ctx, t, "delete", "namespace", name, "--wait=true").CombinedOutput(); err != nil {
			t.Errorf("delete the namespace: %v: %s", err, out)
		}
	})
	return name
}

// KubeProgram gives the node of [Kube] an image that has nothing but the program at
// path, under the name /NAME, and returns the image by its digest.
func KubeProgram(t testing.TB, path, name string) string {
	t.Helper()
	Require(t, "docker")
	var id [6]byte
	rand.Read(id[:]) // never fails
	tag := name + ":test-" + hex.EncodeToString(id[:])
	pack := exec.Command("tar", "--create", "--owner=0", "--group=0", "--mode=0755", "--transform=s|.*|"+name+"|", "--absolute-names", path)
	load := exec.Command("docker", "import", "-", tag)
	var err error
	if load.Stdin, err = pack.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	if err := pack.Start(); err != nil {
		t.Fatal(err)
	}
	out, err := load.CombinedOutput()
	if err = errors.Join(err, pack.Wait()); err != nil {
		t.Fatalf("the image of %s: %v: %s", path, err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("docker", "rmi", tag).CombinedOutput(); err != nil {
			t.Errorf("remove the image %s: %v: %s", tag, err, out)
		}
	})
	return strings.TrimSpace(KubeNode(t, "import", tag))
}

// Helm returns a command of the program that renders the chart.
func Helm(ctx context.Context, t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	Require(t, "helm")
	cmd := exec.CommandContext(ctx, helmPath(), args...)
	home := t.TempDir() // what this user's settings of helm say does not count
	cmd.Env = append(os.Environ(), "HELM_CONFIG_HOME="+home, "HELM_CACHE_HOME="+home, "HELM_DATA_HOME="+home)
	return cmd
}

func helmPath() string { return filepath.Join(root(), "bin", "helm") }

func helmMissing() string {
	if _, err := os.Stat(helmPath()); err != nil {
		return "`make helm` builds it: " + err.Error()
	}
	return ""
}
