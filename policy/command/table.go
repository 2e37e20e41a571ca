package command

import (
	"strings"

	"github.com/bulkhead-dev/sandbox/policy"
	"github.com/bulkhead-dev/sandbox/policy/command/line"
)

// A row is one entry of a check's table about one simple command. All
// conditions that are set have to hold.
type row struct {
	rule     string           // its name in reasons and documents
	programs string           // base names, separated by blanks; one may end in *
	sub      string           // the first operands, one of the alternatives separated by |
	options  string           // one of these options is given
	operand  string           // one of the operands matches one of these patterns, * for any text
	path     string           // as operand, the operands resolved against the working directory
	argument string           // as operand, every word behind the program
	when     func(*call) bool // a condition that patterns cannot tell
	severity policy.Severity
	mark     mark
	message  string // what it does; the program's name is put in front
	hint     string // what to do instead
}

// A table finds the rows that are about a program.
type table struct {
	check  string
	byName map[string][]*row
	starry []*row // whose program ends in *
}

// tables are all tables of rows, compiled.
type tables struct {
	grammars    map[string]grammar
	pattern     table
	interpreter table
	variables   []variableEntry
	removers    []remover
	roles       map[string]fileRole
}

func newTables() *tables {
	return &tables{
		grammars:    grammars(),
		pattern:     compileTable("pattern", patternRows()),
		interpreter: compileTable("interpreter", interpreterRows()),
		variables:   variableEntries(),
		removers:    removers(),
		roles:       fileRoles(),
	}
}

func compileTable(check string, rows []row) table {
	t := table{check: check, byName: map[string][]*row{}}
	for i := range rows {
		for name := range strings.FieldsSeq(rows[i].programs) {
			if strings.HasSuffix(name, "*") {
				t.starry = append(t.starry, &rows[i])
				continue
			}
			t.byName[name] = append(t.byName[name], &rows[i])
		}
	}
	return t
}

// A call is one simple command as the checks look at it.
type call struct {
	*line.Command
	program string // base name of the program; empty when the text does not tell
	family  string // program without the version at its end: python for python3.11
	arguments
}

func (t *tables) call(c *line.Command) call {
	k := call{Command: c}
	if w := c.Words[0]; w.Static && !w.Glob {
		k.program = base(w.Value)
		k.family = strings.TrimRight(k.program, "0123456789.")
	}
	g, ok := t.grammars[k.program]
	if !ok {
		g = t.grammars[k.family]
	}
	k.arguments = g.parse(c.Words[1:], c.Open)
	return k
}

// isOne reports whether the program is one of those, separated by blanks.
func (k *call) isOne(programs string) bool {
	return k.program != "" && (hasWord(programs, k.program) || k.family != "" && hasWord(programs, k.family))
}

// find reports the rows of the table that the command matches.
func (t *table) find(k *call, report func(finding)) {
	if k.program == "" {
		return
	}
	t.try(t.byName[k.program], k, report)
	if k.family != k.program {
		t.try(t.byName[k.family], k, report)
	}
	for _, r := range t.starry {
		if r.programs == "*" && k.isOne(speakers) {
			continue
		}
		if anyWild(r.programs, k.program) {
			t.try([]*row{r}, k, report)
		}
	}
}

// speakers are programs whose arguments are text for people.
const speakers = "echo printf : true false"

// wrapper reports the rows about a program of which nothing is known but that
// it was taken off a command.
func (t *table) wrapper(name string, c *line.Command, report func(finding)) {
	name = base(name)
	for _, r := range t.byName[name] {
		if r.sub+r.options+r.operand+r.path+r.argument != "" || r.when != nil {
			continue
		}
		report(finding{
			check: t.check, rule: r.rule, severity: r.severity, mark: r.mark,
			message: name + " " + r.message, hint: r.hint, span: c.Span,
		})
	}
}

func (t *table) try(rows []*row, k *call, report func(finding)) {
	for _, r := range rows {
		if span, ok := r.match(k); ok {
			report(finding{
				check: t.check, rule: r.rule, severity: r.severity, mark: r.mark,
				message: k.program + " " + r.message, hint: r.hint, span: span,
			})
		}
	}
}

// match reports whether the command meets every condition of the row, and
// which part of the text to show.
func (r *row) match(k *call) (policy.Span, bool) {
	span := k.Span
	if r.sub != "" && !k.hasSub(r.sub) || r.when != nil && !r.when(k) {
		return span, false
	}
	if r.options != "" {
		if _, ok := k.given(r.options); !ok {
			return span, false
		}
	}
	for _, cond := range []struct {
		patterns string
		words    []line.Word
		resolve  bool
	}{{r.operand, k.operands, false}, {r.path, k.operands, true}, {r.argument, k.all, false}} {
		if cond.patterns == "" {
			continue
		}
		w, ok := k.which(cond.patterns, cond.words, cond.resolve)
		if !ok {
			return span, false
		}
		span = w.Span
	}
	return span, true
}

// which returns the first of the words that matches one of the patterns.
func (k *call) which(patterns string, words []line.Word, resolve bool) (line.Word, bool) {
	for _, w := range words {
		v := w.Value
		if !w.Static {
			v = w.Prefix
		}
		if resolve {
			v = resolvePath(k.Dir, v)
		}
		if anyWild(patterns, v) {
			return w, true
		}
	}
	return line.Word{}, false
}

// hasSub reports whether the operands begin with one of the alternatives.
func (k *call) hasSub(alternatives string) bool {
	for alt := range strings.SplitSeq(alternatives, "|") {
		i := 0
		ok := true
		for w := range strings.FieldsSeq(alt) {
			if i >= len(k.operands) || !k.operands[i].Static || k.operands[i].Value != w {
				ok = false
				break
			}
			i++
		}
		if ok {
			return true
		}
	}
	return false
}
