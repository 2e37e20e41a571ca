package statedir

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/bulkhead-dev/sandbox"
	"github.com/gofrs/flock"
)

// hostsDir lies below the folder of identities.
const hostsDir = "hosts"

// maxHosts bounds the file, which we alone write.
const maxHosts = 1 << 20

// HostsPath returns where the file lies that the sandbox name has as
// /etc/hosts, whether it exists or not.
func (d *Dir) HostsPath(name string) string {
	return filepath.Join(d.path, identityDir, hostsDir, socketKey(name))
}

// Hosts makes the file of HostsPath, or takes the one that is there, and has it
// begin with the names of the loopback interface and extra, lines NAME:ADDRESS.
// What other processes have added with AddHosts stays.
func (d *Dir) Hosts(name string, extra []string) (string, error) {
	path := d.HostsPath(name)
	return path, MakeHosts(path, extra)
}

// MakeHosts is Hosts for the file at path.
func MakeHosts(path string, extra []string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return Unavailable("make hosts file", filepath.Dir(path), err)
	}
	base := "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n"
	own := true
	for _, line := range extra {
		host, addr, _ := strings.Cut(line, ":")
		own = own && !strings.EqualFold(host, sandbox.Hostname)
		if _, err := netip.ParseAddr(strings.Trim(addr, "[]")); err == nil {
			base += strings.Trim(addr, "[]") + "\t" + host + "\n"
		}
	}
	if own {
		base += "127.0.0.1\t" + sandbox.Hostname + "\n"
	}
	return editHosts(path, true, func(_ string, added []string) (string, []string) { return base, added })
}

// AddHosts adds names with their addresses to the file at path that Hosts has
// made, for as long as this process lives and until remove is called, once or
// more. Sandboxes that have the file mounted see it at once. Errors are
// *[sandbox.Error].
func AddHosts(path string, names map[string][]netip.Addr) (remove func(), err error) {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(names)) {
		for _, a := range names[name] {
			lines = append(lines, fmt.Sprintf("%s\t%s%s%d", a, name, processMark, os.Getpid()))
		}
	}
	err = editHosts(path, false, func(base string, added []string) (string, []string) { return base, append(added, lines...) })
	if err != nil {
		return nil, err
	}
	return sync.OnceFunc(func() {
		// What cannot be taken away leads to an address where nothing listens.
		_ = editHosts(path, false, func(base string, added []string) (string, []string) {
			return base, slices.DeleteFunc(added, func(l string) bool { return slices.Contains(lines, l) })
		})
	}), nil
}

// processMark precedes the number of the process that has added a line.
const processMark = "\t# process "

// editHosts changes a file of hosts in place: it may be mounted, and keeps its
// inode. One process at a time does so. edit gets and returns what the file
// begins with and the lines that processes which live have added.
func editHosts(path string, create bool, edit func(base string, added []string) (string, []string)) error {
	const op = "write hosts file"
	lock := flock.New(path + ".lock")
	if err := lock.Lock(); err != nil {
		return Unavailable(op, path, err)
	}
	defer lock.Close()
	flags := os.O_RDWR | syscall.O_NOFOLLOW
	if create {
		flags |= os.O_CREATE
	}
	f, err := os.OpenFile(path, flags, 0o644)
	if err != nil {
		return Unavailable(op, path, err)
	}
	defer f.Close()
	have, err := io.ReadAll(io.LimitReader(f, maxHosts))
	if err != nil {
		return Unavailable(op, path, err)
	}
	var base strings.Builder
	var added []string
	for line := range strings.Lines(string(have)) {
		_, pid, ours := strings.Cut(strings.TrimSuffix(line, "\n"), processMark)
		switch n, err := strconv.Atoi(pid); {
		case !ours:
			base.WriteString(line)
		case err == nil && lives(n):
			added = append(added, strings.TrimSuffix(line, "\n"))
		}
	}
	text, added := edit(base.String(), added)
	for _, line := range added {
		text += line + "\n"
	}
	if text == string(have) {
		return nil
	}
	if err := f.Chmod(0o644); err != nil { // whatever the umask
		return Unavailable(op, path, err)
	}
	// A concurrent reader finds a line too many rather than one too few.
	if _, err := f.WriteAt([]byte(text), 0); err != nil {
		return Unavailable(op, path, err)
	}
	return Unavailable(op, path, f.Truncate(int64(len(text))))
}

// lives reports whether there is a process with the number. One that is not
// ours may not be signalled, and lives too.
func lives(pid int) bool {
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}

// removeHosts removes the file of the sandbox name.
func (d *Dir) removeHosts(name string) error {
	path := d.HostsPath(name)
	for _, p := range []string{path, path + ".lock"} {
		if err := os.Remove(p); err != nil && !errors.Is(err, os.ErrNotExist) {
			return Unavailable("remove hosts file", p, err)
		}
	}
	return nil
}
