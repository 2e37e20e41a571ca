//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/workspace/checkpoint"
)

const (
	// A kept workspace has so many files, of so many bytes each: 1 GiB in all. A
	// quick run has a tenth of it.
	keptFiles, keptSize = 50_000, 21_475
	keptPerFolder       = 100
	keptChanges         = 100 // files that are changed between two checkpoints
	keptChain           = 1000
	keptRounds          = 20
	copyRounds          = 3       // each leaves two copies until the end
	keptName            = "bench" // of the checkpoint that the pool is filled from
	keptForks           = 10
)

// A keptTree is a sandbox with many files, of which checkpoints are made.
type keptTree struct {
	*manager.Manager
	dir    string // its workspace on the host
	files  int
	random *rand.Rand
	forks  int
	last   string // the last checkpoint
}

func keptRequest(session string) manager.Request {
	return manager.Request{Who: config.Who{Agent: config.DefaultAgent, Session: session}}
}

// kept makes the tree, once.
func (s *Session) kept(ctx context.Context) (*keptTree, error) {
	if s.tree != nil {
		return s.tree, nil
	}
	slots := (s.Effort.rounds(keptRounds)+1)*keptForks + 1
	site, err := s.Rig.newSite("kept", slots)
	if err == nil {
		site.from = keptName
		err = s.Rig.writeSettings(site, slots)
	}
	if err != nil {
		return nil, err
	}
	t := &keptTree{files: keptFiles * s.Effort.Percent / 100, random: rand.New(rand.NewPCG(1, 2))}
	if t.Manager, err = s.Rig.openManager(site); err != nil {
		return nil, err
	}
	ready, err := t.Ready(ctx, keptRequest("tree"))
	if err != nil {
		return nil, err
	}
	t.dir = ready.Workspace
	s.Log("writing %d files", t.files)
	for i := range t.files {
		if err := t.write(i); err != nil {
			return nil, err
		}
	}
	s.tree = t
	return t, t.keep(ctx)
}

func (t *keptTree) path(i int) string {
	return filepath.Join(t.dir, fmt.Sprintf("d%d", i/keptPerFolder), fmt.Sprintf("f%d", i))
}

