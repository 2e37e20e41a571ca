package kubernetes

import corev1 "k8s.io/api/core/v1"

// Adjust has change each pod before it is sent, so that tests can put a volume where
// a Spec has a folder of the host.
func (p *Provider) Adjust(change func(*corev1.Pod)) { p.adjust = change }
