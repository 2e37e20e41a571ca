package kubernetes

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/policy/hardening"
	"github.com/bulkhead-dev/sandbox/provider/seccomp"
)

var update = flag.Bool("update", false, "write golden files")

// specOf returns a complete Spec without sources that have to exist.
func specOf(options map[string]any) sandbox.Spec {
	if options == nil {
		options = map[string]any{"guestImage": "registry.example/guest@sha256:" + strings.Repeat("a", 64)}
	}
	return sandbox.Spec{
		Format: sandbox.SpecFormat, Name: "sbx-chat-42-0123456789abcdef", Kind: sandbox.KindSandbox, Provider: Name,
		Owner: sandbox.Owner{Instance: "0123456789abcdef", Tenant: "Grüße, tenant", Agent: "main", Session: "chat 42", Scope: sandbox.ScopeSession, ScopeKey: "chat 42"},
		Image: "debian:bookworm", ImageID: "debian:bookworm", Workdir: sandbox.WorkspaceDir, UID: 70001, GID: 70002,
		Env:    map[string]string{"SECRET": "not in the pod"},
		Mounts: []sandbox.Mount{{Source: "/state/workspaces/x", Target: sandbox.WorkspaceDir, Role: sandbox.RoleWorkspace}},
		Tmpfs: []sandbox.Tmpfs{
			{Target: "/tmp", Size: 64 << 20, Exec: true, Mode: 0o1777},
			{Target: sandbox.HomeDir, Size: 32 << 20, Exec: true, Mode: 0o700, Owned: true},
		},
		ReadOnlyRoot: true, Network: "none", ExtraHosts: []string{"db:10.0.0.1", "cache:10.0.0.1"},
		Security: sandbox.Security{CapDrop: []string{"ALL"}, NoNewPrivileges: true, Seccomp: seccomp.Profile()},
		Resources: sandbox.Resources{Memory: 256 << 20, MemorySwap: 256 << 20, NanoCPUs: 15e8, PIDs: 128, ShmSize: 8 << 20,
			Ulimits: []sandbox.Ulimit{{Name: "nofile", Soft: 4096, Hard: 8192}}},
		Options: options,
	}
}

