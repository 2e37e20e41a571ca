//go:build linux

package server

import (
	"os"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/bulkhead-dev/sandbox/guest/server/observe"
	"github.com/bulkhead-dev/sandbox/guest/server/stage"
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
	nursery *nursery
	eyes    *eyes // nil: nobody looks
	pool    *pool
	gate    *gate
	auditor *auditor
	null    *os.File
	nullFD  int
	loadFD  int       // of /proc/loadavg; -1: it cannot be read
	frames  sync.Pool // of *[]byte, for output
	files   *fileServer
	proof   *proof
	walkers chan struct{}
	conns   chan struct{}
	// forwards holds a token for each forwarded connection, see maxForwards.
	forwards chan struct{}

	// keepsTrees says that processes cannot leave their command: there are
	// subreapers. Without them see sweepStrays.
	keepsTrees bool
	running    atomic.Int64 // commands
	untold     atomic.Bool  // the runtime does not say who connects, see peersUntold

	boot     string
	features []string
	degraded []string

	mu       sync.Mutex
	ready    string
	talking  map[*conn]struct{} // connections that are served
	stopping bool               // farewell was called
	sessions map[int]bool       // of running commands, by their program's pid
}

// newServer returns a Server whose commands are laid over base and held by conf,
// with that limit of processes, where it is not 0.
func newServer(base wire.Start, conf wire.Config, isolation stage.Isolation, processes uint64, processors int) (*Server, error) {
	null, err := os.OpenFile("/dev/null", os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	maker, err := stage.NewMaker(base, int(null.Fd()), stage.Confinement{
		Landlock: conf.Landlock, Readable: conf.Readable, Writable: conf.Writable, Filter: conf.Filter, Observe: conf.Observe, Processes: processes,
	})
	if err != nil {
		return nil, err
	}
	eyes, err := newEyes(conf)
	if err != nil {
		return nil, err
	}
	s := &Server{
		nursery: newNursery(maker, eyes), eyes: eyes,
		null:    null,
		nullFD:  int(null.Fd()),
		walkers: make(chan struct{}, maxWalkers),
		conns:   make(chan struct{}, maxConns),
		boot:    randomHex(16), forwards: make(chan struct{}, maxForwards),
		talking: map[*conn]struct{}{}, sessions: map[int]bool{},
	}
	s.frames.New = func() any {
		b := make([]byte, wire.HeaderLen+wire.MaxData)
		return &b
	}
	if s.loadFD, err = unix.Open("/proc/loadavg", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		s.loadFD = -1
	}
	s.gate, s.auditor = newGate(processors), newAuditor()
	s.pool = newPool(s.nursery.start, rest)
	s.keepsTrees = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == nil
	s.features, s.degraded = abilities(isolation, s.keepsTrees)
	if eyes != nil {
		s.features = append(s.features, wire.FeatureObserve)
		if observe.Blind() {
			s.degraded = append(s.degraded, "kernel.yama.ptrace_scope is 2 or more: what commands try and are refused is not seen")
		}
	}
	if conf.Landlock && !isolation.Truncate {
		s.degraded = append(s.degraded, "the kernel has no Landlock of version 3 or later: truncating a file by its name is held by mounts alone")
	}
	s.proof = try(conf.Checks, maker)
	s.files = newFileServer()
	s.features = append(s.features, s.files.features()...)
	return s, nil
}

// abilities says what this guest can do here and what it cannot.
func abilities(i stage.Isolation, keepsTrees bool) (features, degraded []string) {
	features = []string{wire.FeatureExec, wire.FeatureTTY, wire.FeatureReady, wire.FeatureDetach, wire.FeatureForward, wire.FeatureShell, wire.FeatureLimits, wire.FeatureUse, wire.FeatureBare}
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
	return features, degraded
}

func (s *Server) hello(version uint16, beside bool) wire.Hello {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := wire.Hello{
		Version: version, BootID: s.boot, Ready: s.ready, PID: uint32(os.Getpid()),
		Features: s.features, Degraded: s.degraded,
	}
	if beside {
		h.Features = append(slices.Clip(h.Features), wire.FeaturePass)
	}
	if s.untold.Load() {
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
