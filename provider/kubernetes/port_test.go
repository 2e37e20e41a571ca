package kubernetes

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// TestPortPolicy holds what the policy of a port lets in, when there is one, and that
// it selects the pods of these settings alone.
func TestPortPolicy(t *testing.T) {
	with := func(options map[string]any, change ...func(*sandbox.Spec)) (string, map[string]string) {
		t.Helper()
		options["guestImage"] = "registry.example/guest"
		s := specOf(options)
		for _, c := range change {
			c(&s)
		}
		sh, err := shapeOf(s.Options)
		if err != nil {
			t.Fatal(err)
		}
		labels := labelsOf(s, sh)
		p := portPolicy(s, sh)
		if p == nil {
			if labels[labelWay] != "" {
				t.Errorf("a pod is selected by no policy: %v", labels)
			}
			return "", labels
		}
		for name, v := range p.Spec.PodSelector.MatchLabels {
			if labels[name] != v {
				t.Errorf("the policy selects %v, the pod has %v", p.Spec.PodSelector.MatchLabels, labels)
			}
		}
		if p.Name != portPolicyPrefix+labels[labelWay] || len(p.Spec.Egress) > 0 || len(p.Spec.PolicyTypes) != 1 {
			t.Errorf("the policy is %+v", p)
		}
		text, err := json.Marshal(p.Spec.Ingress)
		if err != nil {
			t.Fatal(err)
		}
		return string(text), labels
	}
	got, labels := with(map[string]any{"wayFromLabels": map[string]any{"app": "d"}, "wayFromNamespace": "n", "wayFromCIDRs": []any{"192.0.2.0/24"}})
	if want := `[{"ports":[{"protocol":"TCP","port":7443}],"from":[{"podSelector":{"matchLabels":{"app":"d"}},"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"n"}}},{"ipBlock":{"cidr":"192.0.2.0/24"}}]}]`; got != want {
		t.Errorf("it lets in %s, want %s", got, want)
	}
	if _, other := with(map[string]any{"wayFromLabels": map[string]any{"app": "e"}}); other[labelWay] == labels[labelWay] {
		t.Error("other rules have the same policy")
	}
	for name, options := range map[string]map[string]any{
		"nothing": {}, "tls without a word on who": {"way": "tls"}, "exec": {"way": "exec", "wayFromLabels": map[string]any{"app": "d"}},
	} {
		if got, _ := with(options); got != "" {
			t.Errorf("%s: it lets in %s", name, got)
		}
	}
	// A policy would close what the pod of this network has.
	if got, _ := with(map[string]any{"wayFromLabels": map[string]any{"app": "d"}}, func(s *sandbox.Spec) { s.Network = "bridge" }); got != "" {
		t.Errorf("with a network: it lets in %s", got)
	}
}

// TestWayChosen holds that a port is tried where settings say who connects, or where
// it was asked for.
func TestWayChosen(t *testing.T) {
	from := []any{"192.0.2.0/24"}
	for _, tt := range []struct {
		options map[string]any
		want    wayTaken
	}{
		{map[string]any{}, wayExec},
		{map[string]any{"way": "auto"}, wayExec},
		{map[string]any{"wayFromCIDRs": from}, wayAuto},
		{map[string]any{"way": "tls"}, wayTLS},
		{map[string]any{"way": "exec", "wayFromCIDRs": from}, wayExec},
	} {
		if sh, err := shapeOf(tt.options); err != nil || sh.way != tt.want {
			t.Errorf("%v: %q, %v, want %q", tt.options, sh.way, err, tt.want)
		}
	}
	for _, bad := range []map[string]any{
		{"way": "udp"}, {"wayPort": int64(80)}, {"wayPort": int64(70000)}, {"wayFromCIDRs": []any{"192.0.2.1/24"}}, {"wayFromCIDRs": []any{"here"}},
		{"wayFromNamespace": "n"}, {"wayFromLabels": []any{"a"}},
	} {
		if _, err := shapeOf(bad); sandbox.CodeOf(err) != sandbox.CodeValidation {
			t.Errorf("%v: %v", bad, err)
		}
	}
}

// TestChartOpensPort holds that the policy which the chart makes is the one that the
// daemon looks for by the chart's settings: the role of the daemon cannot make it.
func TestChartOpensPort(t *testing.T) {
	for name, args := range map[string][]string{
		"defaults":         {"one", "--namespace", "fleet"},
		"another port":     {"two", "--namespace", "fleet", "--set", "guestPort.number=8443"},
		"other namespaces": {"three", "--namespace", "fleet", "--set", "sandbox.namespace=guests", "--set", "namespaces[0].name=more"},
		"no port":          {"four", "--namespace", "fleet", "--set", "guestPort.enabled=false"},
	} {
		t.Run(name, func(t *testing.T) {
			chart := "../../deploy/helm/sandbox"
			args = append([]string{"template", args[0], chart, "--kube-version", "1.34.4", "--values", chart + "/../manifests.yaml"}, args[1:]...)
			out, err := testenv.Helm(t.Context(), t, args...).Output()
			if err != nil {
				t.Fatal(err)
			}
			var (
				settings struct{ Kubernetes config.KubernetesSettings }
				policies []networkingv1.NetworkPolicy
			)
			for d := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(out), 4096); ; {
				var raw json.RawMessage
				if err := d.Decode(&raw); errors.Is(err, io.EOF) {
					break
				} else if err != nil {
					t.Fatal(err)
				}
				var o struct {
					Kind string
					Data map[string]string
				}
				if err := json.Unmarshal(raw, &o); err != nil {
					t.Fatal(err)
				}
				switch o.Kind {
				case "ConfigMap":
					if err := json.Unmarshal([]byte(o.Data["sandbox.json"]), &settings); err != nil {
						t.Fatal(err)
					}
				case "NetworkPolicy":
					var p networkingv1.NetworkPolicy
					if err := json.Unmarshal(raw, &p); err != nil {
						t.Fatal(err)
					}
					if strings.HasPrefix(p.Name, portPolicyPrefix) {
						policies = append(policies, p)
					}
				}
			}
			options := settings.Kubernetes.Options()
			s := specOf(options)
			sh, err := shapeOf(s.Options)
			if err != nil {
				t.Fatal(err)
			}
			want := portPolicy(s, sh)
			if want == nil {
				if name != "no port" || len(policies) > 0 {
					t.Fatalf("the settings %v open no port, the chart has %d policies", options, len(policies))
				}
				return
			}
			if len(policies) == 0 {
				t.Fatal("the chart opens no port")
			}
			for _, got := range policies {
				if got.Name != want.Name || !equality.Semantic.DeepEqual(got.Spec, want.Spec) {
					t.Errorf("the chart has the policy %s %+v, the daemon wants %s %+v", got.Name, got.Spec, want.Name, want.Spec)
				}
			}
		})
	}
}
