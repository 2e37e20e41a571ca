package testenv

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// A Cluster is one that scripts/kube.sh has started for one test.
type Cluster struct {
	number string
	state  string // its folder
}

// OwnKube starts a cluster of one node that the test may disturb, and stops it at
// the end of the test. It skips the test as Require(t, "kube") does. args are
// those of "start". Where SANDBOX_KUBE_OWN is a number, it is that cluster, which
// is started unless it runs, and left running.
func OwnKube(t testing.TB, args ...string) Cluster {
	t.Helper()
	Require(t, "kube")
	if number := os.Getenv("SANDBOX_KUBE_OWN"); number != "" {
		c := cluster(number)
		c.Node(t, append([]string{"start"}, args...)...)
		return c
	}
	// The lock ends with this process, so what a killed one has left is found.
	for number := 60; number > 40; number-- {
		c := cluster(strconv.Itoa(number))
		lock, err := os.OpenFile(filepath.Join(os.TempDir(), "sandbox-kube-"+c.number+".test"), os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
			lock.Close()
			continue
		}
		t.Cleanup(func() {
			if _, err := c.run(context.Background(), "stop"); err != nil {
				t.Error(err)
			}
			lock.Close()
		})
		c.Node(t, "stop")
		c.Node(t, append([]string{"start"}, args...)...)
		return c
	}
	t.Fatal("all clusters of tests are in use")
	return Cluster{}
}

func cluster(number string) Cluster {
	return Cluster{number, filepath.Join("/var/lib/sandbox-kube", number)}
}

// Kubeconfig returns the path of a kubeconfig file of an administrator.
func (c Cluster) Kubeconfig() string { return filepath.Join(c.state, "kubeconfig") }

// Kubectl returns a command of kubectl with the credentials of an administrator.
func (c Cluster) Kubectl(ctx context.Context, args ...string) *exec.Cmd {
	return kubectl(ctx, c.Kubeconfig(), args...)
}

// Node runs scripts/kube.sh for the cluster and returns what it prints.
func (c Cluster) Node(t testing.TB, args ...string) string {
	t.Helper()
	out, err := c.run(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Signal sends a signal to a program of the cluster. It returns an error when the
// program does not run at that moment.
func (c Cluster) Signal(ctx context.Context, program, signal string) error {
	_, err := c.run(ctx, "signal", program, signal)
	return err
}

func (c Cluster) run(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(root(), "scripts", "kube.sh"), append([]string{"--number", c.number}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("kube.sh %s: %w\n%s", strings.Join(args, " "), err, stderr.Bytes())
	}
	return string(out), nil
}
