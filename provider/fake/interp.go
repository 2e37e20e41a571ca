package fake

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/bulkhead-dev/sandbox/provider/fake/memfs"
	"github.com/bulkhead-dev/sandbox/provider/fake/syntax"
)

// A shellState is what a shell keeps from one line to the next.
type shellState struct {
	vars    map[string]variable
	funcs   map[string]syntax.Node
	aliases map[string]string
	options string // letters, sorted
	params  []string
	name    string // $0
	dir     string
	umask   fs.FileMode
	status  int // of the last command
	last    int // id of the last background process
}

type variable struct {
	value            string
	exported, locked bool
}

func (s shellState) clone() shellState {
	s.vars, s.funcs, s.aliases = maps.Clone(s.vars), maps.Clone(s.funcs), maps.Clone(s.aliases)
	s.params = slices.Clone(s.params)
	return s
}

// newShellState is that of a shell which starts with env in dir.
func newShellState(env map[string]string, dir string) shellState {
	s := shellState{
		vars: map[string]variable{}, funcs: map[string]syntax.Node{}, aliases: map[string]string{},
		name: "sh", dir: dir, umask: 0o022,
	}
	for k, v := range env {
		s.vars[k] = variable{value: v, exported: true}
	}
	return s
}

// An interp is a shell in the process p.
type interp struct {
	shellState
	p       *Proc
	io      stdio
	traps   map[string]string // what to do by signal; EXIT too
	pending <-chan string     // signals that were trapped and have come
	due     []string          // of these, taken and not acted on
	jobs    []*Proc
	calls   int  // functions and sourced texts that run
	loops   int  // that run in this function
	guarded int  // conditions around: set -e does not act
	breaks  int  // loops that are still to be left
	again   bool // the last of these goes on with its next round
	self    int  // what $$ says
	lenient bool // a text that makes no sense does not end the shell
}

func newInterp(p *Proc, s shellState) *interp {
	return &interp{shellState: s, p: p, io: p.stdio(), traps: map[string]string{}, self: p.pid}
}

// A flow says how control goes on after a command.
type flow int

const (
	flowNext   flow = iota
	flowLoop        // to a loop: see breaks
	flowReturn      // out of a function
	flowExit        // out of the shell
)

// maxCalls bounds the recursion of functions.
const maxCalls = 500

// text runs a text command by command, as a shell reads it.
func (r *interp) text(src string) flow {
	parser := syntax.New(src, func(name string) (string, bool) { a, ok := r.aliases[name]; return a, ok })
	for {
		list, err := parser.Next()
		if err != nil {
			r.complain("%v", err)
			r.status = 2
			if r.calls > 0 || r.lenient {
				return flowNext // the text alone is at fault
			}
			return flowExit
		}
		if list == nil {
			return flowNext
		}
		if f := r.list(list); f != flowNext {
			return f
		}
	}
}

func (r *interp) complain(format string, args ...any) {
	fmt.Fprintf(r.io.err, "%s: %s\n", r.name, fmt.Sprintf(format, args...))
}

func (r *interp) option(letter string) bool { return strings.Contains(r.options, letter) }

func (r *interp) set(name, value string) bool {
	v := r.vars[name]
	if v.locked {
		r.complain("%s: readonly variable", name)
		return false
	}
	v.value = value
	v.exported = v.exported || r.option("a")
	r.vars[name] = v
	return true
}

// environ is what programs started now get.
func (r *interp) environ() map[string]string {
	env := map[string]string{}
	for k, v := range r.vars {
		if v.exported {
			env[k] = v.value
		}
	}
	return env
}

func (r *interp) list(l *syntax.List) flow {
	for _, item := range l.Items {
		r.p.checkpoint()
		var f flow
		if item.Background {
			r.background(item.Cmd)
		} else {
			f = r.run(item.Cmd)
		}
		if f == flowNext {
			f = r.runTraps()
		}
		if f != flowNext {
			return f
		}
	}
	return flowNext
}

// failed applies set -e to a command that has just ended.
func (r *interp) failed() flow {
	if r.status != 0 && r.option("e") && r.guarded == 0 {
		return flowExit
	}
	return flowNext
}

func (r *interp) run(n syntax.Node) flow {
	switch n := n.(type) {
	case *syntax.Simple:
		return r.simple(n)
	case *syntax.AndOr:
		return r.andOr(n)
	case *syntax.Pipeline:
		return r.pipeline(n)
	case *syntax.Group:
		if !n.Sub {
			return r.list(n.Body)
		}
		r.status = r.p.Join(r.child(r.io, func(c *interp) flow { return c.list(n.Body) }))
		return r.failed()
	case *syntax.If:
		return r.ifs(n)
	case *syntax.Loop:
		return r.loop(n)
	case *syntax.For:
		return r.fors(n)
	case *syntax.Case:
		return r.cases(n)
	case *syntax.Func:
		r.funcs[n.Name] = n.Body
		r.status = 0
		return flowNext
	case *syntax.Redirected:
		return r.redirected(n)
	}
	panic(fmt.Sprintf("a node of type %T", n))
}

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

func (r *interp) view() memfs.View { return r.p.Files() }

func (r *interp) path(name string) string {
	if strings.HasPrefix(name, "/") {
		return name
	}
	if name == "" {
		return ""
	}
	return r.dir + "/" + name
}
