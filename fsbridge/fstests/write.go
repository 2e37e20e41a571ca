package fstests

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"sync"

	"github.com/bulkhead-dev/sandbox"
)

func writeChecks() []Check {
	return []Check{
		{"write keeps the mode of a file and gives a new one what was asked for", writeMode},
		{"exclusive creation takes nothing that exists, and one of many wins", writeExclusive},
		{"a reader sees old or new content, never a mixture", writeAtomic},
		{"concurrent writers leave one whole content and no debris", writeConcurrent},
	}
}

func writeMode(r *rig) {
	for _, mode := range []fs.FileMode{0o600, 0o640, 0o644, 0o755, 0o200, 0o777} {
		path := r.dir + "/old" + mode.String()
		r.sh(`touch "$1"; chmod "$2" "$1"`, path, fmt.Sprintf("%o", mode))
		r.must(r.Files.Write(r.ctx, path, strings.NewReader("new"), sandbox.WriteOptions{Perm: 0o666}))
		r.mode(path, mode)
		path = r.dir + "/new" + mode.String()
		r.must(r.Files.Write(r.ctx, path, strings.NewReader("new"), sandbox.WriteOptions{Perm: mode}))
		r.mode(path, mode)
		path = r.dir + "/exclusive" + mode.String()
		r.must(r.Files.Write(r.ctx, path, strings.NewReader("new"), sandbox.WriteOptions{Perm: mode, Exclusive: true}))
		r.mode(path, mode)
	}
	r.put(r.dir+"/default", "")
	r.mode(r.dir+"/default", 0o644)
}

func (r *rig) mode(path string, want fs.FileMode) {
	r.Helper()
	info, err := r.Files.Stat(r.ctx, path)
	r.must(err)
	if info.Mode() != want {
		r.Errorf("%s has mode %v, want %v", path, info.Mode(), want)
	}
}

func writeExclusive(r *rig) {
	r.sh(`cd "$1"; printf old >f; mkdir d; ln -s f link; ln -s nowhere dangling; mkfifo p`, r.dir)
	for _, name := range []string{"f", "d", "link", "dangling", "p"} {
		err := r.Files.Write(r.ctx, r.dir+"/"+name, strings.NewReader("new"), sandbox.WriteOptions{Exclusive: true})
		r.fails("create "+name, err, sandbox.CodeValidation, fs.ErrExist)
	}
	r.want(r.dir+"/f", "old")
	r.debris(r.dir, "f", "d", "link", "dangling", "p")

	const many = 16
	results := make([]error, many)
	var wg sync.WaitGroup
	for i := range many {
		wg.Go(func() {
			content := strings.NewReader(strings.Repeat(fmt.Sprint(i%10), 1000))
			results[i] = r.Files.Write(r.ctx, r.dir+"/one", content, sandbox.WriteOptions{Exclusive: true})
		})
	}
	wg.Wait()
	winners, winner := 0, 0
	for i, err := range results {
		if err == nil {
			winners, winner = winners+1, i
		} else if !errors.Is(err, fs.ErrExist) {
			r.Errorf("a loser got %v", err)
		}
	}
	if winners != 1 {
		r.Fatalf("%d creations of one file succeeded", winners)
	}
	r.want(r.dir+"/one", strings.Repeat(fmt.Sprint(winner%10), 1000))
	r.debris(r.dir, "f", "d", "link", "dangling", "p", "one")
}

func writeAtomic(r *rig) {
	const size = 256 << 10
	rounds := max(r.rounds/20, 10)
	path := r.dir + "/f"
	r.put(path, strings.Repeat("a", size))
	// A reader inside complains into a file when it sees something else.
	stop := r.background(`while :; do
		content=$(cat "$1/f") || { echo gone >>"$1/complaints"; continue; }
		case $content in [a-j]*) ;; *) echo strange >>"$1/complaints" ;; esac
		[ ${#content} = "$2" ] || echo short >>"$1/complaints"
	done`, r.dir, fmt.Sprint(size))
	done := make(chan error, 1)
	go func() {
		for i := range rounds {
			letter := string(rune('a' + i%10))
			if err := r.Files.Write(r.ctx, path, strings.NewReader(strings.Repeat(letter, size)), sandbox.WriteOptions{}); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for writing := true; writing; {
		select {
		case err := <-done:
			stop()
			r.must(err)
			writing = false
		default:
		}
		got, err := r.read(path)
		r.must(err)
		if len(got) != size || strings.Trim(got, got[:1]) != "" {
			stop()
			r.Fatalf("a reader saw %s", brief(got))
		}
	}
	r.debris(r.dir, "f")
}

func writeConcurrent(r *rig) {
	const writers = 16
	rounds := max(r.rounds/200, 2)
	var wg sync.WaitGroup
	failures := make(chan error, writers*rounds)
	for i := range writers {
		wg.Go(func() {
			content := strings.Repeat(string(rune('a'+i)), 64<<10)
			for n := range rounds {
				failures <- r.Files.Write(r.ctx, fmt.Sprintf("%s/sub%d/f", r.dir, n), strings.NewReader(content), sandbox.WriteOptions{})
			}
		})
	}
	wg.Wait()
	close(failures)
	for err := range failures {
		r.must(err)
	}
	for n := range rounds {
		dir := fmt.Sprintf("%s/sub%d", r.dir, n)
		got, err := r.read(dir + "/f")
		r.must(err)
		if len(got) != 64<<10 || strings.Trim(got, got[:1]) != "" {
			r.Errorf("the last content is %s", brief(got))
		}
		r.debris(dir, "f")
	}
}

// errBroken is what a broken source says.
type errBroken struct{}

func (errBroken) Error() string { return "the source broke" }

// broken gives some bytes and then fails.
func broken(n int) io.Reader {
	return io.MultiReader(strings.NewReader(strings.Repeat("n", n)), failing{})
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errBroken{} }
