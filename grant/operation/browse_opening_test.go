package operation

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/browser"
	"github.com/bulkhead-dev/sandbox/grant/budget"
)

// TestSlowOpening stops an operation while its browser is made, which heeds no
// context: the operation ends, and what is made after that is closed. Time
// passes only once the browser is being made.
func TestSlowOpening(t *testing.T) { synctest.Test(t, testSlowOpening) }

func testSlowOpening(t *testing.T) {
	f := &fakeBrowser{}
	open, asked, made := f.opener(), make(chan struct{}), make(chan struct{})
	amount := budget.NoBound()
	amount.WallMs = 50
	c := with(t, t.Context(), deal{budget: amount}, func(ctx context.Context, r browser.Rights) (browser.Session, error) {
		close(asked)
		<-made
		return open(ctx, r)
	})
	_, err := c.do(t.Context(), nav("http://a.test/"))
	refused(t, err, sandbox.CodeBudgetExceeded, "budget.wallMs")
	<-asked
	select {
	case <-f.closed:
		t.Error("what was not made is closed")
	default:
	}
	close(made)
	<-f.closed
	if c.Pages() != 0 || len(f.said) != 0 {
		t.Errorf("%d pages, did %q", c.Pages(), f.said)
	}
}
