// Package kubernetes builds sandboxes out of pods.
//
// A pod is created from a pure plan ([Plan]): the guest is the first process of its
// one container, and everything that isolates it is said in the pod. The guest is
// reached by a port of the pod, with certificates on both sides, or by a [Way], an exec
// stream through the API server. Labels and annotations of the pod say which sandbox it
// was made for, and one Lease for each sandbox holds its record and its locks, so that
// any number of programs serve the same sandboxes.
//
// No folder of the caller's machine is part of a pod: the workspace is a volume of
// the cluster, which lives and ends with the pod.
package kubernetes

import (
	"cmp"
	"context"
	"crypto/rand"
	"flag"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	client "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/confighash"
	guest "github.com/bulkhead-dev/sandbox/guest/client"
	"github.com/bulkhead-dev/sandbox/internal/keylock"
	"github.com/bulkhead-dev/sandbox/policy/hardening"
	"github.com/bulkhead-dev/sandbox/provider"
)

// Name is the word that settings use for the provider.
const Name = "kubernetes"

// Options of a Provider.
type Options struct {
	Kubeconfig string // a file; empty: that of the cluster we run in, $KUBECONFIG, or ~/.kube/config
	Context    string // of the kubeconfig; empty is its current one
	Namespace  string // of all sandboxes; empty is that of the context, or of the pod that we run in

	// TenantNamespaces gives each tenant a namespace of its own, which is made on first
	// use: its pods are there, their policies, claims of volumes, and a ResourceQuota. What
	// has no tenant, and all records and locks, are in Namespace.
	TenantNamespaces bool
	Quota            func(tenant string) Quota // of its namespace, as of now; nil bounds nothing

	Fleet string // keeps programs of one namespace apart; those with the same one share all sandboxes

	Trust func() (string, error)        // the folder of public certificates of this program; nil is none
	World func() hardening.World        // facts about this host for [hardening.Check]; nil is none
	Warn  func(sandbox, warning string) // hears what does not keep a sandbox from working; may be nil
	Now   func() time.Time              // the clock; nil is time.Now

	Lease    time.Duration // after which other programs take over what one holds that has died; default 20 s
	Call     time.Duration // bounds one call of the API; default 30 s
	Schedule time.Duration // how long a pod may find no node; default 15 s
	Ready    time.Duration // how long a pod may take until its guest answers, pulls of images included; default 3 min

	wrap func(http.RoundTripper) http.RoundTripper // for tests: sees each request; or nil
}

// A Provider is the provider named "kubernetes". It is safe for concurrent use.
type Provider struct {
	o      Options
	config *rest.Config
	client client.Interface
	way    Way
	port   *portWay
	turns  keylock.Turns // by sandbox name

	transport http.RoundTripper // of client; or nil

	adjust func(*corev1.Pod) // for tests: changes each pod before it is sent

	mirror *mirror[sandbox.Info] // of the pods; it decides nothing
	trust  trust

	mu     sync.Mutex
	made   string               // the version of the pod that this program has made last
	gone   map[string]types.UID // pods that this program has removed and the mirror may show, by name
	state  *state               // or nil
	closed map[string]time.Time // when the network was last seen closed, by node

	places  map[string]string    // the namespace where the pod of a sandbox was last, by name
	touched map[string]time.Time // when the last use of a tenant's namespace was written
}

var (
	_ sandbox.Provider       = (*Provider)(nil)
	_ provider.Holder        = (*Provider)(nil)
	_ provider.OptionChecker = (*Provider)(nil)
	_ provider.Prober        = (*Provider)(nil)
	_ provider.Planner       = (*Provider)(nil)
)

