//go:build linux

package server

import (
	"os"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/bulkhead-dev/sandbox/guest/wire"
	"golang.org/x/sys/unix"
)

// maxConns bounds the connections that are served at once.
const maxConns = 64

// maxWalkers bounds the walks over /proc at once.
const maxWalkers = 2

// A Server runs commands for the clients that connect to it. There is one
// in a process: it reaps every child of the process.
type Server struct {
	// furnished is closed once the first group of fields is there.
	furnished chan struct{}

	nursery      *nursery
	callNotifier *callNotifier // nil: attempts are not observed
	pool         *pool
	counted      *pool // of shims whose processes are counted; empty until a command needs one
	gate         *gate
	auditor      *auditor
	null         *os.File
	nullFD       int
	cgroup       *cgroup
	loadFD       int // of /proc/loadavg; -1: it cannot be read
	proof        *proof

	frames  sync.Pool // of *[]byte, for output
	files   *fileServer
	walkers chan struct{}
	conns   chan struct{}
	// forwards holds a token for each forwarded connection, see maxForwards.
	forwards chan struct{}
	// portLooks holds a token for each list of ports that is being made.
	portLooks chan struct{}
	// snapshots holds a token for each snapshot that is being made.
	snapshots chan struct{}
	own       ownSockets
	port      *port // nil where there is none

	// keepsTrees says that processes cannot leave their command: there are
	// subreapers. Without them see sweepStrays.
	keepsTrees bool
	running    atomic.Int64 // commands
	unreported atomic.Bool  // the runtime does not say who connects, see peersUnreported

	shared   bool // see [wire.Config]
	boot     string
	features []string
	degraded []string

	mu       sync.Mutex
	ready    string
	talking  map[*conn]struct{}    // connections that are served
	stopping bool                  // drainAndClose was called
	sessions map[int]bool          // of running commands, by their program's pid
	commands map[*command]struct{} // that run, or have left something running
}

// newServer returns a Server that can say what a guest with conf does here, and
// takes requests once it is furnished. The two steps are separate because the
// second takes a while, and a client that is greeted before it can go on
// meanwhile.
func newServer(conf wire.Config, isolation shimIsolation) *Server {
	s := &Server{
		furnished: make(chan struct{}),
		walkers:   make(chan struct{}, maxWalkers),
		conns:     make(chan struct{}, maxConns),
		boot:      randomHex(16), forwards: make(chan struct{}, maxForwards), portLooks: make(chan struct{}, maxPortLooks),
		snapshots: make(chan struct{}, maxSnapshots),
		talking:   map[*conn]struct{}{}, sessions: map[int]bool{},
		files: newFileServer(), shared: conf.Shared,
	}
	s.frames.New = func() any {
		b := make([]byte, wire.HeaderLen+wire.MaxData)
		return &b
	}
	s.keepsTrees = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == nil
	s.features, s.degraded = abilities(isolation, s.keepsTrees, canListen())
	if conf.Observe {
		s.features = append(s.features, wire.FeatureObserve)
		if blindNotifier() {
			s.degraded = append(s.degraded, "kernel.yama.ptrace_scope is 2 or more: what commands try and are refused is not seen")
		}
	}
	if conf.Landlock && !isolation.Truncate {
		s.degraded = append(s.degraded, "the kernel has no Landlock of version 3 or later: truncating a file by its name is held by mounts alone")
	}
	s.features = append(s.features, s.files.features()...)
	return s
}

// An outfit is what a Server is furnished with.
type outfit struct {
	base       wire.Start // what commands are laid over
	conf       wire.Config
	processes  uint64          // limit for commands; 0 is none of their own
	processors int             // that run Go code
	warmed     <-chan struct{} // closed once there are as many threads as it takes
}

