package kubernetes

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"regexp"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
	"github.com/bulkhead-dev/sandbox/provider"
)

var (
	_ provider.TenantSweeper   = (*Provider)(nil)
	_ provider.TenantSeparator = (*Provider)(nil)
)

// A Quota bounds the pods of one tenant in its namespace. A negative number is no
// bound, and 0 allows nothing.
type Quota struct {
	Pods     int64
	Memory   int64 // bytes, of the limits of all pods
	NanoCPUs int64 // 1e9 is one processor; of the limits of all pods
	Disk     int64 // bytes, of the limits of ephemeral storage, and again of the claims of volumes
}

const (
	quotaName  = "sandbox-tenant" // of the ResourceQuota of a tenant's namespace
	roleTenant = "tenant"         // of a tenant's namespace, and of the Lease that says when it was used last

	labelEnforce = "pod-security.kubernetes.io/enforce"
	enforceLevel = "restricted"

	tenantLeasePrefix = "sandbox-tenant-"
	annotationSweep   = labelPrefix + "sweep" // of that Lease: when a program began to remove the namespace

	touchEvery    = time.Minute     // the last use of a tenant's namespace is written so often
	sweepFor      = time.Minute     // removing a namespace takes at most so long
	sweepOver     = 2 * sweepFor    // a mark of one that is older is that of a program that has died
	quotaWithin   = 5 * time.Second // how long a ResourceQuota may count pods that are gone
	leastIdle     = 10 * touchEvery // a namespace that was used within this time is not removed
	namespaceSize = 63              // bytes of a name
	sumSize       = 20              // characters of the hash in a name: 100 bits
)

// tenantNamespace returns the name of the namespace of a tenant's pods; that of the
// fleet for no tenant, and without the setting for each. A tenant whose name is a DNS
// label is named by it, behind "-t-". All others, and those of a fleet with a name,
// are named by a hash over namespace, fleet and tenant, behind "-h-", so that no
// tenant's name comes to that of another.
func (p *Provider) tenantNamespace(tenant string) string {
	base := p.o.Namespace
	if !p.o.TenantNamespaces || tenant == "" {
		return base
	}
	if name := base + "-t-" + tenant; p.o.Fleet == "" && len(validation.IsDNS1123Label(tenant)) == 0 && len(name) <= namespaceSize {
		return name
	}
	sum := sha256.Sum256([]byte(fmt.Sprintf("tenant %q %q %q", base, p.o.Fleet, tenant)))
	text := strings.ToLower(base32.StdEncoding.EncodeToString(sum[:]))[:sumSize]
	const most = namespaceSize - len("-h-") - sumSize - len("-") - len("-")
	base = strings.TrimRight(base[:min(len(base), most)], "-")
	word := notInLabel.ReplaceAllString(strings.ToLower(tenant[:min(len(tenant), namespaceSize)]), "-")
	word = strings.Trim(word[:min(len(word), most-len(base))], "-")
	if word != "" {
		word += "-"
	}
	return base + "-h-" + word + text
}

// notInLabel matches what no DNS label has.
var notInLabel = regexp.MustCompile(`[^a-z0-9]+`)

// inPlace reports whether the pod is in the namespace of the tenant that it names.
func (p *Provider) inPlace(pod *corev1.Pod) bool {
	return !p.o.TenantNamespaces || p.namespaceOf(pod) == p.tenantNamespace(pod.Annotations[labelTenant])
}

// namespaceOf is that of the pod; that of the fleet where it does not say.
func (p *Provider) namespaceOf(pod *corev1.Pod) string {
	return cmp.Or(pod.Namespace, p.o.Namespace)
}

// podsOf are the pods of the namespace of pod.
func (p *Provider) podsOf(pod *corev1.Pod) corev1client.PodInterface {
	return p.client.CoreV1().Pods(p.namespaceOf(pod))
}

// allPods are the pods of all namespaces that sandboxes may be in.
func (p *Provider) allPods() corev1client.PodInterface {
	if p.o.TenantNamespaces {
		return p.client.CoreV1().Pods(metav1.NamespaceAll)
	}
	return p.pods()
}

// Separates implements [provider.TenantSeparator].
func (p *Provider) Separates(tenant string) bool { return p.o.TenantNamespaces && tenant != "" }

// maxPlaces bounds the sandboxes whose namespace is remembered.
const maxPlaces = 20_000