// New returns a Provider for the cluster that o names. It reads the kubeconfig and
// connects to nothing. A kubeconfig that is missing or no good is
// [sandbox.CodeUnavailable].
func New(o Options) (*Provider, error) {
	config, namespace, err := connection(o)
	if err != nil {
		return nil, &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "connect to cluster", Field: "kubernetes.kubeconfig", Resource: o.Kubeconfig,
			Message: "no cluster is named", Err: err, Hint: "name the file of the credentials in kubernetes.kubeconfig or $KUBECONFIG, and the cluster in kubernetes.context"}
	}
	o.Namespace = cmp.Or(o.Namespace, namespace, "default")
	// The client's own bound of 5 requests a second would make callers wait
	// beside an API server that bounds each account by itself.
	config.QPS, config.Burst = -1, 0
	config.UserAgent = "sandbox"
	if o.wrap != nil {
		config.Wrap(o.wrap)
	}
	// A pod takes a quarter of the time to read that it takes in JSON.
	binary := rest.CopyConfig(config)
	binary.ContentType = runtime.ContentTypeProtobuf
	binary.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	c, err := client.NewForConfig(binary)
	if err != nil {
		return nil, &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "connect to cluster", Field: "kubernetes.kubeconfig", Message: "the credentials cannot be used", Err: err}
	}
	p := newProvider(o, c)
	p.config = config
	if rc, ok := c.CoreV1().RESTClient().(*rest.RESTClient); ok && rc.Client != nil {
		p.transport = rc.Client.Transport
	}
	p.way = execWay{config, c.CoreV1().RESTClient()}
	return p, nil
}

// newProvider returns a Provider without a way to its guests.
func newProvider(o Options, c client.Interface) *Provider {
	o.Call, o.Schedule, o.Ready = cmp.Or(o.Call, 30*time.Second), cmp.Or(o.Schedule, 15*time.Second), cmp.Or(o.Ready, 3*time.Minute)
	o.Lease = cmp.Or(o.Lease, 20*time.Second)
	o.Namespace = cmp.Or(o.Namespace, "default")
	if o.World == nil {
		o.World = func() hardening.World { return hardening.World{} }
	}
	if o.Warn == nil {
		o.Warn = func(string, string) {}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Quota == nil {
		o.Quota = func(string) Quota { return Quota{-1, -1, -1, -1} }
	}
	p := &Provider{
		o: o, client: c, port: newPortWay(o.Now), closed: map[string]time.Time{}, gone: map[string]types.UID{},
		places: map[string]string{}, touched: map[string]time.Time{},
	}
	p.trust.dir = o.Trust
	p.mirror = p.podMirror(o.Namespace)
	return p
}

// connection reads the credentials.
func connection(o Options) (*rest.Config, string, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.Kubeconfig
	rules.WarnIfAllMissing = false
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: o.Context})
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, "", err
	}
	namespace, _, err := loader.Namespace()
	return config, namespace, err
}

// Quiet keeps the client library from writing log lines to standard error, where the
// output of commands appears. What fails is reported by errors. It has to be called
// before the first provider is made.
func Quiet() {
	set := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(set)
	_ = set.Set("logtostderr", "false") // both flags exist
	_ = set.Set("stderrthreshold", "FATAL")
	klog.SetOutput(io.Discard)
}

// Name is "kubernetes".
func (p *Provider) Name() string { return Name }

// Features says what pods can do. They are not frozen: that needs a right on the
// node. Usage is not measured: pods have no metrics without a further server.
func (p *Provider) Features() sandbox.Features {
	return sandbox.Features{Persistent: true, Images: true, TTY: true, Shells: true, Files: true, Dial: true, Listen: true}
}

// Holds implements [provider.Holder]. The kubelet bounds the processes of all pods
// alike; the settings cannot. Ulimits are those of the runtime but for open files.
func (p *Provider) Holds() []provider.Setting {
	return []provider.Setting{
		provider.HoldsNetwork, provider.HoldsMemory, provider.HoldsCPUs, provider.HoldsShmSize, provider.HoldsReadOnly, provider.HoldsTmpfs,
		provider.HoldsCapDrop, provider.HoldsUser, provider.HoldsDNS, provider.HoldsExtraHosts, provider.HoldsOnStart, provider.HoldsRuntime,
		provider.HoldsAppArmor, provider.HoldsLimits,
	}
}

// Close gives up the leases of sandboxes, and lets go of connections to the API server
// that no call uses. Pods stay.
func (p *Provider) Close() error {
	p.mirror.stop()
	if s := p.keeps(); s != nil {
		s.close()
	}
	if p.transport != nil {
		utilnet.CloseIdleConnectionsFor(p.transport)
	}
	return nil
}

// keeps returns the state of this program, or nil.
func (p *Provider) keeps() *state {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state
}

