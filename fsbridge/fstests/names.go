package fstests

import (
	"slices"
	"strings"
)

func nameChecks() []Check {
	return []Check{{"any name is only a name", namesAll}}
}

// strangeNames are allowed on Linux and have a special meaning to some
// program.
func strangeNames() []string {
	return []string{
		"with space", " leading", "trailing ", "new\nline", "\n", "trailing newline\n", "\nleading newline", "tab\t", "cr\r", "esc\x1b[31m",
		"-", "--", "-n", "-rf", "--help", "--version", "-T", "'", `"`, "`id`", "$(id)", "$HOME", "${x", `back\slash`, `\`, `\n`, "*", "?", "[a]", "{a,b}",
		"!", "#", "&", ";", "|", "<", ">", "(", ")", "~", "~root", "%s", "%n%x", "=", "a=b", "@", "@file", "+x", ":", "ünïcödé", "日本語", "🙂", "\xff\xfe", "\xff\\0101\n\n", "-\x80%b\\c",
		"\u202e", "\u200b", "...", "..a", "a..", ".a", "end 0", "ok", "missing sh", strings.Repeat("n", 255),
		strings.Repeat("\n", 255), strings.Repeat("ü", 127), "No space left on device", "x: Read-only file system", "NUL", "con", "a:b", ".sbx-x.tmp",
	}
}

// slowRounds is the number of rounds below which a transport counts as slow: each
// of its operations takes tens of milliseconds. With one of them, namesAll reads,
// renames and replaces one name of eight, and describeMany lists a thousand entries.
const slowRounds = 100

func namesAll(r *rig) {
	names := strangeNames()
	slices.Sort(names)
	names = slices.Compact(names)
	dir := r.dir + "/names"
	whole := func(i int) bool { return r.rounds >= slowRounds || i%8 == 0 }
	for i, name := range names {
		path := dir + "/" + name
		r.put(path, name)
		if !whole(i) {
			continue
		}
		r.want(path, name)
		info, err := r.Files.Stat(r.ctx, path)
		r.must(err)
		if info.Name() != name {
			r.Errorf("%q: stat calls it %q", name, info.Name())
		}
	}
	if got := r.names(dir); !slices.Equal(got, names) {
		r.Errorf("listing has\n%q\nwant\n%q", got, names)
	}
	var left []string
	for i, name := range names {
		if !whole(i) {
			left = append(left, name)
			continue
		}
		path := dir + "/" + name
		r.must(r.Files.Rename(r.ctx, path, dir+"/plain"))
		r.must(r.Files.Rename(r.ctx, dir+"/plain", path))
		r.must(r.Files.Remove(r.ctx, path, false))
		r.must(r.Files.Mkdir(r.ctx, path, 0o755))
		r.put(path+"/inner", name)
		if got := r.names(path); !slices.Equal(got, []string{"inner"}) {
			r.Errorf("%q: holds %q", name, got)
		}
		r.must(r.Files.Remove(r.ctx, path, true))
	}
	r.debris(dir, left...)
	r.must(r.Files.Remove(r.ctx, dir, true))
	r.debris(r.dir)
}