// place remembers the namespace of a pod.
func (p *Provider) place(pod *corev1.Pod) {
	if !p.o.TenantNamespaces {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.places) >= maxPlaces {
		clear(p.places)
	}
	p.places[pod.Name] = p.namespaceOf(pod)
}

// find returns the pod of a sandbox of which nothing but the name is known. It asks
// for it where it was last, and else in all namespaces. A pod that is in the namespace
// of another tenant than it says is none.
func (p *Provider) find(ctx context.Context, name string) (*corev1.Pod, error) {
	if !p.o.TenantNamespaces {
		return p.pods().Get(ctx, name, metav1.GetOptions{})
	}
	p.mu.Lock()
	last := p.places[name]
	p.mu.Unlock()
	if last != "" {
		pod, err := p.client.CoreV1().Pods(last).Get(ctx, name, metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return nil, err
		}
		if err == nil && p.inPlace(pod) {
			return pod, nil
		}
	}
	list, err := p.allPods().List(ctx, metav1.ListOptions{LabelSelector: selectorOf(sandbox.Filter{}), FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String()})
	if err != nil {
		return nil, err
	}
	var found []*corev1.Pod
	for i := range list.Items {
		if pod := &list.Items[i]; pod.Name == name && p.inPlace(pod) {
			found = append(found, pod)
		}
	}
	switch len(found) {
	case 0:
		return nil, apierrors.NewNotFound(corev1.Resource("pods"), name)
	case 1:
		p.place(found[0])
		return found[0], nil
	}
	return nil, &sandbox.Error{Code: sandbox.CodePermissionDeny, Op: "find", Resource: name,
		Message: "pods of that name are in the namespaces " + found[0].Namespace + " and " + found[1].Namespace, Hint: "remove the one that is not a sandbox's with kubectl"}
}

// checkPlaced refuses what a pod cannot have in the namespace of a tenant.
func (p *Provider) checkPlaced(s sandbox.Spec) error {
	if !p.Separates(s.Owner.Tenant) {
		return nil
	}
	sh, err := shapeOf(s.Options)
	switch {
	case err != nil:
		return err
	case len(sh.pullSecrets) > 0:
		return refused(sandbox.CodeUnsupported, "kubernetes.imagePullSecrets", s.Name, "with kubernetes.tenantNamespaces no Secret is copied to the namespaces of tenants",
			"give the nodes the credentials of the registry, and leave imagePullSecrets out")
	case len(sh.wayFrom.labels) > 0 && sh.wayFrom.namespace == "":
		return refused(sandbox.CodeValidation, "kubernetes.wayFromNamespace", s.Name, "with kubernetes.tenantNamespaces no policy can let in pods whose namespace is not named",
			"set kubernetes.wayFromNamespace to the namespace of this program")
	}
	return nil
}

// prepareTenant makes what has to be there before a pod of the tenant: its namespace,
// then the policy that closes the network, then the quota. Each is looked at before
// each pod, so that a program that ended between two of them leaves nothing open.
func (p *Provider) prepareTenant(ctx context.Context, tenant string) error {
	name := p.tenantNamespace(tenant)
	if err := p.touch(ctx, name); err != nil {
		return err
	}
	if err := p.haveNamespace(ctx, name, tenant); err != nil {
		return err
	}
	if err := p.havePolicy(ctx, name, denyAll()); err != nil {
		return err
	}
	return p.haveQuota(ctx, name, tenant)
}

// tenantLabels are those of the namespace of a tenant.
func (p *Provider) tenantLabels(tenant string) map[string]string {
	return map[string]string{labelFormat: sandbox.InfoFormat, labelInstance: p.Instance(), labelRole: roleTenant, labelTenant: digest(tenant), labelEnforce: enforceLevel}
}

