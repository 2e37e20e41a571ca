//go:build linux

package server

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/bulkhead-dev/sandbox/guest/wire"
	"golang.org/x/sys/unix"
)

// selfExe is the guest's own binary, also after its folder was replaced.
const selfExe = "/proc/self/exe"

// DefaultDir is where the host's folder for the socket is mounted.
const DefaultDir = "/.sandbox/run"

// An initConfig is the command line of the init mode.
type initConfig struct {
	dir    string // folder of the socket
	fd     int    // one connection that is there already, or -1
	accept int    // a channel over which connections are passed, or -1
	fds    int    // the channel for descriptors beside it, or -1
	config int    // descriptor of a wire.Config, or -1
	port   uint16 // TCP port for clients with a certificate; 0 is none
	nofile uint64 // soft limit of open files for commands; 0 is the hard limit
	modes  []folderMode
	unset  []string // prefixes of variables that commands do not get
	masked bool     // sigs.Stop is blocked: this is the second start
}

func parseInit(args []string) (initConfig, error) {
	c := initConfig{dir: DefaultDir, fd: -1, accept: -1, fds: -1, config: -1}
	for _, a := range args {
		key, value, _ := strings.Cut(a, "=")
		var err error
		switch key {
		case "--dir":
			c.dir = value
		case "--fd":
			c.fd, err = descriptor(value)
		case "--accept":
			c.accept, err = descriptor(value)
		case "--fds":
			c.fds, err = descriptor(value)
		case "--config":
			c.config, err = descriptor(value)
		case "--nofile":
			c.nofile, err = strconv.ParseUint(value, 10, 32)
		case "--port":
			var n uint64
			n, err = strconv.ParseUint(value, 10, 16)
			c.port = uint16(n)
		case "--mode":
			var m folderMode
			if m, err = parseFolderMode(value); err == nil {
				c.modes = append(c.modes, m)
			}
		case "--unset":
			c.unset = append(c.unset, value)
		case "--masked":
			c.masked = true
		default:
			err = errors.New("unknown option")
		}
		if err != nil {
			return c, errors.New(a + ": " + err.Error())
		}
	}
	if c.fds >= 0 && (c.fd < 0 || c.fd == c.fds) {
		return c, errors.New("--fds needs a connection of its own: --fd")
	}
	return c, nil
}

// descriptor reads the number of an inherited descriptor.
func descriptor(s string) (fd int, err error) {
	fd, err = strconv.Atoi(s)
	if err == nil && fd < 3 {
		err = errors.New("below 3")
	}
	return fd, err
}

// Init is the first process of a sandbox. It serves clients until the engine
// tells it to stop, and returns the exit code of the process.
//
//	init [--dir=FOLDER]   listen in FOLDER (if it exists) and on AbstractName,
//	                      after folders were filled from FOLDER/image.tar
//	init --fd=N           serve the one connection on descriptor N; its end
//	                      is the end of the guest and of all it started
//	--fds=M               with --fd: the channel for descriptors, see package
//	                      guest/wire/handover
//	init --accept=N       serve the connections that come as descriptors over
//	                      the socket N, each with a channel of its own for
//	                      further ones; the end of N is that of the guest
//	--config=N            read a wire.Config from descriptor N first
//	--mode=MODE:FOLDER    give FOLDER, which belongs to this user, that octal
//	                      mode before anything is served
//	--unset=PREFIX        commands get no variable whose name begins so
//	--port=N              let clients with a certificate in at the TCP port N of
//	                      all addresses, once they are enrolled; without effect
//	                      in a program that was built without TLS
//	--nofile=N            commands start with this soft limit of open files;
//	                      without it, with the hard limit
func Init(args []string) int {
	setProcname()
	c, err := parseInit(args)
	if err != nil {
		return complain(err)
	}
	if err := beKillable(oomScore); err != nil {
		return complain(err)
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return complain(err)
	}
	// Only the parent of this process can have blocked it by now.
	if !c.masked && !blockedSigs(Stop) {
		return complain(restart(args))
	}
	if err := runInit(c); err != nil {
		return complain(err)
	}
	return 0
}

func complain(err error) int {
	_, _ = os.Stderr.WriteString("sandbox-guest: " + err.Error() + "\n")
	return 1
}