// unfenced is an error where this program has lost its locks of the sandbox and the
// caller may not know.
func (p *Provider) unfenced(name string) error {
	if s := p.keeps(); s != nil {
		return s.unfenced(name)
	}
	return nil
}

// Probe reports whether the API server answers and lets us list pods.
func (p *Provider) Probe(ctx context.Context) error {
	ctx, done := context.WithTimeout(ctx, p.o.Call)
	defer done()
	_, err := p.allPods().List(ctx, metav1.ListOptions{LabelSelector: selectorOf(sandbox.Filter{}), Limit: 1})
	return p.failIn(ctx, "probe", p.o.Namespace, err)
}

// Inspect implements [sandbox.Provider].
func (p *Provider) Inspect(ctx context.Context, name string) (sandbox.Info, error) {
	pod, err := p.get(ctx, "inspect", name)
	if err != nil {
		return sandbox.Info{}, err
	}
	return infoOf(pod), nil
}

func (p *Provider) get(ctx context.Context, op, name string) (*corev1.Pod, error) {
	if name == "" {
		return nil, &sandbox.Error{Code: sandbox.CodeNotFound, Op: op, Message: "there is no sandbox without a name"}
	}
	ctx, done := context.WithTimeout(ctx, p.o.Call)
	defer done()
	pod, err := p.find(ctx, name)
	if err != nil {
		return nil, p.failIn(ctx, op, name, err)
	}
	return pod, nil
}

// getOf returns the pod of s. No pod in the namespace of another tenant is asked for.
func (p *Provider) getOf(ctx context.Context, op string, s sandbox.Spec) (*corev1.Pod, error) {
	if !p.o.TenantNamespaces || s.Name == "" {
		return p.get(ctx, op, s.Name)
	}
	ctx, done := context.WithTimeout(ctx, p.o.Call)
	defer done()
	pod, err := p.client.CoreV1().Pods(p.tenantNamespace(s.Owner.Tenant)).Get(ctx, s.Name, metav1.GetOptions{})
	if err != nil {
		return nil, p.failIn(ctx, op, s.Name, err)
	}
	p.place(pod)
	return pod, nil
}

// page is how many pods one answer of the API server lists.
const page = 500

// List implements [sandbox.Provider]. It is answered from memory where a watch fills that,
// with all that this program has made and removed. What others have changed in the last
// moment may be missing, so that a caller who finds a sandbox absent and acts on that
// looks for it by its name again.
func (p *Provider) List(ctx context.Context, f sandbox.Filter) ([]sandbox.Info, error) {
	ctx, done := context.WithTimeout(ctx, p.o.Call)
	defer done()
	if f.Name != "" || p.o.TenantNamespaces { // the mirror knows pods by their names, which are unique in one namespace
		return p.listed(ctx, f)
	}
	if infos, ok := p.mirrored(ctx, f); ok {
		return infos, nil
	}
	infos, err := p.listed(ctx, f)
	if err == nil {
		p.mirror.start() // for the next ones
	}
	return infos, err
}

// settled is how long the mirror may be behind the version that the API server has now. A
// version of which nothing is heard in that time concerns other objects: their versions
// count together.
const settled = 100 * time.Millisecond

// mirrored is List from the mirror; ok is false where that cannot be relied on.
func (p *Provider) mirrored(ctx context.Context, f sandbox.Filter) (out []sandbox.Info, ok bool) {
	if _, _, live := p.mirror.guess(""); !live {
		return nil, false
	}
	p.mu.Lock()
	made := cmp.Or(p.made, "0")
	p.mu.Unlock()
	// That the API server answers, and what it has by now.
	now, err := p.pods().List(ctx, metav1.ListOptions{LabelSelector: selectorOf(sandbox.Filter{}), Limit: 1})
	if err != nil {
		return nil, false
	}
	infos, ok := p.mirror.all(ctx, now.ResourceVersion, settled, p.lacks)
	if !ok {
		infos, ok = p.mirror.all(ctx, made, catchUp, p.lacks)
	}
	for _, info := range infos {
		if matches(info, f) {
			out = append(out, info)
		}
	}
	return out, ok
}

