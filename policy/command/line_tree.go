package command

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/bulkhead-dev/sandbox/policy"
)

// errDeep is how a [source] stops the parser.
var errDeep = errors.New("constructs are nested too deeply")

// A source hands text to the parser and watches how deep the parser is in its
// own recursion whenever it asks for more, because nothing else bounds it:
// 64 KiB of parentheses would take hundreds of megabytes of stack. Between two
// reads the parser can only go as deep as the bytes of one read let it.
type source struct {
	rest  string
	bound int // frames
}

// sourceChunk is how many bytes a read hands out at most.
const sourceChunk = 1 << 10

// newSource returns a source for text whose reader may be maxFrames calls
// below the caller.
func newSource(text string) *source {
	var pcs [64]uintptr
	depth := 0
	for n := len(pcs); n == len(pcs); depth += n {
		n = runtime.Callers(depth, pcs[:])
	}
	return &source{rest: text, bound: depth + maxFrames}
}

// Read implements [io.Reader].
func (s *source) Read(p []byte) (int, error) {
	if s.rest == "" {
		return 0, io.EOF
	}
	var pc [1]uintptr
	if runtime.Callers(s.bound, pc[:]) > 0 {
		return 0, errDeep
	}
	n := copy(p[:min(len(p), sourceChunk)], s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// tree parses text as bash would. A panic of the parser is an error like any
// other. At most limit statements are read on the outermost level.
func tree(text string, limit int) (f *syntax.File, err error) {
	defer func() {
		if p := recover(); p != nil {
			f, err = nil, fmt.Errorf("the parser failed: %v", p)
		}
	}()
	if n := len(text) - len(strings.TrimRight(text, "\\")); n%2 == 1 {
		return nil, syntax.ParseError{Pos: syntax.NewPos(uint(len(text)-1), 1, 1), Text: "nothing follows the last backslash"}
	}
	parser := syntax.NewParser(syntax.Variant(syntax.LangBash), syntax.KeepComments(true))
	f = &syntax.File{}
	// No range loop: the parser may go on after an error, which a range loop
	// answers with a panic.
	parser.StmtsSeq(newSource(text))(func(s *syntax.Stmt, e error) bool {
		switch {
		case err != nil:
		case e != nil:
			err = e
		case len(f.Stmts) >= limit:
			err = errMany
		default:
			f.Stmts = append(f.Stmts, s)
		}
		return err == nil
	})
	if err != nil {
		return nil, err
	}
	if n := continued(text, f); n != nil {
		return nil, syntax.ParseError{Pos: *n, Text: "a comment that ends with a backslash is read in two ways"}
	}
	return f, nil
}

// continued returns where a comment ends with a backslash. For bash the line
// ends there, for the parser it goes on. Quoted text is not meant.
func continued(text string, f *syntax.File) *syntax.Pos {
	if !strings.Contains(text, "\\\n") || !strings.Contains(text, "#") {
		return nil
	}
	var data [][2]int // the ranges of quoted text, once they are needed
	for start := 0; ; {
		i := strings.Index(text[start:], "\\\n")
		if i < 0 {
			return nil
		}
		line := text[start+strings.LastIndexByte(text[start:start+i], '\n')+1 : start+i]
		at := start + i
		start = at + 2
		hash := strings.IndexByte(line, '#')
		if hash < 0 {
			continue
		}
		if data == nil {
			data = quotedRanges(f)
		}
		if !isWithin(data, at) {
			p := syntax.NewPos(uint(at), 1, 1)
			return &p
		}
	}
}

// isWithin reports whether at lies in one of the ranges, which are in order
// and apart from each other.
func isWithin(ranges [][2]int, at int) bool {
	i, found := slices.BinarySearchFunc(ranges, at, func(r [2]int, at int) int { return cmp.Compare(r[0], at) })
	return found || i > 0 && at < ranges[i-1][1]
}

// quotedRanges returns where text is quoted or in here-documents, in order.
func quotedRanges(f *syntax.File) [][2]int {
	out := [][2]int{{-1, -1}}
	syntax.Walk(f, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.SglQuoted:
			out = append(out, [2]int{int(n.Pos().Offset()), int(n.End().Offset())})
		case *syntax.Redirect:
			if n.Hdoc != nil {
				out = append(out, texts(n.Hdoc.Parts, n.Hdoc.Pos(), n.Hdoc.End())...)
			}
		case *syntax.DblQuoted:
			out = append(out, texts(n.Parts, n.Pos(), n.End())...)
		}
		return true
	})
	slices.SortFunc(out, func(a, b [2]int) int { return cmp.Compare(a[0], b[0]) })
	return out
}

// errMany says that a text has more parts than are judged.
var errMany = fmt.Errorf("more than %d commands", maxCommands)

// unreadable turns an error of [tree] into a refusal.
func unreadable(err error, text string) *policy.Reason {
	var perr syntax.ParseError
	var lerr syntax.LangError
	switch {
	case errors.Is(err, errDeep):
		return refuse(policy.Span{}, errDeep.Error(), "write it in several steps")
	case errors.Is(err, errMany):
		return refuse(policy.Span{}, "the line has "+errMany.Error(), "write it to a file first, then run it")
	case errors.As(err, &perr):
		return refuse(at(perr.Pos, text), "the shell cannot read it: "+perr.Text, "check quotes, brackets and here-documents")
	case errors.As(err, &lerr):
		return refuse(at(lerr.Pos, text), "bash does not know this: "+lerr.Feature, "write it for bash")
	}
	return refuse(policy.Span{}, "the shell cannot read it: "+err.Error(), "check quotes, brackets and here-documents")
}

// at is the byte of text that p names.
func at(p syntax.Pos, text string) policy.Span {
	start := min(int(p.Offset()), len(text))
	return policy.Span{Start: start, End: min(start+1, len(text))}
}

// texts returns what lies between from and to, without the parts that can
// hold commands.
func texts(parts []syntax.WordPart, from, to syntax.Pos) [][2]int {
	var out [][2]int
	start := int(from.Offset())
	for _, p := range parts {
		if _, ok := p.(*syntax.Lit); !ok {
			out = append(out, [2]int{start, int(p.Pos().Offset())})
			start = int(p.End().Offset())
		}
	}
	return append(out, [2]int{start, int(to.Offset())})
}
