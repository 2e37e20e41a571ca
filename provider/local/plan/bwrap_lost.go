package plan

import (
	"slices"
	"strings"
)

// Lost returns the targets of p whose mount is no more where it was built, in
// the order of p. Both texts are those of mountinfo in proc(5) of the wall's
// first process: built is that with which it was proven, now a later one.
//
// A mount lies on a file or folder of the host and goes where that goes: when
// the host removes it or puts another in its place the mount is gone, and when
// the host renames it the mount has another place, as has one below a folder
// that is renamed. Either way what is at the old place now is open. Mounts that
// let be written are no loss: what they lay on closes more than they did.
func Lost(p Plan, built, now string) ([]string, error) {
	before, err := parseMounts(built)
	if err != nil {
		return nil, err
	}
	after, err := parseMounts(now)
	if err != nil {
		return nil, err
	}
	then := make(map[string]string, len(before))
	for _, m := range before {
		then[m.point] = m.id // the last one lies on top
	}
	stands := make(map[place]bool, len(after))
	for _, m := range after {
		stands[place{m.id, m.point}] = true
	}
	var lost []string
	for _, op := range p.Ops {
		switch op.Kind {
		case OpDir, OpSymlink, OpBind:
			continue
		}
		if !stands[place{then[op.Target], op.Target}] && !slices.Contains(lost, op.Target) {
			lost = append(lost, op.Target)
		}
	}
	return lost, nil
}

// ShowsOnly reports whether the mount of p at target closes nothing: it shows
// something of its own where a view that can only be read shows what the host
// has. Without the mount that is to be seen, as everything beside it is.
func ShowsOnly(p Plan, target string) bool {
	kinds := map[string]OpKind{}
	for _, op := range p.Ops {
		if op.Kind != OpRemountRo {
			kinds[op.Target] = op.Kind
		}
	}
	if kinds[target] != OpRoBind {
		return false
	}
	for at := above(target); at != ""; at = above(at) {
		switch kinds[at] {
		case "", OpDir:
		case OpRoBind:
			return true
		default:
			return false
		}
	}
	return false
}

// A place is a mount, by the kernel's number of it, and where it is.
type place struct{ id, point string }

// Covered returns what of the host the mounts of [Lost] lie on, by their
// targets, where that is not memory of the wall; and every path of the host of
// which one of them goes along when it is renamed.
func Covered(p Plan) (closed map[string]string, ways []string) {
	views, own := map[string]string{}, map[string]bool{}
	for _, op := range p.Ops {
		switch op.Kind {
		case OpBind, OpRoBind:
			views[op.Target] = op.Source
		case OpTmpfs, OpMaskDir:
			own[op.Target] = true
		}
	}
	closed = map[string]string{}
	seen := map[string]bool{}
	for _, op := range p.Ops {
		switch op.Kind {
		case OpDir, OpSymlink, OpBind:
			continue
		}
		for at := op.Target; ; at = above(at) {
			host, ok := beneath(at, views, own)
			if !ok {
				break
			}
			if at == op.Target {
				closed[at] = host
			}
			if !seen[host] {
				seen[host] = true
				ways = append(ways, host)
			}
		}
	}
	return closed, ways
}

// beneath returns the path on the host of what lies under a mount at target.
func beneath(target string, views map[string]string, own map[string]bool) (host string, ok bool) {
	for at := above(target); at != "" && !own[at]; at = above(at) {
		if source, shown := views[at]; shown {
			return strings.TrimSuffix(source, "/") + target[len(at):], true
		}
	}
	return "", false
}

// above is the folder that p lies in, or nothing for what lies at the top.
func above(p string) string {
	return p[:max(strings.LastIndexByte(p, '/'), 0)]
}