// lacks reports whether none is of the pods that this program has removed.
func (p *Provider) lacks(of map[string]viewed[sandbox.Info]) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, uid := range p.gone {
		if string(uid) == of[name].value.ID {
			return false
		}
		delete(p.gone, name) // it does not come back
	}
	return true
}

// listed is List from the API server, page by page, each as of the same moment; where that
// moment is forgotten meanwhile it begins anew.
func (p *Provider) listed(ctx context.Context, f sandbox.Filter) ([]sandbox.Info, error) {
	o := metav1.ListOptions{LabelSelector: selectorOf(f), Limit: page}
	if f.Name != "" {
		o.FieldSelector = fields.OneTermEqualSelector("metadata.name", f.Name).String()
	}
	pods := p.allPods()
	if f.Tenant != "" {
		pods = p.client.CoreV1().Pods(p.tenantNamespace(f.Tenant))
	}
	var out []sandbox.Info
	for expired := 0; ; {
		list, err := pods.List(ctx, o)
		if apierrors.IsResourceExpired(err) && expired < 3 {
			expired, o.Continue, out = expired+1, "", nil
			continue
		}
		if err != nil {
			return nil, p.failIn(ctx, "list", p.o.Namespace, err)
		}
		for i := range list.Items {
			if info := infoOf(&list.Items[i]); info.Format != "" && matches(info, f) && p.inPlace(&list.Items[i]) {
				p.place(&list.Items[i])
				out = append(out, info)
			}
		}
		if o.Continue = list.Continue; o.Continue == "" {
			return out, nil
		}
	}
}

// Remove implements [sandbox.Provider]. It removes pods with our labels only.
func (p *Provider) Remove(ctx context.Context, name string) error {
	release, err := p.turns.Enter(ctx, name)
	if err != nil {
		return err
	}
	defer release()
	if err := p.unfenced(name); err != nil {
		return err
	}
	pod, err := p.get(ctx, "remove", name)
	switch {
	case sandbox.IsNotFound(err):
		return nil
	case err != nil:
		return err
	case !isOurs(pod):
		return notOurs("remove", name)
	}
	return p.remove(ctx, pod)
}

// removeWithin bounds the end of a pod.
const removeWithin = 2 * time.Minute

// remove deletes the pod and returns when it is gone, with all that ran in it.
func (p *Provider) remove(ctx context.Context, pod *corev1.Pod) error {
	ctx, done := context.WithTimeout(ctx, removeWithin)
	defer done()
	err := p.persist(ctx, func(ctx context.Context) error {
		return p.podsOf(pod).Delete(ctx, pod.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))})
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if apierrors.IsConflict(err) { // another pod has the name by now
		return nil
	}
	if err != nil {
		return p.fail(ctx, "remove", pod.Name, err)
	}
	p.port.forget(pod.UID)
	err = p.awaitGone(ctx, pod)
	if p.Separates(pod.Annotations[labelTenant]) {
		if err := p.touch(ctx, p.namespaceOf(pod)); err != nil {
			p.o.Warn(pod.Name, "could not note the last use of the namespace: "+err.Error())
		}
	}
	if err != nil || p.o.TenantNamespaces {
		return err
	}
	p.mu.Lock()
	p.gone[pod.Name] = pod.UID
	p.mu.Unlock()
	return nil
}

// discard removes what a failed Create made, also when ctx has ended.
func (p *Provider) discard(ctx context.Context, pod *corev1.Pod) {
	if err := p.remove(context.WithoutCancel(ctx), pod); err != nil {
		p.o.Warn(pod.Name, "could not remove a half-made pod, which sandbox prune does later: "+err.Error())
	}
}

// Create implements [sandbox.Provider].
func (p *Provider) Create(ctx context.Context, s sandbox.Spec) (sandbox.Info, error) {
	release, err := p.turns.Enter(ctx, s.Name)
	if err != nil {
		return sandbox.Info{}, err
	}
	defer release()
	if err := p.unfenced(s.Name); err != nil {
		return sandbox.Info{}, err
	}
	pod, err := p.plan(s)
	if err != nil {
		return sandbox.Info{}, err
	}
	made, err := p.make(ctx, s, pod)
	if err != nil {
		return sandbox.Info{}, err
	}
	info, running, err := p.ensureRunning(ctx, pod, made, s)
	if err != nil {
		p.discard(ctx, made)
		return sandbox.Info{}, err
	}
	p.mu.Lock()
	if newer(running, p.made) {
		p.made = running
	}
	p.mu.Unlock()
	return info, nil
}

