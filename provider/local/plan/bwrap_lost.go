package plan

import (
	"slices"
	"strings"
)

// Lost returns, in the order of p, the targets of p whose mount is no longer
// where it was built. Both texts are the mountinfo, see proc(5), of the
// sandbox's first process: built is the text that [SelfCheck] accepted, now a
// later one.
//
// A mount lies on a file or folder of the host and follows it: when a host
// process removes or replaces the file, the mount is gone; when it renames the
// file or a folder above, the mount moves. Either way, the content at the old
// path is open. Lost does not report writable mounts, because the mount below
// them closes more than they do.
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
		then[m.point] = m.id // the topmost mount comes last
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
// other content on top of a read-only view. Without this mount, the view's own
// content is visible, as it is for everything beside it.
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

// A place is a mount: its kernel number and its mount point.
type place struct{ id, point string }

// Covered returns the host paths that the mounts of [Lost] lie on, by target,
// except those in the sandbox's memory; and every host path whose rename moves
// one of these mounts.
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

// beneath returns the host path of the file below the mount at target.
func beneath(target string, views map[string]string, own map[string]bool) (host string, ok bool) {
	for at := above(target); at != "" && !own[at]; at = above(at) {
		if source, shown := views[at]; shown {
			return strings.TrimSuffix(source, "/") + target[len(at):], true
		}
	}
	return "", false
}

// above returns the parent folder of p, or "" for a path at the top.
func above(p string) string {
	return p[:max(strings.LastIndexByte(p, '/'), 0)]
}
