// Package syntax parses the part of the shell's language that tests of
// sandboxes speak: simple commands with assignments and redirections,
// pipelines, lists, groups, functions, if, while, until, for and case, quotes,
// parameters, command substitution, arithmetic and here-documents. There are
// no arrays, no [[, no process substitution and no brace expansion.
//
// The package is pure. A [Parser] hands out one complete command at a time,
// because running it can change how the next one is to be read (aliases).
package syntax

// A List is a sequence of commands.
type List struct{ Items []Item }

// An Item is one command of a list.
type Item struct {
	Cmd        Node
	Background bool
}

// A Node is a command: one of the pointer types below.
type Node interface{ node() }

// An AndOr joins commands with && and ||.
type AndOr struct {
	First Node
	Rest  []Link
}

// A Link is one further command of an [AndOr].
type Link struct {
	And bool // && rather than ||
	Cmd Node
}

// A Pipeline runs commands side by side.
type Pipeline struct {
	Not  bool
	Cmds []Node
}

// A Simple command is a program, builtin or function with arguments.
type Simple struct {
	Assigns   []Assign
	Words     []Word
	Redirects []Redirect
}

// An Assign sets a variable.
type Assign struct {
	Name  string
	Value Word
}

// A Redirect changes a descriptor. Op is one of < > >> >| <& >& <<; for << the
// Target is the text of the here-document.
type Redirect struct {
	FD     int
	Op     string
	Target Word
}

// A Group runs a list in the shell itself, or in one of its own.
type Group struct {
	Sub  bool
	Body *List
}

// An If runs the body of the first clause whose condition holds.
type If struct {
	Clauses []Clause
	Else    *List // or nil
}

// A Clause is a condition and what to do when it holds.
type Clause struct{ Cond, Body *List }

// A Loop repeats while the condition holds, or until it does.
type Loop struct {
	Until bool
	Clause
}

// A For runs its body for each word; without In for each parameter.
type For struct {
	Name  string
	In    bool
	Words []Word
	Body  *List
}

// A Case runs the body of the first arm that matches.
type Case struct {
	Word Word
	Arms []Arm
}

// An Arm is what a [Case] does for some patterns.
type Arm struct {
	Patterns []Word
	Body     *List
}

// A Func defines a function.
type Func struct {
	Name string
	Body Node
}

// A Redirected is a compound command with redirections.
type Redirected struct {
	Cmd       Node
	Redirects []Redirect
}

func (*AndOr) node()      {}
func (*Pipeline) node()   {}
func (*Simple) node()     {}
func (*Group) node()      {}
func (*If) node()         {}
func (*Loop) node()       {}
func (*For) node()        {}
func (*Case) node()       {}
func (*Func) node()       {}
func (*Redirected) node() {}

// A Word is one argument before expansion.
type Word []Part

// A Part is a piece of a word.
type Part struct {
	Kind   Kind
	Quoted bool   // neither split nor a pattern
	Text   string // of a literal; the name of a parameter
	Op     string // of a parameter: "", "len", or what follows the name (":-", "#", "%%"…)
	Arg    Word   // of the operator; what to compute
	Body   *List  // to run and to take the output of
}

// A Kind says what a part is.
type Kind int

// The kinds of parts.
const (
	Literal Kind = iota
	Param
	Output
	Arithmetic
)

// Plain returns the text of a word that is one unquoted literal.
func (w Word) Plain() (string, bool) {
	if len(w) == 1 && w[0].Kind == Literal && !w[0].Quoted {
		return w[0].Text, true
	}
	return "", false
}
