package kubernetes_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/provider/kubernetes"
)

// accessFaults are those of rights, namespaces and what changes pods.
var accessFaults = map[string]func(*testing.T, *faulty){
	"rights removed": func(t *testing.T, f *faulty) {
		n := f.namespace(t)
		p := n.provider(t, kubernetes.Options{})
		s := f.spec(t.Name())
		must(t, within(t, 3*time.Minute, func() error { return second(p.Create(t.Context(), s)) }))
		h := f.open(t, p, s)
		wait := f.running(t, h)
		f.kubectl(t, "delete", "rolebinding", "sandbox", "--namespace", n.name)
		until(t, time.Minute, "the right is gone", func() bool { return second(p.Inspect(t.Context(), s.Name)) != nil })
		isFault(t, second(p.Inspect(t.Context(), s.Name)), s.Name, `cannot get resource "pods"`, sandbox.CodePermissionDeny)
		isFault(t, second(p.List(t.Context(), sandbox.Filter{})), n.name, `cannot list resource "pods"`, sandbox.CodePermissionDeny)
		isFault(t, second(p.Open(t.Context(), s)), s.Name, "", sandbox.CodePermissionDeny)
		isFault(t, second(p.Create(t.Context(), f.spec(t.Name()+" second"))), "", "", sandbox.CodePermissionDeny)
		isFault(t, p.Remove(t.Context(), s.Name), s.Name, "", sandbox.CodePermissionDeny)
		f.bind(t, n)
		until(t, time.Minute, "the right is back", func() bool { return second(p.Inspect(t.Context(), s.Name)) == nil })
		run(t, h, "touch /tmp/stop") // the command has run on
		must(t, within(t, time.Minute, wait))
		must(t, p.Remove(t.Context(), s.Name))
	},
	"rights removed while a pod is made": func(t *testing.T, f *faulty) {
		n := f.namespace(t)
		var warned []string
		p := n.provider(t, kubernetes.Options{Warn: func(name, what string) { warned = append(warned, name+": "+what) }})
		s := f.spec(t.Name())
		s.Image, s.ImageID = "registry.invalid/none:1", "registry.invalid/none:1"
		s.Options["imagePullPolicy"] = "IfNotPresent" // the pull takes some seconds
		made := make(chan error, 1)
		go func() { made <- second(p.Create(t.Context(), s)) }()
		until(t, time.Minute, "there is a pod", func() bool { return second(p.Inspect(t.Context(), s.Name)) == nil })
		f.kubectl(t, "delete", "rolebinding", "sandbox", "--namespace", n.name)
		isFault(t, within(t, 2*time.Minute, func() error { return <-made }), s.Name, "", sandbox.CodePermissionDeny, sandbox.CodeUnavailable)
		if len(warned) != 1 || !strings.Contains(warned[0], "could not remove") {
			t.Errorf("the warnings are %q", warned)
		}
	},
	"credentials revoked": func(t *testing.T, f *faulty) {
		n := f.namespace(t)
		p := n.provider(t, kubernetes.Options{})
		s := f.spec(t.Name())
		must(t, within(t, 3*time.Minute, func() error { return second(p.Create(t.Context(), s)) }))
		f.kubectl(t, "delete", "serviceaccount", "sandbox", "--namespace", n.name)
		until(t, time.Minute, "the token is void", func() bool { return second(p.Inspect(t.Context(), s.Name)) != nil })
		for what, err := range map[string]error{
			"inspect": second(p.Inspect(t.Context(), s.Name)),
			"list":    second(p.List(t.Context(), sandbox.Filter{})),
			"open":    second(p.Open(t.Context(), s)),
			"create":  second(p.Create(t.Context(), f.spec(t.Name()+" second"))),
			"remove":  p.Remove(t.Context(), s.Name),
		} {
			t.Log(what)
			isFault(t, err, "", "renew", sandbox.CodePermissionDeny)
		}
	},
	"namespace deleted": func(t *testing.T, f *faulty) {
		n := f.namespace(t)
		p := f.providerWith(t, kubernetes.Options{Kubeconfig: f.kubeconfig, Namespace: n.name})
		s := f.spec(t.Name())
		must(t, within(t, 3*time.Minute, func() error { return second(p.Create(t.Context(), s)) }))
		h := f.open(t, p, s)
		wait := f.running(t, h)
		// A finalizer keeps the namespace in the phase Terminating.
		f.kubectl(t, "create", "configmap", "stays", "--namespace", n.name)
		f.kubectl(t, "patch", "configmap", "stays", "--namespace", n.name, "--type=merge", "--patch", `{"metadata":{"finalizers":["example.com/stays"]}}`)
		f.kubectl(t, "delete", "namespace", n.name, "--wait=false")
		isFault(t, within(t, time.Minute, wait), s.Name, "", sandbox.CodeUnavailable)
		isFault(t, second(p.Create(t.Context(), f.spec(t.Name()+" second"))), "", "is being deleted", sandbox.CodeUnavailable)
		until(t, time.Minute, "the pod is gone", func() bool { return sandbox.IsNotFound(second(p.Inspect(t.Context(), s.Name))) })
		f.kubectl(t, "patch", "configmap", "stays", "--namespace", n.name, "--type=merge", "--patch", `{"metadata":{"finalizers":null}}`)
		f.kubectl(t, "wait", "--for=delete", "namespace/"+n.name, "--timeout=60s")
		isFault(t, second(p.Create(t.Context(), f.spec(t.Name()+" second"))), "", "kubectl create namespace "+n.name, sandbox.CodeUnavailable)
		if list, err := p.List(t.Context(), sandbox.Filter{}); err != nil || len(list) > 0 {
			t.Errorf("%v, %v", list, err)
		}
	},
	"quota used up": func(t *testing.T, f *faulty) {
		n := f.namespace(t)
		f.kubectl(t, "create", "quota", "one", "--hard=pods=0", "--namespace", n.name)
		p := f.providerWith(t, kubernetes.Options{Kubeconfig: f.kubeconfig, Namespace: n.name})
		s := f.spec(t.Name())
		isFault(t, second(p.Create(t.Context(), s)), s.Name, "exceeded quota", sandbox.CodeBudgetExceeded)
	},
	"webhook that weakens pods": func(t *testing.T, f *faulty) {
		n := f.namespace(t)
		f.webhook(t, n.name, `[{"op":"add","path":"/spec/shareProcessNamespace","value":true}]`)
		p := f.providerWith(t, kubernetes.Options{Kubeconfig: f.kubeconfig, Namespace: n.name})
		s := f.spec(t.Name())
		err := within(t, time.Minute, func() error { return second(p.Create(t.Context(), s)) })
		isFault(t, err, s.Name, "shareProcessNamespace", sandbox.CodeCapabilityBlocked)
		if list, err := p.List(t.Context(), sandbox.Filter{}); err != nil || len(list) > 0 {
			t.Errorf("left are %v, %v", list, err)
		}
	},
	"webhook that does not answer": func(t *testing.T, f *faulty) {
		n := f.namespace(t)
		f.webhook(t, n.name, "")
		p := f.providerWith(t, kubernetes.Options{Kubeconfig: f.kubeconfig, Namespace: n.name})
		s := f.spec(t.Name())
		err := within(t, time.Minute, func() error { return second(p.Create(t.Context(), s)) })
		isFault(t, err, s.Name, "weaken.example.com", sandbox.CodeUnavailable)
	},
}

