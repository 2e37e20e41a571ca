package command

import (
	"fmt"
	"strings"

	"github.com/bulkhead-dev/sandbox/policy"
)

// checkHeredoc looks at here-documents: at delimiters that are written as if
// they were variables, and at bodies that the shell expands or runs. The body
// of a quoted one is data.
func checkHeredoc(s *subject) {
	for _, r := range s.Redirects {
		if strings.HasPrefix(r.Op, "<<") && r.Op != "<<<" && looksVariable(r.Target) {
			s.report(variableDelimiter(r.Span, r.Target.Raw))
		}
	}
	s.bodies()
	for _, f := range s.Features {
		if f.Kind != lineHeredoc {
			continue
		}
		for _, sub := range s.Features {
			if (sub.Kind == lineSubstitution || sub.Kind == processSubst) && inside(sub.Span, f.Span) {
				s.report(finding{
					check: "heredoc", rule: "substitution-in-body", severity: policy.Medium, mark: never, span: sub.Span,
					message: fmt.Sprintf("the here-document's body runs a command, %s", quote(sub.Span.Of(s.Text))),
					hint:    "quote the delimiter, <<'EOF', if the body is meant as text",
				})
				break
			}
		}
	}
}

// bodies reports here-documents that a shell runs. Their commands are judged
// like all others; bodies only reports that there are any.
func (s *subject) bodies() {
	for i := range s.calls {
		k := &s.calls[i]
		if !isNested(k.Via) {
			continue
		}
		for _, f := range s.Features {
			if (f.Kind == lineHeredoc || f.Kind == heredocQuoted || f.Kind == hereString) && inside(f.Span, k.Span) {
				s.report(finding{
					check: "heredoc", rule: "body-to-shell", severity: policy.Medium, span: f.Span,
					message: fmt.Sprintf("a shell runs the here-document's body: %s", quote(f.Span.Of(s.Text))),
					hint:    "put the commands on the line themselves",
				})
				return
			}
		}
	}
}

func variableDelimiter(span policy.Span, raw string) finding {
	return finding{
		check: "heredoc", rule: "variable-delimiter", severity: policy.Critical, mark: deny, span: span,
		message: fmt.Sprintf("the here-document's delimiter looks like a variable, but is taken as it stands: %s", quote(raw)),
		hint:    "use a plain word in quotes: <<'EOF'",
	}
}

// looksVariable reports whether a delimiter has a $ or a backtick outside
// quotes.
func looksVariable(w lineWord) bool {
	return !strings.ContainsAny(w.Raw, `'"\`) && strings.ContainsAny(w.Raw, "$`")
}

func inside(in, out policy.Span) bool { return out.Start <= in.Start && in.End <= out.End }
