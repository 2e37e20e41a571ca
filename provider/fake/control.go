package fake

import "github.com/bulkhead-dev/sandbox/provider/fake/syntax"

func (r *interp) guard(do func() flow) flow {
	r.guarded++
	defer func() { r.guarded-- }()
	return do()
}

func (r *interp) andOr(n *syntax.AndOr) flow {
	last := len(n.Rest) - 1
	f := r.guard(func() flow { return r.run(n.First) })
	for i, link := range n.Rest {
		if f != flowNext {
			return f
		}
		if (r.status == 0) != link.And {
			continue
		}
		if i == last {
			return r.run(link.Cmd)
		}
		f = r.guard(func() flow { return r.run(link.Cmd) })
	}
	return f
}

func (r *interp) pipeline(n *syntax.Pipeline) flow {
	if len(n.Cmds) == 1 {
		f := r.guard(func() flow { return r.run(n.Cmds[0]) })
		if f == flowNext {
			r.status = truth(r.status != 0)
		}
		return f
	}
	var procs []*Proc
	in := r.io.in
	var from *pipe
	for i, cmd := range n.Cmds {
		s := stdio{in, r.io.out, r.io.err}
		var to *pipe
		if i < len(n.Cmds)-1 {
			to = newPipe()
			s.out = &pipeWriter{r.p, to}
		}
		procs = append(procs, r.child(s, func(c *interp) flow { return c.run(cmd) }))
		if from != nil {
			from.readers.release()
		}
		if to != nil {
			to.writers.release()
			in = &pipeReader{r.p, to}
		}
		from = to
	}
	for _, p := range procs {
		r.status = r.p.Join(p)
	}
	if n.Not {
		r.status = truth(r.status != 0)
		return flowNext
	}
	return r.failed()
}

func truth(b bool) int {
	if b {
		return 0
	}
	return 1
}

// child runs do in a shell of its own.
func (r *interp) child(s stdio, do func(*interp) flow) *Proc {
	state, guarded, self := r.clone(), r.guarded, r.self
	var ignored []string
	for signal, action := range r.traps {
		if action == "" {
			ignored = append(ignored, signal)
		}
	}
	return r.p.spawn(r.p.Args, s, func(p *Proc) int {
		c := newInterp(p, state)
		c.guarded, c.self = guarded, self
		for _, signal := range ignored {
			c.traps[signal] = ""
		}
		return c.finish(do(c))
	})
}

// finish ends a shell: its trap for the end runs.
func (r *interp) finish(flow) int {
	if action := r.traps["EXIT"]; action != "" {
		delete(r.traps, "EXIT")
		status := r.status
		r.calls++
		if r.text(action) != flowExit {
			r.status = status
		}
	}
	return r.status
}

func (r *interp) background(n syntax.Node) {
	s := r.io
	s.in = &emptyInput{}
	p := r.child(s, func(c *interp) flow {
		c.guarded = 0
		return c.run(n)
	})
	r.jobs = append(r.jobs, p)
	r.last, r.status = p.pid, 0
}

func (r *interp) ifs(n *syntax.If) flow {
	for _, c := range n.Clauses {
		if f := r.guard(func() flow { return r.list(c.Cond) }); f != flowNext {
			return f
		}
		if r.status == 0 {
			return r.list(c.Body)
		}
	}
	r.status = 0
	if n.Else != nil {
		return r.list(n.Else)
	}
	return flowNext
}

// round runs the body of a loop once and reports whether the loop goes on.
func (r *interp) round(body *syntax.List) (bool, flow) {
	f := r.list(body)
	if f != flowLoop {
		return f == flowNext, f
	}
	if r.breaks--; r.breaks > 0 {
		return false, flowLoop
	}
	return r.again, flowNext
}

func (r *interp) loop(n *syntax.Loop) flow {
	r.loops++
	defer func() { r.loops-- }()
	status := 0
	for {
		r.p.checkpoint()
		if f := r.guard(func() flow { return r.list(n.Cond) }); f != flowNext {
			return f
		}
		if (r.status == 0) == n.Until {
			r.status = status
			return flowNext
		}
		on, f := r.round(n.Body)
		if !on {
			return f
		}
		status = r.status
	}
}

func (r *interp) fors(n *syntax.For) flow {
	r.loops++
	defer func() { r.loops-- }()
	words := r.params
	if n.In {
		var err error
		if words, err = r.fields(n.Words); err != nil {
			return r.expansionFailed(err)
		}
	}
	r.status = 0
	for _, w := range words {
		r.p.checkpoint()
		if !r.set(n.Name, w) {
			r.status = 1
			return flowNext
		}
		if on, f := r.round(n.Body); !on {
			return f
		}
	}
	return flowNext
}

func (r *interp) cases(n *syntax.Case) flow {
	word, err := r.single(n.Word)
	if err != nil {
		return r.expansionFailed(err)
	}
	r.status = 0
	for _, arm := range n.Arms {
		for _, pattern := range arm.Patterns {
			p, err := r.pattern(pattern)
			if err != nil {
				return r.expansionFailed(err)
			}
			if matchPattern(p, word) {
				return r.list(arm.Body)
			}
		}
	}
	return flowNext
}