// A namespace is one with an account that may do what docs/kubernetes.md lists.
type namespace struct {
	name, kubeconfig string
	f                *faulty
}

const namespaceAccount = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: sandbox}
---
kind: Role
apiVersion: rbac.authorization.k8s.io/v1
metadata: {name: sandbox}
rules:
- {apiGroups: [""], resources: [pods], verbs: [get, list, watch, create, delete]}
- {apiGroups: [""], resources: [pods/exec], verbs: [get, create]}
- {apiGroups: [networking.k8s.io], resources: [networkpolicies], verbs: [get, create]}
`

func (f *faulty) namespace(t testing.TB) namespace {
	t.Helper()
	n := namespace{name: f.spec(t.Name()).Name, f: f}
	f.kubectl(t, "create", "namespace", n.name)
	t.Cleanup(func() {
		if out, err := f.cluster.Kubectl(context.Background(), "delete", "namespace", n.name, "--wait=false", "--ignore-not-found").CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	f.raw(t, "apply", "--namespace", n.name, namespaceAccount)
	f.bind(t, n)
	config, err := clientcmd.BuildConfigFromFlags("", f.kubeconfig)
	must(t, err)
	token := strings.TrimSpace(f.kubectl(t, "create", "token", "sandbox", "--namespace", n.name))
	n.kubeconfig = writeKubeconfig(t, config.Host, config.CAData, token)
	return n
}

func (f *faulty) bind(t testing.TB, n namespace) {
	t.Helper()
	f.kubectl(t, "create", "rolebinding", "sandbox", "--role=sandbox", "--serviceaccount="+n.name+":sandbox", "--namespace", n.name)
}

func (n namespace) provider(t testing.TB, o kubernetes.Options) *kubernetes.Provider {
	t.Helper()
	o.Kubeconfig, o.Namespace = n.kubeconfig, n.name
	return n.f.providerWith(t, o)
}

// webhook has the API server ask a server of this machine about each pod of the
// namespace. It answers with the patch, and with "" not at all.
func (f *faulty) webhook(t testing.TB, namespace, patch string) {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", f.kubeconfig)
	must(t, err)
	to, err := net.Dial("tcp", strings.TrimPrefix(config.Host, "https://"))
	must(t, err)
	host, _, err := net.SplitHostPort(to.LocalAddr().String()) // where the node reaches this machine
	must(t, err)
	to.Close()
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	must(t, err)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil || patch == "" {
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
			return
		}
		kind := admissionv1.PatchTypeJSONPatch
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true, Patch: []byte(patch), PatchType: &kind}
		review.Request = nil
		_ = json.NewEncoder(w).Encode(review)
	}))
	s.Config.ErrorLog = quiet()
	s.Listener.Close()
	s.Listener = l
	certificate := selfSigned(t, net.ParseIP(host))
	s.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	s.StartTLS()
	t.Cleanup(s.Close)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Certificate[0]})
	f.raw(t, "apply", `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: `+namespace+`}
