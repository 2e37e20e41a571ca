package kubernetes

import (
	"context"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/bulkhead-dev/sandbox"
)

// A mirror is what the objects of one kind in one namespace were when the API server
// reported them last. It saves reads and decides nothing: what is derived from it is
// either written on the condition that the object still has the version which the
// mirror has, or is read again. One watch fills it. A watch that ends is resumed where
// it ended, after a pause that grows and is partly random, so that the programs of a
// fleet do not all list at the moment at which an API server returns.
//
// It is safe for concurrent use.
type mirror[T any] struct {
	source objects
	view   func(runtime.Object) (T, bool) // what is kept of an object; false is nothing

	begin sync.Once
	ctx   context.Context // of the watch
	end   context.CancelFunc

	mu      sync.Mutex
	of      map[string]viewed[T] // by name
	version string               // all changes up to this version are in of
	synced  bool                 // of holds a whole list
	open    int                  // watches that are open
	heard   time.Time            // when the API server said something last
	changed chan struct{}        // closed at the next change
}

// A viewed is what is kept of one version of an object.
type viewed[T any] struct {
	value   T
	version string
}

// Objects are those of one kind in one namespace, as they are listed and watched.
type objects struct {
	example runtime.Object // of the kind
	list    func(context.Context, metav1.ListOptions) (runtime.Object, error)
	watch   func(context.Context, metav1.ListOptions) (watch.Interface, error)
	slim    func(runtime.Object) // drops what no view needs
}

const (
	// silent is how long the API server may say nothing over a watch. It sends a
	// bookmark about once a minute; a connection that is dead says nothing at all.
	silent = 3 * time.Minute

	// catchUp bounds the wait for a mirror that is behind. After it the API server is
	// asked instead.
	catchUp = 2 * time.Second
)

func newMirror[T any](of objects, view func(runtime.Object) (T, bool)) *mirror[T] {
	m := &mirror[T]{source: of, view: view, of: map[string]viewed[T]{}, changed: make(chan struct{})}
	m.ctx, m.end = context.WithCancel(context.Background())
	return m
}

// start begins to watch, once.
func (m *mirror[T]) start() {
	m.begin.Do(func() {
		r := cache.NewReflectorWithOptions(&cache.ListWatch{ListWithContextFunc: m.list, WatchFuncWithContext: m.watch, DisableChunking: true}, m.source.example, m, cache.ReflectorOptions{Name: "mirror"})
		go r.RunWithContext(m.ctx)
	})
}

// stop ends the watch. What the mirror has is of no use from then on.
func (m *mirror[T]) stop() {
	m.end()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.synced = false
	m.of = map[string]viewed[T]{}
	m.change()
}

// list reads all objects, page by page as of one moment, and keeps of each page only
// what is needed. A version that the reflector asks for is ignored: what etcd has is
// never older.
func (m *mirror[T]) list(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	o.ResourceVersion, o.ResourceVersionMatch, o.Limit, o.Continue = "", "", page, ""
	var all []runtime.Object
	for expired := 0; ; {
		list, err := m.source.list(ctx, o)
		if apierrors.IsResourceExpired(err) && expired < 3 {
			expired, o.Continue, all = expired+1, "", nil
			continue
		}
		if err != nil {
			return nil, err
		}
		items, err := meta.ExtractListWithAlloc(list)
		if err != nil {
			return nil, err
		}
		for _, item := range items {
			m.source.slim(item)
		}
		all = append(all, items...)
		at, err := meta.ListAccessor(list)
		if err != nil {
			return nil, err
		}
		if o.Continue = at.GetContinue(); o.Continue == "" {
			return list, meta.SetList(list, all)
		}
	}
}

// watch opens the watch that the reflector asks for.
func (m *mirror[T]) watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	w, err := m.source.watch(ctx, o)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	m.open++
	m.heard = time.Now()
	m.mu.Unlock()
	return &mirrorWatch{Interface: w, ended: sync.OnceFunc(func() {
		m.mu.Lock()
		m.open--
		m.mu.Unlock()
	})}, nil
}

// A mirrorWatch says when its watch has ended: the reflector stops each.
type mirrorWatch struct {
	watch.Interface
	ended func()
}

// Stop implements [watch.Interface].
func (w *mirrorWatch) Stop() {
	w.ended()
	w.Interface.Stop()
}

// change wakes those that wait. The caller holds m.mu.
func (m *mirror[T]) change() {
	close(m.changed)
	m.changed = make(chan struct{})
}

// Add implements [cache.ReflectorStore].
func (m *mirror[T]) Add(object any) error { return m.Update(object) }

// Update implements [cache.ReflectorStore].
func (m *mirror[T]) Update(object any) error {
	o, ok := object.(runtime.Object)
	if !ok {
		return nil
	}
	m.source.slim(o)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.put(o)
	return nil
}

// put takes an object over. The caller holds m.mu.
func (m *mirror[T]) put(o runtime.Object) {
	at, err := meta.Accessor(o)
	if err != nil {
		return
	}
	if value, ok := m.view(o); ok {
		m.of[at.GetName()] = viewed[T]{value, at.GetResourceVersion()}
	} else {
		delete(m.of, at.GetName())
	}
}

