package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/client"
)

func (p *Provider) pods() corev1client.PodInterface { return p.client.CoreV1().Pods(p.o.Namespace) }

// awaitRunning waits until the guest's container of the pod runs.
func (p *Provider) awaitRunning(ctx context.Context, op string, pod *corev1.Pod) (*corev1.Pod, error) {
	waited := false
	schedule := time.After(p.o.Schedule)
	last := pod
	look := func(now *corev1.Pod) (bool, error) {
		if now == nil || now.UID != pod.UID {
			return true, &sandbox.Error{Code: sandbox.CodeNotFound, Op: op, Resource: pod.Name, Message: "the pod was removed meanwhile"}
		}
		last = now
		if now.DeletionTimestamp != nil {
			return true, &sandbox.Error{Code: sandbox.CodeNotFound, Op: op, Resource: pod.Name, Message: "the pod is being removed", Retryable: true}
		}
		switch statusOf(now) {
		case sandbox.StatusRunning:
			return true, nil
		case sandbox.StatusUnknown:
			return true, nodeLost(op, now)
		}
		if e := trouble(now, waited); e != nil && (op == "create" || !restarts(now)) {
			e.Op = op
			return true, e
		}
		return false, nil
	}
	err := p.await(ctx, op, pod, look, schedule, func() (bool, error) {
		waited = true
		return look(last)
	})
	if err != nil && ctx.Err() != nil && sandbox.CodeOf(err) == sandbox.CodeTimeout {
		err = notInTime(op, last, "the pod does not run", err)
	}
	return last, err
}

// notInTime says what is known of a pod that has not become what was waited for.
func notInTime(op string, pod *corev1.Pod, what string, cause error) error {
	e := &sandbox.Error{Code: sandbox.CodeTimeout, Op: op, Resource: pod.Name, Retryable: true, Err: cause, Message: what + " in time"}
	switch {
	case lost(pod):
		e.Message += ": its node " + pod.Spec.NodeName + " does not answer"
		e.Hint = hintNode(pod)
	case pod.Spec.NodeName != "":
		e.Message += fmt.Sprintf(" on the node %s (phase %s)", pod.Spec.NodeName, pod.Status.Phase)
		e.Hint = "see: kubectl describe pod " + pod.Name
	default:
		e.Hint = "see: kubectl describe pod " + pod.Name
	}
	return e
}

func hintNode(pod *corev1.Pod) string {
	return "wait until the node is back, or have it removed: kubectl delete node " + pod.Spec.NodeName
}

// restarts reports whether the kubelet will start the container again by itself,
// after a time that grows with each restart.
func restarts(pod *corev1.Pod) bool {
	c := mainStatus(pod)
	return c != nil && c.State.Waiting != nil && c.State.Waiting.Reason == "CrashLoopBackOff"
}

// awaitGone waits until the pod is gone.
func (p *Provider) awaitGone(ctx context.Context, pod *corev1.Pod) error {
	last := pod
	err := p.persist(ctx, func(ctx context.Context) (err error) {
		last, err = p.read(ctx, pod)
		return err
	})
	if err != nil || last == nil || last.UID != pod.UID {
		return p.fail(ctx, "remove", pod.Name, err)
	}
	err = p.await(ctx, "remove", last, func(now *corev1.Pod) (bool, error) {
		if now == nil || now.UID != pod.UID {
			return true, nil
		}
		last = now
		return false, nil
	}, nil, nil)
	if err != nil && ctx.Err() != nil && sandbox.CodeOf(err) == sandbox.CodeTimeout {
		err = notInTime("remove", last, "the pod has not ended", err)
	}
	return err
}

// nodeLost is the error for a pod whose node does not report to the cluster.
func nodeLost(op string, pod *corev1.Pod) error {
	return &sandbox.Error{Code: sandbox.CodeUnavailable, Op: op, Resource: pod.Name, Retryable: true,
		Message: "the node " + pod.Spec.NodeName + " of the pod does not answer (NotReady)", Hint: hintNode(pod)}
}

const (
	// lookAgain is how long a watch may be silent until the pod is read: one whose
	// connection is dead says nothing and does not end for a long time.
	lookAgain = 10 * time.Second
	// lookWithin bounds one such reading.
	lookWithin = 10 * time.Second
)

