package kubernetes_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/policy/hardening"
	"github.com/bulkhead-dev/sandbox/provider"
	"github.com/bulkhead-dev/sandbox/provider/kubernetes"
	"github.com/bulkhead-dev/sandbox/provider/providertest"
	"github.com/bulkhead-dev/sandbox/provider/seccomp"
)

// TestMain lets more tests run at once than there are processors: a test waits for the
// kubelet most of the time.
func TestMain(m *testing.M) {
	testenv.AtOnce(6)
	os.Exit(m.Run())
}

// A rig is a provider on the cluster of [testenv.Kube], whose node runs on this
// machine. All sandboxes of its instance are removed at the end.
type rig struct {
	testing.TB
	kubeconfig   string
	instance     string
	namespace    string                                    // empty is that of the kubeconfig
	folder       string                                    // a host folder that stands for a volume of the pod
	image, guest string                                    // by digest; the node has them
	address      string                                    // of this machine, as the cluster sees it
	node         func(t testing.TB, args ...string) string // runs scripts/kube.sh
}

// newRig returns a rig on the cluster that all tests share.
func newRig(t testing.TB) *rig { return newRigOn(t, testenv.Kube(t), testenv.KubeNode) }

func newRigOn(t testing.TB, kubeconfig string, node func(testing.TB, ...string) string) *rig {
	t.Helper()
	testenv.Require(t, "docker")
	var id [8]byte
	rand.Read(id[:])
	r := &rig{TB: t, kubeconfig: kubeconfig, node: node, instance: hex.EncodeToString(id[:]), folder: t.TempDir()}
	r.image = strings.TrimSpace(node(t, "import", "sandbox:bookworm-slim"))
	r.guest = testenv.KubeGuest(t, r.instance, node)
	r.address = testenv.KubeAddress(t)
	p := r.provider(t)
	must(t, p.Probe(t.Context()))
	t.Cleanup(func() {
		ctx, done := context.WithTimeout(context.Background(), 5*time.Minute)
		defer done()
		infos, err := p.List(ctx, sandbox.Filter{Instance: r.instance})
		if err != nil {
			t.Error(err)
		}
		for _, info := range infos {
			if err := p.Remove(ctx, info.Name); err != nil {
				t.Error(err)
			}
		}
	})
	return r
}

func (r *rig) provider(t testing.TB) *kubernetes.Provider {
	return r.providerWith(t, kubernetes.Options{Kubeconfig: r.kubeconfig, Namespace: r.namespace})
}

func (r *rig) providerWith(t testing.TB, o kubernetes.Options) *kubernetes.Provider {
	t.Helper()
	o.World = r.world
	p, err := kubernetes.New(o)
	must(t, err)
	t.Cleanup(func() { p.Close() })
	return p
}

func (r *rig) world() hardening.World {
	return hardening.World{Canonical: func(p string) (string, error) { return p, nil }, Workspaces: []string{"/srv/workspaces"}}
}

// spec is the hardened Spec for key.
func (r *rig) spec(key string) sandbox.Spec {
	sum := sha256.Sum256([]byte(r.instance + key))
	name := "sbx-t-" + hex.EncodeToString(sum[:8])
	uid := 100000 + int(sum[0])<<8 + int(sum[1])
	return sandbox.Spec{
		Format: sandbox.SpecFormat, Name: name, Kind: sandbox.KindSandbox, Provider: kubernetes.Name,
		Owner: sandbox.Owner{Instance: r.instance, Tenant: "t", Agent: "main", Session: key, Scope: sandbox.ScopeSession, ScopeKey: key},
		Image: r.image, ImageID: r.image, Workdir: sandbox.WorkspaceDir, UID: uid, GID: uid,
		Env:    map[string]string{"LANG": "C.UTF-8", "HOME": sandbox.HomeDir},
		Mounts: []sandbox.Mount{{Source: "/srv/workspaces/" + name, Target: sandbox.WorkspaceDir, Role: sandbox.RoleWorkspace}},
		Tmpfs: []sandbox.Tmpfs{
			{Target: "/tmp", Size: 64 << 20, Exec: true, Mode: 0o1777},
			{Target: sandbox.HomeDir, Size: 32 << 20, Exec: true, Mode: 0o700, Owned: true},
			{Target: "/var/tmp", Size: 16 << 20, Exec: true, Mode: 0o1777},
			{Target: "/run", Size: 8 << 20, Exec: true, Mode: 0o755, Owned: true},
		},
		ReadOnlyRoot: true, Network: "none",
		Security:  sandbox.Security{CapDrop: []string{"ALL"}, NoNewPrivileges: true, Seccomp: seccomp.Profile()},
		Resources: sandbox.Resources{Memory: 256 << 20, MemorySwap: 256 << 20, NanoCPUs: 1e9, PIDs: 512, ShmSize: 8 << 20, Ulimits: []sandbox.Ulimit{{Name: "nofile", Soft: 4096, Hard: 8192}}},
		Options:   map[string]any{"guestImage": r.guest, "imagePullPolicy": "Never", "workspaceSize": "256Mi", "requestPercent": 2},
	}
}

// withFolder lets a Spec mount the folder of the rig read-only: the pod gets a
// volume with the same content in its place.
type withFolder struct {
	*kubernetes.Provider
	folder string
	image  string
}

