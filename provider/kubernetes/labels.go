package kubernetes

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/bulkhead-dev/sandbox"
)

// Names of labels and annotations. They are those of the labels of containers.
// Annotations hold the values as they are. Labels hold what lists filter by: a
// value that is no value of a label in Kubernetes is replaced by its digest.
const (
	labelPrefix = "dev.bulkhead.sandbox."

	labelInstance  = labelPrefix + "instance"
	labelTenant    = labelPrefix + "tenant"
	labelKind      = labelPrefix + "kind"
	labelScope     = labelPrefix + "scope"
	labelScopeKey  = labelPrefix + "scope-key"
	labelAgent     = labelPrefix + "agent"
	labelSession   = labelPrefix + "session"
	labelHash      = labelPrefix + "config-hash"
	labelCreatedAt = labelPrefix + "created-at"
	labelFormat    = labelPrefix + "format"

	labelNetwork = labelPrefix + "network" // "none" or "open"; the network policy selects by it
	labelWay     = labelPrefix + "way"     // the policy that opens the port of the guest, by the digest of its rules

	annotationImage   = labelPrefix + "image"
	annotationImageID = labelPrefix + "image-id"
	annotationPasswd  = labelPrefix + "passwd" // content of /etc/passwd
	annotationGroup   = labelPrefix + "group"  // content of /etc/group

	annotationAttempt = labelPrefix + "attempt" // a random word of the call of Create that made the pod
)

var instanceID = regexp.MustCompile(`^[0-9a-f]{16}$`)

// digest returns what stands for v in a label.
func digest(v string) string {
	if v == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(v))
	return hex.EncodeToString(sum[:16])
}

// labelsOf returns the labels of the pod of s.
func labelsOf(s sandbox.Spec, sh shape) map[string]string {
	network := "open"
	if s.Network == networkNone {
		network = networkNone
	}
	out := map[string]string{
		labelFormat:   sandbox.InfoFormat,
		labelInstance: s.Owner.Instance,
		labelTenant:   digest(s.Owner.Tenant),
		labelKind:     string(s.Kind),
		labelNetwork:  network,
	}
	if policy := portPolicy(s, sh); policy != nil {
		out[labelWay] = policy.Spec.PodSelector.MatchLabels[labelWay]
	}
	return out
}

// annotationsOf returns the annotations of the pod of s.
func annotationsOf(s sandbox.Spec, hash string, now time.Time) map[string]string {
	return map[string]string{
		labelInstance:     s.Owner.Instance,
		labelTenant:       s.Owner.Tenant,
		labelKind:         string(s.Kind),
		labelScope:        string(s.Owner.Scope),
		labelScopeKey:     s.Owner.ScopeKey,
		labelAgent:        s.Owner.Agent,
		labelSession:      s.Owner.Session,
		labelHash:         hash,
		labelCreatedAt:    now.UTC().Format(time.RFC3339Nano),
		labelFormat:       sandbox.InfoFormat,
		annotationImage:   s.Image,
		annotationImageID: s.ImageID,
		annotationPasswd:  passwd(s),
		annotationGroup:   group(s),
	}
}

// isOurs reports whether the pod has all that we write.
func isOurs(p *corev1.Pod) bool {
	a := p.Annotations
	created, err := time.Parse(time.RFC3339Nano, a[labelCreatedAt])
	return err == nil && !created.IsZero() && instanceID.MatchString(a[labelInstance]) && a[labelInstance] == p.Labels[labelInstance] &&
		a[labelKind] != "" && a[labelHash] != "" && p.Labels[labelFormat] != ""
}

// infoOf returns what the pod says about its sandbox. Of a pod that is not ours
// Info.Format is empty.
func infoOf(p *corev1.Pod) sandbox.Info {
	i := sandbox.Info{Name: p.Name, ID: string(p.UID), Provider: Name, Status: statusOf(p)}
	if !isOurs(p) {
		return i
	}
	a := p.Annotations
	i.Kind = sandbox.Kind(a[labelKind])
	i.Owner = sandbox.Owner{
		Instance: a[labelInstance], Tenant: a[labelTenant], Agent: a[labelAgent], Session: a[labelSession],
		Scope: sandbox.Scope(a[labelScope]), ScopeKey: a[labelScopeKey],
	}
	i.Image, i.ImageID, i.ConfigHash, i.Format = a[annotationImage], a[annotationImageID], a[labelHash], a[labelFormat]
	// The clocks of those that make pods differ; that of the API server is one.
	if i.CreatedAt = p.CreationTimestamp.Time; i.CreatedAt.IsZero() {
		i.CreatedAt, _ = time.Parse(time.RFC3339Nano, a[labelCreatedAt]) // isOurs has read it
	}
	if c := mainStatus(p); c != nil && c.State.Running != nil {
		i.StartedAt = c.State.Running.StartedAt.Time
	}
	return i
}

// statusOf returns the state of the sandbox in the pod. A pod that is being made,
// removed or restarted is stopped: nothing runs in it that could be used.
func statusOf(p *corev1.Pod) sandbox.Status {
	c := mainStatus(p)
	switch {
	case p.Status.Phase == corev1.PodUnknown, lost(p):
		return sandbox.StatusUnknown
	case p.DeletionTimestamp == nil && p.Status.Phase == corev1.PodRunning && c != nil && c.State.Running != nil:
		return sandbox.StatusRunning
	}
	return sandbox.StatusStopped
}

// lost reports whether the node of the pod has ceased to report: what the pod says
// is how it was then. The controller of nodes calls such a pod not ready and leaves
// the rest of its status as the kubelet has written it, which would not call a pod
// without readiness gates so while all its containers are ready.
func lost(p *corev1.Pod) bool {
	is := func(kind corev1.PodConditionType, status corev1.ConditionStatus) bool {
		return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == kind && c.Status == status })
	}
	return p.Status.Phase == corev1.PodRunning && len(p.Spec.ReadinessGates) == 0 && is(corev1.PodReady, corev1.ConditionFalse) && is(corev1.ContainersReady, corev1.ConditionTrue)
}

// mainStatus returns the status of the container with the guest, or nil.
func mainStatus(p *corev1.Pod) *corev1.ContainerStatus {
	for i := range p.Status.ContainerStatuses {
		if p.Status.ContainerStatuses[i].Name == containerName {
			return &p.Status.ContainerStatuses[i]
		}
	}
	return nil
}

// selectorOf returns the label selector for f. What it selects has to be compared
// with f once more, because a digest stands for the tenant.
func selectorOf(f sandbox.Filter) string {
	set := labels.Set{}
	for label, value := range map[string]string{labelInstance: f.Instance, labelTenant: digest(f.Tenant), labelKind: string(f.Kind)} {
		if value != "" {
			set[label] = value
		}
	}
	return selector(set)
}

// selector returns the label selector for objects of ours with these labels, whatever
// format they have: what a newer version has made must not look as if it were not there.
func selector(set labels.Set) string {
	if len(set) == 0 {
		return labelFormat
	}
	return labelFormat + "," + labels.SelectorFromSet(set).String()
}

// matches reports whether i is one of those that f selects.
func matches(i sandbox.Info, f sandbox.Filter) bool {
	return (f.Instance == "" || f.Instance == i.Owner.Instance) && (f.Tenant == "" || f.Tenant == i.Owner.Tenant) &&
		(f.Kind == "" || f.Kind == i.Kind) && (f.Name == "" || f.Name == i.Name)
}
