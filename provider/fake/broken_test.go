package fake_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv/faked"
	"github.com/bulkhead-dev/sandbox/provider/fake"
	"github.com/bulkhead-dev/sandbox/provider/providertest"
)

// A broken is the fake with single methods replaced.
type broken struct {
	*fake.Provider
	inspect  func(p *fake.Provider, ctx context.Context, name string) (sandbox.Info, error)
	create   func(p *fake.Provider, ctx context.Context, s sandbox.Spec) (sandbox.Info, error)
	open     func(p *fake.Provider, ctx context.Context, s sandbox.Spec) (sandbox.Sandbox, error)
	list     func(p *fake.Provider, ctx context.Context, f sandbox.Filter) ([]sandbox.Info, error)
	remove   func(p *fake.Provider, ctx context.Context, name string) error
	features func(f sandbox.Features) sandbox.Features
	start    func(sb sandbox.Sandbox, ctx context.Context, c sandbox.Command) (sandbox.Process, error)
	close    func(sb sandbox.Sandbox) error
	shell    func(sb sandbox.Sandbox, ctx context.Context, o sandbox.ShellOptions) (sandbox.Shell, error)
	line     func(sh sandbox.Shell, ctx context.Context, line string, c sandbox.Command) (sandbox.Process, error)
	endShell func(sh sandbox.Shell) error
	files    func(f sandbox.Files) sandbox.Files
	dial     func(d sandbox.Dialer, ctx context.Context, network, addr string) (net.Conn, error)
	listen   func(l sandbox.Listener, ctx context.Context, network, addr string) (net.Listener, error)
}

func (b broken) Inspect(ctx context.Context, name string) (sandbox.Info, error) {
	if b.inspect != nil {
		return b.inspect(b.Provider, ctx, name)
	}
	return b.Provider.Inspect(ctx, name)
}

func (b broken) Create(ctx context.Context, s sandbox.Spec) (sandbox.Info, error) {
	if b.create != nil {
		return b.create(b.Provider, ctx, s)
	}
	return b.Provider.Create(ctx, s)
}

func (b broken) Open(ctx context.Context, s sandbox.Spec) (sandbox.Sandbox, error) {
	open := (*fake.Provider).Open
	if b.open != nil {
		open = b.open
	}
	sb, err := open(b.Provider, ctx, s)
	if err != nil {
		return nil, err
	}
	return brokenBox{sb, b}, nil
}

func (b broken) List(ctx context.Context, f sandbox.Filter) ([]sandbox.Info, error) {
	if b.list != nil {
		return b.list(b.Provider, ctx, f)
	}
	return b.Provider.List(ctx, f)
}

func (b broken) Remove(ctx context.Context, name string) error {
	if b.remove != nil {
		return b.remove(b.Provider, ctx, name)
	}
	return b.Provider.Remove(ctx, name)
}

func (b broken) Features() sandbox.Features {
	f := b.Provider.Features()
	if b.features != nil {
		f = b.features(f)
	}
	return f
}

type brokenBox struct {
	sandbox.Sandbox
	b broken
}

func (x brokenBox) Start(ctx context.Context, c sandbox.Command) (sandbox.Process, error) {
	if x.b.start != nil {
		return x.b.start(x.Sandbox, ctx, c)
	}
	return x.Sandbox.Start(ctx, c)
}

func (x brokenBox) Close() error {
	if x.b.close != nil {
		return x.b.close(x.Sandbox)
	}
	return x.Sandbox.Close()
}

func (x brokenBox) OpenShell(ctx context.Context, o sandbox.ShellOptions) (sandbox.Shell, error) {
	open := sandbox.Sandbox.OpenShell
	if x.b.shell != nil {
		open = x.b.shell
	}
	sh, err := open(x.Sandbox, ctx, o)
	if err != nil {
		return nil, err
	}
	return brokenShell{sh, x.b}, nil
}

func (x brokenBox) Files(ctx context.Context) (sandbox.Files, error) {
	f, err := x.Sandbox.(sandbox.FileServer).Files(ctx)
	if err == nil && x.b.files != nil {
		f = x.b.files(f)
	}
	return f, err
}

func (x brokenBox) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if x.b.dial != nil {
		return x.b.dial(x.Sandbox.(sandbox.Dialer), ctx, network, addr)
	}
	return x.Sandbox.(sandbox.Dialer).Dial(ctx, network, addr)
}

func (x brokenBox) Listen(ctx context.Context, network, addr string) (net.Listener, error) {
	if x.b.listen != nil {
		return x.b.listen(x.Sandbox.(sandbox.Listener), ctx, network, addr)
	}
	return x.Sandbox.(sandbox.Listener).Listen(ctx, network, addr)
}

