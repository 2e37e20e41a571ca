package command

import (
	"slices"
	"strings"
)

// A scope is how the shell stands at one point of the text. A subshell and a
// branch get a copy; slices in it are never written to in place.
type scope struct {
	dir    string // working directory if every cd worked; empty is unknown
	unsure bool   // a cd may have failed unnoticed
	prev   string // OLDPWD; empty is unknown
	stack  []string
	failed *scope // how it stands if the last command failed; nil is just so
	gone   bool   // the shell has left this list: exit, return, exec
	bound  *binding
	via    []lineKind
	around []lineRedirect // of the compound commands around this point
}

// A binding is a variable that surely has been set at this point.
type binding struct {
	name   string
	value  string
	static bool // value is its value, if it is never set elsewhere
	number bool // it is a decimal number, if it is never set to anything else
	next   *binding
	size   int
}

// lookup returns the newest binding of name, or nil.
func (s *scope) lookup(name string) *binding {
	for b := s.bound; b != nil; b = b.next {
		if b.name == name {
			return b
		}
	}
	return nil
}

// bind notes that name has been set to value.
func (s *scope) bind(name string, value lineWord) {
	b := &binding{name: name, next: s.bound, size: 1, number: value.number || value.Static && decimal(value.Value)}
	if value.Static && !value.Glob && len(value.Value) <= maxValue {
		b.static, b.value = true, value.Value
	}
	if s.bound != nil {
		b.size += s.bound.size
	}
	if b.size <= maxBindings && (b.static || b.number) {
		s.bound = b
	}
}

// within returns a copy of s for what stands inside a construct of kind k.
func (s *scope) within(k lineKind) *scope {
	c := *s
	if n := len(s.via); k != linePipe || n == 0 || s.via[n-1] != linePipe {
		// The stages of one pipeline stand side by side, not in each other.
		c.via = append(slices.Clip(s.via), k)
	}
	return &c
}

// settle says that what comes next runs whether or not the last command worked.
func (s *scope) settle() {
	if f := s.failed; f != nil {
		s.failed = nil
		s.join(f, true)
	}
}

// succeeded says that what comes next runs only if the last command worked.
func (s *scope) succeeded() { s.failed = nil }

// broke says that what comes next runs only if the last command failed.
func (s *scope) broke() {
	if f := s.failed; f != nil {
		s.inner(f)
		s.failed = nil
	}
}

// failing returns how the shell stands if the last command failed.
func (s *scope) failing() *scope {
	if s.failed != nil {
		return s.failed
	}
	c := *s
	return &c
}

// same reports whether s and other stand alike.
func (s *scope) same(other *scope) bool {
	return s.dir == other.dir && s.unsure == other.unsure && s.prev == other.prev && s.gone == other.gone &&
		s.bound == other.bound && slices.Equal(s.stack, other.stack)
}

// join makes s what is known when either s or other may be how it stands.
// Unless keep is set, a directory in which they differ is unknown.
func (s *scope) join(other *scope, keep bool) {
	s.settle()
	other.settle()
	switch {
	case s.gone && !other.gone:
		via, around := s.via, s.around
		*s = *other
		s.via, s.around = via, around
		return
	case other.gone:
		return
	}
	s.unsure = s.unsure || other.unsure
	if s.dir != other.dir {
		s.unsure = true
		if !keep {
			s.dir = ""
		}
	}
	if s.prev != other.prev {
		s.prev = ""
	}
	if !slices.Equal(s.stack, other.stack) {
		s.stack = nil
	}
	s.bound = common(s.bound, other.bound)
}

// common returns the bindings that a and b share.
func common(a, b *binding) *binding {
	for a != nil && b != nil && a != b {
		if a.size >= b.size {
			a = a.next
		} else {
			b = b.next
		}
	}
	if a != b {
		return nil
	}
	return a
}

// inner returns the scope that goes on outside of a construct whose end is
// how c stands.
func (s *scope) inner(c *scope) {
	via, around := s.via, s.around
	*s = *c
	s.via, s.around = via, around
}

// adrift forgets where the shell is.
func (s *scope) adrift() {
	s.dir, s.prev, s.stack, s.failed, s.unsure = "", "", nil, nil, true
}

// A ledger holds what the whole line, nested texts included, does to
// variables and functions, and what a walk has relied on. A variable counts
// as known only while the whole line bears it out.
type ledger struct {
	set       map[string]int  // how often a variable is set
	odd       map[string]bool // it is set to what may be no number
	functions map[string]bool
	claims    map[claim]bool
	cds       int     // how often the directory was changed so far
	roaming   []claim // loops that change the directory
}

// A claim is something that a walk takes for granted.
type claim struct {
	name   string
	number bool // only that it is always a number
	loop   int  // for no variable: the loop that begins before this byte leaves the directory alone
}

// broken returns the claims that do not hold.
func (l *ledger) broken() []claim {
	out := l.roaming
	for c := range l.claims {
		if c.number && l.odd[c.name] || !c.number && l.set[c.name] > given(c.name) {
			out = append(out, c)
		}
	}
	return out
}

// given is how often a variable may be set for its value to be certain: those
// that the shell finds set must not be set at all.
func given(name string) int {
	switch name {
	case "HOME", "IFS", "CDPATH", "PWD", "OLDPWD":
		return 0
	}
	return 1
}

// dynamic reports whether bash itself sets the variable, or does not keep what
// it is set to, so that an assignment tells nothing.
func dynamic(name string) bool {
	switch name {
	case "_", "RANDOM", "SRANDOM", "SECONDS", "LINENO", "HISTCMD", "OPTIND", "OPTARG", "OPTERR", "REPLY", "MAPFILE", "COPROC",
		"GROUPS", "UID", "EUID", "PPID", "FUNCNAME", "DIRSTACK", "PIPESTATUS", "COLUMNS", "LINES", "EPOCHSECONDS", "EPOCHREALTIME",
		"COMP_WORDS", "COMP_LINE", "COMP_CWORD", "COMP_POINT", "COMPREPLY", "READLINE_LINE", "READLINE_POINT", "HOSTNAME", "SHLVL":
		return true
	}
	return strings.HasPrefix(name, "BASH")
}

// assigned notes that name is set to value.
func (l *ledger) assigned(name string, value lineWord) {
	if l.set == nil {
		l.set, l.odd = map[string]int{}, map[string]bool{}
	}
	l.set[name]++
	if !value.number && !(value.Static && decimal(value.Value)) {
		l.odd[name] = true
	}
}

// decimal reports whether s is a plain decimal number.
func decimal(s string) bool {
	if len(s) > 1 && s[0] == '-' {
		s = s[1:]
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// identifier reports whether s can name a variable.
func identifier(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !(c == '_' || c|0x20 >= 'a' && c|0x20 <= 'z' || i > 0 && c >= '0' && c <= '9') {
			return false
		}
	}
	return s != ""
}
