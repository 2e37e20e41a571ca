package fstests

import (
	"context"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox"
)

func specialChecks() []Check {
	return []Check{{"pipes and devices are refused and do not hang", specialRefused}}
}

func specialRefused(r *rig) {
	r.sh(`cd "$1"; mkfifo pipe; ln -s pipe topipe; ln -s /dev/zero zero; ln -s /dev/null null; ln -s /dev/stdin stdin`, r.dir)
	ctx, cancel := context.WithTimeout(r.ctx, 2*time.Minute)
	defer cancel()
	quick := *r
	quick.ctx = ctx
	for _, name := range []string{"/pipe", "/topipe", "/zero", "/null", "/stdin"} {
		_, err := quick.read(r.dir + name)
		r.fails("read "+name, err, sandbox.CodeCapabilityBlocked)
		err = r.Files.Write(ctx, r.dir+name, strings.NewReader("x"), sandbox.WriteOptions{})
		r.fails("write "+name, err, sandbox.CodeCapabilityBlocked)
	}
	for _, name := range []string{"/pipe", "/zero"} {
		r.must(r.Files.Rename(ctx, r.dir+name, r.dir+name+"2"))
		r.must(r.Files.Remove(ctx, r.dir+name+"2", false))
	}
	r.debris(r.dir, "topipe", "null", "stdin")
}