// A brokenShell is a shell of the fake with single methods replaced.
type brokenShell struct {
	sandbox.Shell
	b broken
}

func (x brokenShell) Run(ctx context.Context, line string, c sandbox.Command) (sandbox.Process, error) {
	if x.b.line != nil {
		return x.b.line(x.Shell, ctx, line, c)
	}
	return x.Shell.Run(ctx, line, c)
}

func (x brokenShell) Close() error {
	if x.b.endShell != nil {
		return x.b.endShell(x.Shell)
	}
	return x.Shell.Close()
}

// A process with a changed Wait.
type process struct {
	sandbox.Process
	wait func() (sandbox.Exit, error)
}

func (p process) Wait() (sandbox.Exit, error) { return p.wait() }

// A numb process cannot be reached.
type numb struct{ sandbox.Process }

func (numb) Kill(context.Context) error           { return nil }
func (numb) Signal(context.Context, string) error { return nil }

// waiting returns a start that lets change rewrite every result.
func waiting(change func(sandbox.Exit, error) (sandbox.Exit, error)) func(sandbox.Sandbox, context.Context, sandbox.Command) (sandbox.Process, error) {
	return func(sb sandbox.Sandbox, ctx context.Context, c sandbox.Command) (sandbox.Process, error) {
		p, err := sb.Start(ctx, c)
		if err != nil {
			return nil, err
		}
		return process{p, func() (sandbox.Exit, error) { return change(p.Wait()) }}, nil
	}
}

// changing returns a start that lets change rewrite every command.
func changing(change func(*sandbox.Command)) func(sandbox.Sandbox, context.Context, sandbox.Command) (sandbox.Process, error) {
	return func(sb sandbox.Sandbox, ctx context.Context, c sandbox.Command) (sandbox.Process, error) {
		change(&c)
		return sb.Start(ctx, c)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// clientOnly answers at the end of the context while the command runs on.
func clientOnly(sb sandbox.Sandbox, ctx context.Context, c sandbox.Command) (sandbox.Process, error) {
	p, err := sb.Start(context.WithoutCancel(ctx), c)
	if err != nil {
		return nil, err
	}
	ended := make(chan struct{})
	var exit sandbox.Exit
	go func() { defer close(ended); exit, err = p.Wait() }()
	return process{p, func() (sandbox.Exit, error) {
		select {
		case <-ended:
			return exit, err
		case <-ctx.Done():
			return sandbox.Exit{Code: 137, Signal: "KILL"}, nil
		}
	}}, nil
}

// hoarding hands output over only when all of it is there.
func hoarding(sb sandbox.Sandbox, ctx context.Context, c sandbox.Command) (sandbox.Process, error) {
	out := c.Stdout
	var kept []byte
	c.Stdout = writerFunc(func(p []byte) (int, error) { kept = append(kept, p...); return len(p), nil })
	p, err := sb.Start(ctx, c)
	if err != nil {
		return nil, err
	}
	return process{p, func() (sandbox.Exit, error) {
		exit, err := p.Wait()
		out.Write(kept)
		return exit, err
	}}, nil
}

// escaping is a fake whose tree leaves one process in a command of its own,
// where the kill of the first does not reach it.
func escaping() sandbox.Provider {
	o := faked.Options()
	starts := make(chan string, 16)
	o.Programs["tree"] = func(p *fake.Proc) int {
		starts <- p.Args[1]
		for range providertest.TreeSize - 1 {
			faked.Fork(p, p.Args[1])
		}
		fmt.Fprintln(p.Stdout, "ready")
		p.Sleep(time.Hour)
		return 0
	}
	return broken{
		Provider: fake.New(o),
		start: func(sb sandbox.Sandbox, ctx context.Context, c sandbox.Command) (sandbox.Process, error) {
			p, err := sb.Start(ctx, c)
			if err == nil && c.Args[0] == "tree" {
				marker := <-starts
				sb.Start(context.WithoutCancel(ctx), sandbox.Command{Args: []string{"sleep", marker}, Detach: true})
			}
			return p, err
		},
	}
}

// A greedyListener closes what it has accepted with itself.
type greedyListener struct {
	net.Listener
	mu    sync.Mutex
	conns []net.Conn
}

func (l *greedyListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.conns = append(l.conns, c)
	}
	return c, err
}

func (l *greedyListener) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.conns {
		c.Close()
	}
	return l.Listener.Close()
}