webhooks:
- name: weaken.example.com
  admissionReviewVersions: [v1]
  sideEffects: None
  timeoutSeconds: 3
  failurePolicy: Fail
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: `+namespace+`}}
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
  clientConfig: {url: "https://`+l.Addr().String()+`/", caBundle: "`+base64.StdEncoding.EncodeToString(authority)+`"}
`)
	t.Cleanup(func() {
		if out, err := f.cluster.Kubectl(context.Background(), "delete", "mutatingwebhookconfiguration", namespace).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	// The API server learns of it a moment later: until then it makes pods.
	until(t, time.Minute, "the webhook is asked", func() bool {
		cmd := f.cluster.Kubectl(t.Context(), "create", "--dry-run=server", "--namespace", namespace, "-o", "jsonpath={.spec.shareProcessNamespace}", "-f", "-")
		cmd.Stdin = strings.NewReader(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"probe"},"spec":{"containers":[{"name":"c","image":"none.invalid/none"}]}}`)
		out, err := cmd.CombinedOutput()
		return err != nil && strings.Contains(string(out), "weaken.example.com") || err == nil && string(out) == "true"
	})
}

// programFaults end or stop programs of the cluster. They run one after another.
var programFaults = []struct {
	name string
	test func(*testing.T, *faulty)
}{
	{"API server restarted", func(t *testing.T, f *faulty) {
		f.busy(t, func() {
			f.cluster.Node(t, "signal", "kube-apiserver", "TERM")
			wait(t, time.Second)
			f.cluster.Node(t, "signal", "kube-apiserver", "TERM") // it would end those that listen to it for a minute
		})
	}},
	{"API server killed and away for ten seconds", func(t *testing.T, f *faulty) {
		f.busy(t, func() {
			must(t, f.cluster.Signal(t.Context(), "kube-apiserver", "KILL"))
			for end := time.Now().Add(10 * time.Second); time.Now().Before(end); wait(t, 200*time.Millisecond) {
				_ = f.cluster.Signal(t.Context(), "kube-apiserver", "KILL") // it may not have been started again yet
			}
		})
	}},
	{"store stopped for five seconds", func(t *testing.T, f *faulty) {
		f.busy(t, func() {
			f.cluster.Node(t, "signal", "etcd", "STOP")
			wait(t, 5*time.Second)
			f.cluster.Node(t, "signal", "etcd", "CONT")
		})
	}},
	{"store restarted", func(t *testing.T, f *faulty) {
		f.busy(t, func() { f.cluster.Node(t, "signal", "etcd", "KILL") })
	}},
	{"kubelet restarted", func(t *testing.T, f *faulty) {
		f.busy(t, func() { f.cluster.Node(t, "signal", "kubelet", "KILL") })
	}},
	{"controllers restarted", func(t *testing.T, f *faulty) {
		f.busy(t, func() {
			f.cluster.Node(t, "signal", "kube-controller-manager", "KILL")
			f.cluster.Node(t, "signal", "kube-scheduler", "KILL")
		})
	}},
	{"node not ready", func(t *testing.T, f *faulty) {
		s := f.create(t)
		h := f.open(t, f.p, s)
		wait := f.running(t, h)
		f.cluster.Node(t, "signal", "kubelet", "STOP")
		resumed := false
		resume := func() {
			if !resumed {
				resumed = true
				f.cluster.Node(t, "signal", "kubelet", "CONT")
			}
		}
		defer resume()
		until(t, 2*time.Minute, "the node is lost", func() bool {
			i, err := f.p.Inspect(t.Context(), s.Name)
			return err == nil && i.Status == sandbox.StatusUnknown
		})
		err := within(t, time.Minute, func() error { return second(f.p.Open(t.Context(), s)) })
		isFault(t, err, s.Name, "does not answer", sandbox.CodeUnavailable)
		other := f.spec(t.Name() + " other")
		p := f.providerWith(t, kubernetes.Options{Kubeconfig: f.kubeconfig, Schedule: 2 * time.Second})
		err = within(t, time.Minute, func() error { return second(p.Create(t.Context(), other)) })
		isFault(t, err, other.Name, "no node takes the pod", sandbox.CodeUnavailable)
		f.gone(t, other)
		// What cannot end is said, within the bound of the caller.
		ctx, done := context.WithTimeout(t.Context(), 3*time.Second)
		err = within(t, 30*time.Second, func() error { return f.p.Remove(ctx, s.Name) })
		done()
		isFault(t, err, s.Name, "its node node does not answer", sandbox.CodeTimeout)
		isFault(t, within(t, 2*time.Minute, wait), s.Name, "", sandbox.CodeUnavailable)
		resume()
		f.gone(t, s) // the remove takes effect
		f.nodeReady(t)
		must(t, second(f.p.Create(t.Context(), s)))
		f.works(t, f.p, s)
	}},
}

