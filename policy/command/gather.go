package command

import (
	"slices"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/policy"
)

// starts asks about the folders in which find begins to look. Outside of the
// work that is everything below them, when a command gets what is found.
func (q *fileQuestions) starts(k *call, dirs []string) {
	_, runs := k.given("-exec -execdir -ok -okdir")
	runs = runs || slices.ContainsFunc(q.calls, func(c call) bool { return c.Open })
	for _, w := range starts(k) {
		q.word(sandbox.OpRead, w, dirs)
		if runs && w.Static {
			q.below(w, dirs)
		}
	}
}

// below asks about everything below a folder around the work or outside of
// it. Not all of that is found, so the answer is a question at most.
func (q *fileQuestions) below(w lineWord, dirs []string) {
	for _, dir := range dirs {
		abs := resolvePath(dir, w.Value)
		if q.asked += treeQuestions; below(abs, q.in.Dir) || q.asked > maxQuestions {
			continue
		}
		d := q.paths.policy.JudgeTree(sandbox.OpRead, abs)
		if d.Verdict == policy.Deny {
			d.Verdict, d.Severity = policy.Ask, policy.High
		}
		q.answer(d, w)
	}
}

// serves reports whether a command offers whole folders to any client on the
// network.
func serves(k *call) bool {
	switch k.family {
	case "python", "pypy":
		o, ok := k.given("-m")
		return ok && o.value.Value == "http.server"
	case "php":
		_, ok := k.given("-S")
		return ok
	case "npx", "bunx", "pnpx":
		return slices.ContainsFunc(k.operands, func(w lineWord) bool { return hasWord("http-server serve live-server", w.Value) })
	case "http-server", "live-server", "serve":
		return true
	}
	return false
}
