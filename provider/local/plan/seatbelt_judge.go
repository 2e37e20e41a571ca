package plan

import (
	"regexp"
	"slices"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/hostpath"
)

// Names of rules that do not come from a setting.
const (
	RuleUnlisted       = "nothing allows it"
	seatbeltRuleSystem = "programs and settings of the system"
	ruleTmp            = "the sandbox's own folder for temporary files"
)

// A Judge returns the verdict of a profile on a path, using the same
// expressions as the profile. It is safe for concurrent use.
type Judge struct {
	r     Rules
	steps []compiledStep
}

type compiledStep struct {
	closed []closed
	open   opening
}

type closed struct {
	read   bool
	rule   string
	match  *regexp.Regexp
	except []*regexp.Regexp
}

// NewJudge returns the Judge of r. It returns the same errors as [Profile].
func NewJudge(r Rules) (*Judge, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	list, err := r.closures()
	if err != nil {
		return nil, err
	}
	steps, err := r.steps(list)
	if err != nil {
		return nil, err
	}
	j := &Judge{r: r}
	for _, s := range steps {
		out := compiledStep{open: s.open}
		for _, c := range s.closed {
			x, err := c.compiled()
			if err != nil {
				return nil, err
			}
			out.closed = append(out.closed, x)
		}
		j.steps = append(j.steps, out)
	}
	return j, nil
}

func (c seatbeltClosure) compiled() (closed, error) {
	out := closed{read: c.read, rule: c.rule}
	var err error
	if out.match, err = compile(c.match); err != nil {
		return closed{}, err
	}
	for _, e := range c.except {
		x, err := compile(e)
		if err != nil {
			return closed{}, err
		}
		out.except = append(out.except, x)
	}
	return out, nil
}

func compile(expression string) (*regexp.Regexp, error) {
	x, err := regexp.Compile("(?s)^" + expression + "$")
	if err != nil {
		return nil, sandbox.Errorf(sandbox.CodeInternal, seatbeltOp, "the expression %q cannot be read: %w", expression, err)
	}
	return x, nil
}

// Judge returns the verdict of the profile on op at the path p, which is
// absolute and clean and need not exist. HostPath is p, because on macOS a
// sandbox shows each file at its host path.
func (j *Judge) Judge(op sandbox.Operation, p string) sandbox.Verdict {
	v := sandbox.Verdict{HostPath: p}
	var opened string // the rule that opens p inside a deny
	for _, s := range j.steps {
		if rule, ok := s.closes(op, p); ok {
			v.Rule, v.Builtin, opened = rule, true, ""
		}
		if rule, ok := s.opens(op, p); ok {
			v.Rule, v.Builtin, opened = "", false, rule
		}
	}
	if v.Builtin {
		return v
	}
	if v.Allowed, v.Rule = j.shown(op, p); v.Allowed && opened != "" {
		v.Rule = opened
	}
	return v
}

// closes returns the first rule by which s closes p.
func (s compiledStep) closes(op sandbox.Operation, p string) (rule string, ok bool) {
	for _, c := range s.closed {
		if (c.read || op == sandbox.OpWrite) && c.closes(p) {
			return c.rule, true
		}
	}
	return s.open.rule, op == sandbox.OpWrite && s.open.fixed != "" && hostpath.Within(p, s.open.fixed)
}

// opens returns the rule by which s opens p again. It never opens a socket.
func (s compiledStep) opens(op sandbox.Operation, p string) (rule string, ok bool) {
	var list []string
	switch op {
	case sandbox.OpRead:
		list = s.open.read
	case sandbox.OpWrite:
		list = s.open.write
	}
	return s.open.by, slices.ContainsFunc(list, func(dir string) bool { return hostpath.Within(p, dir) })
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

// shown returns whether the profile allows op at p before any deny, and the
// name of the rule that decides.
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
		if hostpath.Within(p, t) {
			return true, ruleTmp
		}
	}
	for _, w := range j.r.Writable {
		if hostpath.Within(p, w) {
			return true, "writable: " + w
		}
	}
	if op == sandbox.OpWrite {
		if systemWritable(p) {
			return true, seatbeltRuleSystem
		}
		return false, RuleUnlisted
	}
	for _, r := range j.r.Readable {
		if hostpath.Within(p, r) {
			return true, "readable: " + r
		}
	}
	if systemReadable(p) {
		return true, seatbeltRuleSystem
	}
	return false, RuleUnlisted
}

func systemReadable(p string) bool {
	for _, f := range systemFolders {
		if hostpath.Within(p, f) {
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
	return p == "/dev/null" || p == "/dev/zero" || hostpath.Within(p, "/dev/fd") || p == "/dev/tty" || ttys.MatchString(p)
}

var ttys = regexp.MustCompile(`^/dev/ttys[0-9]+$`)
