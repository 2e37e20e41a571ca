package fake

import (
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
