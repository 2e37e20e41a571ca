package fstests

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox"
)

func raceChecks() []Check {
	return []Check{
		{"a folder swapped for a link changes nothing beyond the mount", raceFolder},
		{"a file swapped for a link changes and reveals nothing beyond the mount", raceFile},
		{"a staged file swapped for a link changes nothing beyond the mount", raceStaged},
	}
}

// beyond is the content of the file that the races must not reach. The file
// has the same name as the one they ask for.
const beyond = "beyond the mount"

func (r *rig) guard() (check func()) {
	r.sh(`cd "$1"; printf '%s' "$2" >victim; mkdir sub; printf '%s' "$2" >sub/victim; chmod 640 victim`, r.out, beyond)
	list := `cd "$1"; ls -laR; cat victim sub/victim`
	before := r.sh(list, r.out)
	return func() {
		r.Helper()
		ctx, done := context.WithTimeout(context.Background(), patience) // of its own: the race may have taken long
		defer done()
		late := *r
		late.ctx = ctx
		if after := late.sh(list, r.out); after != before {
			r.Errorf("beyond the mount was\n%s\nis now\n%s", before, after)
		}
	}
}

// race runs operations from several callers while the attacker runs inside,
// and wants the guarded places untouched. The attacker swaps name, unless that
// is empty, for a link that leads out; [Rig.Swap] does it instead if it can.
func (r *rig) race(rounds int, attacker, name string, steps []func(ctx context.Context, i int)) {
	r.Helper()
	r.raceUntil(func() bool { return true }, rounds, attacker, name, steps)
}

// raceUntil is race with more rounds, for as long as there is time, until it is
// enough.
func (r *rig) raceUntil(enough func() bool, rounds int, attacker, name string, steps []func(ctx context.Context, i int)) {
	r.Helper()
	check := r.guard()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), time.Duration(rounds)*time.Second+patience)
	defer cancel()
	stop := func() {}
	if r.Swap != nil && name != "" {
		attacker = ":"
		if name == "victim" { // operations replace and remove it
			attacker = `cd "$1" && while :; do [ -L decoy ] || [ -L victim ] || { ln -s "$2/victim" new && mv new decoy; }; done`
		} else {
			r.sh(`ln -s "$2" "$1/decoy"`, r.dir, r.out)
		}
		stop = r.Swap(r.TB, r.dir+"/"+name, r.dir+"/decoy")
	}
	defer stop()
	end := r.background(attacker, r.dir, r.out)
	defer end()
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			for i := worker; i < rounds || !enough() && ctx.Err() == nil; i += 4 {
				one, done := context.WithTimeout(ctx, 20*time.Second)
				steps[i%len(steps)](one, i)
				done()
			}
		})
	}
	wg.Wait()
	end()
	stop()
	check()
}

// Errors of operations do not matter in a race; what they did does.
func raceFolder(r *rig) {
	r.sh(`cd "$1"; mkdir d; printf mine >d/victim; mkdir d/sub; printf mine >d/sub/victim`, r.dir)
	path := func(name string) string { return r.dir + "/d/" + name }
	put := func(ctx context.Context, name string) {
		r.Files.Write(ctx, path(name), strings.NewReader("mine"), sandbox.WriteOptions{})
	}
	// What follows the link is seen after few rounds, in any of the steps.
	r.race(r.rounds/2, `cd "$1" && while :; do mv d real; ln -s "$2" d; rm d; mv real d; done`, "d", []func(context.Context, int){
		func(ctx context.Context, _ int) { put(ctx, "victim") },
		func(ctx context.Context, i int) { put(ctx, fmt.Sprintf("new-%d", i)) },
		func(ctx context.Context, i int) { put(ctx, fmt.Sprintf("parent-%d/sub/f", i)) },
		func(ctx context.Context, i int) { r.Files.Mkdir(ctx, path(fmt.Sprintf("made-%d", i)), 0o755) },
		func(ctx context.Context, _ int) { r.Files.Remove(ctx, path("victim"), false) },
		func(ctx context.Context, _ int) { r.Files.Rename(ctx, path("victim"), path("moved")) },
		func(ctx context.Context, _ int) { r.Files.Rename(ctx, path("moved"), path("victim")) },
		func(ctx context.Context, i int) { r.links().Symlink(ctx, "x", path(fmt.Sprintf("link-%d", i))) },
		func(ctx context.Context, _ int) { r.Files.Remove(ctx, path("sub/victim"), true) },
		func(ctx context.Context, _ int) { r.unseen(ctx, path("victim")) },
		func(ctx context.Context, _ int) { put(ctx, "sub/victim") },
		func(ctx context.Context, _ int) { r.unlisted(ctx, path("sub")) },
	})
}

func raceFile(r *rig) {
	r.sh(`printf mine >"$1/victim"`, r.dir)
	path := r.dir + "/victim"
	// To read the wrong file takes luck: a swap between two steps of a read.
	r.race(r.rounds, `cd "$1" && while :; do printf mine >v2; mv v2 victim; ln -s "$2/victim" v2; mv v2 victim; done`, "victim", []func(context.Context, int){
		func(ctx context.Context, _ int) {
			r.Files.Write(ctx, path, strings.NewReader("mine"), sandbox.WriteOptions{Perm: 0o777})
		},
		func(ctx context.Context, _ int) { r.unseen(ctx, path) },
		func(ctx context.Context, _ int) {
			if info, err := r.Files.Stat(ctx, path); err == nil && info.Size() == int64(len(beyond)) {
				r.Errorf("stat described the file beyond the mount")
			}
		},
		func(ctx context.Context, _ int) { r.Files.Remove(ctx, path, false) },
		func(ctx context.Context, _ int) {
			r.Files.Write(ctx, path, strings.NewReader("mine"), sandbox.WriteOptions{Exclusive: true})
		},
		func(ctx context.Context, _ int) { r.unseen(ctx, path) },
	})
}

func raceStaged(r *rig) {
	path := r.dir + "/victim"
	// The staged file stands there for most of a write, and each round gives
	// the attacker that long: a fifth of the rounds finds what can be found.
	r.race(r.rounds/5, `cd "$1" && while :; do for f in .[!.]* *; do
		case $f in '*' | '.[!.]*' | victim) ;; *) rm -f "./$f"; ln -s "$2/victim" "./$f" ;; esac
	done; done`, "", []func(context.Context, int){
		func(ctx context.Context, _ int) {
			r.Files.Write(ctx, path, strings.NewReader(strings.Repeat("mine", 1000)), sandbox.WriteOptions{Perm: 0o777})
		},
		func(ctx context.Context, _ int) {
			r.Files.Remove(ctx, path, false)
			r.Files.Write(ctx, path, strings.NewReader("mine"), sandbox.WriteOptions{Perm: 0o777, Exclusive: true})
		},
		func(ctx context.Context, _ int) { r.unseen(ctx, path) },
	})
}

// unseen reads a file that may be swapped, and must not get the other one.
func (r *rig) unseen(ctx context.Context, path string) {
	mine := *r
	mine.ctx = ctx
	if got, _ := mine.read(path); strings.Contains(got, beyond) {
		r.Errorf("read returned what is beyond the mount")
	}
}

// unlisted lists a folder that may be swapped; its files are never as long as
// the one beyond the mount.
func (r *rig) unlisted(ctx context.Context, path string) {
	entries, _ := r.Files.ReadDir(ctx, path)
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Size() == int64(len(beyond)) && info.Mode().IsRegular() {
			r.Errorf("readdir listed what is beyond the mount")
		}
	}
}