// haveNamespace makes the namespace of a tenant unless it is there. One that is not
// that of the tenant, or whose admission was changed, is refused. One that is being
// deleted is waited for.
func (p *Provider) haveNamespace(ctx context.Context, name, tenant string) error {
	all := p.client.CoreV1().Namespaces()
	want := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: p.tenantLabels(tenant), Annotations: map[string]string{labelTenant: tenant}}}
	for pause := (pace{}); ; {
		got, err := all.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			if got, err = all.Create(ctx, want, metav1.CreateOptions{}); apierrors.IsAlreadyExists(err) { // another program was first
				continue
			}
		}
		switch {
		case err != nil:
			return p.failTenant(ctx, "create namespace", name, err)
		case !p.isTenantNamespace(got) || got.Annotations[labelTenant] != tenant:
			return &sandbox.Error{Code: sandbox.CodePermissionDeny, Op: "create", Field: "kubernetes.tenantNamespaces", Resource: name,
				Message: "a namespace of that name exists that is not that of the tenant", Hint: "remove it with kubectl, or use another kubernetes.namespace or kubernetes.fleet"}
		case got.Labels[labelEnforce] != enforceLevel:
			return &sandbox.Error{Code: sandbox.CodeCapabilityBlocked, Op: "create", Field: "kubernetes.tenantNamespaces", Resource: name,
				Message: "the label " + labelEnforce + " of the namespace was changed", Hint: "set it: kubectl label --overwrite namespace " + name + " " + labelEnforce + "=" + enforceLevel}
		case got.DeletionTimestamp == nil:
			return nil
		}
		if err := pause.wait(ctx); err != nil {
			return &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "create", Resource: name, Retryable: true, Err: err,
				Message: "the namespace is being deleted, and is not gone in time", Hint: "see what keeps it: kubectl get namespace " + name + " -o yaml"}
		}
	}
}

// isTenantNamespace reports whether the namespace was made by a program of this fleet
// for the tenant that it names.
func (p *Provider) isTenantNamespace(n *corev1.Namespace) bool {
	tenant := n.Annotations[labelTenant]
	for label, value := range p.tenantLabels(tenant) {
		if label != labelEnforce && n.Labels[label] != value {
			return false
		}
	}
	return tenant != "" && p.tenantNamespace(tenant) == n.Name
}

// hard is the quota as the API server has it.
func (q Quota) hard() corev1.ResourceList {
	out := corev1.ResourceList{}
	for name, n := range map[corev1.ResourceName]int64{corev1.ResourcePods: q.Pods, corev1.ResourceLimitsMemory: q.Memory, corev1.ResourceLimitsEphemeralStorage: q.Disk, corev1.ResourceRequestsStorage: q.Disk} {
		if n >= 0 {
			out[name] = *quantity(n)
		}
	}
	if q.NanoCPUs >= 0 {
		out[corev1.ResourceLimitsCPU] = *resource.NewMilliQuantity(q.NanoCPUs/1e6, resource.DecimalSI)
	}
	return out
}

// haveQuota makes the ResourceQuota of a tenant what the settings say, and waits until
// the cluster enforces it: a new one is counted a moment later, and until then pods
// would be admitted beside it.
func (p *Provider) haveQuota(ctx context.Context, namespace, tenant string) error {
	all := p.client.CoreV1().ResourceQuotas(namespace)
	want := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: quotaName, Labels: map[string]string{labelFormat: sandbox.InfoFormat, labelInstance: p.Instance()}},
		Spec:       corev1.ResourceQuotaSpec{Hard: p.o.Quota(tenant).hard()},
	}
	for pause := (pace{}); ; {
		got, err := all.Get(ctx, quotaName, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			got, err = all.Create(ctx, want, metav1.CreateOptions{})
		case err == nil && !equality.Semantic.DeepEqual(got.Spec, want.Spec):
			next := got.DeepCopy()
			next.Spec = want.Spec
			got, err = all.Update(ctx, next, metav1.UpdateOptions{})
		}
		switch {
		case apierrors.IsAlreadyExists(err), apierrors.IsConflict(err): // another program was first
		case err != nil:
			return p.failTenant(ctx, "set quota", namespace, err)
		case equality.Semantic.DeepEqual(got.Status.Hard, want.Spec.Hard) || len(want.Spec.Hard) == 0:
			return nil
		}
		if err := pause.wait(ctx); err != nil {
			return &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "set quota", Resource: namespace, Retryable: true, Err: err,
				Message: "the cluster does not count the ResourceQuota " + quotaName + " in time", Hint: "see that its controller runs: kubectl -n " + namespace + " describe resourcequota"}
		}
	}
}

// failTenant is [Provider.fail] for what is asked of the namespace of a tenant.
func (p *Provider) failTenant(ctx context.Context, op, namespace string, err error) error {
	if lacks := lacksRight(op, namespace, err); lacks != nil {
		return lacks
	}
	return p.failAt(ctx, namespace, op, namespace, err)
}

