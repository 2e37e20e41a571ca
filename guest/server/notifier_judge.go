//go:build linux

package server

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A judge knows where a sandbox lets commands change files. It is plain data.
type judge struct {
	writable []string        // clean
	readOnly map[string]bool // by mount point; the last mount of a point counts
	points   map[string]bool // the last names of those that are read-only
}

// newJudge reads a mountinfo file of proc(5). Mounts do not change in a
// sandbox: the calls for it are taken away from everybody.
func newJudge(writable []string, mountinfo []byte) (judge, error) {
	j := judge{readOnly: map[string]bool{}, points: map[string]bool{}}
	for _, w := range writable {
		j.writable = append(j.writable, path.Clean(w))
	}
	s := bufio.NewScanner(bytes.NewReader(mountinfo))
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		// ID PARENT MAJOR:MINOR ROOT POINT OPTIONS … - TYPE SOURCE OPTIONS
		fields := strings.Fields(s.Text())
		dash := len(fields)
		for i := 6; i < len(fields); i++ {
			if fields[i] == "-" {
				dash = i
				break
			}
		}
		if dash+2 >= len(fields) {
			return judge{}, errors.New("malformed line in mountinfo")
		}
		j.readOnly[unescape(fields[4])] = isReadOnly(fields[5]) || isReadOnly(fields[len(fields)-1])
	}
	for p, ro := range j.readOnly {
		j.points[path.Base(p)] = j.points[path.Base(p)] || ro
	}
	return j, s.Err()
}

func isReadOnly(options string) bool { return options == "ro" || strings.HasPrefix(options, "ro,") }

// unescape undoes the \ooo of mountinfo.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// refuses reports whether the sandbox refuses a call of kind k at a clean,
// absolute path without links.
func (j judge) refuses(k kind, p string) bool {
	if notifierHarmless(p) {
		return false
	}
	if !j.allows(p) {
		return true
	}
	_, isPoint := j.readOnly[p]
	return k == remove && isPoint || j.isReadOnly(p)
}

// allows reports whether p lies below a place that is writable in principle.
func (j judge) allows(p string) bool {
	for _, w := range j.writable {
		if below(p, w) {
			return true
		}
	}
	return false
}

// isReadOnly reports whether the mount that p lies on is.
func (j judge) isReadOnly(p string) bool {
	for ; ; p = path.Dir(p) {
		if ro, is := j.readOnly[p]; is {
			return ro
		}
		if p == "/" {
			return false
		}
	}
}

func below(p, folder string) bool {
	return folder == "/" || p == folder || strings.HasPrefix(p, folder) && p[len(folder)] == '/'
}

// harmless are the files that programs open for writing everywhere, and that
// no rule is about.
func notifierHarmless(p string) bool {
	switch p {
	case "/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx",
		"/dev/stdin", "/dev/stdout", "/dev/stderr":
		return true
	}
	return below(p, "/proc") || below(p, "/dev/pts") || below(p, "/dev/fd") || below(p, "/dev/shm")
}

// removesPlaceholder reports whether a call removes an empty folder that only
// holds the place of one which is closed: a mount that cannot be written to.
// What it stands for is missing on the host, so the call is answered as one
// that has succeeded, and git clean and its like go on.
func (j judge) removesPlaceholder(n *notice) bool {
	at := 0
	switch n.number {
	case unix.SYS_UNLINKAT:
		if n.args[2]&unix.AT_REMOVEDIR == 0 {
			return false
		}
		at = 1
	default:
		if !isRmdir(n.number) {
			return false
		}
	}
	name, ok := text(int(n.pid), n.args[at])
	if !ok || !j.points[path.Base(name)] {
		return false
	}
	if name[0] != '/' {
		base := "/proc/" + strconv.Itoa(int(n.pid)) + "/cwd"
		if at == 1 && int32(n.args[0]) != unix.AT_FDCWD {
			base = "/proc/" + strconv.Itoa(int(n.pid)) + "/fd/" + strconv.Itoa(int(int32(n.args[0])))
		}
		folder, ok := readlink(base)
		if !ok || folder[0] != '/' {
			return false
		}
		name = join(folder, name)
	}
	place, ok := findNotifier(strings.TrimRight(name, "/"), false)
	if !ok || !place.exists || !j.readOnly[place.path] {
		return false
	}
	dir, err := os.Open(place.path)
	if err != nil {
		return false
	}
	defer dir.Close()
	_, err = dir.Readdirnames(1)
	return err == io.EOF
}
