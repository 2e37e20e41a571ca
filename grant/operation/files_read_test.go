package operation

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/grant"
)

func reading(path string, offset, length int64) grant.Operation {
	return grant.Operation{Kind: grant.OpFsRead, Path: path, Offset: offset, Length: length}
}

func TestRead(t *testing.T) {
	r := newRig(t)
	r.limits.MaxBytesIn, r.keep = 200_000, 100
	content := strings.Repeat("0123456789", 20_000) // as much as may be read
	r.put("/workspace/f", content)
	r.put("/workspace/empty", "")
	for _, tt := range []struct {
		name string
		op   grant.Operation
		want string
	}{
		{"all", reading("/workspace/f", 0, 0), content},
		{"a part", reading("/workspace/f", 5, 10), content[5:15]},
		{"a long part", reading("/workspace/f", 5, 150_000), content[5:150_005]},
		{"as much as may be", reading("/workspace/f", 0, 200_000), content},
		{"the rest", reading("/workspace/f", 199_950, 0), content[199_950:]},
		{"more than there is", reading("/workspace/f", 199_950, 1000), content[199_950:]},
		{"beyond the end", reading("/workspace/f", 300_000, 10), ""},
		{"nothing", reading("/workspace/empty", 0, 0), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, out, err := r.do(tt.op)
			filesMust(t, err)
			kept := tt.want[:min(len(tt.want), 100)]
			if string(out.Data) != kept || out.Truncated != (len(tt.want) > 100) || out.Digest != evidence.DigestOf([]byte(tt.want)) {
				t.Errorf("got %d bytes, truncated %v, %+v", len(out.Data), out.Truncated, out.Digest)
			}
			if used := c.Meter.Used(); used.BytesIn != int64(len(tt.want)) || used.BytesOut != 0 || used.Files != 0 {
				t.Errorf("used %+v for %d bytes", used, len(tt.want))
			}
			effects, _ := c.Effects()
			want := evidence.Effect{Kind: grant.EffectRead, Path: tt.op.Path, BytesIn: int64(len(tt.want)), Digest: out.Digest}
			if len(effects) != 1 || effects[0] != want {
				t.Errorf("effects %+v", effects)
			}
		})
	}
}

// TestReadTooMuch checks that nothing of a file that is too large is handed
// back, and that a large one is refused before it has cost the budget.
func TestReadTooMuch(t *testing.T) {
	r := newRig(t)
	for _, tt := range []struct {
		name       string
		size, most int64
		atMost     int64 // bytes in
	}{
		{"by one byte", 1001, 1000, 1001},
		{"by one byte beyond the first look", 100_001, 100_000, 64 << 10},
		{"by far", 5 << 20, 1 << 20, 64 << 10},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r.limits.MaxBytesIn = tt.most
			r.put("/workspace/f", strings.Repeat("x", int(tt.size)))
			c, out, err := r.do(reading("/workspace/f", 0, 0))
			r.fails("read", err, sandbox.CodeCapabilityBlocked, "profile.limits.maxBytesIn")
			if len(out.Data) != 0 {
				t.Errorf("%d bytes were handed back", len(out.Data))
			}
			if used := c.Meter.Used().BytesIn; used > tt.atMost || used != out.Digest.Size {
				t.Errorf("%d bytes were used, the digest is of %d", used, out.Digest.Size)
			}
			_, part, err := r.do(reading("/workspace/f", tt.size-10, 10))
			filesMust(t, err)
			if string(part.Data) != "xxxxxxxxxx" {
				t.Errorf("the end is %q", part.Data)
			}
		})
	}
}

func TestReadBudget(t *testing.T) {
	r := newRig(t)
	r.bound.BytesIn = 1000
	r.put("/workspace/f", strings.Repeat("x", 1000))
	_, out, err := r.do(reading("/workspace/f", 0, 0))
	filesMust(t, err)
	if len(out.Data) != 1000 {
		t.Errorf("%d bytes", len(out.Data))
	}
	r.put("/workspace/f", strings.Repeat("x", 1001))
	c, out, err := r.do(reading("/workspace/f", 0, 0))
	r.fails("a byte more", err, sandbox.CodeBudgetExceeded, "budget.bytesIn")
	if len(out.Data) != 0 || out.Digest.Size != 1000 || c.Meter.Used().BytesIn != 1000 {
		t.Errorf("%d bytes, %+v, used %+v", len(out.Data), out.Digest, c.Meter.Used())
	}
	if effects, _ := c.Effects(); len(effects) != 1 || effects[0].BytesIn != 1000 {
		t.Errorf("what was read until then is not told: %+v", effects)
	}
}