// lacksRight is the error where the account lacks a verb of the ClusterRole; nil where
// err is another.
func lacksRight(op, name string, err error) error {
	if apierrors.IsForbidden(err) && strings.Contains(err.Error(), " cannot ") {
		return &sandbox.Error{Code: sandbox.CodePermissionDeny, Op: op, Field: "kubernetes.tenantNamespaces", Resource: name, Err: err,
			Message: "the account may not do this for the namespaces of tenants", Hint: "grant the verb that the cause names by a ClusterRole; docs/kubernetes-fleet.md lists all of them"}
	}
	return nil
}

// createIn has the API server create the pod. In a namespace of a tenant that is new
// the account of its pods is made a moment later, and a quota goes on counting pods
// for a moment that are gone: both are waited for. A quota that is used up is not.
func (p *Provider) createIn(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
	begun := time.Now()
	for pause := (pace{}); ; {
		made, err := p.podsOf(pod).Create(ctx, pod, metav1.CreateOptions{})
		switch {
		case err == nil || !p.Separates(pod.Annotations[labelTenant]) || !apierrors.IsForbidden(err):
			return made, err
		case strings.Contains(err.Error(), "serviceaccount \"default\" not found"):
		case exceeded(err) && time.Since(begun) < quotaWithin && p.countsGone(ctx, pod):
		default:
			return nil, err
		}
		if pause.wait(ctx) != nil {
			return nil, err
		}
	}
}

func exceeded(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota: ")
}

// countsGone reports whether the quota of the namespace would have room for the pod if
// it counted the pods that there are.
func (p *Provider) countsGone(ctx context.Context, pod *corev1.Pod) bool {
	quota, err := p.client.CoreV1().ResourceQuotas(p.namespaceOf(pod)).Get(ctx, quotaName, metav1.GetOptions{})
	if err != nil {
		return false
	}
	list, err := p.podsOf(pod).List(ctx, metav1.ListOptions{})
	if err != nil {
		return false
	}
	sum := usageOf(pod)
	for i := range list.Items {
		if phase := list.Items[i].Status.Phase; phase == corev1.PodSucceeded || phase == corev1.PodFailed {
			continue
		}
		for name, n := range usageOf(&list.Items[i]) {
			n.Add(sum[name])
			sum[name] = n
		}
	}
	for name, most := range quota.Spec.Hard {
		if n, counted := sum[name]; counted && n.Cmp(most) > 0 {
			return false
		}
	}
	return true
}

// usageOf is what a quota counts of a pod, without its claims of volumes.
func usageOf(pod *corev1.Pod) corev1.ResourceList {
	out := corev1.ResourceList{corev1.ResourcePods: *quantity(1)}
	for to, from := range map[corev1.ResourceName]corev1.ResourceName{
		corev1.ResourceLimitsMemory: corev1.ResourceMemory, corev1.ResourceLimitsCPU: corev1.ResourceCPU, corev1.ResourceLimitsEphemeralStorage: corev1.ResourceEphemeralStorage,
	} {
		var sum resource.Quantity
		for _, c := range pod.Spec.Containers {
			sum.Add(c.Resources.Limits[from])
		}
		for _, c := range pod.Spec.InitContainers {
			if n := c.Resources.Limits[from]; n.Cmp(sum) > 0 {
				sum = n.DeepCopy()
			}
		}
		out[to] = sum
	}
	return out
}

// quotaKinds are the names that errors have for what a ResourceQuota counts, as those
// of package tenant have.
var quotaKinds = []struct{ resource, kind string }{
	{"pods=", "sandboxes"}, {"limits.memory=", "memory"}, {"limits.cpu=", "nanoCpus"}, {"limits.ephemeral-storage=", "disk"}, {"requests.storage=", "disk"},
}

// overQuota is the error where the API server has refused a pod of the tenant because of
// its quota; nil where it was something else.
func (p *Provider) overQuota(tenant string, err error) error {
	if !p.Separates(tenant) || !exceeded(err) {
		return nil
	}
	_, text, _ := strings.Cut(err.Error(), "exceeded quota: ")
	name, said, _ := strings.Cut(text, ", ")
	if name != quotaName {
		return nil
	}
	e := &sandbox.Error{Code: sandbox.CodeBudgetExceeded, Op: "create", Field: "quota", Resource: "tenant " + tenant, Err: err,
		Message: "the quota of the tenant is used up: " + termsafe.Line(said), Hint: "remove sandboxes that are not needed any more, or have the quota raised"}
	wanted, _, _ := strings.Cut(strings.TrimPrefix(said, "requested: "), ", used: ")
	for _, k := range quotaKinds {
		if strings.Contains(","+wanted, ","+k.resource) {
			e.Field = "quota." + k.kind
			break
		}
	}
	return e
}

