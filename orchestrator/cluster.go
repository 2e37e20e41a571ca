//go:build !sandbox_front && !sandbox_engine

package orchestrator

import (
	"os"
	"path/filepath"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/internal/hostpath"
	"github.com/bulkhead-dev/sandbox/provider"
	"github.com/bulkhead-dev/sandbox/provider/kubernetes"
)

// quotaOf returns what settings let a tenant hold in its namespace.
func (h *Orchestrator) quotaOf(tenant string) kubernetes.Quota {
	l := config.TenantsOf(h.current()).Of(tenant).Limits
	return kubernetes.Quota{Pods: l.Sandboxes, Memory: l.Memory, NanoCPUs: l.NanoCPUs, Disk: l.Disk}
}

// pods returns the provider of pods in a cluster. Where neither settings nor flags
// name it, and no sandbox of this state folder was made with it, it is none: a
// kubeconfig that a person has for other work is not read.
func (h *Orchestrator) pods() sandbox.Provider {
	if !h.usesPods() {
		return provider.Unusable(config.KubernetesProvider, errNoPods())
	}
	kubernetes.Quiet()
	o := kubernetes.Options{
		World: h.worldNow,
		Trust: h.state.Trust,
		Warn:  func(name, warning string) { h.o.Log.WithField("sandbox", name).Warn(warning) },
	}
	if s := h.current(); s != nil && s.Kubernetes != nil {
		k := s.Kubernetes
		for to, from := range map[*string]*string{&o.Kubeconfig: k.Kubeconfig, &o.Context: k.Context, &o.Namespace: k.Namespace, &o.Fleet: k.Fleet} {
			if from != nil {
				*to = *from
			}
		}
	}
	if s := h.current(); s != nil && s.Kubernetes != nil && s.Kubernetes.Lease != nil {
		o.Lease = time.Duration(*s.Kubernetes.Lease)
	}
	if s := h.current(); s != nil && s.Kubernetes != nil && s.Kubernetes.TenantNamespaces != nil {
		o.TenantNamespaces, o.Quota = *s.Kubernetes.TenantNamespaces, h.quotaOf
	}
	var err error
	if o.Kubeconfig != "" {
		o.Kubeconfig, err = hostpath.Expand(o.Kubeconfig, h.world.Home, h.env)
	}
	if err == nil {
		err = os.MkdirAll(filepath.Join(h.state.Path(), podsMark), 0o700)
	}
	if err != nil {
		return provider.Unusable(config.KubernetesProvider, err)
	}
	p, err := kubernetes.New(o)
	if err != nil {
		return provider.Unusable(config.KubernetesProvider, err)
	}
	return p
}