// await calls look with the pod, then as it is with each change, nil when there is
// none, until look reports that it is enough. When late fires, tardy is called in
// its place, once. An API server that does not answer for less than Options.Call is
// waited for.
func (p *Provider) await(ctx context.Context, op string, pod *corev1.Pod, look func(*corev1.Pod) (bool, error), late <-chan time.Time, tardy func() (bool, error)) error {
	name := pod.Name
	now := pod
	var pace pace
	for {
		enough, err := look(now)
		if enough || err != nil {
			return err
		}
		enough, err = p.watch(ctx, now, look, &late, tardy)
		switch {
		case enough:
			return p.fail(ctx, op, name, err)
		case err != nil && (ctx.Err() != nil || !transient(err) && !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err)):
			return p.fail(ctx, op, name, err)
		}
		for {
			if err := pace.wait(ctx); err != nil {
				return p.fail(ctx, op, name, err)
			}
			if now, err = p.read(ctx, pod); err == nil {
				break
			}
			if !transient(err) || pace.failed() > p.o.Call {
				return p.fail(ctx, op, name, err)
			}
		}
		pace.succeeded()
	}
}

// watch hands the changes of the pod since now to look. It returns true when that
// was enough, with the error of look, and false when the watch has ended.
func (p *Provider) watch(ctx context.Context, now *corev1.Pod, look func(*corev1.Pod) (bool, error), late *<-chan time.Time, tardy func() (bool, error)) (bool, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	silent := time.AfterFunc(lookWithin, cancel) // an API server that accepts and says nothing
	w, err := p.podsOf(now).Watch(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", now.Name).String(), ResourceVersion: now.ResourceVersion})
	if !silent.Stop() {
		err = errors.Join(err, context.DeadlineExceeded)
	}
	if w != nil {
		defer w.Stop()
	}
	if err != nil {
		return false, err
	}
	return follow(ctx, w, now.Name, look, late, tardy)
}

// read returns the pod with the namespace and the name of pod as it is, nil when there
// is none.
func (p *Provider) read(ctx context.Context, of *corev1.Pod) (*corev1.Pod, error) {
	ctx, done := context.WithTimeout(ctx, min(lookWithin, p.o.Call))
	defer done()
	pod, err := p.podsOf(of).Get(ctx, of.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) && !isNamespace(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return pod, nil
}

// A pace spreads the requests of one caller over time, and those of many callers
// whose API server was away.
type pace struct {
	pause time.Duration
	since time.Time // when the first request failed after the last that did not
}

const (
	firstPause = 50 * time.Millisecond
	mostPause  = 2 * time.Second
)

// wait waits before a further request: longer each time, and by a part that is
// random. It returns an error when ctx ends.
func (p *pace) wait(ctx context.Context) error {
	p.pause = min(max(2*p.pause, firstPause), mostPause)
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(p.pause/2 + rand.N(p.pause)):
		return nil
	}
}

// failed notes that a request has failed, and returns since when all have.
func (p *pace) failed() time.Duration {
	if p.since.IsZero() {
		p.since = time.Now()
	}
	return time.Since(p.since)
}

// succeeded notes that a request has not failed. The pause stays: a watch that ends
// at once must not become a loop of requests.
func (p *pace) succeeded() { p.since = time.Time{} }

// persist repeats a call that may be repeated while its errors are transient, until
// they have lasted for Options.Call.
func (p *Provider) persist(ctx context.Context, call func(context.Context) error) error {
	var pace pace
	for {
		bounded, done := context.WithTimeout(ctx, p.o.Call)
		err := call(bounded)
		done()
		if err == nil || !transient(err) || ctx.Err() != nil || pace.failed() > p.o.Call {
			return err
		}
		if pace.wait(ctx) != nil {
			return err
		}
	}
}

// follow hands the events of one pod to look until that is enough or fails, which is
// true, the watch ends, or it has been silent for lookAgain.
func follow(ctx context.Context, w watch.Interface, name string, look func(*corev1.Pod) (bool, error), late *<-chan time.Time, tardy func() (bool, error)) (bool, error) {
	silent := time.NewTimer(lookAgain)
	defer silent.Stop()
	for {
		var now *corev1.Pod
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-silent.C:
			return false, nil
		case <-*late:
			*late = nil
			if enough, err := tardy(); enough || err != nil {
				return true, err
			}
			continue
		case e, open := <-w.ResultChan():
			if !open || e.Type == watch.Error {
				return false, nil // it is looked anew, and then watched from there
			}
			silent.Reset(lookAgain)
			pod, is := e.Object.(*corev1.Pod)
			if !is || pod.Name != name || e.Type == watch.Bookmark {
				continue
			}
			if e.Type != watch.Deleted {
				now = pod
			}
		}
		if enough, err := look(now); enough || err != nil {
			return true, err
		}
	}
}

// staleWithin is how long the state of a container may lag behind what happens to it:
// the kubelet looks for containers that have ended once a second when it has time.
const staleWithin = 10 * time.Second

