package seatbelt

import (
	"regexp"
	"strings"

	sandbox "github.com/bulkhead-dev/sandbox"
)

// Rules that no setting spells.
const (
	RuleUnlisted = "nothing allows it"
	ruleSystem   = "programs and settings of the system"
	ruleTmp      = "the sandbox's own folder for temporary files"
)

// A Judge answers what a profile makes of a path, by the same expressions that
// are written into the profile. It is safe for concurrent use.
type Judge struct {
	r      Rules
	closed []closed
}

type closed struct {
	read   bool
	rule   string
	match  *regexp.Regexp
	except []*regexp.Regexp
}

// NewJudge returns the Judge of r. Its errors are those of [Profile].
func NewJudge(r Rules) (*Judge, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	list, err := r.closures()
	if err != nil {
		return nil, err
	}
	j := &Judge{r: r}
	for _, c := range list {
		out := closed{read: c.read, rule: c.rule}
		if out.match, err = compile(c.match); err != nil {
			return nil, err
		}
		for _, e := range c.except {
			x, err := compile(e)
			if err != nil {
				return nil, err
			}
			out.except = append(out.except, x)
		}
		j.closed = append(j.closed, out)
	}
	return j, nil
}

func compile(expression string) (*regexp.Regexp, error) {
	x, err := regexp.Compile("(?s)^" + expression + "$")
	if err != nil {
		return nil, sandbox.Errorf(sandbox.CodeInternal, op, "the expression %q cannot be read: %w", expression, err)
	}
	return x, nil
}

// Judge says what the profile makes of op on the path p, which is absolute and
// clean and need not exist. HostPath is p: on macOS everything is at its own
// path of the host.
func (j *Judge) Judge(op sandbox.Operation, p string) sandbox.Verdict {
	v := sandbox.Verdict{HostPath: p}
	for _, c := range j.closed {
		if (c.read || op == sandbox.OpWrite) && c.closes(p) {
			v.Rule, v.Builtin = c.rule, true
			return v
		}
	}
	v.Allowed, v.Rule = j.shown(op, p)
	return v
}

func (c closed) closes(p string) bool {
	if !c.match.MatchString(p) {
		return false
	}
	for _, e := range c.except {
		if e.MatchString(p) {
			return false
		}
	}
	return true
}

// shown says which of the allows is about p.
func (j *Judge) shown(op sandbox.Operation, p string) (bool, string) {
	if op == sandbox.OpConnect {
		for _, s := range j.r.Sockets {
			if s == p {
				return true, "filesystem.allowUnixSockets: " + s
			}
		}
		return false, RuleUnlisted
	}
	for _, t := range j.r.Tmp {
		if inside(p, t) {
			return true, ruleTmp
		}
	}
	for _, w := range j.r.Writable {
		if inside(p, w) {
			return true, "writable: " + w
		}
	}
	if op == sandbox.OpWrite {
		if systemWritable(p) {
			return true, ruleSystem
		}
		return false, RuleUnlisted
	}
	for _, r := range j.r.Readable {
		if inside(p, r) {
			return true, "readable: " + r
		}
	}
	if systemReadable(p) {
		return true, ruleSystem
	}
	return false, RuleUnlisted
}

// inside reports whether p is dir or lies below it. Letter case counts: to allow
// it must be the name that the profile has.
func inside(p, dir string) bool {
	return p == dir || strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/")
}

func systemReadable(p string) bool {
	for _, f := range systemFolders {
		if inside(p, f) {
			return true
		}
	}
	for _, f := range systemFiles {
		if p == f {
			return true
		}
	}
	return systemWritable(p)
}

func systemWritable(p string) bool {
	return p == "/dev/null" || p == "/dev/zero" || inside(p, "/dev/fd") || p == "/dev/tty" || ttys.MatchString(p)
}

var ttys = regexp.MustCompile(`^/dev/ttys[0-9]+$`)