// plan checks s and returns the pod that is asked for, which is checked as well.
func (p *Provider) plan(s sandbox.Spec) (*corev1.Pod, error) {
	world := p.o.World()
	world.Workspaces = append(slices.Clone(world.Workspaces), workspacesRoot)
	if err := checkSpec(s, world); err != nil {
		return nil, err
	}
	if err := p.checkPlaced(s); err != nil {
		return nil, err
	}
	hash, err := confighash.Sum(s)
	if err != nil {
		return nil, err
	}
	pod, err := Plan(s, hash, p.o.Now())
	if err != nil {
		return nil, err
	}
	pod.Namespace = p.tenantNamespace(s.Owner.Tenant)
	pod.Annotations[annotationAttempt] = rand.Text()
	if p.adjust != nil {
		p.adjust(pod)
	}
	return pod, checkPod(pod)
}

// make has the API server create the pod. The server goes on with a call whose
// caller has hung up, and the pod would appear later; so the call is seen to its
// end, and what came of it is removed when ctx has ended meanwhile.
func (p *Provider) make(ctx context.Context, s sandbox.Spec, pod *corev1.Pod) (*corev1.Pod, error) {
	bounded, done := context.WithTimeout(ctx, p.o.Call)
	defer done()
	if err := bounded.Err(); err != nil {
		return nil, p.fail(bounded, "create", s.Name, err)
	}
	if p.Separates(s.Owner.Tenant) {
		if err := p.prepareTenant(bounded, s.Owner.Tenant); err != nil {
			return nil, err
		}
		if err := p.overStorage(bounded, pod); err != nil {
			return nil, err
		}
	}
	if s.Network == networkNone {
		if err := p.closeNetwork(bounded, pod.Namespace); err != nil {
			return nil, err
		}
		if err := p.openPort(bounded, pod.Namespace, s); err != nil {
			return nil, err
		}
	}
	type answer struct {
		pod *corev1.Pod
		err error
	}
	answers := make(chan answer, 1)
	go func() {
		ctx, done := context.WithTimeout(context.WithoutCancel(ctx), p.o.Call)
		defer done()
		made, err := p.createIn(ctx, pod)
		if unanswered(err) {
			made, err = p.settle(ctx, pod, err)
		}
		answers <- answer{made, err}
	}()
	var a answer
	select {
	case a = <-answers:
	case <-ctx.Done():
		// The API server answers soon, or not at all.
		select {
		case a = <-answers:
		case <-time.After(5 * time.Second):
			go func() {
				if a := <-answers; a.err == nil {
					p.discard(ctx, a.pod)
				}
			}()
			return nil, p.fail(ctx, "create", s.Name, ctx.Err())
		}
	}
	switch {
	case apierrors.IsAlreadyExists(a.err):
		return nil, &sandbox.Error{Code: sandbox.CodeBusy, Op: "create", Resource: s.Name, Message: "a pod of that name exists"}
	case a.err != nil:
		if err := p.overQuota(s.Owner.Tenant, a.err); err != nil {
			return nil, err
		}
		return nil, p.failIn(ctx, "create", s.Name, a.err)
	case ctx.Err() != nil:
		p.discard(ctx, a.pod)
		return nil, p.fail(ctx, "create", s.Name, ctx.Err())
	}
	p.place(a.pod)
	return a.pod, nil
}

// settleWithin is how long a pod may appear after the call that makes it has failed
// without an answer and the API server answers others again.
const settleWithin = 2 * time.Second

