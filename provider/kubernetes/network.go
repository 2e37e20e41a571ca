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
	tryWithin   = time.Second            // how long one try of a connection may take on a node that is not known
	tryAgain    = 250 * time.Millisecond // and on one that has closed a pod within closedFor
	closedFor   = 10 * time.Minute
	kubeletPort = "10250"

	// enforcedWithin is how long a plugin may take until it closes a new pod.
	enforcedWithin = 3 * time.Second
	// closesWithin is that time for one that has closed a pod of the node within
	// closedFor: when the API server was away it learns of pods late.
	closesWithin = 30 * time.Second
)

// tryNetwork has the guest try a connection that the policy forbids: to the API
// server, or where that is at a loopback address of ours, to the kubelet of the
// node. A cluster whose network plugin enforces no policies takes the object and
// ignores it, so a policy that is there proves nothing. Each pod is tried, because
// plugins close a pod some time after it has begun to run, and no command may run
// before. A plugin that drops packets costs each pod the time of the try.
func (p *Provider) tryNetwork(ctx context.Context, c *client.Client, pod *corev1.Pod, s sandbox.Spec) error {
	if sh, err := shapeOf(s.Options); err != nil || sh.trustNetworking || s.Network != networkNone {
		return err
	}
	node, within, enforced := pod.Spec.NodeName, tryWithin, enforcedWithin
	p.mu.Lock()
	last, known := p.closed[node]
	p.mu.Unlock()
	if known = known && p.o.Now().Sub(last) < closedFor; known {
		within, enforced = tryAgain, closesWithin
	}
	to := p.forbidden(pod)
	if to == "" {
		p.o.Warn(s.Name, "whether the network policy is enforced is not known: there is no address to try")
		return nil
	}
	for begun := time.Now(); p.reaches(ctx, c, to, within); {
		if time.Since(begun) < enforced && ctx.Err() == nil {
			select { // a plugin learns of a pod when it runs already
			case <-time.After(20 * time.Millisecond):
			case <-ctx.Done():
			}
			continue
		}
		if known {
			return &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "create", Field: "docker.network", Resource: s.Name, Retryable: true,
				Message: "the network plugin of the node " + node + " has not closed the pod in time: " + to + " is reached from inside",
				Hint:    "try again; the plugin has closed other pods of the node before, so see its log and load"}
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
func (p *Provider) reaches(ctx context.Context, c *client.Client, to string, within time.Duration) bool {
	ctx, done := context.WithTimeout(ctx, within)
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
