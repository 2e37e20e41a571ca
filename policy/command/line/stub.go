package line

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/bulkhead-dev/sandbox/policy"
)

// Parse reads text.
func Parse(text string, _ Start) (*Line, *policy.Reason) {
	f, err := syntax.NewParser().Parse(strings.NewReader(text), "")
	if err != nil {
		return nil, &policy.Reason{Check: "syntax", Verdict: policy.Deny, Severity: policy.High, Message: err.Error()}
	}
	return &Line{Text: text, File: f}, nil
}

// Quote is here until the real one is.
func Quote(args []string) (string, error) {
	var out []string
	for _, a := range args {
		q, err := syntax.Quote(a, syntax.LangBash)
		if err != nil {
			return "", err
		}
		out = append(out, q)
	}
	return strings.Join(out, " "), nil
}
