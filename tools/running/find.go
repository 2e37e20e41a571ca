package running

import (
	"errors"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
)

var errUnattended = errors.New("its client went, and no other has followed it in time")

// maxTag and maxArgs are the most bytes of a tag, and of arguments that are kept
// to be shown.
const (
	maxTag  = 128
	maxArgs = 16 << 10
)

// checkTag refuses what a tag cannot be. Digits alone would be a process number.
func checkTag(tag string) error {
	message := ""
	switch {
	case len(tag) > maxTag:
		message = "is longer than " + strconv.Itoa(maxTag) + " bytes"
	case !utf8.ValidString(tag) || strings.ContainsFunc(tag, func(r rune) bool { return !unicode.IsPrint(r) }):
		message = "has characters that cannot be shown"
	case tag != "" && digits(tag):
		message = "has nothing but digits, as the number of a process"
	default:
		return nil
	}
	return &sandbox.Error{Code: sandbox.CodeValidation, Op: "start", Field: "tag", Message: message}
}

func digits(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < '0' || r > '9' })
}

// argsOf returns the arguments of a command that are kept, and their length.
func argsOf(c sandbox.Command) (args []string, length int64) {
	length = int64(len(c.Dir))
	for _, a := range c.Args {
		length += int64(len(a)) + 16 // the string itself
	}
	if length > maxArgs {
		return nil, int64(len(c.Dir))
	}
	return append([]string(nil), c.Args...), length
}

// tagged reports whether a command runs that has the tag. The lock is held.
func (s *session) tagged(tag string) bool {
	for _, c := range s.commands {
		if c.tag == tag && !c.over() {
			return true
		}
	}
	return false
}

// find returns a command of a session: the one with the id ref; or with the
// process number or the tag ref, of several the one that runs, or that ended
// last.
func (h *Supervisor) find(op string, who config.Who, ref string) (*command, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	have := h.sessions[who]
	if have == nil {
		return nil, notFound(op, "command", termsafe.Line(ref))
	}
	if c := have.commands[ref]; c != nil {
		return c, nil
	}
	is := func(c *command) bool { return ref != "" && c.tag == ref }
	if number, err := strconv.Atoi(ref); err == nil && digits(ref) {
		is = func(c *command) bool { return number > 0 && c.pid == number }
	}
	var found *command
	for _, c := range have.commands {
		switch {
		case !is(c):
		case found == nil, !c.over() && found.over(), c.over() && found.over() && c.ended.After(found.ended):
			found = c
		case !c.over() && !found.over():
			// A session whose commands run in two sandboxes.
			return nil, &sandbox.Error{
				Code: sandbox.CodeBusy, Op: op, Field: "pid", Resource: termsafe.Line(ref), Message: "several commands of this session have that number",
				Hint: "name the command by its id",
			}
		}
	}
	if found == nil {
		return nil, notFound(op, "command", termsafe.Line(ref))
	}
	return found, nil
}

// Find returns a command of a session by its id, its process number in digits,
// or its tag. Of several with a number or a tag it is the one that runs, or that
// ended last. All methods that take the id of a command take these, too.
func (h *Supervisor) Find(who config.Who, ref string) (Status, error) {
	c, err := h.find("find", who, ref)
	if err != nil {
		return Status{}, err
	}
	return c.now(), nil
}