// TestPlan compares pods with golden files.
func TestPlan(t *testing.T) {
	at := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	guest := "registry.example/guest@sha256:" + strings.Repeat("a", 64)
	for name, change := range map[string]func(*sandbox.Spec){
		"plain": func(*sandbox.Spec) {},
		"port": func(s *sandbox.Spec) {
			s.Options["way"], s.Options["wayPort"], s.Options["wayFromNamespace"] = "auto", int64(8443), "system"
			s.Options["wayFromLabels"] = map[string]any{"app": "sandboxd"}
		},
		"everything": func(s *sandbox.Spec) {
			s.Runtime, s.Network, s.DNS = "gvisor", "bridge", []string{"10.0.0.53"}
			s.Security.AppArmor = "sandbox"
			s.Mounts = append(s.Mounts, sandbox.Mount{Source: "/h", Target: sandbox.HomeDir, Role: sandbox.RoleHome, Size: 1 << 30},
				sandbox.Mount{Source: "/state/egress/trust", Target: sandbox.TrustDir, ReadOnly: true, Role: sandbox.RoleTrust})
			s.Tmpfs = s.Tmpfs[:1]
			s.Options = map[string]any{
				"guestImage": guest, "guestFrom": "imageVolume", "workspace": "pvc", "workspaceSize": "10Gi", "storageClass": "fast",
				"imagePullPolicy": "Always", "imagePullSecrets": []any{"registry"}, "nodeSelector": map[string]any{"sandbox": "yes"},
				"seccompProfile": "profiles/sandbox.json", "userNamespace": "pod", "requestPercent": float64(50),
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := specOf(map[string]any{"guestImage": guest})
			change(&s)
			pod, err := Plan(s, "hash", at)
			if err != nil {
				t.Fatal(err)
			}
			if err := checkPod(pod); err != nil {
				t.Errorf("the plan is refused: %v", err)
			}
			got, err := json.MarshalIndent(pod, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(got), "not in the pod") {
				t.Error("the pod holds a value of the environment")
			}
			file := filepath.Join("testdata", name+".json")
			if *update {
				if err := os.WriteFile(file, append(got, '\n'), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(strings.TrimSpace(string(want)), string(got)); diff != "" {
				t.Errorf("the pod differs (-want +got), -update writes it:\n%s", diff)
			}
		})
	}
}

// TestOptions holds which options are taken, and that an error names the option.
func TestOptions(t *testing.T) {
	for key, bad := range map[string][]any{
		"guestImage": {1, "", "a b"}, "guestFrom": {"disk"}, "workspace": {"hostPath"}, "workspaceSize": {"much", int64(1), 1.5},
		"storageClass": {"fast"}, "imagePullPolicy": {"Sometimes"}, "imagePullSecrets": {"x", []any{1}}, "nodeSelector": {"x", map[string]any{"a": 1}},
		"seccompProfile": {"/etc/passwd", "../x", "a/../b", "unconfined/"}, "userNamespace": {"yes"}, "requestPercent": {0, 101, 2.5, "x"},
		"networkPolicy": {"off"}, "privileged": {true},
	} {
		for _, v := range bad {
			_, err := shapeOf(map[string]any{key: v})
			var e *sandbox.Error
			if !asError(err, &e) || e.Code != sandbox.CodeValidation || e.Field != "providerOptions."+key {
				t.Errorf("%s: %v is taken, or the error does not name the option: %v", key, v, err)
			}
		}
	}
	if _, err := Plan(specOf(map[string]any{}), "h", time.Now()); sandbox.CodeOf(err) != sandbox.CodeValidation || !strings.Contains(err.Error(), "guestImage") {
		t.Errorf("without an image of the guest: %v", err)
	}
}

// TestCheckSpec holds what is refused before anything is asked of the cluster.
func TestCheckSpec(t *testing.T) {
	world := hardening.World{Canonical: func(p string) (string, error) { return p, nil }, Workspaces: []string{"/state/workspaces"}}
	good := specOf(nil)
	good.Mounts[0].Source = "/state/workspaces/" + good.Name
	if err := checkSpec(good, world); err != nil {
		t.Fatalf("the plain one: %v", err)
	}
	for name, tt := range map[string]struct {
		change func(*sandbox.Spec)
		code   sandbox.Code
	}{
		"bind": {func(s *sandbox.Spec) {
			s.Mounts = append(s.Mounts, sandbox.Mount{Source: "/srv/data", Target: "/data", ReadOnly: true, Role: sandbox.RoleBind})
		}, sandbox.CodeCapabilityBlocked},
		"agent's folder": {func(s *sandbox.Spec) {
			s.Mounts = append(s.Mounts, sandbox.Mount{Source: "/srv/data", Target: sandbox.AgentDir, ReadOnly: true, Role: sandbox.RoleAgent})
		}, sandbox.CodeUnsupported},
		"root":         {func(s *sandbox.Spec) { s.UID = 0 }, sandbox.CodeCapabilityBlocked},
		"host network": {func(s *sandbox.Spec) { s.Network = "host" }, sandbox.CodeCapabilityBlocked},
		"no network":   {func(s *sandbox.Spec) { s.Network = "" }, sandbox.CodeUnsupported},
		"own network":  {func(s *sandbox.Spec) { s.Network = sandbox.NetworkOwn }, sandbox.CodeUnsupported},
		"capabilities": {func(s *sandbox.Spec) { s.Security.CapDrop = nil }, sandbox.CodeCapabilityBlocked},
		"privileges":   {func(s *sandbox.Spec) { s.Security.NoNewPrivileges = false }, sandbox.CodeCapabilityBlocked},
		"writable":     {func(s *sandbox.Spec) { s.ReadOnlyRoot = false }, sandbox.CodeCapabilityBlocked},
		"setup":        {func(s *sandbox.Spec) { s.Setup = []string{"apt-get install x"} }, sandbox.CodeUnsupported},
		"gpus":         {func(s *sandbox.Spec) { s.GPUs = "all" }, sandbox.CodeUnsupported},
		"name":         {func(s *sandbox.Spec) { s.Name = "Not_A_Pod" }, sandbox.CodeValidation},
	} {
		s := good
		s.Mounts = append([]sandbox.Mount(nil), good.Mounts...)
		tt.change(&s)
		if err := checkSpec(s, world); sandbox.CodeOf(err) != tt.code {
			t.Errorf("%s: %v, want %s", name, err, tt.code)
		}
	}
}

// weakenings are what a webhook may do to a pod; each must be found.
var weakenings = map[string]func(*corev1.Pod){
	"hostNetwork":      func(p *corev1.Pod) { p.Spec.HostNetwork = true },
	"hostPID":          func(p *corev1.Pod) { p.Spec.HostPID = true },
	"hostIPC":          func(p *corev1.Pod) { p.Spec.HostIPC = true },
	"shared processes": func(p *corev1.Pod) { p.Spec.ShareProcessNamespace = new(true) },
	"token":            func(p *corev1.Pod) { p.Spec.AutomountServiceAccountToken = new(true) },
	"links":            func(p *corev1.Pod) { p.Spec.EnableServiceLinks = nil },
	"privileged":       func(p *corev1.Pod) { p.Spec.Containers[0].SecurityContext.Privileged = new(true) },
	"escalation":       func(p *corev1.Pod) { p.Spec.Containers[0].SecurityContext.AllowPrivilegeEscalation = nil },
	"root":             func(p *corev1.Pod) { p.Spec.Containers[0].SecurityContext.RunAsUser = new(int64(0)) },
	"non-root":         func(p *corev1.Pod) { p.Spec.Containers[0].SecurityContext.RunAsNonRoot = nil },
	"capability": func(p *corev1.Pod) {
		p.Spec.Containers[0].SecurityContext.Capabilities.Add = []corev1.Capability{"NET_ADMIN"}
	},
	"no context":          func(p *corev1.Pod) { p.Spec.InitContainers[0].SecurityContext = nil },
	"unconfined":          func(p *corev1.Pod) { p.Spec.SecurityContext.SeccompProfile.Type = corev1.SeccompProfileTypeUnconfined },
	"unmasked proc":       func(p *corev1.Pod) { p.Spec.Containers[0].SecurityContext.ProcMount = new(corev1.UnmaskedProcMount) },
	"no memory limit":     func(p *corev1.Pod) { delete(p.Spec.Containers[0].Resources.Limits, corev1.ResourceMemory) },
	"lifecycle":           func(p *corev1.Pod) { p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{} },
	"host port":           func(p *corev1.Pod) { p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80}} },
	"ephemeral container": func(p *corev1.Pod) { p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{}} },
	"unbounded volume":    func(p *corev1.Pod) { p.Spec.Volumes[0].EmptyDir.SizeLimit = nil },
	"hostPath": func(p *corev1.Pod) {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "h", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}})
	},
	"token volume": func(p *corev1.Pod) {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "t", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}}})
	},
	"sysctl": func(p *corev1.Pod) { p.Spec.SecurityContext.Sysctls = []corev1.Sysctl{{Name: "a", Value: "b"}} },
}

