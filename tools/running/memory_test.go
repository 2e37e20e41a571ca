package running_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/tools/running"
)

// TestInputThatWaitsIsCounted holds that what commands do not read is memory of
// the tenant like what they write, and that it is given back.
func TestInputThatWaitsIsCounted(t *testing.T) {
	const piece = 512 << 10
	r := newRig(t, plain, func(o *running.Options) { o.MemoryPerTenant = 4 * piece })
	begin := func(stdin []byte) (running.Status, error) {
		return r.Start(deadline(t), request("a", "sleep", "1000"), running.StartOptions{Stdin: stdin})
	}
	first, err := begin(make([]byte, piece))
	must(t, err)
	second, err := begin(nil)
	must(t, err)
	before, _, _ := r.Held()
	if before < piece/2 {
		t.Errorf("%d bytes are held, although most of %d wait to be read", before, piece)
	}
	for {
		if err = r.Write(deadline(t), someone("a"), second.ID, make([]byte, piece/2), false); err != nil {
			break
		}
		now, _, _ := r.Held()
		if now > 4*piece {
			t.Fatalf("%d bytes are held", now)
		}
		if second, err = begin(nil); err != nil {
			break
		}
	}
	if sandbox.CodeOf(err) != sandbox.CodeBudgetExceeded {
		t.Errorf("%v", err)
	}
	if _, err := begin(make([]byte, piece)); sandbox.CodeOf(err) != sandbox.CodeBudgetExceeded {
		t.Errorf("one more with input: %v", err)
	}
	_, err = r.Kill(deadline(t), someone("a"), first.ID)
	must(t, err)
	if _, err := begin(make([]byte, piece/2)); err != nil {
		t.Errorf("after the end of one: %v", err)
	}
	must(t, r.EndSession(someone("a")))
	if left, sessions, tenants := r.Held(); left != 0 || sessions != 0 || tenants != 0 {
		t.Errorf("at the end %d bytes, %d sessions and %d tenants are left", left, sessions, tenants)
	}
}

// TestInputThatIsReadIsGivenBack holds that only what waits counts.
func TestInputThatIsReadIsGivenBack(t *testing.T) {
	r := newRig(t, plain)
	s, err := r.Start(deadline(t), request("a", "cat"), running.StartOptions{Stdin: bytes.Repeat([]byte("x"), 1<<20), EOF: true})
	must(t, err)
	_, err = r.Poll(deadline(t), someone("a"), s.ID, running.PollOptions{From: 1<<20 - 1, Wait: 1 << 40})
	must(t, err)
	must(t, r.EndSession(someone("a")))
	if left, _, _ := r.Held(); left != 0 {
		t.Errorf("%d bytes are held at the end", left)
	}
}

// TestOthersMayStillBegin holds that tenants that use all the memory that they
// may do not keep another one from starting a command.
func TestOthersMayStillBegin(t *testing.T) {
	const all = 8 << 20
	r := newRig(t, plain, func(o *running.Options) { o.Memory, o.MemoryPerTenant = all, all })
	for i := 0; ; i++ {
		if i > 16 {
			t.Fatal("there is always more memory")
		}
		s := r.start("greedy", "sleep", "1000")
		ctx, done := context.WithCancel(deadline(t))
		err := r.Write(ctx, someone("greedy"), s.ID, make([]byte, all/8), false)
		done()
		if err != nil {
			if sandbox.CodeOf(err) != sandbox.CodeBudgetExceeded {
				t.Fatal(err)
			}
			break
		}
	}
	other := config.Who{Tenant: "other", Agent: "main", Session: "s"}
	if _, err := r.Start(deadline(t), manager.Request{Who: other, Command: sandbox.Command{Args: []string{"sleep", "1000"}}}, running.StartOptions{}); err != nil {
		t.Errorf("another tenant: %v", err)
	}
}
