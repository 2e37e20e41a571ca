package auth

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/tenant/token"
)

// holder returns a caller with a new token of these claims.
func holder(t *testing.T, store *token.Store, claims token.Claims) Caller {
	t.Helper()
	secret, _ := mint(t, store, claims)
	tok, err := store.Verify(secret)
	if err != nil {
		t.Fatal(err)
	}
	return Caller{Role: tok.Role, Token: &tok, Tenant: tok.Tenant, store: store}
}

// wantEnded holds that a watched context ends within patience because the token
// is not good.
func wantEnded(t *testing.T, ctx context.Context, patience time.Duration) {
	t.Helper()
	began := time.Now()
	select {
	case <-ctx.Done():
		if err := context.Cause(ctx); sandbox.CodeOf(err) != sandbox.CodePermissionDeny {
			t.Errorf("it ended because of %v", err)
		}
	case <-time.After(patience):
		t.Errorf("it lasts after %v", time.Since(began))
	}
}

func wantGoing(t *testing.T, ctx context.Context, span time.Duration) {
	t.Helper()
	time.Sleep(span) // of the bubble's clock
	if ctx.Err() != nil {
		t.Fatalf("it ended: %v", context.Cause(ctx))
	}
}

func TestWatchEndsWithTheToken(t *testing.T) {
	tests := []struct {
		name  string
		after func(t *testing.T, store *token.Store, c Caller, parent string)
	}{
		{"revoked", func(t *testing.T, store *token.Store, c Caller, _ string) { revoke(t, store, c.Token.ID) }},
		{"parent revoked", func(t *testing.T, store *token.Store, _ Caller, parent string) { revoke(t, store, parent) }},
		{"expired", func(t *testing.T, _ *token.Store, c Caller, _ string) { time.Sleep(time.Until(c.Token.Expires)) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := openStore(t)
				_, parent := mint(t, store, token.Claims{Role: token.Tenant, Tenant: "acme"})
				c := holder(t, store, token.Claims{Role: token.Session, Parent: parent, Session: "s", Expires: time.Now().Add(time.Hour)})
				ctx, stop := c.Watch(t.Context())
				defer stop()
				wantGoing(t, ctx, 10*time.Minute)
				tt.after(t, store, c, parent)
				wantEnded(t, ctx, 2*looks)
			})
		})
	}
}

// A token that went away between the request and the watch is seen at once.
func TestWatchOfARevokedToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := openStore(t)
		c := holder(t, store, token.Claims{Role: token.Admin})
		revoke(t, store, c.Token.ID)
		ctx, stop := c.Watch(t.Context())
		defer stop()
		wantEnded(t, ctx, looks/2)
	})
}

func TestWatchWithoutADisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "tokens")
		store, err := token.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		c := holder(t, store, token.Claims{Role: token.Admin})
		ctx, stop := c.Watch(t.Context())
		defer stop()
		wantGoing(t, ctx, 3*looks)
		move(t, dir, dir+".away")
		wantGoing(t, ctx, 5*looks)
		move(t, dir+".away", dir)
		wantGoing(t, ctx, 20*looks)
		move(t, dir, dir+".away")
		wantEnded(t, ctx, (blind+1)*looks)
	})
}

func TestWatchStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := openStore(t)
		for name, c := range map[string]Caller{"token": holder(t, store, token.Claims{Role: token.Admin}), "local": {Role: token.Admin, Local: true}} {
			ctx, stop := c.Watch(t.Context())
			wantGoing(t, ctx, time.Minute)
			stop()
			stop()
			if ctx.Err() == nil {
				t.Errorf("%s: it lasts although it was stopped", name)
			}
			above, cancel := context.WithCancel(t.Context())
			ctx, stop = c.Watch(above)
			cancel()
			<-ctx.Done()
			stop()
		}
	})
}

func revoke(t *testing.T, store *token.Store, id string) {
	t.Helper()
	if _, err := store.Revoke(id); err != nil {
		t.Fatal(err)
	}
}

func move(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}