// settle finds out whether the call that was to make the pod, and that has failed
// with cause, has taken effect: the answer may have been lost, and the server may
// still be at it. It returns the pod, or cause.
func (p *Provider) settle(ctx context.Context, pod *corev1.Pod, cause error) (*corev1.Pod, error) {
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), p.o.Call)
	defer done()
	var pace pace
	for absent := (time.Time{}); ; {
		now, err := p.read(ctx, pod)
		switch {
		case err != nil && !transient(err):
			return nil, cause
		case err != nil: // asked again
		case now != nil && now.Annotations[annotationAttempt] == pod.Annotations[annotationAttempt]:
			return now, nil
		case now != nil: // another has the name, so this one can have it no more
			return nil, apierrors.NewAlreadyExists(corev1.Resource("pods"), pod.Name)
		case apierrors.IsAlreadyExists(cause): // and it is gone again
			return nil, cause
		case absent.IsZero():
			absent = time.Now()
		case time.Since(absent) > settleWithin:
			return nil, cause
		}
		if pace.wait(ctx) != nil {
			return nil, &sandbox.Error{Code: sandbox.CodeTimeout, Op: "create", Resource: pod.Name, Retryable: true, Err: cause,
				Message: "the API server has not answered in time, so whether the pod was made is not known", Hint: "try again; if no call does, sandbox prune removes the pod"}
		}
	}
}

// ensureRunning holds the pod that was made against the one that was asked for, and
// waits until its guest is ready. It returns the version of the pod that runs as well.
func (p *Provider) ensureRunning(ctx context.Context, asked, made *corev1.Pod, s sandbox.Spec) (_ sandbox.Info, version string, err error) {
	if err := compare(asked, made); err != nil {
		return sandbox.Info{}, "", err
	}
	if err := checkPod(made); err != nil {
		return sandbox.Info{}, "", err
	}
	ctx, done := context.WithTimeout(ctx, p.o.Ready)
	defer done()
	pod, err := p.awaitRunning(ctx, "create", made)
	if err != nil {
		return sandbox.Info{}, "", err
	}
	if err := checkPod(pod); err != nil { // as it is after all that changes pods
		return sandbox.Info{}, "", err
	}
	c, _, err := p.connect(ctx, "create", pod, s)
	if err != nil {
		return sandbox.Info{}, "", err
	}
	defer c.Close()
	p.warn(c, s)
	return infoOf(pod), pod.ResourceVersion, p.makeReady(ctx, c, pod, s)
}

// makeReady tries the network and runs the OnStart lines, unless that was done since
// the guest started. Open does both where the process that made the pod has ended
// before it did.
func (p *Provider) makeReady(ctx context.Context, c *guest.Client, pod *corev1.Pod, s sandbox.Spec) error {
	if c.Hello().Ready == "" {
		if err := p.tryNetwork(ctx, c, pod, s); err != nil {
			return err
		}
		if err := c.SetReady(ctx, "closed"); err != nil {
			return err
		}
	}
	return provider.MakeReady(ctx, c, s)
}

// Open implements [sandbox.Provider]. The kubelet starts a container again that has
// ended; Open waits for that. A pod that was evicted is not started again.
func (p *Provider) Open(ctx context.Context, s sandbox.Spec) (sandbox.Sandbox, error) {
	release, err := p.turns.Enter(ctx, s.Name)
	if err != nil {
		return nil, err
	}
	defer release()
	pod, err := p.getOf(ctx, "open", s)
	switch {
	case err != nil:
		return nil, err
	case !isOurs(pod):
		return nil, notOurs("open", s.Name)
	}
	if _, err := infoOf(pod).CheckFormat("open"); err != nil {
		return nil, err
	}
	if !infoOf(pod).Owner.Same(s.Owner) {
		return nil, &sandbox.Error{Code: sandbox.CodePermissionDeny, Op: "open", Resource: s.Name, Message: "the sandbox of that name belongs to another tenant or scope"}
	}
	if err := checkPod(pod); err != nil {
		return nil, err
	}
	ctx, done := context.WithTimeout(ctx, p.o.Ready)
	defer done()
	if pod, err = p.awaitRunning(ctx, "open", pod); err != nil {
		return nil, err
	}
	c, way, err := p.connect(ctx, "open", pod, s)
	if err != nil {
		return nil, err
	}
	if err := p.makeReady(ctx, c, pod, s); err != nil {
		c.Close()
		return nil, err
	}
	return &handle{info: infoOf(pod), spec: s, guest: c, way: way, trust: &p.trust}, nil
}

func notOurs(op, name string) error {
	return &sandbox.Error{Code: sandbox.CodePermissionDeny, Op: op, Resource: name, Message: "a pod of that name exists that is not ours", Hint: "remove it with kubectl, or use another namespace"}
}