// overStorage refuses a claim of a volume for which the quota of the tenant has no
// room. It is the cluster that makes claims, after the pod, so that the pod would wait.
func (p *Provider) overStorage(ctx context.Context, pod *corev1.Pod) error {
	tenant := pod.Annotations[labelTenant]
	var want resource.Quantity
	for _, v := range pod.Spec.Volumes {
		if v.Ephemeral != nil && v.Ephemeral.VolumeClaimTemplate != nil {
			want.Add(v.Ephemeral.VolumeClaimTemplate.Spec.Resources.Requests[corev1.ResourceStorage])
		}
	}
	if want.IsZero() || !p.Separates(tenant) {
		return nil
	}
	begun := time.Now()
	for pause := (pace{}); ; {
		quota, err := p.client.CoreV1().ResourceQuotas(p.namespaceOf(pod)).Get(ctx, quotaName, metav1.GetOptions{})
		if err != nil {
			return p.failTenant(ctx, "read quota", p.namespaceOf(pod), err)
		}
		most, bounded := quota.Status.Hard[corev1.ResourceRequestsStorage]
		used := quota.Status.Used[corev1.ResourceRequestsStorage]
		sum := used.DeepCopy()
		sum.Add(want)
		if !bounded || sum.Cmp(most) <= 0 {
			return nil
		}
		// A claim that is gone counts for a moment, as that of a sandbox that is made anew.
		if time.Since(begun) < quotaWithin && want.Cmp(most) <= 0 && pause.wait(ctx) == nil {
			continue
		}
		return &sandbox.Error{Code: sandbox.CodeBudgetExceeded, Op: "create", Field: "quota.disk", Resource: "tenant " + tenant,
			Message: fmt.Sprintf("the quota of the tenant is used up: requested: requests.storage=%s, used: requests.storage=%s, limited: requests.storage=%s", want.String(), used.String(), most.String()),
			Hint:    "remove sandboxes that are not needed any more, or have the quota raised"}
	}
}

// tenantLease is the name of the Lease, in the namespace of the fleet, that says when
// the namespace of a tenant was used last.
func tenantLease(namespace string) string { return tenantLeasePrefix + digest(namespace) }

// touch notes that the namespace is used, so that no program removes it as one that is
// idle. Where one does so now, its end is waited for.
func (p *Provider) touch(ctx context.Context, namespace string) error {
	p.mu.Lock()
	last, known := p.touched[namespace]
	p.mu.Unlock()
	if known && time.Since(last) < touchEvery {
		return nil
	}
	begun := time.Now()
	for pause := (pace{}); ; {
		l, err := p.tenantLeaseOf(ctx, namespace)
		if err != nil {
			return err
		}
		if at, marked := sweptSince(l); !marked || p.o.Now().Sub(at) > sweepOver {
			delete(l.Annotations, annotationSweep)
			now := metav1.NewMicroTime(p.o.Now().Truncate(time.Microsecond))
			l.Spec.RenewTime = &now
			if _, err = p.writeTenantLease(ctx, l); err == nil {
				p.mu.Lock()
				p.touched[namespace] = begun
				p.mu.Unlock()
				return nil
			}
			if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) && !apierrors.IsNotFound(err) || isNamespace(err) {
				return p.fail(ctx, "note use", namespace, err)
			}
		}
		if err := pause.wait(ctx); err != nil {
			return &sandbox.Error{Code: sandbox.CodeBusy, Op: "create", Resource: namespace, Retryable: true, Err: err, Message: "another program removes the namespace", Hint: "try again"}
		}
	}
}

// tenantLeaseOf returns that Lease; one without a version where there is none.
func (p *Provider) tenantLeaseOf(ctx context.Context, namespace string) (*coordinationv1.Lease, error) {
	name := tenantLease(namespace)
	l, err := p.leases().Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) && !isNamespace(err):
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{labelFormat: sandbox.InfoFormat, labelInstance: p.Instance(), labelRole: roleTenant}, Annotations: map[string]string{labelRole: namespace},
		}}, nil
	case err != nil:
		return nil, p.fail(ctx, "note use", namespace, err)
	case l.Labels[labelInstance] != p.Instance() || l.Labels[labelRole] != roleTenant:
		return nil, &sandbox.Error{Code: sandbox.CodePermissionDeny, Op: "note use", Resource: name, Message: "a Lease of that name exists that is not ours", Hint: "remove it with: kubectl delete lease " + name}
	}
	if l.Annotations == nil {
		l.Annotations = map[string]string{}
	}
	return l, nil
}

