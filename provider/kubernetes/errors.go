package kubernetes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
)

// fail makes an error of the API one of ours. name is the object concerned.
func (p *Provider) fail(ctx context.Context, op, name string, err error) error {
	return p.failAt(ctx, p.o.Namespace, op, name, err)
}

// failIn is fail for what is asked of all namespaces of the fleet, or of one of them.
func (p *Provider) failIn(ctx context.Context, op, name string, err error) error {
	if lacks := lacksRight(op, name, err); p.o.TenantNamespaces && lacks != nil {
		return lacks
	}
	return p.fail(ctx, op, name, err)
}

// failAt is fail for a call in the namespace.
func (p *Provider) failAt(ctx context.Context, namespace, op, name string, err error) error {
	if err == nil {
		return nil
	}
	if _, ours := errors.AsType[*sandbox.Error](err); ours {
		return err
	}
	e := &sandbox.Error{Op: op, Resource: name, Err: err}
	set := func(code sandbox.Code, message, hint string) error {
		e.Code, e.Message, e.Hint = code, message, hint
		return e
	}
	switch {
	case ctx.Err() != nil, errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		e.Retryable = true
		return set(sandbox.CodeTimeout, "the API server has not answered in time", "try again; look at the load of the API server")
	case apierrors.IsNotFound(err) && isNamespace(err):
		return set(sandbox.CodeUnavailable, "there is no namespace "+namespace, "make it with: kubectl create namespace "+namespace)
	case apierrors.IsNotFound(err):
		return set(sandbox.CodeNotFound, "there is no such sandbox", "")
	case apierrors.IsAlreadyExists(err):
		return set(sandbox.CodeBusy, "an object of that name exists", "")
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return set(sandbox.CodeUnavailable, "the namespace "+namespace+" is being deleted", "wait until it is gone, and make it again with: kubectl create namespace "+namespace)
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota"):
		return set(sandbox.CodeBudgetExceeded, "the quota of the namespace "+namespace+" is used up", "remove sandboxes, or raise the ResourceQuota")
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "violates PodSecurity"):
		return set(sandbox.CodeCapabilityBlocked, "the Pod Security admission of the namespace "+namespace+" refuses the pod", "sandboxes meet the level baseline; use that, or see the cause for what is missing")
	case apierrors.IsForbidden(err):
		return set(sandbox.CodePermissionDeny, "the account may not do this in the namespace "+namespace, "grant the verb that the cause names by a Role; docs/kubernetes.md lists all of them")
	case apierrors.IsUnauthorized(err):
		return set(sandbox.CodePermissionDeny, "the API server does not accept the credentials", "renew those of the kubeconfig, or of the service account")
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return set(sandbox.CodeValidation, "the API server does not accept the object", "see the cause; kubernetes.* and docker.* of the settings make the pod")
	case apierrors.IsConflict(err):
		e.Retryable = true
		return set(sandbox.CodeBusy, "the object was changed meanwhile", "try again")
	case apierrors.IsTimeout(err), apierrors.IsServerTimeout(err):
		e.Retryable = true
		return set(sandbox.CodeTimeout, "the API server has not answered in time", "try again; look at the load of the API server")
	case apierrors.IsTooManyRequests(err):
		e.Retryable = true
		return set(sandbox.CodeUnavailable, "the API server has too many requests", "try again later")
	}
	e.Retryable = true
	if statusCode(err) != 0 {
		return set(sandbox.CodeUnavailable, "the API server of the cluster has failed", "try again; if it lasts, see the cause, the log of the API server and the state of etcd")
	}
	return set(sandbox.CodeUnavailable, "the API server of the cluster does not answer", "see that it runs and that kubernetes.kubeconfig and kubernetes.context name it: kubectl cluster-info")
}

// transient reports whether the same call may succeed a moment later: the API server
// was not reached, has not answered, is overloaded, or lacks its store.
func transient(err error) bool {
	if _, ours := errors.AsType[*sandbox.Error](err); ours || err == nil || errors.Is(err, context.Canceled) {
		return false
	}
	code := statusCode(err)
	return code == 0 || code >= 500 || code == http.StatusTooManyRequests
}

