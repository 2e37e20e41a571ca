package kubernetes

import (
	"context"
	"net"
	"net/netip"
	"net/url"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/client"
)

const (
	tryWithin   = time.Second      // how long one try of a connection may take
	closedFor   = 10 * time.Minute // how long a try on a node counts for it
	kubeletPort = "10250"

	// enforcedWithin is how long a plugin may take until it closes a new pod.
	enforcedWithin = 3 * time.Second
)

// tryNetwork has the guest try a connection that the policy forbids: to the API
// server, or where that is at a loopback address of ours, to the kubelet of the
// node. A cluster whose network plugin enforces no policies takes the object and
// ignores it, so a policy that is there proves nothing. One try for each node and
// ten minutes is enough.
func (p *Provider) tryNetwork(ctx context.Context, c *client.Client, pod *corev1.Pod, s sandbox.Spec) error {
	if sh, err := shapeOf(s.Options); err != nil || sh.trustNetworking || s.Network != networkNone {
		return err
	}
	node := pod.Spec.NodeName
	p.mu.Lock()
	last, known := p.closed[node]
	p.mu.Unlock()
	if known && p.o.Now().Sub(last) < closedFor {
		return nil
	}
	to := p.forbidden(pod)
	if to == "" {
		p.o.Warn(s.Name, "whether the network policy is enforced is not known: there is no address to try")
		return nil
	}
	for begun := time.Now(); p.reaches(ctx, c, to); {
		if time.Since(begun) < enforcedWithin && ctx.Err() == nil {
			continue // a plugin learns of a pod when it runs already
		}
		return &sandbox.Error{Code: sandbox.CodeCapabilityBlocked, Op: "create", Field: "docker.network", Resource: s.Name,
			Message: "the cluster does not enforce the network policy: " + to + " is reached from inside",
			Hint:    "install a network plugin that enforces NetworkPolicy (Calico, Cilium), or, where pods have no network by other means, set kubernetes.networkPolicy to trust"}
	}
	if ctx.Err() != nil {
		return p.fail(ctx, "create", s.Name, ctx.Err())
	}
	p.mu.Lock()
	p.closed[node] = p.o.Now()
	p.mu.Unlock()
	return nil
}

// reaches reports whether a connection to an address at which something listens comes
// about. A refusal is the policy's: some plugins reject what others drop.
func (p *Provider) reaches(ctx context.Context, c *client.Client, to string) bool {
	ctx, done := context.WithTimeout(ctx, tryWithin)
	defer done()
	conn, err := c.Dial(ctx, "tcp", to)
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

// forbidden is an address that other pods reach, or empty.
func (p *Provider) forbidden(pod *corev1.Pod) string {
	if p.config != nil {
		if u, err := url.Parse(p.config.Host); err == nil {
			if ip, err := netip.ParseAddr(u.Hostname()); err == nil && !ip.IsLoopback() && !ip.IsUnspecified() {
				port := u.Port()
				if port == "" {
					port = "443"
				}
				return net.JoinHostPort(ip.String(), port)
			}
		}
	}
	if pod.Status.HostIP == "" {
		return ""
	}
	return net.JoinHostPort(pod.Status.HostIP, kubeletPort)
}
