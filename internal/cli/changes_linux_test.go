package cli

import (
	"bufio"
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/workspace/change"
)

// twoTrees is a ChangeStore of one workspace, whose changes are planned as the manager
// plans them.
type twoTrees struct {
	ChangeStore
	host, base, current string

	meanwhile func() // code in the sandbox, after the first plan
	plans     int
}

func (s *twoTrees) Apply(ctx context.Context, _ manager.Request, o manager.ApplyOptions) (manager.Applied, error) {
	if s.plans++; s.plans == 2 {
		s.meanwhile()
	}
	base, err := change.Folder(s.base)
	if err != nil {
		return manager.Applied{}, err
	}
	defer base.Close()
	current, err := change.Folder(s.current)
	if err != nil {
		return manager.Applied{}, err
	}
	defer current.Close()
	plan, err := change.NewPlan(ctx, s.host, base, current, change.PlanOptions{Paths: o.Paths, AllowRisks: o.AllowRisks, AllowPaths: o.AllowPaths, Partial: o.Partial, Digest: o.Digest})
	return manager.Applied{Folder: s.host, Plan: plan}, err
}

func (s *twoTrees) Changes(_ context.Context, _ manager.Request, o manager.ChangeOptions, fn func(*manager.Changes) error) error {
	return fn(manager.ChangesElsewhere(manager.Changes{}, func(_ context.Context, w io.Writer, _ change.RenderOptions) error {
		_, err := io.WriteString(w, "the difference of "+strings.Join(o.Paths, " ")+"\n")
		return err
	}))
}

// TestApplyInteractive holds that only what is chosen one by one is applied, and that
// whatever else is typed chooses nothing.
func TestApplyInteractive(t *testing.T) {
	const question, end = "apply? [y,n,d,a,q,?] ", 0
	write := func(dir string, files map[string]string) {
		for name, text := range files {
			if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	// In the order of the questions: .git/hooks/x, a, gone/one, gone/two, new/c, new/deep/b.
	tests := []struct {
		name  string
		typed []string
		steps []string // paths that are changed; nil is an end without a change
		shown string
	}{
		{"one", []string{"n\n", "y\n", "n\n", "n\n", "n\n", "n\n", "y\n"}, []string{"a"}, ""},
		{"all", []string{"a\n", "y\n", "y\n"}, []string{".git", ".git/hooks", ".git/hooks/x", "a", "gone", "gone/one", "gone/two", "new", "new/c", "new/deep", "new/deep/b"}, ""},
		{"all but the consent", []string{"a\n", "n\n", "y\n"}, []string{"a", "gone", "gone/one", "gone/two", "new", "new/c", "new/deep", "new/deep/b"}, ""},
		{"part of a removed folder", []string{"n\n", "n\n", "y\n", "n\n", "n\n", "n\n", "y\n"}, []string{"gone/one"}, ""},
		{"a removed folder", []string{"n\n", "n\n", "y\n", "y\n", "n\n", "n\n", "y\n"}, []string{"gone", "gone/one", "gone/two"}, ""},
		{"part of a new folder", []string{"n\n", "n\n", "n\n", "n\n", "n\n", "y\n", "y\n"}, []string{"new", "new/deep", "new/deep/b"}, ""},
		{"the rest", []string{"n\n", "n\n", "n\n", "n\n", "a\n", "y\n"}, []string{"new", "new/c", "new/deep", "new/deep/b"}, ""},
		{"a look first", []string{"n\n", "d\n", "what\n", "y\n", "q\n"}, nil, "the difference of a"},
		{"a bare line", []string{"\n"}, nil, ""},
		{"the end of input", []string{"\x04"}, nil, ""},
		{"none", []string{"n\n", "n\n", "n\n", "n\n", "n\n", "n\n"}, nil, "nothing was changed"},
		{"changed after the answer", []string{"n\n", "y\n", "n\n", "n\n", "n\n", "n\n"}, nil, ""},
		{"more below what was agreed to", []string{"a\n", "y\n"}, nil, ""},
		{"no at the end", []string{"n\n", "y\n", "n\n", "n\n", "n\n", "n\n", "n\n"}, nil, "nothing was changed"},
	}
	late := map[string]map[string]string{"changed after the answer": {"a": "three\n"}, "more below what was agreed to": {".git/hooks/y": "#!/bin/sh\n"}}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := &twoTrees{host: t.TempDir(), base: t.TempDir(), current: t.TempDir()}
			s.meanwhile = func() { write(s.current, late[tt.name]) }
			before := map[string]string{"a": "one\n", "gone/one": "1", "gone/two": "2", "same": "s"}
			write(s.host, before)
			write(s.base, before)
			write(s.current, map[string]string{"a": "two\n", "new/deep/b": "b", "new/c": "c", "same": "s", ".git/hooks/x": "#!/bin/sh\n"})
			host, caller := openPTY(t)
			typed, read := slices.Clone(tt.typed), make(chan string)
			go func() {
				var text strings.Builder
				defer func() { read <- text.String() }()
				for b := bufio.NewReader(host); ; {
					c, err := b.ReadByte()
					if err != nil || c == end {
						return
					}
					text.WriteByte(c)
					asked := strings.HasSuffix(text.String(), question) || strings.HasSuffix(text.String(), "[y/N] ")
					switch {
					case asked && len(typed) == 0:
						host.Close() // one question too many
						return
					case asked:
						host.WriteString(typed[0])
						typed = typed[1:]
					}
				}
			}()
			a := &app{Program: Program{Stdin: caller, Stderr: caller}}
			var o manager.ApplyOptions
			err := a.askToApply(t.Context(), s, manager.Request{}, &o)
			caller.Write([]byte{end})
			text := <-read
			if (err == nil) != (tt.steps != nil) || len(typed) != 0 || !strings.Contains(text, tt.shown) {
				t.Fatalf("%v; not asked: %q; it shows\n%s", err, typed, text)
			}
			if changed := late[tt.name] != nil; changed != (sandbox.CodeOf(err) == sandbox.CodeBusy) {
				t.Errorf("it fails with %v", err)
			}
			if err != nil {
				return
			}
			done, err := s.Apply(t.Context(), manager.Request{}, o)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, step := range done.Plan.Steps {
				got = append(got, step.Path)
			}
			slices.Sort(got)
			if !slices.Equal(got, tt.steps) {
				t.Errorf("it applies %q, want %q", got, tt.steps)
			}
		})
	}
}
