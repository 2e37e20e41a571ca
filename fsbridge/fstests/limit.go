package fstests

import (
	"errors"
	"io"
	"io/fs"
	"strings"
	"syscall"

	"github.com/bulkhead-dev/sandbox"
)

func limitChecks() []Check {
	return []Check{
		{"a full mount is an exceeded budget, and the old content stays", limitFull},
		{"a read-only mount refuses every change", limitReadOnly},
	}
}

func limitFull(r *rig) {
	r.put(r.Small+"/f", "old")
	err := r.Files.Write(r.ctx, r.Small+"/f", io.LimitReader(zeros{}, 8<<20), sandbox.WriteOptions{})
	r.fails("overfilling", err, sandbox.CodeBudgetExceeded, syscall.ENOSPC)
	r.want(r.Small+"/f", "old")
	err = r.Files.Write(r.ctx, r.Small+"/g", io.LimitReader(zeros{}, 8<<20), sandbox.WriteOptions{Exclusive: true})
	r.fails("overfilling a new file", err, sandbox.CodeBudgetExceeded, syscall.ENOSPC)
	r.debris(r.Small, "f")
	// Full to the last page: even removing must work, and reading.
	r.sh(`cat /dev/zero >"$1/filler" 2>/dev/null || :`, r.Small)
	err = r.Files.Write(r.ctx, r.Small+"/f", strings.NewReader("new"), sandbox.WriteOptions{})
	r.fails("writing to a full mount", err, sandbox.CodeBudgetExceeded, syscall.ENOSPC)
	r.want(r.Small+"/f", "old")
	r.debris(r.Small, "f", "filler")
	r.must(r.Files.Remove(r.ctx, r.Small+"/filler", false))
	r.put(r.Small+"/f", "new")
	r.want(r.Small+"/f", "new")
}

func limitReadOnly(r *rig) {
	r.want(r.ReadOnly+"/file", "read-only\n")
	for _, o := range r.changingOps() {
		for _, name := range []string{"/file", "/new"} {
			if name == "/new" && strings.HasPrefix(o.name, "re") || name == "/file" && (o.name == "create" || o.name == "mkdir" || o.name == "symlink") {
				continue
			}
			err := o.run(r.ReadOnly + name)
			if o.name == "rename from" && errors.Is(err, syscall.EXDEV) {
				continue // also true
			}
			r.fails(o.name+name, err, sandbox.CodeCapabilityBlocked, fs.ErrPermission, syscall.EROFS)
		}
	}
	err := r.Files.Rename(r.ctx, r.ReadOnly+"/file", r.ReadOnly+"/file2")
	r.fails("rename", err, sandbox.CodeCapabilityBlocked, fs.ErrPermission, syscall.EROFS)
	r.want(r.ReadOnly+"/file", "read-only\n")
	r.debris(r.ReadOnly, "file")
}
