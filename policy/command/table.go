package command

import (
	"slices"
	"strings"
	"sync"

	"github.com/bulkhead-dev/sandbox/policy"
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

	// What it says, cut into what is compared: by the first command that it is
	// about, because most calls of the program judge one or two.
	compile                    sync.Once
	operands, paths, arguments globs
	subs                       [][]string
}

// A table finds the rows that are about a program.
type table struct {
	check  string
	byName map[string][]*row
	starry []starryRow // whose program ends in *
}

type starryRow struct {
	programs globs
	any      bool // * alone
	*row
}

// tables are all tables of rows, each found by the name of a program.
type tables struct {
	grammars    map[string]grammar
	pattern     table
	interpreter table
	variables   variableTable
	safe        nameSet // variables that rules look past
	devices     globs
	places      *mapOfPlaces
	removers    map[string]*remover
	classes     map[string]class
	roles       map[string]*fileRole
}

// builtin are the tables, which are the same for every policy and never
// change.
var builtin = sync.OnceValue(newTables)

// Prepare builds what all policies share, so that the first [New] need not. A
// program that is going to judge a command may call it beside other work.
func Prepare() { builtin() }

func newTables() *tables {
	return &tables{
		grammars:    grammars(),
		pattern:     compileTable("pattern", patternRows()),
		interpreter: compileTable("interpreter", append(interpreterRows(), runnerRows()...)),
		variables:   newVariableTable(),
		safe:        newNameSet(safeVariables),
		devices:     newGlobs(devices),
		places:      newMapOfPlaces(),
		removers:    removersByName(),
		classes:     classes(),
		roles:       fileRoles(),
	}
}

func compileTable(check string, rows []row) table {
	// A map that grows would cost as much as the rest of this function, and most
	// programs have one row.
	t := table{check: check, byName: make(map[string][]*row, 3*len(rows))}
	single := make([]*row, 0, 3*len(rows))
	for i := range rows {
		for name := range strings.FieldsSeq(rows[i].programs) {
			if strings.HasSuffix(name, "*") {
				t.starry = append(t.starry, starryRow{newGlobs(name), name == "*", &rows[i]})
				continue
			}
			if t.byName[name] != nil {
				t.byName[name] = append(t.byName[name], &rows[i])
				continue
			}
			single = append(single, &rows[i])
			t.byName[name] = single[len(single)-1 : len(single) : len(single)]
		}
	}
	return t
}

// A call is one simple command as the checks look at it.
type call struct {
	*lineCommand
	program string // base name of the program; empty when the text does not tell
	family  string // program without the version at its end: python for python3.11
	class   class
	whole   string // the line
	arguments
}

func (t *tables) call(c *lineCommand) call {
	k := call{lineCommand: c}
	if w := c.Words[0]; w.Static && !w.Glob {
		k.program = base(w.Value)
		k.family = strings.TrimRight(k.program, "0123456789.")
	}
	k.class = t.classes[k.program]
	if k.family != "" {
		k.class |= t.classes[k.family]
	}
	g, ok := t.grammars[k.program]
	if !ok {
		g = t.grammars[k.family]
	}
	k.arguments = g.parse(c.Words[1:], c.Open)
	return k
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
	for i := range t.starry {
		r := &t.starry[i]
		if r.any && k.is(isSpeaker) || !r.programs.match(k.program) {
			continue
		}
		t.report(r.row, k, report)
	}
}

// speakers are programs whose arguments are text for people.
const speakers = "echo printf : true false"

// wrapper reports the rows about a program of which nothing is known but that
// it was taken off a command.
func (t *table) wrapper(name string, c *lineCommand, report func(finding)) {
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
		t.report(r, k, report)
	}
}

func (t *table) report(r *row, k *call, report func(finding)) {
	if span, ok := r.match(k); ok {
		report(finding{
			check: t.check, rule: r.rule, severity: r.severity, mark: r.mark,
			message: k.program + " " + r.message, hint: r.hint, span: span,
		})
	}
}

// match reports whether the command meets every condition of the row, and
// which part of the text to show.
func (r *row) match(k *call) (policy.Span, bool) {
	span := k.Span
	r.compile.Do(r.cut)
	if len(r.subs) > 0 && !k.hasSub(r.subs) || r.when != nil && !r.when(k) {
		return span, false
	}
	if r.options != "" {
		if _, ok := k.given(r.options); !ok {
			return span, false
		}
	}
	ok := k.which(r.operands, k.operands, false, &span) &&
		k.which(r.paths, k.operands, true, &span) &&
		k.which(r.arguments, k.all, false, &span)
	return span, ok
}

// cut cuts what the row says into what is compared.
func (r *row) cut() {
	r.operands, r.paths, r.arguments = newGlobs(r.operand), newGlobs(r.path), newGlobs(r.argument)
	if r.sub == "" {
		return
	}
	for alternative := range strings.SplitSeq(r.sub, "|") {
		r.subs = append(r.subs, strings.Fields(alternative))
	}
}

// which reports whether there is no condition, or one of the words matches;
// the first that does is where to look.
func (k *call) which(patterns globs, words []lineWord, resolve bool, span *policy.Span) bool {
	if len(patterns) == 0 {
		return true
	}
	for i := range words {
		w := &words[i]
		v := w.Value
		if !w.Static {
			v = w.Prefix
		}
		if resolve {
			v = resolvePath(k.Dir, v)
		}
		if patterns.match(v) {
			*span = w.Span
			return true
		}
	}
	return false
}

// hasSub reports whether the operands begin with one of the alternatives.
func (k *call) hasSub(alternatives [][]string) bool {
	return slices.ContainsFunc(alternatives, func(words []string) bool {
		if len(words) > len(k.operands) {
			return false
		}
		for i, w := range words {
			if o := &k.operands[i]; !o.Static || o.Value != w {
				return false
			}
		}
		return true
	})
}