// Delete implements [cache.ReflectorStore].
func (m *mirror[T]) Delete(object any) error {
	o, ok := object.(runtime.Object)
	if !ok {
		return nil
	}
	at, err := meta.Accessor(o)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.of, at.GetName())
	return nil
}

// Replace implements [cache.ReflectorStore].
func (m *mirror[T]) Replace(list []any, version string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.of = make(map[string]viewed[T], len(list))
	for _, object := range list {
		if o, ok := object.(runtime.Object); ok {
			m.put(o)
		}
	}
	m.version, m.synced, m.heard = version, true, time.Now()
	m.change()
	return nil
}

// Resync implements [cache.ReflectorStore].
func (m *mirror[T]) Resync() error { return nil }

// UpdateResourceVersion implements [cache.ResourceVersionUpdater]: it is called after
// each change and each bookmark.
func (m *mirror[T]) UpdateResourceVersion(version string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.version, m.heard = version, time.Now()
	m.change()
}

// live reports whether the mirror follows the API server. The caller holds m.mu.
func (m *mirror[T]) live() bool {
	return m.synced && m.open > 0 && time.Since(m.heard) < silent && m.ctx.Err() == nil
}

// guess returns what the mirror has of a name, with its version. known is false where
// the mirror does not follow the API server; without a version there was no object. The
// value is shared: it is not to be changed.
func (m *mirror[T]) guess(name string) (value T, version string, known bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.live() {
		return value, "", false
	}
	v := m.of[name]
	return v.value, v.version, true
}

// all returns all that the mirror has once it holds the changes up to version, and has
// is true of it. ok is false where the mirror does not follow the API server or that is
// not so within the time.
func (m *mirror[T]) all(ctx context.Context, version string, within time.Duration, has func(map[string]viewed[T]) bool) (out []T, ok bool) {
	timer := time.NewTimer(within)
	defer timer.Stop()
	for {
		m.mu.Lock()
		live, changed := m.live(), m.changed
		if live && !newer(version, m.version) && (has == nil || has(m.of)) {
			out = make([]T, 0, len(m.of))
			for _, v := range m.of {
				out = append(out, v.value)
			}
			m.mu.Unlock()
			return out, true
		}
		m.mu.Unlock()
		if !live {
			return nil, false
		}
		select {
		case <-changed:
		case <-timer.C:
			return nil, false
		case <-ctx.Done():
			return nil, false
		}
	}
}

// leaseMirror mirrors the Leases of a fleet in a namespace, with those of its replicas.
func (p *Provider) leaseMirror(namespace string) *mirror[*coordinationv1.Lease] {
	selector := selector(labels.Set{labelInstance: p.Instance()})
	of := p.client.CoordinationV1().Leases(namespace)
	return newMirror(objects{
		example: &coordinationv1.Lease{},
		list: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.LabelSelector = selector
			return of.List(ctx, o)
		},
		watch: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.LabelSelector = selector
			return of.Watch(ctx, o)
		},
		slim: func(o runtime.Object) {
			if l, ok := o.(*coordinationv1.Lease); ok {
				l.ManagedFields = nil // a change without them leaves them as they are
			}
		},
	}, func(o runtime.Object) (*coordinationv1.Lease, bool) {
		l, ok := o.(*coordinationv1.Lease)
		return l, ok
	})
}

// podMirror mirrors the pods of all sandboxes in a namespace, whatever instance they
// are of.
func (p *Provider) podMirror(namespace string) *mirror[sandbox.Info] {
	selector := selectorOf(sandbox.Filter{})
	of := p.client.CoreV1().Pods(namespace)
	return newMirror(objects{
		example: &corev1.Pod{},
		list: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.LabelSelector = selector
			return of.List(ctx, o)
		},
		watch: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.LabelSelector = selector
			return of.Watch(ctx, o)
		},
		slim: slimPod,
	}, func(o runtime.Object) (sandbox.Info, bool) {
		pod, ok := o.(*corev1.Pod)
		if !ok {
			return sandbox.Info{}, false
		}
		info := infoOf(pod)
		return info, info.Format != ""
	})
}

// slimPod leaves what [infoOf] reads.
func slimPod(o runtime.Object) {
	p, ok := o.(*corev1.Pod)
	if !ok {
		return
	}
	ours := map[string]string{}
	for name, value := range p.Annotations {
		if strings.HasPrefix(name, labelPrefix) && name != annotationPasswd && name != annotationGroup {
			ours[name] = value
		}
	}
	main := p.Status.ContainerStatuses
	if c := mainStatus(p); c != nil {
		main = []corev1.ContainerStatus{{Name: c.Name, State: c.State}}
	}
	*p = corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: p.Name, Namespace: p.Namespace, UID: p.UID, ResourceVersion: p.ResourceVersion, CreationTimestamp: p.CreationTimestamp,
			DeletionTimestamp: p.DeletionTimestamp, Labels: p.Labels, Annotations: ours,
		},
		Spec:   corev1.PodSpec{ReadinessGates: p.Spec.ReadinessGates},
		Status: corev1.PodStatus{Phase: p.Status.Phase, Conditions: p.Status.Conditions, ContainerStatuses: main},
	}
}
