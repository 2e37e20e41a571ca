package client_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/fsbridge"
	"github.com/bulkhead-dev/sandbox/guest/client"
	"github.com/bulkhead-dev/sandbox/guest/wire"
)

// TestGuestWatches holds that the guest reports changes in its mounts, read-only
// ones too, that its watches are bounded, and that each ends with its context.
func TestGuestWatches(t *testing.T) {
	p := newPlaces(t)
	g := startGuest(t)
	table, err := fsbridge.NewMountTable(p.mounts, p.tmpfs)
	must(t, err)
	f, err := box{g.client(client.Options{}), table}.files()
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var all []fsbridge.Changes
	for range wire.MaxWatches {
		c, err := f.Changes(ctx, p.work, true)
		must(t, err)
		all = append(all, c)
	}
	_, err = f.Changes(ctx, p.work, true)
	codeIs(t, err, sandbox.CodeBudgetExceeded)

	must(t, os.WriteFile(filepath.Join(p.work, "f"), nil, 0o640))
	for _, c := range all {
		got, err := c.Next()
		if err != nil || got.Kind != fsbridge.ChangeCreate || got.Name != "f" || got.Info.Mode() != 0o640 || got.Info.Name() != "f" {
			t.Fatalf("%+v, %v", got, err)
		}
	}
	must(t, all[0].Close())
	_, err = all[0].Next()
	codeIs(t, err, sandbox.CodeValidation)
	c := watchSoon(t, ctx, f, p.readOnly)
	if c.Entries() != 2 {
		t.Errorf("%d entries", c.Entries())
	}
	cancel()
	for _, c := range append(all[1:], c) {
		for err = error(nil); err == nil; {
			_, err = c.Next()
		}
		codeIs(t, err, sandbox.CodeUnavailable)
	}
	must(t, watchSoon(t, t.Context(), f, p.small).Close())
	for name, want := range map[string]sandbox.Code{p.work + "/none": sandbox.CodeNotFound, p.work + "/f": sandbox.CodeValidation} {
		_, err = seatedSoon(t, t.Context(), f, name)
		codeIs(t, err, want)
	}
}

func watchSoon(t *testing.T, ctx context.Context, f *client.Files, path string) fsbridge.Changes {
	t.Helper()
	c, err := seatedSoon(t, ctx, f, path)
	must(t, err)
	return c
}

// seatedSoon begins a watch once the guest has given back the seat of one that has
// ended.
func seatedSoon(t *testing.T, ctx context.Context, f *client.Files, path string) (fsbridge.Changes, error) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; {
		c, err := f.Changes(ctx, path, false)
		if sandbox.CodeOf(err) != sandbox.CodeBudgetExceeded || time.Now().After(deadline) {
			return c, err
		}
	}
}

// TestWatchOfAPausedGuest holds that a guest that is silent for long, as that of a
// paused sandbox is, is not given up because of a watch.
func TestWatchOfAPausedGuest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		w, r := wire.NewWriter(theirs), wire.NewReader(theirs, wire.MaxRequest)
		record := func(kind wire.ChangeKind, name string) []byte {
			return wire.AppendFileChange(nil, wire.FileChange{Kind: kind, Name: name})
		}
		go func() {
			for {
				f, err := r.Next()
				switch {
				case err != nil:
					return
				case f.Type == wire.TypeHello:
					_ = w.Write(wire.Frame{Type: wire.TypeHello, Payload: wire.Hello{Version: wire.Version, Features: []string{wire.FeatureFiles, wire.FeatureFilesWatch}}.Encode()})
				case f.Type == wire.TypeFile:
					_ = w.Write(fileAnswer(wire.FlagMore, wire.FileAnswer{Content: record(wire.ChangeReady, ".")}))
					time.AfterFunc(time.Hour, func() {
						_ = w.Write(wire.Frame{Type: wire.TypeData, Stream: 1, Payload: record(wire.ChangeCreate, "a")})
					})
				}
			}
		}()
		c, err := client.New(t.Context(), ours, client.Options{Name: "box"})
		must(t, err)
		f, err := c.Files(func(string) (client.Spot, error) { return client.Spot{Root: "/m"}, nil })
		must(t, err)
		x, err := f.Changes(t.Context(), "/m", true)
		must(t, err)
		if got, err := x.Next(); err != nil || got.Name != "a" {
			t.Errorf("%+v, %v", got, err)
		}
		theirs.Close()
		_, err = x.Next()
		codeIs(t, err, sandbox.CodeUnavailable)
		c.Close()
	})
}
