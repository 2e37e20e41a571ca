package kubernetes_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/provider/seccomp"
)

const (
	chartDir     = "../../deploy/helm/sandbox"
	manifestsDir = "../../deploy/kubernetes"
)

// TestManifestsAreFresh holds that the plain manifests are what the chart renders.
func TestManifestsAreFresh(t *testing.T) {
	helm := testenv.Helm(t.Context(), t).Path
	fresh := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "../../scripts/manifests.sh", helm, fresh).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	names := func(dir string) (out []string) {
		entries, err := os.ReadDir(dir)
		must(t, err)
		for _, e := range entries {
			out = append(out, e.Name())
		}
		return out
	}
	want := names(fresh)
	if got := names(manifestsDir); !slices.Equal(got, want) || len(want) < 5 {
		t.Fatalf("deploy/kubernetes has %v, the chart renders %v; run make manifests", got, want)
	}
	for _, name := range want {
		got, err := os.ReadFile(filepath.Join(manifestsDir, name))
		must(t, err)
		rendered, err := os.ReadFile(filepath.Join(fresh, name))
		must(t, err)
		if !bytes.Equal(got, rendered) {
			t.Errorf("deploy/kubernetes/%s is not what the chart renders; run make manifests", name)
		}
	}
}

// TestChartRefuses holds that the schema of the values refuses what would otherwise be
// found out by pods that do not start.
func TestChartRefuses(t *testing.T) {
	for name, tt := range map[string]struct {
		says string
		args []string
	}{
		"no image":       {"repository", []string{"image.repository="}},
		"no sandbox":     {"image", []string{"sandbox.image="}},
		"unknown value":  {"replica", []string{"replica=3"}},
		"bad digest":     {"digest", []string{"image.digest=sha256:1"}},
		"bad type":       {"replicas", []string{"replicas=many"}},
		"hostile folder": {"profile", []string{"seccomp.profile=../../etc/x"}},
		"no URL":         {"endpoint", []string{"otel.endpoint=collector:4318"}},
		"credentials":    {"endpoint", []string{"otel.endpoint=http://user:word@collector"}},
		"no protocol":    {"protocol", []string{"otel.protocol=http/json"}},
		"no signal":      {"signals", []string{"otel.signals={metric}"}},
		"bad ratio":      {"samplerArg", []string{"otel.samplerArg=1.5"}},
		"two attributes": {"attributes", []string{`otel.attributes.a=b\,c=d`}},
		"own variable":   {"env", []string{"env[0].name=SANDBOX_STATE_DIR", "env[0].value=/tmp"}},
		// The pods of tenants would not find the Secret, and would never start.
		"secrets of tenants": {"no Secret is copied", []string{"tenantNamespaces=true", "imagePullSecrets[0]=registry"}},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := testenv.Helm(t.Context(), t, chartArgs(tt.args...)...).CombinedOutput()
			if err == nil || !strings.Contains(string(out), tt.says) {
				t.Errorf("%v, want an error that says %q: %.300s", err, tt.says, out)
			}
		})
	}
	// Each of the two is fine alone, and the daemon gets what it reads from it.
	for value, setting := range map[string]string{"tenantNamespaces=true": `"tenantNamespaces": true`, "imagePullSecrets[0]=registry": `"imagePullSecrets": [`} {
		out, err := testenv.Helm(t.Context(), t, chartArgs(value)...).CombinedOutput()
		if err != nil || !strings.Contains(string(out), setting) {
			t.Errorf("with %s: %v, want the setting %s: %s", value, err, setting, out)
		}
	}
}

// chartArgs are those of helm that render the chart with these values.
func chartArgs(values ...string) []string {
	args := []string{"template", "sandbox", chartDir, "--kube-version", "1.34.4", "--values", filepath.Join(chartDir, "..", "manifests.yaml")}
	for _, v := range values {
		args = append(args, "--set", v)
	}
	return args
}

// A rule is one of a profile in the form of container engines. In that of OCI, which
// the kubelet takes, there are no includes and excludes.
type rule struct {
	Names    []string        `json:"names"`
	Action   string          `json:"action"`
	ErrnoRet *int            `json:"errnoRet,omitempty"`
	Args     json.RawMessage `json:"args,omitempty"`

	Includes *condition `json:"includes,omitempty"`
	Excludes *condition `json:"excludes,omitempty"`
}

type condition struct {
	Arches []string `json:"arches"`
	Caps   []string `json:"caps"`
}

// TestChartProfileIsFresh holds that the profile which the chart installs on nodes is
// the built-in one, for processes without capabilities on the usual processors.
func TestChartProfileIsFresh(t *testing.T) {
	var built struct {
		DefaultAction   string `json:"defaultAction"`
		DefaultErrnoRet int    `json:"defaultErrnoRet"`
		Syscalls        []rule `json:"syscalls"`
	}
	must(t, json.Unmarshal([]byte(seccomp.Profile()), &built))
	has := func(c *condition) (arch, caps bool) {
		return c != nil && (slices.Contains(c.Arches, "amd64") || slices.Contains(c.Arches, "arm64")), c != nil && len(c.Caps) > 0
	}
	rules := []rule{}
	for _, r := range built.Syscalls {
		arch, caps := has(r.Includes)
		if caps || r.Includes != nil && len(r.Includes.Arches) > 0 && !arch {
			continue
		}
		if arch, _ := has(r.Excludes); arch {
			t.Fatalf("a rule excludes one of the processors: %+v", r)
		}
		r.Includes, r.Excludes = nil, nil
		rules = append(rules, r)
	}
	want, err := json.Marshal(map[string]any{
		"defaultAction": built.DefaultAction, "defaultErrnoRet": built.DefaultErrnoRet,
		"architectures": []string{"SCMP_ARCH_X86_64", "SCMP_ARCH_AARCH64"}, "syscalls": rules,
	})
	must(t, err)
	file := filepath.Join(chartDir, "files", "seccomp.json")
	if flag.Lookup("update").Value.String() == "true" {
		must(t, os.WriteFile(file, append(want, '\n'), 0o644))
	}
	got, err := os.ReadFile(file)
	must(t, err)
	if strings.TrimSpace(string(got)) != string(want) {
		t.Errorf("%s is not the built-in profile; run go test ./provider/kubernetes -run TestChartProfile -update", file)
	}
}
