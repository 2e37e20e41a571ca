package kubernetes

import (
	"context"
	"errors"
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
		if statusOf(now) == sandbox.StatusRunning {
			return true, nil
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
	return last, err
}

// restarts reports whether the kubelet will start the container again by itself,
// after a time that grows with each restart.
func restarts(pod *corev1.Pod) bool {
	c := mainStatus(pod)
	return c != nil && c.State.Waiting != nil && c.State.Waiting.Reason == "CrashLoopBackOff"
}

// awaitGone waits until the pod is gone.
func (p *Provider) awaitGone(ctx context.Context, pod *corev1.Pod) error {
	return p.await(ctx, "remove", pod, func(now *corev1.Pod) (bool, error) {
		return now == nil || now.UID != pod.UID, nil
	}, nil, nil)
}

// await calls look with the pod as it is now, nil when there is none, and with each
// change of it until look reports that it is enough. When late fires, tardy is
// called in its place, once.
func (p *Provider) await(ctx context.Context, op string, pod *corev1.Pod, look func(*corev1.Pod) (bool, error), late <-chan time.Time, tardy func() (bool, error)) error {
	name := pod.Name
	for again := time.Duration(0); ; again = min(again+50*time.Millisecond, time.Second) {
		if again > 0 { // a watch that ends at once must not become a loop of requests
			select {
			case <-ctx.Done():
				return p.fail(ctx, op, name, ctx.Err())
			case <-time.After(again):
			}
		}
		now, err := p.pods().Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			now, err = nil, nil
		}
		if err != nil {
			return p.fail(ctx, op, name, err)
		}
		if enough, err := look(now); enough || err != nil {
			return err
		}
		w, err := p.pods().Watch(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String(), ResourceVersion: now.ResourceVersion})
		if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
			continue
		}
		if err != nil {
			return p.fail(ctx, op, name, err)
		}
		enough, err := follow(ctx, w, name, look, &late, tardy)
		w.Stop()
		if ctx.Err() != nil && err == nil && !enough {
			err = ctx.Err()
		}
		if enough || err != nil {
			return p.fail(ctx, op, name, err)
		}
	}
}

// follow hands the events of one pod to look until it is enough or the watch ends.
func follow(ctx context.Context, w watch.Interface, name string, look func(*corev1.Pod) (bool, error), late *<-chan time.Time, tardy func() (bool, error)) (bool, error) {
	for {
		var now *corev1.Pod
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-*late:
			*late = nil
			if enough, err := tardy(); enough || err != nil {
				return enough, err
			}
			continue
		case e, open := <-w.ResultChan():
			if !open || e.Type == watch.Error {
				return false, nil // it is looked anew, and then watched from there
			}
			pod, is := e.Object.(*corev1.Pod)
			if !is || pod.Name != name || e.Type == watch.Bookmark {
				continue
			}
			if e.Type != watch.Deleted {
				now = pod
			}
		}
		if enough, err := look(now); enough || err != nil {
			return enough, err
		}
	}
}

// betweenTries is the least time between two tries of a guest that does not listen
// yet. A relay waits for some seconds itself.
const betweenTries = 100 * time.Millisecond

// connect opens a session with the guest in the pod.
func (p *Provider) connect(ctx context.Context, op string, pod *corev1.Pod) (*client.Client, error) {
	for {
		c, cause := p.connectOnce(ctx, pod)
		if cause == nil {
			return c, nil
		}
		if again := early(cause); again && ctx.Err() == nil {
			select {
			case <-ctx.Done():
			case <-time.After(betweenTries):
				continue
			}
		}
		return nil, p.noGuest(ctx, op, pod, cause)
	}
}

func (p *Provider) connectOnce(ctx context.Context, pod *corev1.Pod) (*client.Client, error) {
	conn, err := p.way.Connect(ctx, pod)
	if err != nil {
		return nil, err
	}
	c, err := client.New(ctx, conn, client.Options{Name: pod.Name})
	if err != nil {
		conn.Close()
		if why := conn.Explain(); why != nil && !errors.Is(why, context.Canceled) {
			err = why
		}
		return nil, err
	}
	return c, nil
}

// early reports whether the guest may only not listen yet, or the kubelet not know
// the container yet.
func early(err error) bool {
	_, relay := errors.AsType[relayError](err)
	return relay && strings.Contains(err.Error(), "connect to the guest: connection refused") ||
		strings.Contains(err.Error(), "container not found") || strings.Contains(err.Error(), "unable to upgrade connection: pod does not exist")
}

// noGuest says why a pod that should serve does not.
func (p *Provider) noGuest(ctx context.Context, op string, pod *corev1.Pod, cause error) error {
	if ctx.Err() != nil {
		return &sandbox.Error{Code: sandbox.CodeTimeout, Op: op, Resource: pod.Name, Message: "the guest has not answered in time", Retryable: true, Err: cause}
	}
	if apierrors.IsForbidden(cause) || apierrors.IsUnauthorized(cause) {
		return p.fail(ctx, op, pod.Name, cause)
	}
	e := &sandbox.Error{Code: sandbox.CodeUnavailable, Op: op, Resource: pod.Name, Retryable: true, Err: cause,
		Message: "the guest does not answer", Hint: "start afresh with: sandbox recreate"}
	now, err := p.get(context.WithoutCancel(ctx), op, pod.Name)
	switch {
	case sandbox.IsNotFound(err) || err == nil && now.UID != pod.UID:
		e.Code, e.Message, e.Hint = sandbox.CodeNotFound, "the pod was removed meanwhile", ""
	case err == nil && statusOf(now) != sandbox.StatusRunning:
		if t := trouble(now, true); t != nil {
			t.Op, t.Err = op, cause
			return t
		}
		e.Message = "the guest has ended instead of serving"
	}
	return e
}