func (p *Provider) writeTenantLease(ctx context.Context, l *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	if l.ResourceVersion == "" {
		return p.leases().Create(ctx, l, metav1.CreateOptions{})
	}
	return p.leases().Update(ctx, l, metav1.UpdateOptions{})
}

// sweptSince reports since when a program removes the namespace.
func sweptSince(l *coordinationv1.Lease) (time.Time, bool) {
	text, _, _ := strings.Cut(l.Annotations[annotationSweep], " ")
	if text == "" {
		return time.Time{}, false
	}
	at, _ := time.Parse(time.RFC3339Nano, text) // one that cannot be read is one that has died
	return at, true
}

// SweepTenants implements [provider.TenantSweeper]. The namespaces are those with the
// labels of this fleet alone; each is deleted by its uid, after it was marked, so that
// no program makes a pod there meanwhile.
func (p *Provider) SweepTenants(ctx context.Context, idle time.Duration) ([]string, error) {
	if !p.o.TenantNamespaces || idle <= 0 {
		return nil, nil
	}
	idle = max(idle, leastIdle)
	o := metav1.ListOptions{LabelSelector: selector(labels.Set{labelInstance: p.Instance(), labelRole: roleTenant}), Limit: page}
	var all []corev1.Namespace
	for {
		bounded, done := context.WithTimeout(ctx, p.o.Call)
		list, err := p.client.CoreV1().Namespaces().List(bounded, o)
		done()
		if err != nil {
			return nil, p.failTenant(ctx, "list namespaces", "", err)
		}
		all = append(all, list.Items...)
		if o.Continue = list.Continue; o.Continue == "" {
			break
		}
	}
	var out []string
	for i := range all {
		gone, err := p.sweepTenant(ctx, &all[i], idle)
		if err != nil {
			return out, err
		}
		if gone {
			out = append(out, all[i].Name)
		}
	}
	return out, nil
}

// sweepTenant removes the namespace of a tenant where it is empty and idle.
func (p *Provider) sweepTenant(ctx context.Context, n *corev1.Namespace, idle time.Duration) (bool, error) {
	ctx, done := context.WithTimeout(ctx, sweepFor)
	defer done()
	now := p.o.Now()
	if !p.isTenantNamespace(n) || n.DeletionTimestamp != nil || now.Sub(n.CreationTimestamp.Time) < idle {
		return false, nil
	}
	l, err := p.tenantLeaseOf(ctx, n.Name)
	if err != nil {
		return false, err
	}
	if at, marked := sweptSince(l); marked && now.Sub(at) <= sweepOver || l.Spec.RenewTime != nil && now.Sub(l.Spec.RenewTime.Time) < idle {
		return false, nil
	}
	l.Annotations[annotationSweep] = now.UTC().Format(time.RFC3339Nano) + " " + rand.Text()
	if l, err = p.writeTenantLease(ctx, l); apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) && !isNamespace(err) {
		return false, nil // it is used, or another program removes it
	} else if err != nil {
		return false, p.fail(ctx, "remove namespace", n.Name, err)
	}
	removed := false
	defer func() { // a mark that stays is old soon
		ctx, done := context.WithTimeout(context.WithoutCancel(ctx), p.o.Call)
		defer done()
		if removed {
			pre := metav1.Preconditions{UID: &l.UID, ResourceVersion: &l.ResourceVersion}
			_ = p.leases().Delete(ctx, l.Name, metav1.DeleteOptions{Preconditions: &pre})
			return
		}
		delete(l.Annotations, annotationSweep)
		used := metav1.NewMicroTime(now.Truncate(time.Microsecond)) // it has pods
		l.Spec.RenewTime = &used
		_, _ = p.writeTenantLease(ctx, l)
	}()
	p.mu.Lock()
	delete(p.touched, n.Name)
	p.mu.Unlock()
	pods, err := p.client.CoreV1().Pods(n.Name).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return false, p.failTenant(ctx, "list", n.Name, err)
	}
	if len(pods.Items) > 0 {
		return false, nil
	}
	err = p.client.CoreV1().Namespaces().Delete(ctx, n.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(n.UID))})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return false, nil
	}
	if err != nil {
		return false, p.failTenant(ctx, "remove namespace", n.Name, err)
	}
	removed = true
	return true, nil
}
