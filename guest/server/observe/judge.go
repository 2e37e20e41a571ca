//go:build linux

package observe

import (
	"bufio"
	"bytes"
	"errors"
	"path"
	"strconv"
	"strings"
)

// A judge knows where a wall lets commands change files. It is plain data.
type judge struct {
	writable []string        // clean
	readOnly map[string]bool // by mount point; the last mount of a point counts
}

// newJudge reads a mountinfo file of proc(5). Mounts do not change in a wall:
// the calls for it are taken away from everybody.
func newJudge(writable []string, mountinfo []byte) (judge, error) {
	j := judge{readOnly: map[string]bool{}}
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

// refuses reports whether the wall refuses a call of kind k at a clean,
// absolute path without links.
func (j judge) refuses(k kind, p string) bool {
	if harmless(p) {
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
func harmless(p string) bool {
	switch p {
	case "/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx",
		"/dev/stdin", "/dev/stdout", "/dev/stderr":
		return true
	}
	return below(p, "/proc") || below(p, "/dev/pts") || below(p, "/dev/fd") || below(p, "/dev/shm")
}