// write writes new content to a file, as the owner of the workspace.
func (t *keptTree) write(i int) error {
	p := t.path(i)
	fi, err := os.Stat(t.dir)
	if err != nil {
		return err
	}
	uid, gid := ownerOf(fi)
	if i%keptPerFolder == 0 {
		if err := os.Mkdir(filepath.Dir(p), 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
		if err := os.Chown(filepath.Dir(p), uid, gid); err != nil {
			return err
		}
	}
	content := bytes.Repeat([]byte{byte(t.random.Uint32())}, keptSize)
	t.random.Shuffle(64, func(i, j int) { content[i], content[j] = byte(i), byte(j) })
	if err := os.WriteFile(p, content, 0o644); err != nil {
		return err
	}
	return os.Chown(p, uid, gid)
}

// change changes some files.
func (t *keptTree) change() error {
	for range keptChanges {
		if err := t.write(t.random.IntN(t.files)); err != nil {
			return err
		}
	}
	return nil
}

func (t *keptTree) keep(ctx context.Context) error {
	rec, err := t.Checkpoint(ctx, keptRequest("tree"), manager.CheckpointOptions{})
	if err == nil && rec.Means != checkpoint.Overlay {
		err = wrong("checkpoints are made by %s", rec.Means)
	}
	t.last = rec.ID
	return err
}

// timedAfter takes the time of do, after prepare.
func timedAfter(prepare func() error, do func(context.Context) error) sample {
	return func(ctx context.Context) ([]time.Duration, error) {
		if err := prepare(); err != nil {
			return nil, err
		}
		begun := time.Now()
		err := do(ctx)
		return []time.Duration{time.Since(begun)}, err
	}
}

// keeping is a checkpoint after some changes, beside a copy of the tree by cp -a.
func (s *Session) keeping(ctx context.Context) (operation, error) {
	t, err := s.kept(ctx)
	if err != nil {
		return operation{}, err
	}
	return operation{rounds: keptRounds, cold: true, ways: []way{{name: WayManager, turn: 1, take: timedAfter(t.change, t.keep)}}}, nil
}

// copying is a checkpoint by the means of every file system, a copy of all files, beside
// one by cp -a. Both read the same workspace and write to the same file system.
func (s *Session) copying(ctx context.Context) (operation, error) {
	t, err := s.kept(ctx)
	if err != nil {
		return operation{}, err
	}
	root := filepath.Join(filepath.Dir(s.Rig.state.Path()), "copies")
	if err := os.Mkdir(root, 0o700); err != nil {
		return operation{}, err
	}
	const name = "tree"
	dir, copies := filepath.Join(root, name), 0
	copyTo := func(ctx context.Context, from, to string) error {
		return exec.CommandContext(ctx, "cp", "-a", from, to).Run()
	}
	if err := copyTo(ctx, t.dir, dir); err != nil {
		return operation{}, err
	}
	store, err := checkpoint.Open(root, checkpoint.Options{Means: checkpoint.Copy})
	if err != nil {
		return operation{}, err
	}
	// Nothing is removed before the end: for some seconds ext4 looks long for an
	// inode where others were removed.
	return operation{rounds: copyRounds, cold: true, ways: []way{
		{name: WayHost, turn: 1, take: timedAfter(func() error { copies++; return nil }, func(ctx context.Context) error {
			return copyTo(ctx, dir, filepath.Join(root, fmt.Sprintf("copy%d", copies)))
		})},
		{name: WayManager, turn: 1, take: timedAfter(func() error { return store.Drop(ctx, name) }, func(ctx context.Context) error {
			_, _, err := store.Create(ctx, name, checkpoint.CreateOptions{})
			return err
		})},
	}, done: func() error { return errors.Join(store.Close(), os.RemoveAll(root)) }}, nil
}

// rollingBack gives the workspace the state of its last checkpoint, after some
// changes.
func (s *Session) rollingBack(ctx context.Context) (operation, error) {
	t, err := s.kept(ctx)
	if err != nil {
		return operation{}, err
	}
	return operation{rounds: keptRounds, cold: true, ways: []way{
		{name: WayManager, turn: 1, take: timedAfter(t.change, func(ctx context.Context) error {
			_, err := t.Rollback(ctx, keptRequest("tree"), t.last)
			return err
		})},
	}}, nil
}

// comparing lists what differs from the last checkpoint after some changes.
func (s *Session) comparing(ctx context.Context) (operation, error) {
	t, err := s.kept(ctx)
	if err != nil {
		return operation{}, err
	}
	found := func(ctx context.Context) error {
		return t.Changes(ctx, keptRequest("tree"), manager.ChangeOptions{}, func(c *manager.Changes) error {
			if len(c.Entries) < keptChanges/2 {
				return wrong("%d changes are found", len(c.Entries))
			}
			return nil
		})
	}
	return operation{rounds: keptRounds, cold: true, ways: []way{
		{name: WayManager, turn: 1, take: timedAfter(func() error {
			if err := t.keep(ctx); err != nil {
				return err
			}
			return t.change()
		}, found)},
	}}, nil
}

// forking makes ten forks of a checkpoint one after another, each until the first
// output of its first command. The pool is filled from the checkpoint.
func (s *Session) forking(ctx context.Context) (operation, error) {
	t, err := s.kept(ctx)
	if err != nil {
		return operation{}, err
	}
	rec, err := t.Checkpoint(ctx, keptRequest("tree"), manager.CheckpointOptions{Name: keptName})
	if err != nil {
		return operation{}, err
	}
	if err := fill(ctx, t.Manager); err != nil {
		return operation{}, err
	}
	take := func(ctx context.Context) ([]time.Duration, error) {
		var all []time.Duration
		for range keptForks {
			t.forks++
			session := fmt.Sprintf("fork-%d", t.forks)
			begun := time.Now()
			made, err := t.Fork(ctx, keptRequest("tree"), manager.ForkOptions{From: rec.ID, Sessions: []string{session}})
			if err == nil {
				err = made[0].Err
			}
			if err != nil {
				return nil, err
			}
			at, err := firstOutput(ctx, t.Manager, session, false)
			if err != nil {
				return nil, err
			}
			all = append(all, at.Sub(begun))
		}
		return all, nil
	}
	return operation{rounds: keptRounds, cold: true, ways: []way{{name: WayPool, turn: 1, take: take}}, done: func() error {
		return t.RemoveCheckpoint(context.WithoutCancel(ctx), "", keptName)
	}}, nil
}

// chained reads files of a workspace that has a long chain of checkpoints, beside
// one that has none.
func (s *Session) chained(ctx context.Context) (operation, error) {
	t, err := s.kept(ctx)
	if err != nil {
		return operation{}, err
	}
	const files, reads = 100, 100
	line := "cat" + strings.Repeat(" f*", reads) + " >/dev/null"
	run := func(ctx context.Context, session, line string) error {
		r := keptRequest(session)
		r.Command = sandbox.Command{Args: []string{"sh", "-c", line}}
		out, err := t.Run(ctx, r)
		if err == nil && out.Exit.Code != 0 {
			err = wrong("exit status %d", out.Exit.Code)
		}
		return err
	}
	chain := keptChain * s.Effort.Percent / 100
	for _, session := range []string{"plain", "chain"} {
		if err := run(ctx, session, fmt.Sprintf("i=0; while [ $i -lt %d ]; do head -c %d /dev/urandom >f$i; i=$((i+1)); done", files, keptSize)); err != nil {
			return operation{}, err
		}
	}
	// Both have the same files, because the shell looks at all names for each f*.
	if err := run(ctx, "plain", fmt.Sprintf("i=0; while [ $i -lt %d ]; do echo $i >other$i; i=$((i+1)); done", chain)); err != nil {
		return operation{}, err
	}
	s.Log("making a chain of %d checkpoints", chain)
	for i := range chain {
		if err := run(ctx, "chain", fmt.Sprintf("echo %d >other%d", i, i)); err != nil {
			return operation{}, err
		}
		if _, err := t.Checkpoint(ctx, keptRequest("chain"), manager.CheckpointOptions{}); err != nil {
			return operation{}, err
		}
	}
	reading := func(session string) sample {
		return timedAfter(func() error { return nil }, func(ctx context.Context) error { return run(ctx, session, line) })
	}
	return operation{rounds: keptRounds, ways: []way{
		{name: WayHost, turn: 1, take: reading("plain")},
		{name: WayManager, turn: 1, take: reading("chain")},
	}}, nil
}

// ownerOf returns the owner of a file.
func ownerOf(fi os.FileInfo) (uid, gid int) {
	st := fi.Sys().(*syscall.Stat_t)
	return int(st.Uid), int(st.Gid)
}
