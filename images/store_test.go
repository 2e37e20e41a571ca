package images

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	cerrdefs "github.com/containerd/errdefs"

	sandbox "github.com/bulkhead-dev/sandbox"
)

func TestInspectErrors(t *testing.T) {
	for name, tc := range map[string]struct {
		ref  string
		err  error
		hang bool
		want sandbox.Code
	}{
		"answered none":      {ref: "a", err: fmt.Errorf("x: %w", cerrdefs.ErrNotFound), want: sandbox.CodeNotFound},
		"engine's own error": {ref: "a", err: fmt.Errorf("x: %w", cerrdefs.ErrInternal), want: sandbox.CodeUnavailable},
		"no such host text":  {ref: "a", err: errors.New("not found"), want: sandbox.CodeUnavailable},
		"forbidden":          {ref: "a", err: cerrdefs.ErrPermissionDenied, want: sandbox.CodeUnavailable},
		"broken off":         {ref: "a", err: io.ErrUnexpectedEOF, want: sandbox.CodeUnavailable},
		"hangs":              {ref: "a", hang: true, want: sandbox.CodeTimeout},
		"empty reference":    {ref: "", want: sandbox.CodeValidation},
		"upper case":         {ref: "a/UPPER", want: sandbox.CodeValidation},
		"control characters": {ref: "a\x1b[31m", want: sandbox.CodeValidation},
		"too long":           {ref: strings.Repeat("a", maxRef+1), want: sandbox.CodeValidation},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake()
				f.onInspect = func(ctx context.Context, _ string) error {
					if tc.hang {
						<-ctx.Done()
						return ctx.Err()
					}
					return tc.err
				}
				_, err := fakeStore(t, f, Config{}).Inspect(t.Context(), tc.ref)
				if sandbox.CodeOf(err) != tc.want {
					t.Errorf("got %v, want %s", err, tc.want)
				}
				if strings.ContainsRune(fmt.Sprint(err), 0x1b) {
					t.Errorf("control characters in %q", err)
				}
			})
		})
	}
}

func TestInspectHonoursCaller(t *testing.T) {
	f := newFake()
	ctx, cancel := context.WithCancel(t.Context())
	f.onInspect = func(ctx context.Context, _ string) error { cancel(); <-ctx.Done(); return ctx.Err() }
	_, err := fakeStore(t, f, Config{}).Inspect(ctx, "a")
	if !errors.Is(err, context.Canceled) || sandbox.IsNotFound(err) {
		t.Errorf("got %v", err)
	}
}

func TestEnsureOfWhatIsThereIsOneCall(t *testing.T) {
	f := newFake()
	id := f.put("own/image:1", nil)
	img, err := fakeStore(t, f, Config{}).Ensure(t.Context(), "own/image:1", Options{})
	if err != nil || img.ID != id || f.asked("inspect") != 1 || f.asked("pull") != 0 {
		t.Errorf("got %+v, %v after %v", img, err, f.calls)
	}
}

func TestEnsureNeverPullsOverTrouble(t *testing.T) {
	f := newFake()
	f.onInspect = func(context.Context, string) error { return cerrdefs.ErrInternal }
	for _, ref := range []string{"own/image", DefaultImage, ourRecipes()[0].bootstrapRef("bookworm")} {
		if _, err := fakeStore(t, f, Config{}).Ensure(t.Context(), ref, Options{}); sandbox.CodeOf(err) != sandbox.CodeUnavailable {
			t.Errorf("%s: %v", ref, err)
		}
	}
	if f.asked("pull")+f.asked("build")+f.asked("import") != 0 {
		t.Errorf("did something: %v", f.calls)
	}
}

func TestOwnNamesAreNeverPulled(t *testing.T) {
	for ref, want := range map[string]sandbox.Code{
		"sandbox:other":                sandbox.CodeUnavailable,
		"sandbox":                      sandbox.CodeUnavailable,
		"docker.io/library/sandbox:x":  sandbox.CodeUnavailable,
		"sandbox-setup:0123":           sandbox.CodeUnavailable,
		"sandbox-base:latest":          sandbox.CodeUnavailable,
		"sandbox-browser:other":        sandbox.CodeUnavailable,
		"sandbox-browser-base:latest":  sandbox.CodeUnavailable,
		"sandbox-base:jammy-bootstrap": sandbox.CodeUnavailable,
	} {
		f := newFake()
		s := fakeStore(t, f, Config{})
		if _, err := s.Ensure(t.Context(), ref, Options{}); sandbox.CodeOf(err) != want {
			t.Errorf("Ensure %s: %v", ref, err)
		}
		if _, err := s.Pull(t.Context(), ref, Options{}); sandbox.CodeOf(err) != sandbox.CodeValidation {
			t.Errorf("Pull %s: %v", ref, err)
		}
		if f.asked("pull") != 0 {
			t.Errorf("%s was pulled", ref)
		}
	}
}

func TestConcurrentEnsurePullsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.onPull = func(_ context.Context, ref string) (io.ReadCloser, error) {
			time.Sleep(time.Minute) // of the bubble's clock
			f.put("own/image", nil)
			return io.NopCloser(strings.NewReader("")), nil
		}
		s := fakeStore(t, f, Config{Timeouts: Timeouts{PullStart: time.Hour, Idle: time.Hour}})
		var wg sync.WaitGroup
		ids := make([]string, 50)
		for i := range ids {
			wg.Go(func() {
				img, err := s.Ensure(t.Context(), "own/image", Options{})
				if err != nil {
					t.Error(err)
				}
				ids[i] = img.ID
			})
		}
		wg.Wait()
		for _, id := range ids {
			if id == "" || id != ids[0] {
				t.Errorf("ids differ: %v", ids)
			}
		}
		if n := f.asked("pull"); n != 1 {
			t.Errorf("%d pulls", n)
		}
		if f.pulled[0] != "docker.io/own/image:latest" {
			t.Errorf("pulled %s", f.pulled[0])
		}
	})
}

func TestOneCallerLeavesTheOthersStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		release := make(chan struct{})
		f.onPull = func(ctx context.Context, _ string) (io.ReadCloser, error) {
			select {
			case <-release:
				f.put("own/image", nil)
				return io.NopCloser(strings.NewReader("")), nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		s := fakeStore(t, f, Config{})
		impatient, leave := context.WithCancel(t.Context())
		errs := make(chan error, 2)
		go func() { _, err := s.Ensure(impatient, "own/image", Options{}); errs <- err }()
		synctest.Wait()
		go func() { _, err := s.Ensure(t.Context(), "own/image", Options{}); errs <- err }()
		synctest.Wait()
		leave()
		if err := <-errs; !errors.Is(err, context.Canceled) {
			t.Errorf("the one who left got %v", err)
		}
		close(release)
		if err := <-errs; err != nil {
			t.Errorf("the one who stayed got %v", err)
		}
		if n := f.asked("pull"); n != 1 {
			t.Errorf("%d pulls", n)
		}
	})
}

func TestLastCallerEndsTheWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		ended := false
		f.onPull = func(ctx context.Context, _ string) (io.ReadCloser, error) {
			<-ctx.Done()
			ended = true
			return nil, ctx.Err()
		}
		s := fakeStore(t, f, Config{Timeouts: Timeouts{PullStart: time.Hour, Idle: time.Hour, Operation: time.Hour}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := s.Ensure(ctx, "own/image", Options{})
		if sandbox.CodeOf(err) != sandbox.CodeTimeout || !ended {
			t.Errorf("got %v, ended %v", err, ended)
		}
		// What was given up does not stand in the way of the next.
		f.onPull = func(context.Context, string) (io.ReadCloser, error) {
			f.put("own/image", nil)
			return io.NopCloser(strings.NewReader("")), nil
		}
		if _, err := s.Ensure(t.Context(), "own/image", Options{}); err != nil {
			t.Error(err)
		}
	})
}

