package client_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/client"
	"github.com/bulkhead-dev/sandbox/guest/wire"
)

// liar is a guest that follows the script when it gets its first file
// request, and answers pings.
func liar(t testing.TB, say script, features ...string) *client.Files {
	t.Helper()
	ours, theirs := net.Pipe()
	w := wire.NewWriter(theirs)
	send := func(f wire.Frame) { _ = w.Write(f) }
	go func() {
		r := wire.NewReader(theirs, wire.MaxRequest)
		for {
			f, err := r.Next()
			switch {
			case err != nil:
				return
			case f.Type == wire.TypeHello:
				send(wire.Frame{Type: wire.TypeHello, Payload: wire.Hello{Version: wire.Version, Features: features}.Encode()})
			case f.Type == wire.TypePing:
				send(wire.Frame{Type: wire.TypePong})
			case f.Type == wire.TypeBye:
				theirs.Close()
				return
			case f.Type == wire.TypeFile:
				go say(send)
			}
		}
	}()
	c, err := client.New(t.Context(), ours, client.Options{Name: "box"})
	must(t, err)
	t.Cleanup(func() {
		theirs.Close()
		c.Close()
	})
	f, err := c.Files(func(p string) (client.Spot, error) {
		return client.Spot{Root: "/m", Rel: strings.TrimPrefix(p, "/")}, nil
	})
	if len(features) == 0 {
		codeIs(t, err, sandbox.CodeUnsupported)
		return nil
	}
	must(t, err)
	return f
}

// TestHostileChanges holds that what can be no watch is an error, and never a
// change.
func TestHostileChanges(t *testing.T) {
	record := func(m wire.FileChange) []byte { return wire.AppendFileChange(nil, m) }
	ready := record(wire.FileChange{Kind: wire.ChangeReady, Name: "."})
	done := wire.Frame{Type: wire.TypeDone, Stream: 1}
	data := func(b []byte) wire.Frame { return wire.Frame{Type: wire.TypeData, Stream: 1, Payload: b} }
	first := func(b []byte) wire.Frame { return fileAnswer(wire.FlagMore, wire.FileAnswer{Content: b}) }
	for _, tt := range []struct {
		name  string
		say   []wire.Frame
		opens bool
		code  sandbox.Code
	}{
		{"no watch", []wire.Frame{fileAnswer(0, wire.FileAnswer{Content: ready})}, false, sandbox.CodeUnavailable},
		{"not ready", []wire.Frame{first(record(wire.FileChange{Kind: wire.ChangeCreate, Name: "a"}))}, false, sandbox.CodeUnavailable},
		{"an unknown kind", []wire.Frame{first(ready), data(record(wire.FileChange{Kind: 9, Name: "a"}))}, true, sandbox.CodeUnavailable},
		{"a name that climbs", []wire.Frame{first(ready), data(record(wire.FileChange{Kind: wire.ChangeCreate, Name: "../a"}))}, true, sandbox.CodeUnavailable},
		{"an end without reason", []wire.Frame{first(ready), done}, true, sandbox.CodeUnavailable},
		{"half a record", []wire.Frame{first(append(ready, 1)), done}, true, sandbox.CodeUnavailable},
		{"the folder has gone", []wire.Frame{first(ready), data(record(wire.FileChange{Kind: wire.ChangeGone, Name: "."})), done}, true, sandbox.CodeNotFound},
		{"no room", []wire.Frame{{Type: wire.TypeFailed, Stream: 1, Payload: (&wire.Failed{Kind: wire.KindResource, Text: "full"}).Encode()}}, false, sandbox.CodeBudgetExceeded},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := liar(t, func(send func(wire.Frame)) {
				for _, frame := range tt.say {
					send(frame)
				}
			}, wire.FeatureFiles, wire.FeatureFilesWatch)
			c, err := f.Changes(t.Context(), "/f", true)
			if (err == nil) != tt.opens {
				t.Fatalf("it opens: %v", err)
			}
			for range 2 { // an error stays
				if tt.opens {
					_, err = c.Next()
				}
				codeIs(t, err, tt.code)
			}
		})
	}
	_, err := liar(t, nil, wire.FeatureFiles).Changes(t.Context(), "/f", true)
	codeIs(t, err, sandbox.CodeUnsupported)
}

