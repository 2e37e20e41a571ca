// The permrules files read permission rules as agents on the host keep them,
// such as WebFetch(domain:example.com), Read(~/x/**), Edit(/src/**) or
// Bash(npm run test:*), and translate them into settings.
//
// Nothing is dropped silently. What an allow cannot open is a [Notice]. A deny
// that cannot be enforced is an error, as is an ask that would be lost, since
// its author relies on it.

package config

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	sandbox "github.com/bulkhead-dev/sandbox"
)

// Lists are the settings that rules become, by their names there.
type permrulesLists struct {
	AllowedDomains, DeniedDomains              []permrulesValue
	AllowRead, DenyRead, AllowWrite, DenyWrite []permrulesValue
	AllowCommands, BlockCommands               []permrulesValue
	Notices                                    []permrulesNotice
}

// A Value is one item of a list.
type permrulesValue struct {
	Text string
	From string // the rule that it comes from: "allow[2]"
}

// A Notice says what one rule does not do.
type permrulesNotice struct {
	From string // "allow[2]"
	Rule string // as written
	Why  string
}

// maxRules and maxRule bound what is read.
const (
	maxRules = 2000
	maxRule  = 1024 // bytes, so that with every sign escaped and behind a folder it is no longer than a pattern may be
)

// A kind is one of the lists of Rules.
type kind string

const (
	allowing kind = "allow"
	denying  kind = "deny"
	asking   kind = "ask"
)

// Import says what the rules are in settings. A path "/x" in them lies in dir,
// the absolute folder of the file that holds them; where dir is empty it is an
// error. Errors are joined *sandbox.Error values of code CodeValidation with
// the place in Field: "deny[0]".
func importPermrules(r PermissionSettings, dir string) (permrulesLists, error) {
	im := permrulesImporter{dir: dir}
	for _, l := range []struct {
		kind  kind
		rules []string
	}{{allowing, r.Allow}, {denying, r.Deny}, {asking, r.Ask}} {
		if len(l.rules) > maxRules {
			im.fail(string(l.kind), fmt.Sprintf("%d rules are too many; %d are allowed", len(l.rules), maxRules), "")
			continue
		}
		for i, text := range l.rules {
			im.kind, im.from, im.text = l.kind, fmt.Sprintf("%s[%d]", l.kind, i), text
			im.rule()
		}
	}
	return im.out, errors.Join(im.errs...)
}

// An importer holds what has been read, and the rule that it is at.
type permrulesImporter struct {
	dir  string
	out  permrulesLists
	errs []error

	kind kind
	from string
	text string
}

// rule reads the rule that im is at.
func (im *permrulesImporter) rule() {
	tool, content, has, why := split(im.text)
	if why != "" {
		im.fail(im.from, fmt.Sprintf("%.200q %s", im.text, why), "write it like Read(~/docs/**), Bash(npm test) or WebFetch(domain:example.com)")
		return
	}
	switch tool {
	case "WebFetch":
		im.host(content, has)
	case "Read":
		im.path(content, has, false)
	case "Edit", "Write", "MultiEdit", "NotebookEdit":
		im.path(content, has, true)
	case "Bash":
		im.command(content, has)
	default:
		im.cannot("is about a tool that is not one of WebFetch, Read, Edit, Write, Bash", "name tools of the sandbox in tools.allow and tools.deny")
	}
}

// split cuts a rule into the tool and what stands in its parentheses.
func split(text string) (tool, content string, has bool, why string) {
	if len(text) > maxRule {
		return "", "", false, "is too long for a rule"
	}
	if !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
		return "", "", false, "has a control character in it, or is not UTF-8"
	}
	tool, content, has = strings.Cut(text, "(")
	if tool == "" || strings.ContainsFunc(tool, func(r rune) bool {
		return !('a' <= r|0x20 && r|0x20 <= 'z' || '0' <= r && r <= '9' || r == '_' || r == '-' || r == '.' || r == '*')
	}) {
		return "", "", false, "does not start with the name of a tool"
	}
	if !has {
		return tool, "", false, ""
	}
	content, closed := strings.CutSuffix(content, ")")
	switch {
	case !closed:
		return "", "", false, "has no parenthesis at its end"
	case strings.TrimSpace(content) == "":
		return "", "", false, "has nothing in its parentheses"
	}
	return tool, strings.NewReplacer(`\(`, "(", `\)`, ")").Replace(content), true, ""
}

// command takes a rule for commands, which are written alike on both sides.
func (im *permrulesImporter) command(content string, has bool) {
	every := !has || content == "*" || content == ":*"
	switch {
	case im.kind == allowing && every:
		im.cannot("allows every command", "commands.strictness says how much passes without asking")
	case im.kind == allowing:
		im.add(&im.out.AllowCommands, content)
	case im.kind == denying && every:
		im.add(&im.out.BlockCommands, "*")
	case im.kind == denying:
		im.add(&im.out.BlockCommands, content)
	default:
		im.cannot("asks about a command, for which there is no setting", "move it to deny, or set commands.strictness to strict, which asks about what commands.allow does not name")
	}
}

// add appends a value to a list that does not have it yet.
func (im *permrulesImporter) add(list *[]permrulesValue, text string) {
	for _, v := range *list {
		if v.Text == text {
			return
		}
	}
	*list = append(*list, permrulesValue{text, im.from})
}

// cannot records that the rule cannot be expressed: a notice for an allow, an
// error otherwise.
func (im *permrulesImporter) cannot(why, hint string) {
	if im.kind == allowing {
		im.notice(why + "; " + hint)
		return
	}
	im.fail(im.from, fmt.Sprintf("%.200q %s", im.text, why), hint)
}

func (im *permrulesImporter) notice(why string) {
	im.out.Notices = append(im.out.Notices, permrulesNotice{From: im.from, Rule: im.text, Why: why})
}

func (im *permrulesImporter) fail(field, message, hint string) {
	im.errs = append(im.errs, &sandbox.Error{
		Code: sandbox.CodeValidation, Op: "import permission rules", Field: field, Message: message, Hint: hint,
	})
}
