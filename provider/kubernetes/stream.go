package kubernetes

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/bulkhead-dev/sandbox"
)

// A Way opens a connection that carries the guest's protocol to a pod. It is a stream
// through the API server, which needs no route to the pod and holds where policies
// close its network.
type Way interface {
	// Connect connects to the guest in the pod. The connection outlives ctx, which
	// bounds the call alone, and ends with its Close.
	Connect(ctx context.Context, pod *corev1.Pod) (Conn, error)
}

// A Conn is a connection to a guest.
type Conn interface {
	io.ReadWriteCloser
	// Explain returns what is known of the failure of the connection, or nil.
	Explain() error
}

// execWay runs the guest's relay in the pod and talks with it over its standard
// streams.
type execWay struct {
	config *rest.Config
	client rest.Interface // of the group of pods
}

// Connect implements [Way]. It does not wait for the stream to be there: what is
// written waits, and a failure ends the reading.
func (w execWay) Connect(_ context.Context, pod *corev1.Pod) (Conn, error) {
	url := w.client.Post().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).SubResource("exec").VersionedParams(&corev1.PodExecOptions{
		Container: containerName, Command: []string{sandbox.GuestDir + "/bin/sandbox-guest", "relay"}, Stdin: true, Stdout: true, Stderr: true,
	}, scheme.ParameterCodec).URL()
	socket, err := remotecommand.NewWebSocketExecutor(w.config, "GET", url.String())
	if err != nil {
		return nil, err
	}
	spdy, err := remotecommand.NewSPDYExecutor(w.config, "POST", url)
	if err != nil {
		return nil, err
	}
	both, err := remotecommand.NewFallbackExecutor(socket, spdy, func(err error) bool {
		return refusal(err) == nil && (httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err))
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &stream{cancel: cancel, done: make(chan struct{})}
	var in *io.PipeReader
	var out *io.PipeWriter
	in, s.in = io.Pipe()
	s.out, out = io.Pipe()
	go func() {
		defer close(s.done)
		err := both.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: source{in}, Stdout: sink{out}, Stderr: &s.stderr})
		if why := refusal(err); why != nil {
			err = why
		}
		s.mu.Lock()
		s.err = err
		s.mu.Unlock()
		if err == nil {
			err = io.EOF
		}
		out.CloseWithError(err)
		in.CloseWithError(io.ErrClosedPipe)
	}()
	return s, nil
}

// refusal returns the answer of the API server where that does not grant the stream,
// else nil. Such a stream is not tried by the other protocol: that needs another verb,
// which the error would name in place of the missing one.
func refusal(err error) error {
	if failed, ok := errors.AsType[*httpstream.UpgradeFailureError](err); ok && apierrors.IsForbidden(failed.Cause) {
		return failed.Cause
	}
	return nil
}

// A source ends where its pipe was closed: the library reports every other error to
// the log.
type source struct{ r *io.PipeReader }

func (s source) Read(b []byte) (int, error) {
	n, err := s.r.Read(b)
	if err != nil {
		err = io.EOF
	}
	return n, err
}

// A sink takes what no reader wants any more, for the same reason.
type sink struct{ w *io.PipeWriter }

func (s sink) Write(b []byte) (int, error) {
	if _, err := s.w.Write(b); err != nil && !errors.Is(err, io.ErrClosedPipe) {
		return 0, err
	}
	return len(b), nil
}

// A stream is the relay's standard streams.
type stream struct {
	in     *io.PipeWriter
	out    *io.PipeReader
	stderr tail
	cancel context.CancelFunc
	done   chan struct{}
	mu     sync.Mutex
	err    error // with which the stream ended
}

func (s *stream) Read(b []byte) (int, error)  { return s.out.Read(b) }
func (s *stream) Write(b []byte) (int, error) { return s.in.Write(b) }

// Close ends both directions and returns when the stream has ended. It may be
// called many times.
func (s *stream) Close() error {
	s.in.Close()
	s.out.Close()
	s.cancel()
	<-s.done
	return nil
}

// Explain implements [Conn]: what the relay wrote as errors, or with what the stream
// ended.
func (s *stream) Explain() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if text := s.stderr.String(); text != "" {
		return relayError(text)
	}
	return s.err
}

// A relayError is what the relay wrote to its standard error.
type relayError string

func (e relayError) Error() string { return "relay: " + string(e) }

// tailSize is how much of the standard error is kept.
const tailSize = 4 << 10

// tail is a writer that keeps the last bytes.
type tail struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf.Write(b)
	if over := t.buf.Len() - tailSize; over > 0 {
		t.buf.Next(over)
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.buf.String()
}
