package hostscan

import (
	"crypto/rand"
	"path"
	"path/filepath"
	"strings"

	"github.com/bulkhead-dev/sandbox/internal/hostpath"
	"golang.org/x/sys/unix"
)

// relocate rewrites the paths of worktrees that were made inside. git is the
// ".git" folder of their main repository.
//
// Git puts two paths on record: the file ".git" of the worktree names the
// folder .git/worktrees/NAME, and the file gitdir there names that ".git".
// relocate makes the first relative, which every git reads and which is valid
// at any path of the folder. It makes the second the path on the host, because
// git before 2.48 reads no other.
func (h *holder) relocate(git string) {
	if h.f.Inside == "" || h.kind(git) != unix.S_IFDIR || !h.writable(git) {
		return
	}
	names, _ := listProtect(git + "/worktrees")
	for _, n := range names {
		w := path.Join(git, "worktrees", n)
		pointer, ok := h.onHost(w, "gitdir", "")
		if !ok || path.Base(pointer) != ".git" || h.kind(pointer) != unix.S_IFREG {
			continue
		}
		place := path.Dir(pointer)
		if to, ok := h.onHost(place, ".git", "gitdir: "); !ok || to != w {
			continue
		}
		relative, err := filepath.Rel(place, w)
		if err == nil {
			err = replace(place, ".git", []byte("gitdir: "+relative+"\n"))
		}
		if err == nil {
			err = replace(w, "gitdir", []byte(pointer+"\n"))
		}
		if err != nil && !hostpath.Gone(err) {
			h.errs = append(h.errs, unheld(w, err))
		}
	}
}

// onHost reads a git file that holds one path after prefix. The path must lie
// in the agent's own folder as the sandbox shows it; onHost returns the
// corresponding host path.
func (h *holder) onHost(dir, name, prefix string) (p string, ok bool) {
	data, err := h.file(path.Join(dir, name), maxPointer)
	if err != nil {
		return "", false
	}
	text, ok := strings.CutPrefix(string(data), prefix)
	if text, ok = parsePath(text, ok); !ok || !hostpath.Within(path.Clean(text), h.f.Inside) {
		return "", false
	}
	return path.Join(h.f.Own, strings.TrimPrefix(path.Clean(text), h.f.Inside)), true
}

// replace replaces the file called name in the folder dir by a new one with
// data, owned by the folder's owner.
func replace(dir, name string, data []byte) error {
	fd, err := hostpath.Folder(dir, unix.O_RDONLY)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	temp := ".sandbox-" + strings.ToLower(rand.Text())
	if err := create(fd, temp, data); err != nil {
		return err
	}
	if err := hostpath.Retry(func() error { return unix.Renameat(fd, temp, fd, name) }); err != nil {
		_ = unix.Unlinkat(fd, temp, 0) // the first error is the one to return
		return err
	}
	return nil
}
