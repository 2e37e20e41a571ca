package fake

import (
	"errors"
	"fmt"
	"strings"

	"github.com/bulkhead-dev/sandbox/provider/fake/memfs"
	"github.com/bulkhead-dev/sandbox/provider/fake/syntax"
)

func (r *interp) redirected(n *syntax.Redirected) flow {
	var f flow
	err := r.with(n.Redirects, func() { f = r.run(n.Cmd) })
	if err != nil {
		r.status = 1
		return r.failed()
	}
	return f
}

// with runs do with changed streams and puts them back. A redirection that
// fails is complained about and returned, and do does not run.
func (r *interp) with(list []syntax.Redirect, do func()) error {
	before := r.io
	var opened []*share
	defer func() {
		r.io = before
		for _, s := range opened {
			s.release()
		}
	}()
	for _, redirect := range list {
		s, err := r.redirect(redirect)
		if s != nil {
			opened = append(opened, s)
		}
		if err != nil {
			r.complain("%v", err)
			return err
		}
	}
	do()
	return nil
}

// redirect changes r.io. What it opened is to be released at the end.
func (r *interp) redirect(d syntax.Redirect) (*share, error) {
	if d.Op == "<<" {
		text, err := r.single(d.Target)
		r.io.in = strings.NewReader(text)
		return nil, err
	}
	target, err := r.single(d.Target)
	if err != nil {
		return nil, err
	}
	if d.Op == "<&" || d.Op == ">&" {
		return nil, r.duplicate(d.FD, target)
	}
	flags := memfs.Write | memfs.Create | memfs.Truncate
	switch d.Op {
	case "<":
		flags = 0
	case ">>":
		flags = memfs.Append | memfs.Create
	case ">":
		if info, err := r.view().Stat(r.path(target)); r.option("C") && err == nil && info.Mode().IsRegular() {
			return nil, fmt.Errorf("%s: cannot overwrite existing file", target)
		}
	}
	h, err := r.view().Open(r.path(target), flags, 0o666&^r.umask)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", target, err)
	}
	f := newFileEnd(r.p, h)
	switch d.FD {
	case 0:
		r.io.in = f
	case 1:
		r.io.out = f
	case 2:
		r.io.err = f
	default:
		return f.share, errors.New("the fake has the descriptors 0, 1 and 2")
	}
	return f.share, nil
}

func (r *interp) duplicate(fd int, target string) error {
	switch {
	case fd == 1 && target == "2":
		r.io.out = r.io.err
	case fd == 2 && target == "1":
		r.io.err = r.io.out
	case fd == 0 && target == "-":
		r.io.in = &emptyInput{}
	case target == fmt.Sprint(fd):
	default:
		return fmt.Errorf("%s: bad file descriptor", target)
	}
	return nil
}
