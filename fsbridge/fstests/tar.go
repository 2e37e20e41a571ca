package fstests

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"strings"
	"syscall"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/fsbridge/copy"
)

func tarChecks() []Check {
	return []Check{
		{"a tree survives tar out and in", tarRound},
		{"a hostile archive makes nothing outside the destination", tarHostile},
	}
}

func tarRound(r *rig) {
	r.plant()
	r.sh(`mkfifo "$1/pipe"`, r.dir)
	var archive bytes.Buffer
	var left []string
	r.must(copy.PackTree(r.ctx, r.Files, r.dir, &archive, copy.Limits{}, func(p, reason string) { left = append(left, p+": "+reason) }))
	if len(left) != 1 || left[0] != r.dir+"/pipe: it is a pipe, a socket or a device" {
		r.Errorf("left out: %q", left)
	}
	r.must(r.Files.Remove(r.ctx, r.dir+"/pipe", false))
	r.sh(`mkdir "$1"; mv "$2" "$1/old"; mkdir "$2"; mv "$1/old" "$2/old"`, r.dir+"-tmp", r.dir)
	r.must(copy.UnpackTree(r.ctx, r.Files, r.dir+"/fresh/new", &archive, copy.Limits{}))
	r.sameTree(r.dir+"/old", r.dir+"/fresh/new")

	archive.Reset()
	r.must(copy.PackTree(r.ctx, r.Files, r.dir+"/old/src/main.go", &archive, copy.Limits{}, nil))
	r.must(copy.UnpackTree(r.ctx, r.Files, r.dir+"/one", &archive, copy.Limits{}))
	r.want(r.dir+"/one/main.go", "src/main.go")
}

func tarHostile(r *rig) {
	r.sh(`printf secret >"$1/victim"`, r.out)
	into := r.dir + "/into"
	for name, headers := range map[string][]tar.Header{
		"absolute":            {{Name: r.out + "/victim", Typeflag: tar.TypeReg}},
		"dots":                {{Name: "../escaped", Typeflag: tar.TypeReg}},
		"dots within":         {{Name: "a/../../escaped", Typeflag: tar.TypeReg}},
		"link out":            {{Name: "l", Linkname: r.out, Typeflag: tar.TypeSymlink}, {Name: "l/victim", Typeflag: tar.TypeReg}},
		"link up":             {{Name: "l", Linkname: "..", Typeflag: tar.TypeSymlink}, {Name: "l/escaped", Typeflag: tar.TypeReg}},
		"through a good link": {{Name: "d/x", Typeflag: tar.TypeReg}, {Name: "l", Linkname: "d", Typeflag: tar.TypeSymlink}, {Name: "l/x", Typeflag: tar.TypeReg}},
		"crooked links":       {{Name: "d", Linkname: ".", Typeflag: tar.TypeSymlink}, {Name: "d/up", Linkname: "..", Typeflag: tar.TypeSymlink}},
		"hard link out":       {{Name: "h", Linkname: r.out + "/victim", Typeflag: tar.TypeLink}},
		"hard link up":        {{Name: "h", Linkname: "../x", Typeflag: tar.TypeLink}},
		"hard link to old":    {{Name: "h", Linkname: "there", Typeflag: tar.TypeLink}},
		"device":              {{Name: "dev", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 3}},
		"pipe":                {{Name: "pipe", Typeflag: tar.TypeFifo}},
	} {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for _, h := range headers {
			h.Mode = 0o4777
			r.must(w.WriteHeader(&h))
		}
		r.must(w.Close())
		r.put(into+"/there", "")
		err := copy.UnpackTree(r.ctx, r.Files, into, &b, copy.Limits{})
		r.fails(name, err, sandbox.CodeCapabilityBlocked)
	}
	r.debris(r.dir, "into")
	r.sh(`test "$(cat "$1/victim")" = secret; test "$(ls -A "$1")" = victim`, r.out)
	tarLimits(r)
}

func tarLimits(r *rig) {
	archive := func(names ...string) io.Reader {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for _, name := range names {
			r.must(w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Size: 100, Mode: 0o644}))
			_, err := io.WriteString(w, strings.Repeat("x", 100))
			r.must(err)
		}
		r.must(w.Close())
		return &b
	}
	for what, l := range map[string]copy.Limits{
		"entries": {Entries: 1}, "file": {File: 99}, "total": {Total: 199},
	} {
		err := copy.UnpackTree(r.ctx, r.Files, r.dir+"/limits", archive("a", "b"), l)
		r.fails("too many "+what, err, sandbox.CodeBudgetExceeded)
	}
	whole, err := io.ReadAll(archive("c"))
	r.must(err)
	err = copy.UnpackTree(r.ctx, r.Files, r.dir+"/cut", bytes.NewReader(whole[:550]), copy.Limits{})
	r.fails("an archive cut short", err, sandbox.CodeValidation)
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		r.Errorf("an archive cut short: %v", err)
	}
	r.debris(r.dir + "/cut")
	r.put(r.dir+"/file", "")
	err = copy.UnpackTree(r.ctx, r.Files, r.dir+"/file", archive("a"), copy.Limits{})
	r.fails("a file for a destination", err, sandbox.CodeValidation, syscall.EEXIST)
}
