package replay

import (
	"strconv"
	"strings"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/policy"
)

// stays returns why the refusal of an operation does not depend on the policy,
// or "" where it does or there was none.
func (r *Result) stays() string {
	if r.Recorded.Verdict != policy.Deny {
		return ""
	}
	rule := r.Recorded.Rule
	switch r.Recorded.Code {
	case sandbox.CodeDenyTool, sandbox.CodeCapabilityBlocked:
	case sandbox.CodePermissionDeny:
		return "the grant refused it: " + ruleText(rule)
	case sandbox.CodeBudgetExceeded:
		return "the budget refused it: " + ruleText(rule)
	case sandbox.CodeValidation:
		return "it was malformed: " + ruleText(rule)
	default:
		return "it was refused for another reason than the policy: " + ruleText(string(r.Recorded.Code))
	}
	for _, of := range []struct{ prefix, why string }{
		{"grant.", "the grant refused it: "}, {"manifest.", "the manifest refused it: "}, {"op.", "what was asked for is refused by itself: "},
		{"redirect", "the redirects were too many: "},
	} {
		if strings.HasPrefix(rule, of.prefix) {
			return of.why + ruleText(rule)
		}
	}
	return ""
}

// elsewhere corrects the result for refusals that do not depend on the policy
// alone: the executor refused the operation because of a link, an address or an
// answer.
func (r *Result) elsewhere() {
	rule := r.Recorded.Rule
	if r.Recorded.Verdict != policy.Deny || r.Today.Verdict == policy.Deny || r.Recorded.Code != sandbox.CodeCapabilityBlocked || rule == "" {
		return
	}
	for _, of := range []string{"policy.", "filesystem.", "network.", "sensitive"} {
		if strings.HasPrefix(rule, of) {
			return
		}
	}
	r.Differs, r.Certain, r.Why = false, false, "it was refused by what was found when it was to be done, which is not in the record: "+rule
}

func ruleText(rule string) string {
	if rule == "" {
		return "the record names no rule"
	}
	return rule
}

// questions puts everything that the record contains about an operation to
// today's policy.
func questions(o Operation, t Today) []Answer {
	var out []Answer
	b := o.Begin
	if b.Tool != "" {
		out = append(out, t.Tool(b.Tool))
	}
	q := b.Request
	more := bySort(b, t)
	if more == nil {
		more = []Answer{{Verdict: policy.Allow, Unsure: "the record does not say what was asked for"}}
	}
	out = append(out, more...)
	if q.Args > 0 {
		out = append(out, Answer{Verdict: policy.Allow, Unsure: "of the arguments there is a digest only"})
	}
	if q.Bytes > 0 && b.Kind != grant.OpTmpAlloc {
		out = append(out, t.Size(q.Bytes))
	}
	if o.ledOn() {
		out = append(out, Answer{Verdict: policy.Allow, Unsure: "it was led on to other addresses, of which the record has the hosts only"})
	}
	return out
}

// ledOn reports whether an operation reached another host than the requested
// one.
func (o Operation) ledOn() bool {
	q := o.Begin.Request
	if o.End == nil || q.Host == "" {
		return false
	}
	for _, e := range o.End.Effects {
		if e.Host != "" && e.Host != q.Host && e.Host != target(q.Host, q.Port) {
			return true
		}
	}
	return false
}

// bySort asks the questions that apply to operations of this kind; nil means
// that the record does not contain what was requested.
func bySort(b evidence.Begin, t Today) []Answer {
	q := b.Request
	switch b.Kind {
	case grant.OpFsRead:
		return file(t, grant.FSRead, q.Path)
	case grant.OpFsWrite:
		return file(t, grant.FSWrite, q.Path)
	case grant.OpFsList:
		return file(t, grant.FSList, q.Path)
	case grant.OpNetHTTP:
		return request(t, q)
	case grant.OpBrowserNav:
		if file, ok := strings.CutPrefix(b.Capability, "browser:open:/"); ok && q.Host == "" && q.Path == "" {
			q.Path = "/" + file
		}
		return append(visited(t, q), t.Browser("open"))
	case grant.OpBrowserScreenshot:
		return []Answer{t.Browser("screenshot")}
	case grant.OpBrowserExtract:
		return []Answer{t.Browser("extract")}
	case grant.OpBrowserPDF:
		return []Answer{t.Browser("pdf")}
	case grant.OpBrowserWait:
		return []Answer{t.Browser("wait")}
	case grant.OpBrowserClick:
		return []Answer{t.Browser("click")}
	case grant.OpBrowserType:
		return []Answer{t.Browser("type")}
	case grant.OpBrowserUpload:
		return append(file(t, grant.FSRead, q.Path), t.Browser("upload"))
	case grant.OpBrowserDownload:
		return append(file(t, grant.FSWrite, q.Path), t.Browser("download"))
	case grant.OpProcExec:
		if q.Program == "" {
			return nil
		}
		return []Answer{t.Program(q.Program)}
	case evidence.Command:
		if q.Program == "" {
			return nil
		}
		return []Answer{judgeCommand(t, q)}
	case grant.OpTmpAlloc:
		return []Answer{t.Space(q.Bytes)}
	}
	return nil
}

func file(t Today, kind grant.Kind, path string) []Answer {
	if path == "" {
		return nil
	}
	return []Answer{t.File(kind, path)}
}

func request(t Today, q evidence.Request) []Answer {
	if q.Host == "" {
		return nil
	}
	return []Answer{t.Request(Request{Method: q.Method, Scheme: q.Scheme, Host: q.Host, Port: q.Port})}
}

// visited asks about the target that a browser was to open: an address, a file
// of the workspace, or nothing that is judged.
func visited(t Today, q evidence.Request) []Answer {
	if q.Host == "" {
		return file(t, grant.FSRead, q.Path)
	}
	q.Method = "GET"
	return request(t, q)
}

// judgeCommand asks about the program of a command. When the command had
// arguments, a verdict on the program alone says nothing, and a rule that names
// the program may apply to the program without arguments only.
func judgeCommand(t Today, q evidence.Request) Answer {
	a := t.Command(q.Program)
	switch {
	case q.Args == 0 || a.Verdict == policy.Allow:
		return a
	case !named(a.Rule):
		return Answer{Verdict: policy.Allow, Unsure: "of the arguments there is a digest only"}
	}
	a.Unsure = "a rule names the program; of its arguments there is a digest only"
	return a
}

// named reports whether a rule belongs to the command settings, whose rules
// contain the name that they apply to.
func named(rule string) bool { return strings.HasPrefix(rule, "commands.") }

// byArguments reports whether a command was refused for its arguments.
func (r *Result) byArguments(q evidence.Request) bool {
	return r.Recorded.Verdict == policy.Deny && r.Kind == string(evidence.Command) && q.Args > 0 && !named(r.Recorded.Rule)
}

// What describes in one text what an operation was about, even when its
// capability was never determined.
func What(b evidence.Begin) string {
	q := b.Request
	switch {
	case b.Capability != "":
		return b.Capability
	case q.Host != "":
		return strings.TrimSpace(q.Method + " " + target(q.Host, q.Port))
	case q.Path != "":
		return q.Path
	}
	return q.Program
}

func target(host string, port int) string {
	if port == 0 {
		return host
	}
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return host + ":" + strconv.Itoa(port)
}
