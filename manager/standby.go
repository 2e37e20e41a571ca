package manager

import (
	"context"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/images/about"
)

// A standbyer is a sandbox in which a program can be started before the command that
// it will be; see [provider.Standby].
type standbyer interface {
	StandBy(ctx context.Context, as sandbox.Command, args []string) error
}

// standbyWithin is how long a program may take to be ready.
const standbyWithin = time.Minute

// standbyEnv are the variables with which the kernel host starts: those that a kernel
// reads then and not again. All others it gets with the command that it becomes, for
// agents whose variables differ can share slots, and one must not read in its sandbox
// what another's settings say. A host whose own differ is not used.
var standbyEnv = [...]string{"HOME", "LANG", "LC_ALL", "LC_CTYPE", "PATH", "PYTHONPATH", "TZ"}

// standBy starts the kernel host in a slot, with its first kernel, where sandboxes of
// the slot's shape are made from the image of the code interpreter. The session that
// claims the slot has the host as soon as it runs code. The command that starts the
// host is judged, recorded and paid for then, as always; only its process is there
// before. w is what describeSlot has returned, or nil.
//
// A host that does not start is reported and no reason not to keep the slot: code in
// it starts slower.
func (k *poolKeeper) standBy(ctx context.Context, from poolWant, n *slot, w *want) {
	sb, able := n.Sandbox.(standbyer)
	if !able || from.res.Docker.Image != about.CodeImage {
		return
	}
	short, done := context.WithTimeout(ctx, standbyWithin)
	defer done()
	var err error
	if w == nil {
		w, err = k.describeSlot(short, from, n.rec.Name)
	}
	if err == nil {
		as := sandbox.Command{Env: map[string]string{}, Limits: w.commands.Limits}
		for _, name := range standbyEnv {
			if v, set := w.commands.Env[name]; set {
				as.Env[name] = v
			}
		}
		as.Args = []string{about.CodeHost, "serve"}
		err = sb.StandBy(short, as, []string{about.CodeHost, "serve", "--standby"})
	}
	if err != nil && ctx.Err() == nil {
		k.report(k.m.log, "stand by "+n.rec.Shape, err, "a slot of the pool has no kernel ready, so that code in it starts slower")
	}
}