// changes are what leaves a pod isolated, and another one than was asked for.
var changes = map[string]func(*corev1.Pod){
	"sidecar":       func(p *corev1.Pod) { p.Spec.Containers = append(p.Spec.Containers, p.Spec.Containers[0]) },
	"image":         func(p *corev1.Pod) { p.Spec.Containers[0].Image = "other" },
	"command":       func(p *corev1.Pod) { p.Spec.Containers[0].Command[0] = "/bin/sh" },
	"environment":   func(p *corev1.Pod) { p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "LD_PRELOAD"}} },
	"writable root": func(p *corev1.Pod) { p.Spec.Containers[0].SecurityContext.ReadOnlyRootFilesystem = new(false) },
	"kept caps":     func(p *corev1.Pod) { p.Spec.Containers[0].SecurityContext.Capabilities.Drop = nil },
	"more memory":   func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Limits[corev1.ResourceMemory] = *quantity(1 << 40) },
	"runtime":       func(p *corev1.Pod) { p.Spec.RuntimeClassName = new("other") },
	"label":         func(p *corev1.Pod) { p.Labels[labelNetwork] = "open" },
	"owner":         func(p *corev1.Pod) { p.Annotations[labelTenant] = "another" },
	"mount":         func(p *corev1.Pod) { p.Spec.Containers[0].VolumeMounts[0].ReadOnly = false },
	"volume":        func(p *corev1.Pod) { p.Spec.Volumes[2].EmptyDir.SizeLimit = quantity(1 << 40) },
	"group":         func(p *corev1.Pod) { p.Spec.SecurityContext.FSGroup = new(int64(0)) },
}

// TestWeakenedPod holds that each change is found by itself, and that defaults of
// the API server are none.
func TestWeakenedPod(t *testing.T) {
	asked, err := Plan(specOf(nil), "hash", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	defaulted := asked.DeepCopy()
	defaulted.Spec.Tolerations = []corev1.Toleration{{Key: "node.kubernetes.io/not-ready"}}
	defaulted.Spec.SchedulerName, defaulted.Spec.ServiceAccountName, defaulted.UID = "default-scheduler", "default", "u"
	if err := compare(asked, defaulted); err != nil {
		t.Errorf("defaults: %v", err)
	}
	if err := checkPod(defaulted); err != nil {
		t.Errorf("defaults: %v", err)
	}
	for name, change := range weakenings {
		got := asked.DeepCopy()
		change(got)
		if err := checkPod(got); sandbox.CodeOf(err) != sandbox.CodeCapabilityBlocked {
			t.Errorf("%s: checkPod says %v", name, err)
		}
	}
	for name, change := range changes {
		got := asked.DeepCopy()
		change(got)
		if err := compare(asked, got); sandbox.CodeOf(err) != sandbox.CodeCapabilityBlocked {
			t.Errorf("%s: compare says %v", name, err)
		}
	}
}