func TestPullFailures(t *testing.T) {
	for name, tc := range map[string]struct {
		pull func(ctx context.Context) (io.ReadCloser, error)
		want sandbox.Code
		max  time.Duration
		text string
	}{
		"no registry": {func(context.Context) (io.ReadCloser, error) { return nil, errors.New("dial tcp: no such host") },
			sandbox.CodeUnavailable, time.Second, "docker pull"},
		"registry has none": {func(context.Context) (io.ReadCloser, error) { return nil, cerrdefs.ErrNotFound },
			sandbox.CodeUnavailable, time.Second, "cannot pull"},
		"never answers": {func(ctx context.Context) (io.ReadCloser, error) { <-ctx.Done(); return nil, ctx.Err() },
			sandbox.CodeTimeout, 20 * time.Second, "no answer"},
		"answers and falls silent": {func(ctx context.Context) (io.ReadCloser, error) {
			return io.NopCloser(io.MultiReader(strings.NewReader(`{"status":"Pulling"}`+"\n"), hang{ctx})), nil
		}, sandbox.CodeTimeout, 5 * time.Minute, "no progress"},
		"trickles for ever": {func(ctx context.Context) (io.ReadCloser, error) { return io.NopCloser(trickle{ctx}), nil },
			sandbox.CodeTimeout, 15 * time.Minute, "as a whole"},
		"fails in the middle": {func(context.Context) (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader(`{"status":"a"}` + "\n" + errLine("disk \x1b full"))), nil
		}, sandbox.CodeUnavailable, time.Second, `disk \x1b full`},
		"breaks off": {func(context.Context) (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader(`{"status":`)), nil
		},
			sandbox.CodeUnavailable, time.Second, "broke off"},
		"succeeds without an image": {func(context.Context) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("")), nil },
			sandbox.CodeUnavailable, time.Second, "was removed"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake()
				f.onPull = func(ctx context.Context, _ string) (io.ReadCloser, error) { return tc.pull(ctx) }
				start := time.Now()
				_, err := fakeStore(t, f, Config{}).Pull(t.Context(), "own/image", Options{})
				if sandbox.CodeOf(err) != tc.want || !strings.Contains(fmt.Sprint(err), tc.text) {
					t.Errorf("got %v; want %s and %q", err, tc.want, tc.text)
				}
				if d := time.Since(start); d > tc.max {
					t.Errorf("took %v", d)
				}
			})
		})
	}
}

// hang is a connection that says nothing; trickle one that never ends.
type hang struct{ ctx context.Context }

func (h hang) Read([]byte) (int, error) { <-h.ctx.Done(); return 0, h.ctx.Err() }

type trickle struct{ ctx context.Context }

func (r trickle) Read(b []byte) (int, error) {
	select {
	case <-time.After(10 * time.Second):
		return copy(b, `{"status":"x"}`+"\n"), nil
	case <-r.ctx.Done():
		return 0, r.ctx.Err()
	}
}

// heard keeps the events that it gets.
type heard struct{ events []Event }

func (h *heard) Report(e Event) { h.events = append(h.events, e) }

// TestCurrentNoticesOutdated checks that a user of an image that was built from
// an older recipe is shown how to renew it, and that no other image is said to
// be old.
func TestCurrentNoticesOutdated(t *testing.T) {
	for name, tc := range map[string]struct {
		ref    string
		labels map[string]string
		want   string
	}{
		"older recipe":  {DefaultImage, map[string]string{labelKind: string(OriginSandbox), labelDigest: "0"}, "sandbox images build"},
		"older browser": {BrowserImage, map[string]string{labelKind: string(OriginBrowser), labelDigest: "0"}, "sandbox images build --browser"},
		"older base":    {"sandbox-base:bookworm-bootstrap", map[string]string{labelKind: string(OriginBootstrap), labelPackages: "bash"}, "sandbox images bootstrap"},
		"own":           {"own/image:1", nil, ""},
		"this recipe":   {DefaultImage, map[string]string{labelKind: string(OriginSandbox), labelDigest: ourRecipes()[0].digest()}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f, h := newFake(), &heard{}
			store := fakeStore(t, f, Config{})
			store.recipes = ourRecipes()
			id := f.put(tc.ref, tc.labels)
			got, err := Source{Store: store, Progress: h}.Current(t.Context(), tc.ref, nil)
			if err != nil || got != id {
				t.Fatalf("got %q, %v", got, err)
			}
			if tc.want == "" && len(h.events) > 0 || tc.want != "" && (len(h.events) != 1 || !strings.HasSuffix(h.events[0].Text, "renew it: "+tc.want)) {
				t.Errorf("heard %+v, want %q", h.events, tc.want)
			}
		})
	}
}

// TestDefaultImageHasWhatExamplesUse holds that the programs that README's examples run are
// in the image.
func TestDefaultImageHasWhatExamplesUse(t *testing.T) {
	for _, want := range []string{"python3-pip", "python3-venv", "wget", "curl", "git"} {
		if !slices.Contains(packagesOf(ourRecipes()[0].dockerfile), want) {
			t.Errorf("the default image lacks %s", want)
		}
	}
}
