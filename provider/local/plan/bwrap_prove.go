package plan

import (
	"fmt"
	"path"
	"slices"
	"strings"

	sandbox "github.com/bulkhead-dev/sandbox"
)

// SelfCheck compares the mounts with the plan p and returns an error if they
// differ. Both texts are mountinfo, see proc(5): inside is that of the
// sandbox's first process, host that of a process outside, read before or
// after. Call it after the sandbox was built and before any command runs in it.
//
// bwrap mounts by path and follows links. A program that still runs in an older
// sandbox on the same folders can replace a folder by a link between planning
// and mounting, and so have bwrap mount a host folder that no rule allows, or
// put a mask elsewhere. The kernel reports each mount with its path in the file
// system, which no link can forge.
func SelfCheck(p Plan, maskFile, host, inside string) error {
	outer, err := parseMounts(host)
	if err != nil {
		return err
	}
	inner, err := parseMounts(inside)
	if err != nil {
		return err
	}
	at := make(map[string]bwrapMounted, len(inner))
	for _, m := range inner {
		at[m.point] = m // the topmost mount comes last
	}
	for _, op := range p.Ops {
		if why := differs(op, maskFile, outer, at); why != "" {
			return &sandbox.Error{
				Code: sandbox.CodeUnavailable, Op: "prove the sandbox", Resource: op.Target, Retryable: true,
				Message: fmt.Sprintf("%s %q is not as planned: %s", op.Kind, op.Target, why),
				Hint:    "something changed folders while the sandbox was built; try again",
			}
		}
	}
	return nil
}

// differs describes how the mount of op differs from op. It returns "" if it
// does not.
func differs(op Op, maskFile string, outer []bwrapMounted, at map[string]bwrapMounted) string {
	if op.Kind == OpDir || op.Kind == OpSymlink {
		return "" // not mounts; the mounts on them are checked
	}
	m, ok := at[op.Target]
	if !ok {
		return "nothing is mounted there"
	}
	source := op.Source
	switch op.Kind {
	case OpMaskFile:
		source = maskFile
		fallthrough
	case OpBind, OpRoBind:
		want, ok := locate(outer, source)
		if !ok || m.device != want.device || m.root != want.root {
			return fmt.Sprintf("%q is mounted there instead of %q", m.root, source)
		}
		if op.Kind != OpBind && !m.readOnly {
			return "it is writable"
		}
	case OpMaskDir:
		if m.kind != "tmpfs" || !m.readOnly {
			return "it is no read-only memory"
		}
	case OpRemountRo:
		if !m.readOnly {
			return "it is writable"
		}
	case OpProc:
		if m.kind != "proc" {
			return "it is " + m.kind
		}
	default:
		if m.kind != "tmpfs" {
			return "it is " + m.kind
		}
	}
	return ""
}

// A bwrapMounted is one line of mountinfo.
type bwrapMounted struct {
	id       string // the kernel's number of the mount, unique while the mount exists
	device   string
	root     string // the mounted path in its file system
	point    string
	readOnly bool
	kind     string // type of the file system
}

// locate returns the mount that holds the host path p, and the path of p in
// that file system.
func locate(mounts []bwrapMounted, p string) (found bwrapMounted, ok bool) {
	for _, m := range mounts {
		if m.point != "/" && p != m.point && !strings.HasPrefix(p, m.point+"/") {
			continue
		}
		if !ok || len(m.point) >= len(found.point) {
			found, ok = m, true
		}
	}
	found.root = path.Join(found.root, strings.TrimPrefix(p, strings.TrimSuffix(found.point, "/")))
	return found, ok
}

// parseMounts parses a mountinfo: "36 35 98:0 /root /point rw,nosuid shared:1 -
// ext4 /dev/x rw". Spaces and similar characters in paths are octal escapes.
func parseMounts(text string) ([]bwrapMounted, error) {
	var list []bwrapMounted
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		dash := slices.Index(f, "-")
		if len(f) < 7 || dash < 6 || dash+1 >= len(f) {
			return nil, sandbox.Errorf(sandbox.CodeInternal, "prove the sandbox", "a line of mountinfo cannot be read: %.200q", line)
		}
		list = append(list, bwrapMounted{
			id: f[0], device: f[2], root: unescape(f[3]), point: unescape(f[4]),
			readOnly: slices.Contains(strings.Split(f[5], ","), "ro"), kind: f[dash+1],
		})
	}
	return list, nil
}

// unescape resolves the octal escapes of mountinfo.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) && octal(s[i+1]) && octal(s[i+2]) && octal(s[i+3]) {
			b.WriteByte((s[i+1]-'0')<<6 | (s[i+2]-'0')<<3 | (s[i+3] - '0'))
			i += 3
			continue
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

func octal(c byte) bool { return '0' <= c && c <= '7' }