func TestFilesUnsupported(t *testing.T) { liar(t, nil) }

// TestOlderGuest holds that a guest that would take a flag for a violation is
// not sent it.
func TestOlderGuest(t *testing.T) {
	asked := make(chan struct{}, 1)
	say := func(func(wire.Frame)) { asked <- struct{}{} }
	f := liar(t, say, wire.FeatureFiles)
	_, err := f.WithoutLinks()
	codeIs(t, err, sandbox.CodeUnsupported)
	codeIs(t, f.Clear(t.Context(), "/f"), sandbox.CodeUnsupported)
	select {
	case <-asked:
		t.Error("the guest was asked")
	default:
	}
	_, err = liar(t, say, wire.FeatureFiles, wire.FeatureFilesNoLinks).WithoutLinks()
	must(t, err)
}

// The frames that a liar sends.
func fileAnswer(flags uint8, m wire.FileAnswer) wire.Frame {
	return wire.Frame{Type: wire.TypeFileAnswer, Flags: flags, Stream: 1, Payload: m.Encode()}
}

func fileData(n int) wire.Frame {
	return wire.Frame{Type: wire.TypeData, Stream: 1, Payload: make([]byte, n)}
}

func entries(names ...string) wire.FileAnswer {
	var m wire.FileAnswer
	for _, name := range names {
		m.Content = wire.AppendFileEntry(m.Content, wire.FileEntry{Name: name, Info: wire.FileInfo{Mode: 0o100644}})
	}
	return m
}

