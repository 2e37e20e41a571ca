package command

import (
	"slices"
	"strings"
)

// findArguments are the words of find's expressions that take arguments, by
// the number of them, as the manual of findutils 4.9 has them; those without
// are in findPlain. -newerXY is handled apart.
var findArguments = map[string]int{
	"-amin": 1, "-anewer": 1, "-atime": 1, "-cmin": 1, "-cnewer": 1, "-context": 1, "-ctime": 1, "-fstype": 1,
	"-gid": 1, "-group": 1, "-ilname": 1, "-iname": 1, "-inum": 1, "-ipath": 1, "-iregex": 1, "-iwholename": 1,
	"-links": 1, "-lname": 1, "-maxdepth": 1, "-mindepth": 1, "-mmin": 1, "-mtime": 1, "-name": 1, "-newer": 1,
	"-path": 1, "-perm": 1, "-printf": 1, "-regex": 1, "-regextype": 1, "-samefile": 1, "-size": 1, "-type": 1,
	"-uid": 1, "-used": 1, "-user": 1, "-wholename": 1, "-xtype": 1, "-fls": 1, "-fprint": 1, "-fprint0": 1,
	"-fprintf": 2, "-files0-from": 1, "-D": 1,
}

// findPlain are the words of find's expressions without arguments.
var findPlain = map[string]bool{
	"-a": true, "-and": true, "-o": true, "-or": true, "-not": true, "-true": true, "-false": true, "-daystart": true,
	"-delete": true, "-depth": true, "-d": true, "-empty": true, "-executable": true, "-follow": true,
	"-help": true, "--help": true, "-ignore_readdir_race": true, "-noignore_readdir_race": true, "-ls": true,
	"-mount": true, "-nogroup": true, "-noleaf": true, "-nouser": true, "-nowarn": true, "-print": true,
	"-print0": true, "-prune": true, "-quit": true, "-readable": true, "-version": true, "--version": true,
	"-warn": true, "-writable": true, "-xdev": true, "-H": true, "-L": true, "-P": true, "-O": true,
	"-O1": true, "-O2": true, "-O3": true, "--": true, "-": true,
}

// find handles find: with -exec and its like it runs commands.
func (w *walker) find(inv *invocation, s *scope) {
	w.emit(inv, s)
	words := inv.Words
	for i := 1; i < len(words); i++ {
		v := words[i]
		if !fixed(v) {
			if !operand(v) && !(v.Static && !strings.ContainsAny(v.Value[:1], "-*?[")) {
				w.job.unknown(v.Span, v.Raw+" may tell find to run something")
				return
			}
			continue
		}
		switch v.Value {
		case "-exec", "-execdir", "-ok", "-okdir":
			if i = w.findExec(inv, i, s); i < 0 {
				w.job.unknown(v.Span, v.Value+" lacks its end")
				return
			}
			continue
		}
		n := findArguments[v.Value]
		if len(v.Value) == len("-newerXY") && strings.HasPrefix(v.Value, "-newer") {
			n = 1
		}
		switch {
		case n > 0:
			rest, why := skip(words[i+1:], n)
			if why != "" || len(rest) != len(words)-i-1-n {
				w.job.unknown(v.Span, "the argument of "+v.Value+" decides what find runs")
				return
			}
			i += n
		case strings.HasPrefix(v.Value, "-") && !findPlain[v.Value]:
			w.job.unknown(v.Span, "find's "+v.Value+" is not known")
			return
		}
	}
}

// findExec runs the command behind the -exec that is words[i] and returns
// where it ends, -1 if it does not.
func (w *walker) findExec(inv *invocation, i int, s *scope) int {
	words := inv.Words
	end := i + 1
	for ; end < len(words); end++ {
		v := words[end]
		if fixed(v) && (v.Value == ";" || v.Value == "+" && words[end-1].Value == "{}") {
			break
		}
		if !v.single && !fixed(v) {
			return -1
		}
	}
	if end == len(words) || end == i+1 {
		return -1
	}
	c := *inv
	c.Open = false
	c.stdin, c.body = nil, nil
	if strings.HasSuffix(words[i].Value, "dir") {
		c.Dir = nowhere
	}
	inner := slices.Clone(words[i+1 : end])
	w.filled("find", inner, "{}", false, &c, s)
	return end
}
