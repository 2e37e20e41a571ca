package command

import (
	"fmt"
	"strings"

	"github.com/bulkhead-dev/sandbox/policy"
	"github.com/bulkhead-dev/sandbox/policy/command/line"
)

// checkHeredoc looks at here-documents: at delimiters that are written as if
// they were variables, and at bodies that the shell expands or runs. The body
// of a quoted one is data.
func checkHeredoc(s *subject) {
	for _, r := range s.Redirects {
		if strings.HasPrefix(r.Op, "<<") && r.Op != "<<<" && looksVariable(r.Target) {
			s.report(finding{
				check: "heredoc", rule: "variable-delimiter", severity: policy.Critical, mark: deny, span: r.Span,
				message: fmt.Sprintf("the here-document's delimiter %s looks like a variable, but is taken as it stands", quote(r.Target.Raw)),
				hint:    "use a plain word in quotes: <<'EOF'",
			})
		}
	}
	for _, f := range s.Features {
		if f.Kind != line.Heredoc {
			continue
		}
		for _, sub := range s.Features {
			if (sub.Kind == line.Substitution || sub.Kind == line.ProcessSubst) && inside(sub.Span, f.Span) {
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

// looksVariable reports whether a delimiter has a $ or a backtick outside
// quotes.
func looksVariable(w line.Word) bool {
	return !strings.ContainsAny(w.Raw, `'"\`) && strings.ContainsAny(w.Raw, "$`")
}

func inside(in, out policy.Span) bool { return out.Start <= in.Start && in.End <= out.End }
