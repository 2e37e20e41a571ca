package command

import "strings"

// A class is a set of the kinds of program that more than one check asks
// about.
type class uint16

const (
	isShell       class = 1 << iota // runs what it reads
	isInterpreter                   // runs code of another language
	isSourcing                      // runs text or a file in this shell
	isDownloader                    // brings bytes from elsewhere
	isDecoder                       // makes text of bytes
	isSetter                        // sets the variables that its arguments name
	isEvaluator                     // evaluates subscripts in its arguments
	isSpeaker                       // its arguments are text for people
	isFeeding                       // runs what its standard input says, later or often
)

// classes returns the classes of programs by base name.
func classes() map[string]class {
	m := map[string]class{}
	for _, c := range []struct {
		class    class
		programs string
	}{
		{isShell, shells}, {isInterpreter, interpreters}, {isSourcing, "eval source ."}, {isFeeding, "at batch parallel"},
		{isDownloader, downloaders}, {isDecoder, decoders},
		{isSetter, setters}, {isEvaluator, evaluators}, {isSpeaker, speakers},
	} {
		for name := range strings.FieldsSeq(c.programs) {
			m[name] |= c.class
		}
	}
	return m
}

// is reports whether the program is of one of the classes.
func (k *call) is(c class) bool { return k.class&c != 0 }

// through reports whether a wrapper of the command is of one of the classes.
func (t *tables) through(k *call, c class) bool {
	for _, w := range k.Wrappers {
		if t.classes[base(w)]&c != 0 {
			return true
		}
	}
	return false
}
