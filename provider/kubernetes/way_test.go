package kubernetes_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/provider/kubernetes"
)

const guestPort = "7443"

// inNamespace is a rig with a namespace of its own, and a provider for it.
func inNamespace(t testing.TB) (*rig, *kubernetes.Provider) {
	t.Helper()
	r := newRig(t)
	r.namespace = "way-" + r.instance[:12]
	kube(t, "create", "namespace", r.namespace)
	t.Cleanup(func() {
		out, err := testenv.Kubectl(context.Background(), t, "delete", "namespace", r.namespace, "--wait=false").CombinedOutput()
		if err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	return r, r.provider(t)
}

func kube(t testing.TB, args ...string) string {
	t.Helper()
	out, err := testenv.Kubectl(t.Context(), t, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl %v: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// byPort is a Spec whose guest is reached by its port, in which a policy lets this
// machine in.
func (r *rig) byPort(key string) sandbox.Spec {
	return with(r.spec(key), "way", "tls", "wayFromCIDRs", []any{r.address + "/32"})
}

// with is s with more options.
func with(s sandbox.Spec, options ...any) sandbox.Spec {
	more := map[string]any{}
	for name, v := range s.Options {
		more[name] = v
	}
	for i := 0; i < len(options); i += 2 {
		more[options[i].(string)] = options[i+1]
	}
	s.Options = more
	return s
}

// up makes the sandbox and opens it.
func up(t testing.TB, p *kubernetes.Provider, s sandbox.Spec) sandbox.Sandbox {
	t.Helper()
	_, err := p.Create(t.Context(), s)
	must(t, err)
	t.Cleanup(func() {
		if err := p.Remove(context.Background(), s.Name); err != nil {
			t.Error(err)
		}
	})
	return open(t, p, s)
}

func open(t testing.TB, p *kubernetes.Provider, s sandbox.Spec) sandbox.Sandbox {
	t.Helper()
	sb, err := p.Open(t.Context(), s)
	must(t, err)
	t.Cleanup(func() { sb.Close() })
	return sb
}

// run returns the output of a command in the sandbox.
func runArgs(t testing.TB, sb sandbox.Sandbox, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	p, err := sb.Start(t.Context(), sandbox.Command{Args: args, Stdout: &out, Stderr: &out})
	must(t, err)
	if _, err := p.Wait(); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out.String())
}

func podIP(t testing.TB, r *rig, name string) string {
	return kube(t, "get", "pod", "-n", r.namespace, name, "-o", "jsonpath={.status.podIP}")
}

// wantWay fails unless the guest is reached so, and answers.
func wantWay(t testing.TB, sb sandbox.Sandbox, want string) {
	t.Helper()
	if got := kubernetes.WayOf(sb); got != want {
		t.Errorf("the guest is reached by %q, want %q", got, want)
	}
	if got := runArgs(t, sb, "echo", "here"); got != "here" {
		t.Errorf("a command printed %q", got)
	}
}

// selfSignedCertificate returns a certificate that no guest knows.
func selfSignedCertificate(t testing.TB) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, key.Public(), key)
	must(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// refusesTLS fails if the guest answers a greeting over conn, which TLS carries with
// the certificates. A nil conn was refused.
func refusesTLS(t testing.TB, conn net.Conn, most uint16, certs ...tls.Certificate) {
	t.Helper()
	if conn == nil {
		return
	}
	defer conn.Close()
	must(t, conn.SetDeadline(time.Now().Add(10*time.Second)))
	c := tls.Client(conn, &tls.Config{Certificates: certs, InsecureSkipVerify: true, MaxVersion: most}) // it is an attack
	_, err := c.Write([]byte("\x01\x00\x00\x00\x00\x00\x00\x00\x08\x00\x00\x00BKSG\x01\x00\x01\x00"))
	if err == nil {
		_, err = io.ReadFull(c, make([]byte, 1))
	}
	if err == nil {
		t.Error("the guest has answered")
	}
	var late net.Error
	if errors.As(err, &late) && late.Timeout() {
		t.Errorf("the guest keeps the connection: %v", err)
	}
}

// TestKubeWayTLS holds that the guest is reached by its port once it is enrolled, after
// each kind of interruption too, and that a guest that was started again gets new
// keys.
func TestKubeWayTLS(t *testing.T) {
	r, p := inNamespace(t)
	s := r.byPort("port")
	sb := up(t, p, s)
	wantWay(t, sb, "tls")

	t.Run("cut", func(t *testing.T) {
		kubernetes.Guest(sb).Cut()
		<-kubernetes.Guest(sb).Done()
		if _, err := sb.Start(t.Context(), sandbox.Command{Args: []string{"true"}}); sandbox.CodeOf(err) != sandbox.CodeUnavailable {
			t.Errorf("over a connection that was cut: %v", err)
		}
		again := open(t, p, s)
		wantWay(t, again, "tls")
	})
	t.Run("another process", func(t *testing.T) {
		wantWay(t, open(t, r.provider(t), s), "tls")
		wantWay(t, open(t, p, s), "tls") // the first is let in still
	})
	t.Run("guest started again", func(t *testing.T) {
		before := kubernetes.Guest(open(t, p, s)).Hello().BootID
		killGuest(t, kube(t, "get", "pod", "-n", r.namespace, s.Name, "-o", "jsonpath={.metadata.uid}"))
		for end := time.Now().Add(2 * time.Minute); ; {
			again, err := p.Open(t.Context(), s)
			if err == nil && kubernetes.Guest(again).Hello().BootID != before {
				wantWay(t, again, "tls")
				again.Close()
				return
			}
			if err == nil {
				again.Close()
			}
			if time.Now().After(end) {
				t.Fatalf("the guest was not reached again: %v", err)
			}
		}
	})
	t.Run("ports", func(t *testing.T) {
		ports, err := open(t, p, s).(sandbox.PortLister).Ports(t.Context())
		must(t, err)
		if len(ports) != 0 {
			t.Errorf("a port of the guest is listed as one of a program: %v", ports)
		}
	})
	t.Run("exec", func(t *testing.T) {
		e := with(s, "way", "exec")
		wantWay(t, open(t, p, e), "exec")
	})
}

// TestKubeWayAuto holds that the port is used where it is reached, and the stream where it
// is not, with a warning; and that a port which was asked for is an error then.
func TestKubeWayAuto(t *testing.T) {
	r, p := inNamespace(t)
	s := with(r.byPort("auto"), "way", "auto")
	wantWay(t, up(t, p, s), "tls")

	var mu sync.Mutex
	var warnings []string
	warned := func(text string) bool {
		mu.Lock()
		defer mu.Unlock()
		return slices.ContainsFunc(warnings, func(w string) bool { return strings.Contains(w, text) })
	}
	q, err := kubernetes.New(kubernetes.Options{Kubeconfig: r.kubeconfig, Namespace: r.namespace, World: r.world, Warn: func(_, text string) {
		mu.Lock()
		defer mu.Unlock()
		warnings = append(warnings, text)
	}})
	must(t, err)
	defer q.Close()
	refused := func(what string, s sandbox.Spec) {
		t.Helper()
		_, err = q.Open(t.Context(), with(s, "way", "tls"))
		var e *sandbox.Error
		if !errors.As(err, &e) || e.Code != sandbox.CodeUnavailable || e.Field != "kubernetes.way" || e.Hint == "" {
			t.Errorf("%s, by its port alone: %v", what, err)
		}
	}
	none := with(r.spec("none"), "way", "exec") // a pod whose guest has no port
	wantWay(t, up(t, p, none), "exec")
	wantWay(t, open(t, q, with(none, "way", "auto", "wayFromCIDRs", []any{r.address + "/32"})), "exec")
	if !warned("sandbox-guest-tls") {
		t.Errorf("without a port the warnings are %q", warnings)
	}
	refused("a guest without a port", none)

	closed := with(r.spec("closed"), "wayFromCIDRs", []any{"192.0.2.0/24"}) // no policy lets us in
	wantWay(t, up(t, q, closed), "exec")
	if !warned("through the API server: dial tcp") {
		t.Errorf("with a port that is closed the warnings are %q", warnings)
	}
	began := time.Now()
	wantWay(t, open(t, q, closed), "exec")
	t.Logf("a stream in place of a port that is known to be closed takes %v", time.Since(began))
	plan, err := q.Plan(t.Context(), closed)
	must(t, err)
	if !slices.ContainsFunc(plan.Notes, func(n string) bool { return strings.Contains(n, "are reached through the API server now") }) {
		t.Errorf("explain says %q", plan.Notes)
	}
	refused("a port that is closed", closed)
	plan, err = q.Plan(t.Context(), r.spec("plain")) // nothing says who connects: it is not tried
	must(t, err)
	if !slices.ContainsFunc(plan.Notes, func(n string) bool { return strings.Contains(n, "wayFromLabels") }) {
		t.Errorf("explain says %q", plan.Notes)
	}
}

// TestKubeWayPolicy holds that the policy of the port lets in what settings name, at that
// port only, and that pods are selected by it.
func TestKubeWayPolicy(t *testing.T) {
	r, p := inNamespace(t)
	s := with(r.byPort("policy"), "wayFromLabels", map[string]any{"app": "sandboxd"})
	from := s.Options["wayFromCIDRs"].([]any)[0].(string)
	wantWay(t, up(t, p, s), "tls")
	got := kube(t, "get", "networkpolicy", "-n", r.namespace, "-o", `jsonpath={range .items[*]}{.metadata.name} {.spec.ingress}{"\n"}{end}`)
	if !strings.Contains(got, "sandbox-deny-all \n") || !strings.Contains(got, `[{"from":[{"podSelector":{"matchLabels":{"app":"sandboxd"}}},{"ipBlock":{"cidr":"`+from+`"}}],"ports":[{"port":7443,"protocol":"TCP"}]}]`) {
		t.Errorf("the policies are %s", got)
	}
	name := ""
	for line := range strings.Lines(got) {
		if n, _, _ := strings.Cut(line, " "); strings.HasPrefix(n, "sandbox-way-") {
			name = n
		}
	}
	kube(t, "patch", "networkpolicy", "-n", r.namespace, name, "--type=json", "-p", `[{"op":"replace","path":"/spec/ingress","value":[{}]}]`)
	other := with(r.byPort("policy-2"), "wayFromLabels", map[string]any{"app": "sandboxd"})
	if _, err := p.Create(t.Context(), other); sandbox.CodeOf(err) != sandbox.CodeCapabilityBlocked {
		t.Errorf("with a policy that was changed: %v", err)
	}
}

// TestKubeWayAttacks attacks the port of a guest from commands of its sandbox, from this
// machine, and from another tenant's pod.
func TestKubeWayAttacks(t *testing.T) {
	r, p := inNamespace(t)
	s := r.byPort("victim")
	sb := up(t, p, s)
	ip := podIP(t, r, s.Name)
	inside := func(t *testing.T, to string) net.Conn {
		c, err := sb.(sandbox.Dialer).Dial(t.Context(), "tcp", net.JoinHostPort(to, guestPort))
		if err != nil && strings.Contains(err.Error(), "reset by peer") {
			return nil // before the first byte
		}
		must(t, err)
		return c
	}
	outside := func(t *testing.T) net.Conn {
		c, err := net.DialTimeout("tcp", net.JoinHostPort(ip, guestPort), 5*time.Second)
		must(t, err)
		return c
	}
	own := selfSignedCertificate(t)
	for name, dial := range map[string]func(*testing.T) net.Conn{
		"loopback": func(t *testing.T) net.Conn { return inside(t, "127.0.0.1") },
		"pod":      func(t *testing.T) net.Conn { return inside(t, ip) },
		"outside":  outside,
	} {
		t.Run("no certificate from "+name, func(t *testing.T) { refusesTLS(t, dial(t), 0) })
		t.Run("own certificate from "+name, func(t *testing.T) { refusesTLS(t, dial(t), 0, own) })
		t.Run("TLS 1.2 from "+name, func(t *testing.T) { refusesTLS(t, dial(t), tls.VersionTLS12, own) })
		t.Run("garbage from "+name, func(t *testing.T) {
			c := dial(t)
			if c == nil {
				return
			}
			defer c.Close()
			must(t, c.SetDeadline(time.Now().Add(10*time.Second)))
			junk := make([]byte, 64<<10)
			rand.Read(junk)
			_, _ = c.Write(junk)
			got, err := io.ReadAll(c)
			var late net.Error
			if bytes.Contains(got, []byte("BKSG")) || errors.As(err, &late) && late.Timeout() {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
	t.Run("another sandbox", func(t *testing.T) {
		o := r.byPort("other")
		up(t, p, o)
		// The certificate of another guest is not that of this one.
		var wrong *tls.CertificateVerificationError
		if err := p.Impersonate(t.Context(), s.Name, o.Name); !errors.As(err, &wrong) {
			t.Errorf("the guest of %s stands in for that of %s: %v", o.Name, s.Name, err)
		}
		// Each guest sees the certificate of the client, which is of no use without
		// its key.
		refusesTLS(t, outside(t), 0, tls.Certificate{Certificate: [][]byte{p.Certificate()}, PrivateKey: own.PrivateKey})
	})
	t.Run("commands cannot listen there", func(t *testing.T) {
		got := runArgs(t, sb, "python3", "-c", `
import socket
for host in ("0.0.0.0", "127.0.0.1", "`+ip+`"):
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        s.bind((host, `+guestPort+`)); s.listen(); print("listens at", host)
    except OSError as e:
        print(e.errno)
`)
		if got != "98\n98\n98" {
			t.Errorf("%s", got)
		}
	})
	t.Run("commands cannot read the key", func(t *testing.T) {
		got := runArgs(t, sb, "sh", "-c", `cat /proc/1/mem /proc/1/environ /proc/1/maps 2>&1 | grep -av 'Permission denied' | head -c 100; ls /proc/1/fd 2>/dev/null | head -3; grep -rl 'PRIVATE KEY' /workspace /tmp /run /home /.sandbox 2>/dev/null`)
		if got != "" {
			t.Errorf("%q", got)
		}
	})
	t.Run("a thousand connections", func(t *testing.T) {
		// A program inside holds what it can, while clients come and go.
		said, out := io.Pipe()
		flood, err := sb.Start(t.Context(), sandbox.Command{Stdout: out, Stderr: out, Args: []string{"python3", "-c", `
import socket, sys
held = []
for i in range(1000):
    s = socket.socket()
    try:
        s.connect(("` + ip + `" if i % 2 else "127.0.0.1", ` + guestPort + `)); s.send(b"\x16"); held.append(s)
    except OSError: pass
print("done", flush=True)
sys.stdin.read()
`}, Stdin: onlyReader{t.Context()}})
		must(t, err)
		word := make([]byte, 4)
		if _, err := io.ReadFull(said, word); err != nil || string(word) != "done" {
			t.Fatalf("%q, %v", word, err)
		}
		go func() { _, _ = io.Copy(io.Discard, said) }()
		slow := holdMany(t, net.JoinHostPort(ip, guestPort), 31)
		for i := range 20 {
			took := time.Now()
			again := open(t, p, s)
			if kubernetes.WayOf(again) != "tls" {
				t.Errorf("client %d came by %s", i, kubernetes.WayOf(again))
			}
			if d := time.Since(took); d > 5*time.Second {
				t.Errorf("client %d waited %v", i, d)
			}
			again.Close()
		}
		slow()
		must(t, flood.Kill(t.Context()))
		_, _ = flood.Wait()
	})
	t.Run("another tenant's pod", func(t *testing.T) {
		o := r.byPort("tenant")
		o.Owner.Tenant, o.Network = "other", "bridge" // the only kind that has a network
		evil := up(t, p, o)
		try := func(to string) string {
			return runArgs(t, evil, "python3", "-c", `
import socket, ssl
c = ssl.create_default_context(); c.check_hostname = False; c.verify_mode = ssl.CERT_NONE
s = socket.socket(); s.settimeout(2)
try:
    s.connect(("`+to+`", `+guestPort+`))
except OSError as e:
    print("policy"); raise SystemExit
try:
    t = c.wrap_socket(s); t.send(b"x"); print("answer" if t.recv(1) else "closed")
except OSError as e:
    print("tls")
`)
		}
		if got := try(ip); got != "policy" {
			t.Errorf("a pod that a policy closes: %q", got)
		}
		v := r.byPort("open victim")
		v.Network = "bridge" // which no policy closes
		up(t, p, v)
		if got := try(podIP(t, r, v.Name)); got != "tls" {
			t.Errorf("a pod that no policy closes: %q", got)
		}
	})
	wantWay(t, open(t, p, s), "tls")
}

// An onlyReader has nothing to read until its context ends.
type onlyReader struct{ ctx context.Context }

func (r onlyReader) Read([]byte) (int, error) {
	<-r.ctx.Done()
	return 0, io.EOF
}

// holdMany opens connections and says one byte on each. The returned function closes
// them.
func holdMany(t testing.TB, at string, n int) func() {
	t.Helper()
	var held []net.Conn
	for range n {
		c, err := net.DialTimeout("tcp", at, time.Second)
		must(t, err)
		_, _ = c.Write([]byte{0x16})
		held = append(held, c)
	}
	return func() {
		for _, c := range held {
			c.Close()
		}
	}
}

// TestKubeWayQuick compares a command in a pod that is open with kubectl exec, 30 of each
// in turn.
func TestKubeWayQuick(t *testing.T) {
	r, p := inNamespace(t)
	s := r.byPort("quick")
	sb := up(t, p, s)
	stream := open(t, p, with(s, "way", "exec"))
	runArgs(t, sb, "true")
	const times = 30
	var ours, streamed, theirs []time.Duration
	for range times {
		for to, f := range map[*[]time.Duration]func(){
			&ours:     func() { runArgs(t, sb, "true") },
			&streamed: func() { runArgs(t, stream, "true") },
			&theirs:   func() { kube(t, "exec", "-n", r.namespace, s.Name, "-c", "sandbox", "--", "true") },
		} {
			began := time.Now()
			f()
			*to = append(*to, time.Since(began))
		}
	}
	median := func(d []time.Duration) time.Duration { slices.Sort(d); return d[len(d)/2] }
	a, b, c := median(ours), median(streamed), median(theirs)
	t.Logf("median of 30: by the port %v, by the stream %v, kubectl exec %v: %.0f times faster", a, b, c, float64(c)/float64(a))
	if c < 100*a {
		t.Errorf("a command is %.1f times faster than kubectl exec, want 100", float64(c)/float64(a))
	}
}
