package plan

import (
	"path"
	"slices"
	"strings"

	sandbox "github.com/bulkhead-dev/sandbox"
)

// Judge returns the verdict of the rules on op at the path inside, which is
// absolute and need not exist. It does not know the host's links: it judges a
// path through a link by the path's text. A path that no view shows can be
// granted under its host name; a path of this program cannot be granted.
func (p Plan) Judge(op sandbox.Operation, inside string) sandbox.Verdict {
	if !strings.HasPrefix(inside, "/") || strings.IndexByte(inside, 0) >= 0 {
		return sandbox.Verdict{Rule: "not an absolute path", Builtin: true}
	}
	at := p.resolve(path.Clean(inside))
	l, ok := topOf(p.layers, at)
	if !ok || l.kind == layerOwn || under(at, ours) {
		return p.judgeOwn(op, at, l)
	}
	switch l.kind {
	case layerTmpfs:
		if l.covers() {
			return sandbox.Verdict{Allowed: op == sandbox.OpRead, Rule: ruleCover, Builtin: op != sandbox.OpRead}
		}
		return sandbox.Verdict{Allowed: op != sandbox.OpConnect, Rule: ruleTmpfs}
	case layerFolder:
		// Each name of the host folder that is shown has a view of its own.
		return sandbox.Verdict{
			Allowed: op == sandbox.OpRead, Rule: readOnly(op, l.view.Why), HostPath: l.host(at),
		}
	}
	v := sandbox.Verdict{HostPath: l.host(at)}
	if c, denied := over(p.closures, p.opens, v.HostPath); denied && (c.read || op != sandbox.OpRead) {
		v.Rule, v.Builtin = c.rule, true
		return v
	}
	if rule, frozen := p.frozen(l, v.HostPath); frozen && op == sandbox.OpWrite && l.view.Write {
		v.Rule, v.Builtin = rule, true
		return v
	}
	switch op {
	case sandbox.OpRead:
		v.Allowed, v.Rule = true, l.view.Why
	case sandbox.OpWrite:
		v.Allowed, v.Rule = l.view.Write, readOnly(op, l.view.Why)
		if l.view.Write {
			v.Rule = l.view.Why
		}
	default:
		v.Allowed, v.Rule, v.Builtin = l.view.Socket, ruleSocket, !l.view.Socket
		if v.Allowed {
			v.Rule = l.view.Why
		}
	}
	if l.view.Fixed {
		v.Builtin, v.HostPath = !v.Allowed, ""
	}
	return v
}

// Names of rules that do not come from a setting.
const (
	ruleTmpfs  = "memory of the sandbox"
	ruleHidden = "nothing shows it"
	ruleSystem = "part of the sandbox"
	ruleSocket = "sockets of the host are closed"
	ruleCover  = "protection: what lies here on the host is covered"
	ours       = "/.sandbox"
)

func readOnly(op sandbox.Operation, why string) string {
	if op == sandbox.OpRead {
		return why
	}
	return "shown read-only: " + why
}

// judgeOwn judges a path that neither a view nor a tmpfs of the settings
// decides.
func (p Plan) judgeOwn(op sandbox.Operation, at string, l layer) sandbox.Verdict {
	switch {
	case l.target == "/dev/shm":
		return sandbox.Verdict{Allowed: op != sandbox.OpConnect, Rule: ruleTmpfs}
	case l.target == "/dev" && op == sandbox.OpWrite:
		name := strings.TrimPrefix(at, "/dev/")
		return sandbox.Verdict{Allowed: slices.Contains(devices, name) || strings.HasPrefix(name, "pts/"), Rule: ruleSystem, Builtin: true}
	case l.kind == layerOwn, under(at, ours):
		return sandbox.Verdict{Allowed: op == sandbox.OpRead, Rule: ruleSystem, Builtin: true}
	}
	v := sandbox.Verdict{Rule: ruleHidden, HostPath: at}
	if c, denied := over(p.closures, p.opens, at); denied && (c.read || op != sandbox.OpRead) {
		v.Rule, v.Builtin = c.rule, true
	}
	return v
}

// devices are the writable names in /dev.
var devices = []string{"null", "zero", "full", "random", "urandom", "tty", "ptmx", "stdin", "stdout", "stderr", "console"}

// frozen returns the rule by which the view l shows the host path h in a frozen
// folder, where h is not one of the names that stay writable.
func (p Plan) frozen(l layer, h string) (rule string, ok bool) {
	if rule := p.closures[h].frozen; rule != "" {
		return rule, true
	}
	for q := h; q != l.view.Source; q = path.Dir(q) {
		if c := p.closures[path.Dir(q)]; c.frozen != "" && !slices.Contains(c.names, path.Base(q)) {
			return c.frozen, true
		}
	}
	return "", false
}

// resolve follows the links that the plan itself creates.
func (p Plan) resolve(at string) string {
	for range maxLinks {
		i := slices.IndexFunc(p.links, func(s Symlink) bool { return under(at, s.Target) })
		if i < 0 {
			return at
		}
		s := p.links[i]
		to := s.To
		if !strings.HasPrefix(to, "/") {
			to = path.Join(path.Dir(s.Target), to)
		}
		at = moved(at, s.Target, path.Clean(to))
	}
	return at
}

// Writable returns, sorted, the paths inside below which something may be
// writable; mounts may close parts of them. A second, allow-only layer must
// allow these paths. /dev is one of them, for its devices.
func (p Plan) Writable() []string {
	return p.targets(func(l layer) bool {
		return l.kind == layerTmpfs && !l.covers() || l.shows() && l.view.Write || l.target == "/dev" || l.target == "/dev/shm"
	})
}

// Readable returns, sorted, the paths inside below which something may be
// readable, those of [Plan.Writable] included. It leaves out folders that only
// lead to such paths.
func (p Plan) Readable() []string {
	return p.targets(func(l layer) bool { return !l.closed.closes() })
}

func (p Plan) targets(want func(layer) bool) []string {
	var list []string
	for target, l := range p.layers {
		if want(l) {
			list = append(list, target)
		}
	}
	slices.Sort(list)
	return list
}

// Same reports whether q shows and closes exactly what p does, so that a
// sandbox built by p also serves q.
func (p Plan) Same(q Plan) bool {
	return slices.Equal(p.Ops, q.Ops) && slices.Equal(p.Placeholders, q.Placeholders)
}