// fileOps are the operations that a liar is asked for.
func fileOps(f *client.Files) map[string]func(ctx context.Context) error {
	return map[string]func(ctx context.Context) error{
		"stat":     func(ctx context.Context) error { _, err := f.Stat(ctx, "/f"); return err },
		"readlink": func(ctx context.Context) error { _, err := f.ReadLink(ctx, "/f"); return err },
		"mkdir":    func(ctx context.Context) error { return f.Mkdir(ctx, "/f", 0) },
		"readdir":  func(ctx context.Context) error { _, err := f.ReadDir(ctx, "/f"); return err },
		"read": func(ctx context.Context) error {
			r, err := f.Read(ctx, "/f", 0, 100_000)
			if err != nil {
				return err
			}
			defer r.Close()
			_, err = io.Copy(io.Discard, r)
			return err
		},
		"write": func(ctx context.Context) error {
			return f.Write(ctx, "/f", strings.NewReader("small"), sandbox.WriteOptions{})
		},
		"stream": func(ctx context.Context) error {
			return f.Write(ctx, "/f", io.LimitReader(zeros{}, 1<<20), sandbox.WriteOptions{})
		},
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// TestHostileFileAnswers holds that an answer that no guest gives is an
// error, soon, and never a result.
func TestHostileFileAnswers(t *testing.T) {
	done := wire.Frame{Type: wire.TypeDone, Stream: 1}
	credit := wire.Frame{Type: wire.TypeCredit, Stream: 1, Payload: wire.Credit{N: 1 << 20}.Encode()}
	all := []string{"stat", "readlink", "mkdir", "readdir", "read", "write", "stream"}
	for _, tt := range []struct {
		name string
		ops  []string
		say  []wire.Frame
	}{
		{"a command's answer", all, []wire.Frame{{Type: wire.TypeExit, Stream: 1, Payload: wire.Exit{}.Encode()}}},
		{"data at once", all, []wire.Frame{fileData(1)}},
		{"credit for more than a window", all, []wire.Frame{credit}},
		{"a cut failure", all, []wire.Frame{{Type: wire.TypeFailed, Stream: 1, Payload: []byte{1}}}},
		{"done without an answer", []string{"stat", "readlink", "readdir", "read"}, []wire.Frame{done}},
		{"done before the end of the content", []string{"stream"}, []wire.Frame{done}},
		{"an answer to a change", []string{"mkdir", "write", "stream"}, []wire.Frame{fileAnswer(0, wire.FileAnswer{})}},
		{"more than one frame can hold", []string{"stat", "readlink"}, []wire.Frame{fileAnswer(wire.FlagMore, wire.FileAnswer{Content: []byte("x")})}},
		{"an unknown flag", []string{"stat", "read", "readdir"}, []wire.Frame{fileAnswer(0x40, wire.FileAnswer{})}},
		{"content of no content", []string{"stat"}, []wire.Frame{fileAnswer(0, wire.FileAnswer{Content: []byte("x")})}},
		{"no target", []string{"readlink"}, []wire.Frame{fileAnswer(0, wire.FileAnswer{})}},
		{"a target with NUL", []string{"readlink"}, []wire.Frame{fileAnswer(0, wire.FileAnswer{Content: []byte("a\x00b")})}},
		{"a target without end", []string{"readlink"}, []wire.Frame{fileAnswer(0, wire.FileAnswer{Content: make([]byte, 60_000)})}},
		{"an absurd size", []string{"stat", "read", "readdir"}, []wire.Frame{fileAnswer(0, wire.FileAnswer{Info: wire.FileInfo{Size: 1 << 63}})}},
		{"more than was asked for", []string{"read"}, []wire.Frame{fileAnswer(wire.FlagMore, wire.FileAnswer{Content: make([]byte, 60_000)}), fileData(40_001)}},
		{"two answers", []string{"read"}, []wire.Frame{fileAnswer(wire.FlagMore, wire.FileAnswer{}), fileAnswer(0, wire.FileAnswer{})}},
		{"data on another channel", []string{"read"}, []wire.Frame{fileAnswer(wire.FlagMore, wire.FileAnswer{}), {Type: wire.TypeData, Flags: 1, Stream: 1}}},
		{"garbage for entries", []string{"readdir"}, []wire.Frame{fileAnswer(0, wire.FileAnswer{Content: []byte("garbage")})}},
		{"a name with a slash", []string{"readdir"}, []wire.Frame{fileAnswer(0, entries("good", "a/../../etc/passwd"))}},
		{"the parent as entry", []string{"readdir"}, []wire.Frame{fileAnswer(0, entries(".."))}},
		{"a cut entry", []string{"readdir"}, []wire.Frame{fileAnswer(wire.FlagMore, entries("a")), fileData(5), done}},
	} {
		for _, op := range tt.ops {
			t.Run(tt.name+"/"+op, func(t *testing.T) {
				f := liar(t, func(send func(wire.Frame)) {
					for _, frame := range tt.say {
						send(frame)
					}
				}, wire.FeatureFiles)
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				err := fileOps(f)[op](ctx)
				codeIs(t, err, sandbox.CodeUnavailable)
				if ctx.Err() != nil {
					t.Error("it took until the end of the context")
				}
			})
		}
	}
}

// TestHostileListings holds what a listing may be at most.
func TestHostileListings(t *testing.T) {
	twice := liar(t, func(send func(wire.Frame)) { send(fileAnswer(0, entries("b", "a", "b", "a"))) }, wire.FeatureFiles)
	list, err := twice.ReadDir(t.Context(), "/")
	must(t, err)
	if len(list) != 2 || list[0].Name() != "a" || list[1].Name() != "b" {
		t.Errorf("got %v", list)
	}
	var endless []byte
	for len(endless)+wire.MaxFileEntry < wire.MaxData {
		endless = wire.AppendFileEntry(endless, wire.FileEntry{Name: strings.Repeat("n", 255)})
	}
	f := liar(t, func(send func(wire.Frame)) {
		send(fileAnswer(wire.FlagMore, wire.FileAnswer{}))
		for range 1000 { // the client reads on although it has given up
			send(wire.Frame{Type: wire.TypeData, Stream: 1, Payload: endless})
		}
	}, wire.FeatureFiles)
	_, err = f.ReadDir(t.Context(), "/")
	// Its window is not kept to, either; whichever is noticed first.
	if code := sandbox.CodeOf(err); code != sandbox.CodeBudgetExceeded && code != sandbox.CodeUnavailable {
		t.Errorf("got %v", err)
	}
}

// TestHostileFileErrors holds that a failure is what it says, as far as that
// can be known, and safe to print.
func TestHostileFileErrors(t *testing.T) {
	for name, tt := range map[string]struct {
		failed wire.Failed
		code   sandbox.Code
		is     error
	}{
		"not found":   {wire.Failed{Kind: wire.KindFile, Errno: 2}, sandbox.CodeNotFound, fs.ErrNotExist},
		"full":        {wire.Failed{Kind: wire.KindFile, Errno: 28}, sandbox.CodeBudgetExceeded, nil},
		"quota":       {wire.Failed{Kind: wire.KindFile, Errno: 122}, sandbox.CodeBudgetExceeded, nil},
		"read-only":   {wire.Failed{Kind: wire.KindFile, Errno: 30}, sandbox.CodeCapabilityBlocked, fs.ErrPermission},
		"escape":      {wire.Failed{Kind: wire.KindEscape}, sandbox.CodeCapabilityBlocked, fs.ErrPermission},
		"irregular":   {wire.Failed{Kind: wire.KindIrregular}, sandbox.CodeCapabilityBlocked, nil},
		"no mount":    {wire.Failed{Kind: wire.KindNoRoot}, sandbox.CodeUnavailable, nil},
		"unknown op":  {wire.Failed{Kind: wire.KindUnsupported}, sandbox.CodeUnsupported, nil},
		"no errno":    {wire.Failed{Kind: wire.KindFile, Errno: 0, Text: "\x1b[2J"}, sandbox.CodeExecution, nil},
		"huge errno":  {wire.Failed{Kind: wire.KindFile, Errno: 1 << 31, Text: "\x1b[2J"}, sandbox.CodeExecution, nil},
		"other kind":  {wire.Failed{Kind: 200, Text: "\x1b[2J\n\u202e"}, sandbox.CodeExecution, nil},
		"called off?": {wire.Failed{Kind: wire.KindCalledOff}, sandbox.CodeUnavailable, nil},
	} {
		t.Run(name, func(t *testing.T) {
			f := liar(t, func(send func(wire.Frame)) {
				send(wire.Frame{Type: wire.TypeFailed, Stream: 1, Payload: tt.failed.Encode()})
			}, wire.FeatureFiles)
			_, err := f.Stat(t.Context(), "/f\x1b")
			codeIs(t, err, tt.code)
			if tt.is != nil && !errors.Is(err, tt.is) {
				t.Errorf("%v is not %v", err, tt.is)
			}
			if strings.ContainsAny(err.Error(), "\x1b\n\u202e") {
				t.Errorf("%q reaches the terminal", err)
			}
		})
	}
}

// TestSilentFiles holds that no operation waits without bound for a guest
// that has stopped to answer, whether ctx ends or not.
func TestSilentFiles(t *testing.T) {
	for name, guest := range map[string]stalling{
		"silent":              {stall: on(wire.TypeFile), features: []string{wire.FeatureFiles}},
		"paused":              {stall: on(wire.TypeFile), features: []string{wire.FeatureFiles}, deaf: true},
		"alive, disk hanging": {stall: on(wire.TypeFile), features: []string{wire.FeatureFiles}, pongs: true},
	} {
		for _, limited := range []bool{true, false} {
			if !limited && guest.pongs {
				continue // it may take as long as the disk hangs
			}
			for _, op := range []string{"stat", "mkdir", "readdir", "read", "write", "stream"} {
				t.Run(name+"/"+op, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						f, err := guest.connect(t).Files(func(p string) (client.Spot, error) { return client.Spot{Root: "/m", Rel: p[1:]}, nil })
						must(t, err)
						ctx, bound := t.Context(), 90*time.Second
						if limited {
							var cancel context.CancelFunc
							ctx, cancel = context.WithTimeout(ctx, time.Second)
							defer cancel()
							bound = 12 * time.Second
						}
						begin := time.Now()
						err = fileOps(f)[op](ctx)
						if code := sandbox.CodeOf(err); code != sandbox.CodeUnavailable && code != sandbox.CodeTimeout {
							t.Errorf("got %v", err)
						}
						if took := time.Since(begin); took > bound {
							t.Errorf("took %v", took)
						}
					})
				})
			}
		}
	}
}
