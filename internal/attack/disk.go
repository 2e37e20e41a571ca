package attack

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox"
)

// free returns the free bytes of each watched disk.
func (r *rig) free() map[string]int64 {
	out := map[string]int64{}
	for _, dir := range r.opts.Disks {
		var st unix.Statfs_t
		if unix.Statfs(dir, &st) == nil {
			out[dir] = int64(st.Bfree) * int64(st.Bsize)
		}
	}
	return out
}

// fallen returns by how much the free space of a disk has fallen since
// before, and of which; no more than slack counts as nothing.
func (r *rig) fallen(before map[string]int64) (bytes int64, dir string) {
	now := r.free()
	for d, had := range before {
		if n := had - now[d]; n > slack && n > bytes {
			bytes, dir = n, d
		}
	}
	return bytes, dir
}

// fillLog is contained when nothing could be written, or when what was written
// was not kept.
func fillLog(ctx context.Context, r *rig) finding {
	before := r.free()
	f := r.probe(ctx, "fill-log", strconv.Itoa(logAttempt))
	if f.outcome != Escaped {
		return r.unharmed(ctx, f)
	}
	if len(before) == 0 {
		return finding{Unproven, f.seen + "; no disk of the host is watched"}
	}
	if n, dir := r.fallen(before); n > 0 {
		return finding{Escaped, fmt.Sprintf("%s; %s less free space in %s", f.seen, size(n), dir)}
	}
	return r.unharmed(ctx, finding{Contained, f.seen + "; it is not allocated: free space did not fall"})
}

// fillDisk writes to all folders but the workspace, the home, whose bounds
// other attempts try, and the binds of the settings, which are the host's own
// wish.
func fillDisk(ctx context.Context, r *rig) finding {
	args := []string{"fill-disk", strconv.Itoa(diskAttempt / 8), sandbox.WorkspaceDir}
	for _, m := range r.spec.Mounts {
		if m.Role == sandbox.RoleHome || m.Role == sandbox.RoleBind && !m.ReadOnly {
			args = append(args, m.Target)
		}
	}
	f := r.probe(ctx, args...)
	r.clean(ctx)
	return r.unharmed(ctx, f)
}

// fillWorkspace tries the quota. Without one nothing is written: the answer
// is known, and the disk is the host's.
func fillWorkspace(ctx context.Context, r *rig) finding {
	quota := r.opts.WorkspaceQuota
	if quota <= 0 {
		return finding{Skipped, "warning: workspaces are unbounded by settings (workspaceQuota 0)"}
	}
	if quota > diskAttempt {
		return finding{Skipped, fmt.Sprintf("the quota of %s is more than this test writes", size(quota))}
	}
	before := r.free()
	f := r.probe(ctx, "fill-quota", strconv.FormatInt(quota+slack/4, 10), sandbox.WorkspaceDir)
	r.clean(ctx)
	if n, dir := r.fallen(before); n > 0 && f.outcome == Escaped {
		f.seen += fmt.Sprintf("; %s less free space in %s", size(n), dir)
	}
	return r.unharmed(ctx, f)
}

// fillHome tries the bound of a home on the disk. One that is more than this
// test writes is looked at from outside: it has to be a file system of its own.
func fillHome(ctx context.Context, r *rig) finding {
	i := slices.IndexFunc(r.spec.Mounts, func(m sandbox.Mount) bool { return m.Role == sandbox.RoleHome })
	if i < 0 {
		return finding{Contained, "the home lies in memory"}
	}
	home := r.spec.Mounts[i]
	if home.Size > 0 && home.Size <= diskAttempt {
		f := r.probe(ctx, "fill-quota", strconv.FormatInt(home.Size+slack/4, 10), home.Target)
		r.clean(ctx)
		return r.unharmed(ctx, f)
	}
	var st, above unix.Statfs_t
	if err := errors.Join(unix.Statfs(home.Source, &st), unix.Statfs(filepath.Dir(home.Source), &above)); err != nil {
		return finding{Unproven, err.Error()}
	}
	holds := int64(st.Blocks) * int64(st.Bsize)
	if st.Fsid == above.Fsid || home.Size <= 0 || holds > home.Size {
		return finding{Escaped, fmt.Sprintf("the home is bounded by nothing: its file system holds %s", size(holds))}
	}
	return finding{Contained, fmt.Sprintf("a file system of its own, of %s, which is more than this test writes", size(holds))}
}

// written asks how many bytes the sandbox has written to disks; 0 is also
// what an engine says that does not count them.
func (r *rig) written(ctx context.Context) int64 {
	u, err := r.sb.Usage(ctx)
	if err != nil {
		return 0
	}
	return u.DiskWritten
}

// hostDisk looks at the whole test from outside. On a host that is busy with
// other things free space falls by itself, so the sandbox's own account says
// whether it was the one; the attempts above have accounted for every byte
// that they could write.
func hostDisk(ctx context.Context, r *rig) finding {
	if len(r.freeAtStart) == 0 {
		return finding{Skipped, "no disk of the host is watched"}
	}
	wrote := r.written(ctx) - r.writtenAtStart
	n, dir := r.fallen(r.freeAtStart)
	switch {
	case n > 0 && wrote > slack:
		return finding{Escaped, fmt.Sprintf("%s less free space in %s, and the sandbox wrote %s", size(n), dir, size(wrote))}
	case n > 0:
		return finding{Contained, fmt.Sprintf("%s less free space in %s, which others took: the sandbox wrote %s", size(n), dir, size(wrote))}
	}
	return finding{Contained, "free space did not fall by more than " + size(slack)}
}
