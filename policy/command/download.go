package command

import (
	"fmt"
	"strings"

	"github.com/bulkhead-dev/sandbox/policy"
)

// outputs are the options by which downloaders and decoders name the file
// that they write.
const outputs = "-o -O --output --output-document -out"

// downloadAndRun reports files that one command of the line fetches or decodes
// and a later one runs, so that they cannot be reviewed in between.
func (s *subject) downloadAndRun() {
	var fetched map[string]*call
	for i := range s.calls {
		k := &s.calls[i]
		if from := fetched[s.runs(k)]; from != nil {
			s.report(finding{
				check: "pattern", rule: "download-and-run", severity: policy.High, mark: never,
				message: fmt.Sprintf("%s is run right after %s has written it, so it was not read", quote(s.runs(k)), from.program),
				hint:    "fetch the file, read it, and run it in a later line",
				span:    policy.Span{Start: min(from.Span.Start, k.Span.Start), End: max(from.Span.End, k.Span.End)},
			})
		}
		if !k.is(isDownloader | isDecoder) {
			continue
		}
		for _, path := range written(k) {
			if fetched == nil {
				fetched = map[string]*call{}
			}
			fetched[path] = k
		}
	}
}

// written returns the files that a command writes by option or redirection.
func written(k *call) []string {
	var out []string
	for _, o := range k.options {
		if o.given && o.value.Static && hasWord(outputs, o.name) {
			out = append(out, resolvePath(k.Dir, o.value.Value))
		}
	}
	for _, r := range k.Redirects {
		if r.Write && r.Target.Static && r.FD != "2" {
			out = append(out, resolvePath(r.Dir, r.Target.Value))
		}
	}
	if k.program == "curl" && k.letter('O') || k.program == "wget" && len(out) == 0 {
		for _, w := range k.operands {
			if w.Static {
				out = append(out, resolvePath(k.Dir, base(w.Value)))
			}
		}
	}
	return out
}

// runs returns the file that a command runs: its program, or the script of a
// shell or an interpreter; empty when it names none.
func (s *subject) runs(k *call) string {
	if k.is(isShell | isInterpreter | isSourcing) {
		if len(k.operands) > 0 && k.operands[0].Static {
			return resolvePath(k.Dir, k.operands[0].Value)
		}
		return ""
	}
	if p := k.Words[0]; p.Static && strings.Contains(p.Value, "/") {
		return resolvePath(k.Dir, p.Value)
	}
	return ""
}
