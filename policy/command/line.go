// The line files parse a shell command line and list the programs that it
// would run.
//
// [Parse] reads the text once, as bash does, and finds every simple command:
// in lists, pipelines, compound commands, functions, substitutions and
// here-documents, behind assignments and wrappers such as env, timeout or
// sudo, and in the text given to bash -c, eval, xargs, find -exec and similar
// commands, to any depth. Where the text does not determine what would run,
// Parse reports an [Unknown]; a line without one runs the programs of
// [Line.Commands] and no others. The differential test against bash checks
// that property.
//
// The text itself is never changed or printed anew: the shell gets the bytes
// that were judged.

package command

import (
	"mvdan.cc/sh/v3/syntax"

	"github.com/bulkhead-dev/sandbox/policy"
)

// A Start is where the shell stands when it begins the line.
type lineStart struct {
	Dir  string // working directory, absolute; empty is unknown
	Home string // what ~ and $HOME stand for, absolute; empty is unknown
}

// A Line is text that was understood.
type line struct {
	Text      string
	File      *syntax.File   // the tree of Text itself, not of nested texts
	Commands  []lineCommand  // every simple command, in the order of the text
	Redirects []lineRedirect // every redirection
	Features  []lineFeature  // every construct worth a rule
	Operators []lineOperator // which of ; && || | ` $( ${ >( <( the shell acts upon, in the order of their first place
	Unknowns  []lineUnknown  // where the text does not tell what would run
	Assigns   []lineAssign   // every assignment, those before commands included
	Sets      []lineSet      // variables that are set otherwise: by loops, arithmetic, ${x:=word} and coprocesses
	Values    []lineWord     // what variables may be set to by other means: items of loops and arrays, words in ${x:-word}
}

// A Command is one simple command, wrappers and assignments taken off.
type lineCommand struct {
	Words     []lineWord // the program and its arguments; at least one
	Open      bool       // more arguments follow that the text does not tell (xargs, find -exec {})
	Assigns   []lineAssign
	Redirects []lineRedirect // its own and those of the compound commands around it
	Wrappers  []string       // what was taken off, outermost first: "sudo", "timeout"
	Via       []lineKind     // how the shell comes to it, outermost first; empty for a plain one
	Dir       string         // working directory when it runs if every cd before it worked; empty is unknown
	Unsure    bool           // a cd before it may have failed unnoticed, so that it may run in an earlier directory
	Span      policy.Span    // in Line.Text; for a nested text that of the word that holds it
}

// A Word is one argument.
type lineWord struct {
	Value  string      // what the program gets, when Static; else as much as is known, see Prefix
	Static bool        // the text tells the value; ~ and $HOME count as known when Start tells them
	Prefix string      // what the value begins with when it is not Static
	Glob   bool        // has unquoted *, ? or [, so that names of files may take its place
	Pieces []linePiece // what the text tells of a word that is not Static, behind its first part that is not known
	Raw    string      // as written
	Span   policy.Span // in Line.Text

	single bool // it becomes exactly one word; a Static word without Glob is one anyway
	number bool // it is a decimal number, though perhaps not known which
}

// A Piece is a part of a word between or behind parts that are not known.
type linePiece struct {
	Text string
	Open bool // another part that is not known follows, which may belong to the last name of Text
}

// An Assign is one assignment to a variable.
type lineAssign struct {
	Name  string
	Value lineWord
	Scope lineScope
	Span  policy.Span
}

// A Set is a variable that gets a value by no assignment.
type lineSet struct {
	Name string
	Span policy.Span
}

// A Scope says how far an assignment reaches.
type lineScope string

// The scopes.
const (
	scopeCommand lineScope = "command" // before a command, or by env: for it alone
	scopeShell   lineScope = "shell"   // for the rest of the line and, in a kept shell, beyond
	scopeExport  lineScope = "export"  // as ScopeShell, and for the programs it starts
)

// A Redirect is one redirection.
type lineRedirect struct {
	Op     string   // as written: ">", ">>", "<", "<<<", "<<", ">&"
	Write  bool     // opens its target for writing
	Read   bool     // opens its target for reading
	Target lineWord // a file; of a here-document its delimiter, of >& a descriptor or file
	FD     string   // "2", "{name}" or empty
	Dir    string   // working directory when it is opened; empty is unknown
	Span   policy.Span
}

// A Kind names a construct of the shell.
type lineKind string

// The kinds.
const (
	lineSequence     lineKind = "sequence"             // ; or a new line between commands
	lineAnd          lineKind = "and"                  // &&
	lineOr           lineKind = "or"                   // ||
	linePipe         lineKind = "pipe"                 // | or |&
	lineBackground   lineKind = "background"           // &
	lineSubshell     lineKind = "subshell"             // ( )
	lineBlock        lineKind = "block"                // { }
	lineConditional  lineKind = "conditional"          // if, case
	lineLoop         lineKind = "loop"                 // for, while, until, select
	lineFunction     lineKind = "function"             // a definition
	lineCoprocess    lineKind = "coprocess"            // coproc
	lineSubstitution lineKind = "substitution"         // $( ) or backticks
	processSubst     lineKind = "process-substitution" // <( ) or >( )
	lineExpansion    lineKind = "expansion"            // $x, ${x…}
	lineArithmetic   lineKind = "arithmetic"           // $(( )), (( )), let
	lineTest         lineKind = "test"                 // [[ ]]
	lineHeredoc      lineKind = "heredoc"              // << with a body that is expanded
	heredocQuoted    lineKind = "heredoc-quoted"       // << with a body that is data
	hereString       lineKind = "here-string"          // <<<
	lineRedirection  lineKind = "redirection"          // any other
	globPattern      lineKind = "glob"                 // *, ?, [
	braceExpansion   lineKind = "brace-expansion"      // {a,b}
	ansiQuote        lineKind = "ansi-quote"           // $'…'
	nestedShell      lineKind = "nested-shell"         // text for bash -c
	nestedEval       lineKind = "nested-eval"          // text for eval, trap and the like
	nestedArguments  lineKind = "nested-arguments"     // a command in the arguments of xargs, find -exec
	lineComment      lineKind = "comment"              // a comment
)

// A Feature is one construct in the text.
type lineFeature struct {
	Kind lineKind
	Span policy.Span
}

// An Operator is one of the signs by which a shell does more than start one
// program: ; && || | ` $( ${ >( <(. What is quoted or escaped, so that the shell
// takes it for text, is none.
type lineOperator struct {
	Text  string      // one of the nine
	Count int         // how often it is there, nested texts included
	Span  policy.Span // of the first; in a nested text that of the word that holds it
}

// An Unknown is a place where the text does not tell what would run.
type lineUnknown struct {
	Why  string // for people: "the program's name comes from a variable"
	Span policy.Span
}
