package sandbox

import (
	"context"
	"net"
	"net/netip"
	"os"
)

// A Provider makes sandboxes of one kind. Implementations are safe for
// concurrent use. Every method honours its context, has an upper bound of its
// own on how long it waits, and returns errors of type *[Error].
//
// The conformance suite in package providertest holds the rules below.
type Provider interface {
	// Name is the word that settings use for the provider.
	Name() string

	// Features says what the provider can do.
	Features() Features

	// Inspect returns what is known of the sandbox name. It returns
	// [CodeNotFound] only when the provider has answered that there is none,
	// and [CodeUnavailable] or [CodeTimeout] when there was no answer.
	Inspect(ctx context.Context, name string) (Info, error)

	// Create builds and starts the sandbox that s describes. When it returns an
	// error nothing is left behind, also when ctx has ended. It returns
	// [CodeBusy] if a sandbox of that name exists already.
	Create(ctx context.Context, s Spec) (Info, error)

	// Open returns a handle to the sandbox s.Name, which must exist. A
	// stopped sandbox is started, a paused one thawed, and the OnStart
	// lines of s are run when they have not been since the last start.
	// Env, Workdir and Limits of s apply to commands started through the
	// handle. Owner must agree with the sandbox's own, else
	// [CodePermissionDeny].
	Open(ctx context.Context, s Spec) (Sandbox, error)

	// List returns the sandboxes that match f in one call to the backend.
	List(ctx context.Context, f Filter) ([]Info, error)

	// Remove ends everything in the sandbox and removes it. It returns nil if
	// there is no such sandbox.
	Remove(ctx context.Context, name string) error
}

// Features says what a provider can do. Linux capabilities are a different
// thing and always written CapAdd and CapDrop.
type Features struct {
	Persistent bool // sandboxes outlive the process that made them
	Images     bool // sandboxes are made from images
	Pause      bool // the provider is a Pauser
	TTY        bool
	Shells     bool // OpenShell works
	Files      bool // sandboxes are FileServers
	Dial       bool // sandboxes are Dialers
	Listen     bool // sandboxes are Listeners
	Usage      bool // Usage works
}

// A Pauser can freeze a sandbox and thaw it again.
type Pauser interface {
	Pause(ctx context.Context, name string) error
	Unpause(ctx context.Context, name string) error
}

// A Sandbox is an open handle to one running sandbox. It is safe for concurrent
// use. Closing it releases the handle and does not remove the sandbox.
type Sandbox interface {
	Info() Info

	// Start runs c. The end of ctx kills the whole process tree of the
	// command, escapees included. A non-zero exit is a result of the
	// Process, not an error of Start.
	Start(ctx context.Context, c Command) (Process, error)

	// OpenShell starts a shell that keeps its state between commands.
	OpenShell(ctx context.Context, o ShellOptions) (Shell, error)

	Usage(ctx context.Context) (Usage, error)

	// Close ends the handle and with it every command started through it
	// that is not detached.
	Close() error
}

// A ListeningPort is a TCP port at which a program inside a sandbox listens.
type ListeningPort struct {
	Addr    netip.AddrPort // inside, that it is bound to
	PID     int            // inside; 0 where it is not known
	Command string         // the program with its arguments, or the beginning of them
}

// Optional abilities of a Sandbox, found by type assertion. A caller that needs
// a missing one fails with [CodeUnsupported].
type (
	// A Dialer connects to an address inside the sandbox.
	Dialer interface {
		Dial(ctx context.Context, network, addr string) (net.Conn, error)
	}
	// A Listener listens on an address inside the sandbox. Listen returns
	// [CodeBusy] if the address is in use.
	Listener interface {
		Listen(ctx context.Context, network, addr string) (net.Listener, error)
	}
	// A PortLister lists the TCP ports at which programs inside listen. What it
	// returns comes from inside and may be forged.
	PortLister interface {
		Ports(ctx context.Context) ([]ListeningPort, error)
	}
	// A FileServer serves the sandbox's files.
	FileServer interface {
		Files(ctx context.Context) (Files, error)
	}
	// A Remounter puts another file system at a mount of the running sandbox.
	//
	// Remount takes the detached mount, a descriptor of fsmount(2) or of
	// open_tree(2) with OPEN_TREE_CLONE whose root is a folder, and puts it at
	// target inside, in place of what is mounted there. It adds the options of
	// the old mount that restrict (ro, nosuid, nodev, noexec), so that the new
	// one allows nothing that the old one did not. After success mount refers to
	// the mount inside; the caller closes it in any case.
	//
	// No file operation of the sandbox is half way in the meantime. Commands,
	// files and shells that begin afterwards see the new file system; what runs
	// keeps its open files and its working directory in the old one, and its
	// outputs go on. The next line of a persistent shell begins in the folder of
	// the same path, see [Exit.LostDir]. Watches report [CodeNotFound] if their
	// folder is not there, and that changes were dropped otherwise.
	//
	// Remount returns [CodeValidation] if target is not the workspace or another
	// folder of the host that is mounted writable or read-only by the Spec,
	// [CodeBusy] if a file operation, or in a sandbox that has to be started again
	// a command, does not end in time, and [CodeUnsupported] where it cannot be
	// done: the engine is on another machine, we are not root, other mounts lie
	// below target, or code inside could rename a folder above it. After an error
	// target is as it was, unless the error says otherwise.
	Remounter interface {
		Remount(ctx context.Context, target string, mount *os.File) error
	}
	// A Snapshotter says what runs in the sandbox, with the states of its shells.
	// What it returns comes from inside and may be forged.
	Snapshotter interface {
		Snapshot(ctx context.Context) (Snapshot, error)
	}
	// An Execer starts a command by means of the engine, as docker exec does,
	// and not through the guest. The command has the identity and the
	// resources of the sandbox, and the environment of its image below Env;
	// Bare, TTY, Detach and Limits are [CodeUnsupported]. The end of ctx ends
	// its process group, and the end of the handle does not.
	Execer interface {
		Exec(ctx context.Context, c Command) (Process, error)
	}
)