func (w withFolder) Create(ctx context.Context, s sandbox.Spec) (sandbox.Info, error) {
	var at string
	mounts := s.Mounts
	s.Mounts = nil
	for _, m := range mounts {
		if m.Source == w.folder {
			at = m.Target
			continue
		}
		s.Mounts = append(s.Mounts, m)
	}
	if at == "" {
		return w.Provider.Create(ctx, s)
	}
	w.Provider.Adjust(func(p *corev1.Pod) {
		limit := resource.MustParse("1Mi")
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "folder", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: &limit}}})
		fill := *p.Spec.InitContainers[0].DeepCopy()
		fill.Name, fill.Image = "fill", w.image
		fill.Command = []string{"sh", "-c", `printf '%s' "$1" >/folder/file && chmod 0666 /folder/file`, "sh", providertest.FolderContent}
		fill.VolumeMounts = []corev1.VolumeMount{{Name: "folder", MountPath: "/folder"}}
		p.Spec.InitContainers = append(p.Spec.InitContainers, fill)
		c := &p.Spec.Containers[0]
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "folder", MountPath: at, ReadOnly: true})
	})
	return w.Provider.Create(ctx, s)
}

// TestKubeConformance runs the suite of all providers on a real cluster, with guests that
// are reached by their ports.
func TestKubeConformance(t *testing.T) {
	r := newRig(t)
	conforms(t, r, r.byPort)
}

// TestKubeConformanceStream is the same with guests that are reached through the API
// server.
func TestKubeConformanceStream(t *testing.T) {
	testenv.Exhaustive(t, "the suite by exec streams")
	r := newRig(t)
	conforms(t, r, func(key string) sandbox.Spec { return with(r.spec(key), "way", "exec") })
}

func conforms(t *testing.T, r *rig, spec func(key string) sandbox.Spec) {
	kubectl := func(t testing.TB, args ...string) string {
		t.Helper()
		out, err := testenv.Kubectl(context.Background(), t, args...).CombinedOutput()
		if err != nil {
			t.Fatalf("kubectl %v: %v: %s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	// restart ends the first process of the pod from the node and waits until the
	// kubelet has started it again.
	restart := func(t testing.TB, _ sandbox.Provider, name string) {
		t.Helper()
		count := func() string {
			return kubectl(t, "get", "pod", name, "-o", "jsonpath={.status.containerStatuses[0].restartCount} {.status.containerStatuses[0].state.running.startedAt}")
		}
		before, _, _ := strings.Cut(count(), " ")
		killGuest(t, kubectl(t, "get", "pod", name, "-o", "jsonpath={.metadata.uid}"))
		for deadline := time.Now().Add(2 * time.Minute); ; {
			n, since, _ := strings.Cut(count(), " ")
			if n != before && since != "" {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("the container was not restarted: %q", count())
			}
		}
	}
	at := func(t testing.TB, server string) sandbox.Provider {
		t.Helper()
		file := filepath.Join(t.TempDir(), "kubeconfig")
		must(t, os.WriteFile(file, []byte("apiVersion: v1\nkind: Config\ncurrent-context: x\nclusters: [{name: x, cluster: {server: \""+server+"\"}}]\nusers: [{name: x, user: {token: x}}]\ncontexts: [{name: x, context: {cluster: x, user: x}}]\n"), 0o600))
		p, err := kubernetes.New(kubernetes.Options{Kubeconfig: file, World: r.world, Call: time.Second})
		must(t, err)
		t.Cleanup(func() { p.Close() })
		return p
	}
	providertest.Run(t, providertest.Harness{
		New:       func(t testing.TB) sandbox.Provider { return withFolder{r.provider(t), r.folder, r.image} },
		Spec:      func(_ testing.TB, key string) sandbox.Spec { return spec(key) },
		Reconnect: func(t testing.TB, _ sandbox.Provider) sandbox.Provider { return r.provider(t) },
		Folder:    func(testing.TB, sandbox.Provider) string { return r.folder },
		Behind: providertest.Behind{
			Stop: restart, Restart: restart,
			Destroy: func(t testing.TB, _ sandbox.Provider, name string) {
				t.Helper()
				kubectl(t, "delete", "pod", name, "--wait=true")
			},
		},
		Down: func(t testing.TB) sandbox.Provider {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			must(t, err)
			l.Close()
			return at(t, "http://"+l.Addr().String())
		},
		Hanging: func(t testing.TB) sandbox.Provider {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			must(t, err)
			t.Cleanup(func() { l.Close() })
			return at(t, "http://"+l.Addr().String())
		},
		Together: true,
		Without: map[string]string{
			"without a way out nothing is reached":    "a pod has an interface beside lo, which the network policy closes; each Create tries it",
			"onStart lines run again after a restart": "volumes in memory are the pod's and outlive a restart of its container, so the traces of both runs are there",
			"stopped behind our back":                 "the kubelet starts a container again that has ended",
			"paused behind our back":                  "pods are not paused",
		},
	})
}

// killGuest kills the first process of the container of the pod, which runs on this
// machine.
func killGuest(t testing.TB, uid string) {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	must(t, err)
	for _, dir := range dirs {
		group, _ := os.ReadFile(dir + "/cgroup")
		status, _ := os.ReadFile(dir + "/status")
		comm, _ := os.ReadFile(dir + "/cmdline")
		if bytes.Contains(group, []byte(uid)) && bytes.Contains(comm, []byte("sandbox-guest\x00init")) && firstProcess(status) {
			must(t, exec.Command("kill", "-KILL", filepath.Base(dir)).Run())
			return
		}
	}
	t.Fatalf("the guest of the pod %s does not run on this machine", uid)
}

// firstProcess reports whether a process is number 1 of its own namespace.
func firstProcess(status []byte) bool {
	for line := range strings.Lines(string(status)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "NSpid:" {
			return f[len(f)-1] == "1"
		}
	}
	return false
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var _ provider.Holder = withFolder{}