// furnish makes what commands need. The Server takes requests as soon as all of
// that is there, and lets commands start when it returns: the first shim comes
// first, and sets its filter meanwhile.
func (s *Server) furnish(o outfit) error {
	null, err := os.OpenFile("/dev/null", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	s.null, s.nullFD = null, int(null.Fd())
	maker, err := newMaker(o.base, s.nullFD, shimConfinement{
		Landlock: o.conf.Landlock, Readable: o.conf.Readable, Writable: o.conf.Writable, Shared: o.conf.Shared,
		Filter: o.conf.Filter, Observe: o.conf.Observe, Processes: o.processes,
	})
	if err != nil {
		return err
	}
	s.proof = try(o.conf.Checks, maker)
	s.nursery = newNursery(maker)
	s.pool = newPool(func() (*shimProc, error) { return s.shim(false) }, rest)
	s.counted = newPool(func() (*shimProc, error) { return s.shim(true) }, rest)
	go s.watchChildren()
	var first *shimProc
	if maker.Filters() {
		if first, err = s.nursery.begin(false); err != nil {
			return err
		}
	}
	if s.callNotifier, err = newCallNotifier(o.conf); err != nil {
		return err
	}
	s.nursery.callNotifier = s.callNotifier
	if o.conf.Shared {
		s.callNotifier.observer.calls = newCallServer(o.conf, &s.own)
	}
	s.cgroup = openCgroup("/sys/fs/cgroup")
	if s.loadFD, err = unix.Open("/proc/loadavg", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		s.loadFD = -1
	}
	s.gate, s.auditor = newGate(o.processors), newAuditor()
	close(s.furnished)
	return s.settle(first, o.warmed)
}

// shim makes a shim for the pool, which may miss one while the Server is still
// being furnished: the first can be killed.
func (s *Server) shim(counts bool) (*shimProc, error) {
	<-s.furnished
	return s.nursery.start(counts)
}

// poolFor returns the pool of shims for commands whose processes are counted,
// or for all others.
func (s *Server) poolFor(counted bool) *pool {
	if counted {
		return s.counted
	}
	return s.pool
}

// settle lets commands start, once the first shim and all threads are there. A
// sandbox that cannot have its filter is not to be served; where there is none,
// the shim is not waited for.
func (s *Server) settle(first *shimProc, warmed <-chan struct{}) error {
	if first == nil {
		s.pool.warm()
	} else {
		if err := s.nursery.finish(first); err != nil {
			return err
		}
		s.pool.put(first)
	}
	<-s.proof.there
	<-warmed
	s.pool.open()
	s.counted.open()
	return nil
}

// abilities says what this guest can do here and what it cannot.
func abilities(i shimIsolation, keepsTrees, listens bool) (features, degraded []string) {
	features = []string{wire.FeatureExec, wire.FeatureTTY, wire.FeatureReady, wire.FeatureDetach, wire.FeatureForward, wire.FeatureShell, wire.FeatureLimits, wire.FeatureUse, wire.FeatureBare, wire.FeaturePorts, wire.FeatureSnapshot}
	if i.Proc {
		features = append(features, wire.FeatureIsolateProc)
	} else {
		degraded = append(degraded, "the kernel has no Landlock of version 2 or later: commands of one sandbox can read and write each other's streams through /proc")
	}
	if i.Signal {
		features = append(features, wire.FeatureIsolateSignal)
	} else {
		degraded = append(degraded, "the kernel has no Landlock of version 6 or later: commands of one sandbox can signal each other, their stages and the relays that carry sessions")
	}
	if !keepsTrees {
		degraded = append(degraded, "there are no subreapers: a process that leaves both its parent and its session is ended with the next command that ends, which may be another one")
	}
	if !listens {
		degraded = append(degraded, "the kernel hands no system calls to listeners: limits.processes is held by looking from time to time, and a burst of processes passes it for a moment")
	}
	return features, degraded
}

func (s *Server) hello(version uint16, beside bool) wire.Hello {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := wire.Hello{
		Version: version, BootID: s.boot, Ready: s.ready, PID: uint32(os.Getpid()),
		Features: s.features, Degraded: s.degraded,
	}
	if beside && !s.shared { // a client takes no socket of its own network for one of a sandbox
		h.Features = append(slices.Clip(h.Features), wire.FeaturePass, wire.FeaturePassDial)
	}
	if s.unreported.Load() {
		h.Degraded = append(slices.Clip(h.Degraded), "the runtime does not tell who connects: code in the sandbox can speak to the guest")
	}
	return h
}

func (s *Server) setReady(tag string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready = tag
}

// admit serves a vetted connection in the background, with what is beside it
// or may come with its first bytes, or closes all when there are too many.
func (s *Server) admit(f *os.File, beside *side, first *firstRead) {
	select {
	case s.conns <- struct{}{}:
		go func() {
			defer func() { <-s.conns }()
			s.serve(f, beside, first)
		}()
	default:
		f.Close()
		beside.close()
	}
}