// connect opens a session with the guest in the pod, in the way that s wants. A
// container that has ended is waited for, as is an API server that answers again within
// staleWithin.
func (p *Provider) connect(ctx context.Context, op string, pod *corev1.Pod, s sandbox.Spec) (*client.Client, wayTaken, error) {
	sh, err := shapeOf(s.Options)
	if err != nil {
		return nil, "", err
	}
	var pace pace
	for {
		c, way, cause := p.reach(ctx, pod, sh)
		if cause == nil {
			go keepAlive(c)
			return c, way, nil
		}
		failed, soon := pace.failed(), early(cause)
		again := soon && failed < time.Second
		if !again && (soon || passing(cause) && failed < staleWithin) {
			now, err := p.read(ctx, pod)
			switch {
			case err != nil:
				again = transient(err)
			case now == nil || now.UID != pod.UID:
			case statusOf(now) == sandbox.StatusRunning:
				again = true
			default:
				if pod, err = p.awaitRunning(ctx, op, now); err != nil {
					return nil, "", err
				}
				pace.succeeded()
				again = true
			}
		}
		if !again || pace.wait(ctx) != nil {
			if e, ours := errors.AsType[*sandbox.Error](cause); ours && e.Field == "kubernetes.way" && ctx.Err() == nil {
				return nil, "", cause
			}
			return nil, "", p.noGuest(ctx, op, pod, cause)
		}
	}
}

// keepAlive asks the guest for signs of life, and ends the connection without them:
// one whose other end is gone without a word, or that leads over a kubelet that has
// stopped, would carry nothing and never end.
func keepAlive(c *client.Client) {
	for {
		select {
		case <-c.Done():
			return
		case <-time.After(signsEvery/2 + rand.N(signsEvery)):
		}
		ctx, done := context.WithTimeout(context.Background(), 2*signsWithin)
		err := c.Ping(ctx) // ends the connection after signsWithin
		done()
		if err != nil {
			return
		}
	}
}

const (
	signsEvery  = 15 * time.Second // on average
	signsWithin = 30 * time.Second // of client.Ping
)

// same returns an error unless the pod is still the one that was connected to. A
// stream is opened by the name of a pod, which another may have by now.
func (p *Provider) same(ctx context.Context, pod *corev1.Pod) error {
	if _, byName := p.way.(execWay); !byName { // a way of tests
		return nil
	}
	var now *corev1.Pod
	err := p.persist(ctx, func(ctx context.Context) (err error) {
		now, err = p.read(ctx, pod)
		return err
	})
	switch {
	case err != nil:
		return p.fail(ctx, "connect to the guest", pod.Name, err)
	case now == nil || now.UID != pod.UID:
		return &sandbox.Error{Code: sandbox.CodeNotFound, Op: "connect to the guest", Resource: pod.Name, Message: "the pod was removed meanwhile", Retryable: true}
	}
	return nil
}

// early reports whether the guest may only not listen yet, or the kubelet not know
// the container yet.
func early(err error) bool {
	_, relay := errors.AsType[relayError](err)
	return relay && strings.Contains(err.Error(), "connect to the guest: connection refused") ||
		strings.Contains(err.Error(), "container not found") || strings.Contains(err.Error(), "unable to upgrade connection: pod does not exist")
}

// passing reports whether a stream that failed may come about a moment later. What
// the relay writes and what forbids is final.
func passing(err error) bool {
	_, relay := errors.AsType[relayError](err)
	return !relay && !errors.Is(err, context.DeadlineExceeded) && transient(unwrapped(err))
}

// unwrapped returns the cause that the client of the guest has put into an error of
// ours, or err.
func unwrapped(err error) error {
	if e, ours := errors.AsType[*sandbox.Error](err); ours && e.Err != nil {
		return e.Err
	}
	return err
}

// noGuest says why a pod that should serve does not.
func (p *Provider) noGuest(ctx context.Context, op string, pod *corev1.Pod, cause error) error {
	if apierrors.IsForbidden(cause) || apierrors.IsUnauthorized(cause) {
		return p.fail(ctx, op, pod.Name, cause)
	}
	e := &sandbox.Error{Code: sandbox.CodeUnavailable, Op: op, Resource: pod.Name, Retryable: true, Err: cause,
		Message: "the guest does not answer", Hint: "start afresh with: sandbox recreate"}
	now, err := p.read(context.WithoutCancel(ctx), pod)
	if err != nil && transient(err) {
		e.Message, e.Hint = "the connection through the API server does not come about, and the API server does not answer", "try again"
	}
	switch {
	case err == nil && now == nil, err == nil && now.UID != pod.UID:
		e.Code, e.Message, e.Hint = sandbox.CodeNotFound, "the pod was removed meanwhile", ""
	case err == nil && lost(now):
		return nodeLost(op, now)
	case err == nil && statusOf(now) != sandbox.StatusRunning:
		if t := trouble(now, true); t != nil {
			t.Op, t.Err = op, cause
			return t
		}
		e.Message = "the guest has ended instead of serving"
	case ctx.Err() != nil, errors.Is(cause, context.DeadlineExceeded):
		e.Code, e.Message = sandbox.CodeTimeout, "the guest has not answered in time"
	}
	return e
}