// statusCode returns the status of HTTP that the API server has answered with, or 0.
func statusCode(err error) int32 {
	var s apierrors.APIStatus
	if !errors.As(err, &s) {
		return 0
	}
	return s.Status().Code
}

// unanswered reports whether a call that failed may have taken effect all the same,
// now or a moment later.
func unanswered(err error) bool {
	if apierrors.IsAlreadyExists(err) { // the client repeats calls, so this may be the answer to the second
		return true
	}
	if o, is := errors.AsType[*net.OpError](err); is && o.Op == "dial" {
		return false
	}
	return errors.Is(err, context.Canceled) || transient(err) && !apierrors.IsTooManyRequests(err)
}

func isNamespace(err error) bool {
	var s apierrors.APIStatus
	return errors.As(err, &s) && s.Status().Details != nil && s.Status().Details.Kind == "namespaces"
}

// evictedBy returns why the cluster ended the pod, if it did. The condition is there
// before the reason.
func evictedBy(p *corev1.Pod) (string, bool) {
	if p.Status.Reason == "Evicted" || p.Status.Reason == "Preempting" {
		return p.Status.Message, true
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
			return c.Message, true
		}
	}
	return "", false
}

// trouble says why the pod does not come to run, or nil where it still may.
// Messages come from nodes and registries, so control characters in them are
// escaped.
func trouble(p *corev1.Pod, waited bool) *sandbox.Error {
	e := &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "create", Resource: p.Name}
	if p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded {
		if why, evicted := evictedBy(p); evicted {
			e.Message, e.Hint = "the pod was evicted from its node: "+termsafe.Line(why), "start afresh with: sandbox recreate; lower workspaceSize or docker.memory, or see the node's conditions"
		} else {
			e.Message, e.Hint = fmt.Sprintf("the pod has ended (%s): %s", termsafe.Line(cmp.Or(p.Status.Reason, string(p.Status.Phase))), termsafe.Line(p.Status.Message)), "start afresh with: sandbox recreate"
		}
		return e
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable && waited {
			e.Retryable = true
			e.Message, e.Hint = "no node takes the pod: "+termsafe.Line(c.Message), "add nodes, remove sandboxes, or lower docker.memory, docker.cpus and kubernetes.requestPercent; see kubernetes.nodeSelector too"
			return e
		}
	}
	for _, s := range append(p.Status.InitContainerStatuses, p.Status.ContainerStatuses...) {
		w := s.State.Waiting
		if w == nil {
			if t := s.State.Terminated; t != nil && t.ExitCode != 0 && s.Name == prepareName {
				e.Message, e.Hint = fmt.Sprintf("the volumes cannot be prepared (exit status %d): %s", t.ExitCode, termsafe.Line(t.Message)), "see that kubernetes.guestImage holds sandbox-guest of this version"
				return e
			}
			continue
		}
		text := termsafe.Line(w.Message)
		field := "docker.image"
		if s.Name == prepareName {
			field = "kubernetes.guestImage"
		}
		switch w.Reason {
		case "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError", "RegistryUnavailable":
			e.Field, e.Message, e.Hint = field, "the image "+s.Image+" cannot be pulled: "+text, "correct the reference, push the image, or name the credentials of the registry in kubernetes.imagePullSecrets"
			e.Retryable = w.Reason == "RegistryUnavailable"
			return e
		case "CreateContainerConfigError", "CreateContainerError", "RunContainerError", "PostStartHookError":
			e.Message, e.Hint = "the node cannot start the container: "+text, "see the cause; the runtime class, the seccomp profile and the image have to be there on every node"
			return e
		case "CrashLoopBackOff":
			e.Message, e.Hint = "the first process of the pod ends again and again: "+text, "see that kubernetes.guestImage is for the architecture of the node, then: sandbox recreate"
			return e
		}
	}
	return nil
}
