package kubernetes_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/provider/kubernetes"
	"github.com/bulkhead-dev/sandbox/provider/seccomp"
)

// output runs a line in the sandbox and returns what it writes.
func output(t *testing.T, p *kubernetes.Provider, s sandbox.Spec, line string) string {
	t.Helper()
	box, err := p.Open(t.Context(), s)
	must(t, err)
	defer box.Close()
	var out bytes.Buffer
	command, err := box.Start(t.Context(), sandbox.Command{Args: []string{"sh", "-c", line + " 2>&1"}, Stdout: &out})
	must(t, err)
	exit, err := command.Wait()
	must(t, err)
	if exit.Code != 0 {
		t.Fatalf("%s: status %d: %s", line, exit.Code, out.String())
	}
	return strings.TrimSpace(out.String())
}

// apply gives the cluster an object, which is deleted at the end.
func apply(t *testing.T, object string) {
	t.Helper()
	do := func(verb string) {
		args := []string{verb, "-f", "-"}
		if verb == "delete" {
			args = append(args, "--ignore-not-found", "--wait=false")
		}
		cmd := testenv.Kubectl(context.Background(), t, args...)
		cmd.Stdin = strings.NewReader(object)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("kubectl %s: %v: %s", verb, err, out)
		}
	}
	do("apply")
	t.Cleanup(func() { do("delete") })
}

// TestKubeFeatures holds that what settings ask of a pod beside the defaults is what code
// inside finds.
func TestKubeFeatures(t *testing.T) {
	r := newRig(t)
	p := r.provider(t)
	create := func(t *testing.T, key string, options map[string]any) sandbox.Spec {
		t.Helper()
		s := r.spec(key)
		for k, v := range options {
			s.Options[k] = v
		}
		if options["userNamespace"] == "pod" {
			s.UID, s.GID = 1000, 1000 // a user namespace of a pod has 65,536 users
		}
		_, err := p.Create(t.Context(), s)
		must(t, err)
		return s
	}
	t.Run("guest of an image volume", func(t *testing.T) {
		t.Parallel()
		s := create(t, "image-volume", map[string]any{"guestFrom": "imageVolume"})
		if got := output(t, p, s, `touch `+sandbox.GuestDir+`/bin/x 2>/dev/null && echo written; ls `+sandbox.GuestDir+`/bin`); got != "sandbox-guest" {
			t.Errorf("the folder of the guest has %q", got)
		}
	})
	t.Run("user namespace", func(t *testing.T) {
		t.Parallel()
		s := create(t, "user-namespace", map[string]any{"userNamespace": "pod"})
		// INSIDE OUTSIDE COUNT: users inside are others outside.
		f := strings.Fields(output(t, p, s, "cat /proc/self/uid_map"))
		if len(f) != 3 || f[0] != "0" || f[1] == "0" || f[2] != "65536" {
			t.Errorf("users are mapped as %q", f)
		}
		if got := output(t, p, s, "id -u; echo ok >f && cat f"); got != "1000\nok" {
			t.Errorf("it writes %q", got)
		}
	})
	t.Run("claimed volume", func(t *testing.T) {
		t.Parallel()
		class, dir := "sandbox-test-"+r.instance, "/var/lib/kubelet/sandbox-test-"+r.instance
		testenv.KubeNode(t, "run", "mkdir", "-m", "0777", dir)
		apply(t, object(t, map[string]any{
			"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": map[string]any{"name": class},
			"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer",
		}))
		apply(t, object(t, map[string]any{
			"apiVersion": "v1", "kind": "PersistentVolume", "metadata": map[string]any{"name": class},
			"spec": map[string]any{
				"capacity": map[string]any{"storage": "256Mi"}, "accessModes": []string{"ReadWriteOnce"}, "storageClassName": class,
				"persistentVolumeReclaimPolicy": "Retain", "hostPath": map[string]any{"path": dir},
			},
		}))
		s := create(t, "claimed", map[string]any{"workspace": "pvc", "storageClass": class})
		output(t, p, s, "echo kept >file")
		if got := testenv.KubeNode(t, "run", "find", dir, "-name", "file"); !strings.HasPrefix(strings.TrimSpace(got), dir) {
			t.Errorf("the volume has %q", got)
		}
		must(t, p.Remove(t.Context(), s.Name))
		testenv.KubeNode(t, "run", "rm", "-rf", dir)
	})
	t.Run("seccomp profile of the node", func(t *testing.T) {
		t.Parallel()
		profile := filepath.Join(filepath.Dir(r.kubeconfig), "kubelet", "seccomp", "sandbox-test-"+r.instance+".json")
		must(t, os.MkdirAll(filepath.Dir(profile), 0o755))
		must(t, os.WriteFile(profile, []byte(seccomp.Profile()), 0o644))
		t.Cleanup(func() { os.Remove(profile) })
		s := create(t, "seccomp", map[string]any{"seccompProfile": filepath.Base(profile)})
		// The profile refuses user namespaces, which that of the runtime refuses
		// for the lack of a capability alone.
		if got := output(t, p, s, `grep -c "^Seccomp:.2$" /proc/self/status; unshare --user true 2>&1 || true`); !strings.HasPrefix(got, "1\n") || !strings.Contains(got, "not permitted") {
			t.Errorf("it writes %q", got)
		}
		without := r.spec("no-seccomp")
		without.Options["seccompProfile"] = "there/is/none.json"
		if _, err := p.Create(t.Context(), without); sandbox.CodeOf(err) != sandbox.CodeUnavailable || !strings.Contains(err.Error(), "none.json") {
			t.Errorf("a profile that the node does not have: %v", err)
		}
	})
	t.Run("runtime class", func(t *testing.T) {
		t.Parallel()
		name := "sandbox-test-" + r.instance
		s := r.spec("runtime")
		s.Runtime = name
		if _, err := p.Create(t.Context(), s); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("a runtime class that the cluster does not have: %v", err)
		}
		apply(t, object(t, map[string]any{"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": map[string]any{"name": name}, "handler": "runc"}))
		_, err := p.Create(t.Context(), s)
		must(t, err)
		if got := output(t, p, s, "echo runs"); got != "runs" {
			t.Errorf("it writes %q", got)
		}
	})
}

func object(t *testing.T, o map[string]any) string {
	t.Helper()
	text, err := json.Marshal(o)
	must(t, err)
	return string(text)
}
