package kubernetes

import (
	"context"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/client"
)

// Adjust has change each pod before it is sent, so that tests can put a volume where
// a Spec has a folder of the host.
func (p *Provider) Adjust(change func(*corev1.Pod)) { p.adjust = change }

// WayOf returns the way by which the guest of an open sandbox is reached.
func WayOf(sb sandbox.Sandbox) string { return string(sb.(*handle).way) }

// Guest returns the session of an open sandbox.
func Guest(sb sandbox.Sandbox) *client.Client { return sb.(*handle).guest }

// Impersonate has p take other for the pod name: it connects to its address, and
// expects the guest of name there.
func (p *Provider) Impersonate(ctx context.Context, name, other string) error {
	pod, err := p.pods().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	at, err := p.pods().Get(ctx, other, metav1.GetOptions{})
	if err != nil {
		return err
	}
	pod.Status.PodIP = at.Status.PodIP
	p.port.mu.Lock()
	peer := p.port.peers[pod.UID]
	p.port.mu.Unlock()
	c, err := p.port.dial(ctx, pod, peer, connectWithin)
	if err == nil {
		c.Cut()
	}
	return err
}

// Certificate is that of p.
func (p *Provider) Certificate() []byte {
	c, err := p.port.identity()
	if err != nil {
		panic(err)
	}
	return c.Certificate[0]
}

// Wrap has each request of the client pass through a transport of the test.
func (o *Options) Wrap(wrap func(http.RoundTripper) http.RoundTripper) { o.wrap = wrap }

// Follows reports whether lists are answered from memory.
func (p *Provider) Follows() bool {
	_, _, live := p.mirror.guess("")
	return live
}

// Namespace is that of the sandboxes.
func (p *Provider) Namespace() string { return p.o.Namespace }

// TenantNamespace is that of the pods of a tenant.
func (p *Provider) TenantNamespace(tenant string) string { return p.tenantNamespace(tenant) }

// PrepareTenant makes what has to be there before a pod of the tenant.
func (p *Provider) PrepareTenant(ctx context.Context, tenant string) error {
	return p.prepareTenant(ctx, tenant)
}