// nodeReady waits until the node takes pods.
func (f *faulty) nodeReady(t testing.TB) {
	t.Helper()
	until(t, 2*time.Minute, "the node is ready", func() bool {
		out, err := f.cluster.Kubectl(t.Context(), "get", "node", "node", "-o", `jsonpath={.status.conditions[?(@.type=="Ready")].status}{.spec.taints}`).Output()
		return err == nil && strings.TrimSpace(string(out)) == "True"
	})
}

// wait returns after d, or fails the test that has ended.
func wait(t testing.TB, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
		t.Fatal(t.Context().Err())
	}
}

// busy has sandboxes made, opened, listed and removed, and commands run, while
// trouble is made. Calls fail only with errors that may pass, and when the trouble is
// over each sandbox works or can be made, and nothing is there twice.
func (f *faulty) busy(t *testing.T, trouble func()) {
	t.Helper()
	kept := f.create(t)
	h := f.open(t, f.p, kept)
	run(t, h, "echo kept >/workspace/file")
	waitRunning := f.running(t, h)
	leaving := f.spec(t.Name() + " leaving")
	f.create2(t, leaving)

	ctx, end := context.WithCancel(t.Context())
	defer end()
	var group sync.WaitGroup
	counts := map[string]int{}
	var mu sync.Mutex
	again := func(what, resource string, most time.Duration, call func() error) {
		group.Go(func() {
			for first := true; first || ctx.Err() == nil; first = false {
				began := time.Now()
				err := call()
				if took := time.Since(began); took > most {
					t.Errorf("%s took %v: %v", what, took, err)
				}
				mu.Lock()
				if counts[what]++; err != nil {
					counts[what+" failed"]++
				}
				mu.Unlock()
				if e, is := errors.AsType[*sandbox.Error](err); err != nil && (!is || !e.Retryable && e.Code != sandbox.CodeTimeout && e.Code != sandbox.CodeUnavailable || resource != "" && e.Resource != resource) {
					t.Errorf("%s: %v", what, err)
				}
				select {
				case <-time.After(100 * time.Millisecond):
				case <-ctx.Done():
				}
			}
		})
	}
	list := f.provider(t)
	again("list", "", 40*time.Second, func() error {
		infos, err := list.List(t.Context(), sandbox.Filter{Instance: f.instance, Name: kept.Name})
		if err == nil && len(infos) != 1 {
			t.Errorf("%d sandboxes are listed", len(infos))
		}
		return err
	})
	again("inspect", kept.Name, 40*time.Second, func() error { return second(list.Inspect(t.Context(), kept.Name)) })
	again("open", "", 2*time.Minute, func() error {
		h, err := list.Open(t.Context(), kept)
		if err == nil {
			defer h.Close()
			var proc sandbox.Process
			if proc, err = h.Start(t.Context(), sandbox.Command{Args: []string{"true"}}); err == nil {
				_, err = proc.Wait()
			}
		}
		return err
	})
	fresh := f.spec(t.Name() + " fresh")
	again("create and remove", "", 6*time.Minute, func() error {
		err := second(f.p.Create(t.Context(), fresh))
		if err == nil || sandbox.CodeOf(err) == sandbox.CodeBusy {
			err = f.p.Remove(t.Context(), fresh.Name)
		}
		return err
	})
	must(t, f.p.Remove(t.Context(), leaving.Name))
	f.create2(t, leaving)
	var removed error
	group.Go(func() { removed = f.p.Remove(t.Context(), leaving.Name) })
	trouble()
	until(t, 2*time.Minute, "the API server is ready", func() bool {
		return f.cluster.Kubectl(t.Context(), "get", "--raw", "/readyz").Run() == nil
	})
	until(t, 2*time.Minute, "calls succeed again", func() bool {
		return second(list.Open(t.Context(), kept)) == nil
	})
	end()
	group.Wait()
	t.Log(counts)
	f.nodeReady(t)

	// The command ran on, or its end is known to be unknown.
	run(t, f.open(t, f.p, kept), "touch /tmp/stop")
	if err := within(t, 2*time.Minute, waitRunning); err != nil {
		isFault(t, err, kept.Name, "", sandbox.CodeUnavailable)
	}
	if got := run(t, f.open(t, f.p, kept), "cat /workspace/file"); got != "kept\n" {
		t.Errorf("the file has %q", got)
	}
	if removed != nil {
		isFault(t, removed, leaving.Name, "", sandbox.CodeUnavailable, sandbox.CodeTimeout)
		must(t, f.p.Remove(t.Context(), leaving.Name))
	}
	f.gone(t, leaving)
	must(t, f.p.Remove(t.Context(), fresh.Name))
	f.create2(t, fresh)
	f.works(t, f.p, fresh)
	for _, s := range []sandbox.Spec{fresh, kept} {
		must(t, f.p.Remove(t.Context(), s.Name))
	}
	infos, err := f.p.List(t.Context(), sandbox.Filter{Instance: f.instance})
	must(t, err)
	for _, i := range infos {
		if i.Name == kept.Name || i.Name == fresh.Name || i.Name == leaving.Name {
			t.Errorf("%s is left", i.Name)
		}
	}
}

// selfSigned returns a certificate of a server at ip.
func selfSigned(t testing.TB, ip net.IP) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{ip}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