// restart executes the program again with a signal blocked. The runtime has
// made threads by the time that main runs, and only a mask that it was
// started with holds for all of them.
func restart(args []string) error {
	runtime.LockOSThread()
	if err := Block(Stop); err != nil {
		return err
	}
	argv := append([]string{"sandbox-guest", "init", "--masked"}, args...)
	return unix.Exec(selfExe, argv, os.Environ())
}

func runInit(c initConfig) error {
	isolation := probeShim()
	open := isolation.Signal || os.Getpid() != 1
	if open {
		ignoreAll(unix.SIGTERM, unix.SIGINT)
	} else {
		ignoreAll()
	}
	conf, err := c.wall()
	if err != nil {
		return err
	}
	if len(conf.Filter) == 0 && (c.config < 0 || !isolation.Proc) {
		// Without Landlock nothing else keeps a command from tracing the others.
		conf.Filter = containerFilter(isolation.Proc)
	}
	if err := setLimits(conf.Limits); err != nil {
		return err
	}
	fd, err := openSigs(Stop)
	if err != nil {
		return err
	}
	room, err := makeRoom(conf)
	if err != nil {
		return err
	}
	unset := setModes(c.modes)
	if c.fd < 0 && c.accept < 0 {
		unset = append(unset, fillFolders(filepath.Join(c.dir, imageArchive))...)
	}
	warmed := make(chan struct{})
	go func() { defer close(warmed); warmUp(room.threads) }()
	s := newServer(conf, isolation)
	s.degraded = append(s.degraded, unset...)
	stop := make(chan error, 1)
	go func() { stop <- awaitStop(os.NewFile(uintptr(fd), "signals"), open) }()
	over, err := s.begin(c, outfit{base: c.base(), conf: conf, processes: room.commands, processors: runtime.GOMAXPROCS(0), warmed: warmed})
	if err != nil {
		return err
	}
	select {
	case err = <-stop:
	case <-over:
	}
	s.end()
	return err
}

// begin furnishes the Server and starts to serve. A client that has an
// inherited channel is greeted before, and its requests wait.
func (s *Server) begin(c initConfig, o outfit) (over <-chan struct{}, err error) {
	if c.accept < 0 {
		if err := s.furnish(o); err != nil {
			return nil, err
		}
		return s.open(c)
	}
	if over, err = s.open(c); err != nil {
		return nil, err
	}
	runtime.Gosched() // or a client that has connected already would be greeted only when this goroutine waits
	return over, s.furnish(o)
}

// base is what commands are laid over.
func (c initConfig) base() wire.Start {
	env := slices.DeleteFunc(os.Environ(), func(kv string) bool {
		return slices.ContainsFunc(c.unset, func(prefix string) bool { return strings.HasPrefix(kv, prefix) })
	})
	b := wire.Start{Env: env}
	if c.nofile > 0 {
		b.Limits = []wire.Limit{{Kind: wire.LimitOpenFiles, Value: c.nofile}}
	}
	return b
}

// open starts to serve. The returned channel is closed when there is
// nothing left to serve.
func (s *Server) open(c initConfig) (over <-chan struct{}, err error) {
	if c.fd >= 0 {
		var beside *side
		if c.fds >= 0 {
			if beside, err = openSide(c.fds); err != nil {
				return nil, err
			}
			s.features = append(s.features, wire.FeatureKeptShell)
		}
		return inherited(c.fd, func(f *os.File) { s.serve(f, beside, nil) })
	}
	if c.accept >= 0 {
		s.features = append(s.features, wire.FeatureKeptShell)
		return inherited(c.accept, s.admitPassed)
	}
	if c.port > 0 { // before any command could
		if err := s.openPort(c.port); err != nil {
			return nil, err
		}
	}
	l, err := listenUnix(AbstractName)
	if err != nil {
		return nil, err
	}
	go l.serve(s.fromEngine, func(f *os.File) { s.admit(f, nil, nil) })
	d := &socketDir{path: c.dir, admit: func(f *os.File) { s.admit(f, nil, &firstRead{f: f}) }, ok: fromOutside}
	ready := make(chan struct{})
	go d.keep(ready)
	<-ready
	return nil, nil
}

// inherited calls serve with a descriptor that the guest was started with,
// out of reach of its children. The returned channel is closed when serve
// returns.
func inherited(fd int, serve func(*os.File)) (over <-chan struct{}, err error) {
	unix.CloseOnExec(fd)
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, err
	}
	done := make(chan struct{})
	go func() {
		serve(os.NewFile(uintptr(fd), "client"))
		close(done)
	}()
	return done, nil
}