func TestReadFails(t *testing.T) {
	r := newRig(t)
	r.put("/workspace/d/f", "secret")
	r.sh(`ln -s d/f link; ln -s d dir; mkfifo pipe; printf x >closed; chmod 000 closed`)
	for path, want := range map[string]sandbox.Code{
		"/workspace/nothing": sandbox.CodeNotFound, "/workspace/d": sandbox.CodeValidation, "/workspace/d/f/x": sandbox.CodeValidation,
		"/workspace/link": sandbox.CodeCapabilityBlocked, "/workspace/dir/f": sandbox.CodeCapabilityBlocked, "/workspace/pipe": sandbox.CodeCapabilityBlocked,
		"/workspace/closed": sandbox.CodeCapabilityBlocked, "/etc/passwd": sandbox.CodeCapabilityBlocked,
		"/host/work/d/f": sandbox.CodeCapabilityBlocked, // the workspace as the host calls it
	} {
		c, out, err := r.do(reading(path, 0, 0))
		r.fails(path, err, want, "path")
		if effects, _ := c.Effects(); len(effects) != 0 || len(out.Data) != 0 {
			t.Errorf("%s: %+v, %q", path, effects, out.Data)
		}
	}
	_, _, err := r.do(grant.Operation{Kind: grant.OpNetHTTP})
	r.fails("another kind", err, sandbox.CodeValidation, "op.kind")
}

// TestStopped checks that the error is the cause of the end.
func TestStopped(t *testing.T) {
	r := newRig(t)
	r.put("/workspace/f", "x")
	ctx, c := r.call()
	revoked := &sandbox.Error{Code: sandbox.CodePermissionDeny, Op: "revoked", Message: "the grant was revoked"}
	ctx, end := context.WithCancelCause(ctx)
	end(revoked)
	for _, op := range []grant.Operation{
		reading("/workspace/f", 0, 0), {Kind: grant.OpFsList, Path: "/workspace"},
		{Kind: grant.OpFsWrite, Path: "/workspace/g", Data: []byte("x")},
	} {
		if _, err := r.x.Execute(ctx, c, grant.Vetted{Operation: op}); err != revoked {
			t.Errorf("%s: %v", op.Kind, err)
		}
	}
	plain, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.x.Execute(plain, c, grant.Vetted{Operation: reading("/workspace/f", 0, 0)}); sandbox.CodeOf(err) != sandbox.CodeUnavailable && sandbox.CodeOf(err) != sandbox.CodeTimeout {
		t.Errorf("given up by the caller: %v", err)
	}
}

func TestList(t *testing.T) {
	r := newRig(t)
	r.sh(`mkdir l; cd l; printf 12345 >f; mkdir d; ln -s f link; ln -s d dir; mkfifo pipe; printf x >'a
b'`)
	c, out, err := r.do(grant.Operation{Kind: grant.OpFsList, Path: "/workspace/l"})
	filesMust(t, err)
	got := ""
	for _, e := range out.Entries {
		got += e.Name + "=" + e.Type + " "
	}
	if want := "a\nb=file d=folder dir=link f=file link=link pipe=other "; got != want {
		t.Errorf("listed %q, want %q", got, want)
	}
	text := "file 1 \"a\\nb\"\nfolder 0 \"d\"\nlink 0 \"dir\"\nfile 5 \"f\"\nlink 0 \"link\"\nother 0 \"pipe\"\n"
	if out.Digest != evidence.DigestOf([]byte(text)) || out.Truncated {
		t.Errorf("digest %+v", out.Digest)
	}
	if c.Meter.Used().BytesIn != int64(len(text)) {
		t.Errorf("used %+v", c.Meter.Used())
	}
	for path, code := range map[string]sandbox.Code{
		"/workspace/nothing": sandbox.CodeNotFound, "/workspace/l/f": sandbox.CodeValidation, "/workspace/l/dir": sandbox.CodeCapabilityBlocked,
	} {
		_, _, err := r.do(grant.Operation{Kind: grant.OpFsList, Path: path})
		r.fails(path, err, code, "path")
	}
}

// TestListBounds checks that what is handed back is bounded, and that the digest
// is of all.
func TestListBounds(t *testing.T) {
	r := newRig(t)
	r.sh(`mkdir many`)
	var all bytes.Buffer
	filesMust(t, r.files.Write(t.Context(), "/workspace/many/f00000", strings.NewReader(""), sandbox.WriteOptions{}))
	r.sh(`cd many; i=1; while [ $i -le 10000 ]; do n=0000$i; : >f"${n#"${n%?????}"}"; i=$((i+1)); done`)
	for i := range 10_001 {
		fmt.Fprintf(&all, "file 0 \"f%05d\"\n", i)
	}
	_, out, err := r.do(grant.Operation{Kind: grant.OpFsList, Path: "/workspace/many"})
	filesMust(t, err)
	if len(out.Entries) != 10_000 || !out.Truncated || out.Digest != evidence.DigestOf(all.Bytes()) {
		t.Errorf("%d entries, truncated %v, %+v", len(out.Entries), out.Truncated, out.Digest)
	}
	r.limits.MaxBytesIn = 1000
	_, out, err = r.do(grant.Operation{Kind: grant.OpFsList, Path: "/workspace/many"})
	r.fails("a long listing", err, sandbox.CodeCapabilityBlocked, "profile.limits.maxBytesIn")
	r.limits.MaxBytesIn, r.bound.BytesIn = 0, 1000
	_, out, err = r.do(grant.Operation{Kind: grant.OpFsList, Path: "/workspace/many"})
	r.fails("beyond the budget", err, sandbox.CodeBudgetExceeded, "budget.bytesIn")
	if len(out.Entries) != 0 {
		t.Errorf("%d entries were handed back", len(out.Entries))
	}
}
