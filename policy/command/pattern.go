package command

import (
	"fmt"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/bulkhead-dev/sandbox/policy"
)

// Programs that bring bytes from elsewhere, or make text of bytes, and so
// must not feed a shell.
const (
	downloaders = "curl wget fetch aria2c http https lynx links w3m axel nc ncat netcat socat ssh scp ftp tftp dig nslookup host gsutil aws rclone"
	decoders    = "base64 base32 basenc xxd uudecode openssl gunzip zcat gzip bunzip2 bzcat xz xzcat unxz zstd zstdcat rev tr hexdump od gpg"
)

// checkPattern looks for what attackers and accidents look like: single
// commands by table, pipes into shells, fork bombs, connections of the shell.
func checkPattern(s *subject) {
	for i := range s.calls {
		k := &s.calls[i]
		s.tables.pattern.find(k, s.report)
		for _, w := range k.Wrappers {
			s.tables.pattern.wrapper(w, k.lineCommand, s.report)
		}
	}
	s.pipes()
	s.downloadAndRun()
	s.connections()
	if s.has(lineFunction) && s.File != nil {
		s.forkBombs()
	}
}

// pipes reports pipes from a download or a decoder into a shell.
func (s *subject) pipes() {
	if !s.has(linePipe) && !s.has(nestedShell) && !s.has(nestedEval) && !s.has(processSubst) && !s.has(lineSubstitution) {
		return
	}
	s.substituted()
	for _, run := range s.pipelines() {
		from, rule := -1, ""
		for _, i := range run {
			k := &s.calls[i]
			if from >= 0 && s.reads(withoutShared(k, &s.calls[from])) {
				s.pipeInto(&s.calls[from], k, rule)
				break
			}
			switch {
			case k.is(isDownloader):
				from, rule = i, "download-to-shell"
			case from < 0 && k.is(isDecoder):
				from, rule = i, "decode-to-shell"
			}
		}
	}
}

// substituted reports downloads and decoders within the words of a command
// that runs them: bash <(curl …), bash -c "$(curl …)".
func (s *subject) substituted() {
	runs := func(k *call) bool {
		return k.is(isShell|isInterpreter|isSourcing) || s.tables.through(k, isShell|isSourcing)
	}
	for i := range s.calls {
		to := &s.calls[i]
		if !runs(to) || allStatic(to.lineCommand) {
			continue
		}
		for j := range s.calls {
			from := &s.calls[j]
			if i == j || !runs(withoutShared(to, from)) || !slices.ContainsFunc(to.Words, func(w lineWord) bool { return inside(from.Span, w.Span) }) {
				continue
			}
			switch {
			case from.is(isDownloader):
				s.pipeInto(from, to, "download-to-shell")
			case from.is(isDecoder):
				s.pipeInto(from, to, "decode-to-shell")
			}
		}
	}
}

// withoutShared returns k without the wrappers that it has in common with
// from, when both stand in one text for another shell: that shell runs the
// pipe, and neither of its ends reads what it says.
func withoutShared(k, from *call) *call {
	if k.Span != from.Span || !isNested(k.Via) || !isNested(from.Via) {
		return k
	}
	n := 0
	for n < len(k.Wrappers) && n < len(from.Wrappers) && k.Wrappers[n] == from.Wrappers[n] {
		n++
	}
	c := *k.lineCommand
	c.Wrappers = c.Wrappers[n:]
	out := *k
	out.lineCommand = &c
	return &out
}

// reads reports whether a command runs what its standard input says.
func (s *subject) reads(k *call) bool {
	return k.is(isShell|isSourcing|isFeeding) || k.is(isInterpreter) && readsCode(k)
}

func (s *subject) pipeInto(from, to *call, rule string) {
	what, hint := "a download", "download to a file, read it, then run the file"
	if rule == "decode-to-shell" {
		what, hint = "decoded text", "decode to a file, read it, then run the file"
	}
	program := to.program
	for _, w := range to.Wrappers {
		if s.tables.classes[base(w)]&isShell != 0 {
			program = base(w)
		}
	}
	s.report(finding{
		check: "pattern", rule: rule, severity: policy.Critical, mark: deny,
		message: fmt.Sprintf("%s feeds %s to %s, so what runs is not seen", from.program, what, program),
		hint:    hint,
		span:    policy.Span{Start: min(from.Span.Start, to.Span.Start), End: max(from.Span.End, to.Span.End)},
	})
}

// pipelines returns the commands, by index, that are joined by pipes: those
// below each outermost pipe of the text, and runs of neighbours within nested
// texts.
func (s *subject) pipelines() [][]int {
	var runs [][]int
	if s.File != nil && s.has(linePipe) {
		for _, span := range outermostPipes(s.File) {
			var run []int
			for i := range s.calls {
				if inside(s.calls[i].Span, span) {
					run = append(run, i)
				}
			}
			runs = append(runs, run)
		}
	}
	var run []int
	for i := range s.calls {
		if via := s.calls[i].Via; slices.Contains(via, linePipe) && isNested(via) {
			run = append(run, i)
			continue
		}
		runs, run = append(runs, run), nil
	}
	return append(runs, run)
}

func isNested(via []lineKind) bool {
	return slices.Contains(via, nestedShell) || slices.Contains(via, nestedEval)
}

// outermostPipes returns the spans of the pipelines of the text; a pipeline
// within one of them, as in a substitution, has no span of its own.
func outermostPipes(f *syntax.File) []policy.Span {
	var out []policy.Span
	syntax.Walk(f, func(n syntax.Node) bool {
		if b, ok := n.(*syntax.BinaryCmd); ok && (b.Op == syntax.Pipe || b.Op == syntax.PipeAll) {
			out = append(out, spanOf(b))
			return false
		}
		return true
	})
	return out
}

func spanOf(n syntax.Node) policy.Span {
	return policy.Span{Start: int(n.Pos().Offset()), End: int(n.End().Offset())}
}

// connections reports redirections by which bash itself opens a connection,
// and those that write to devices.
func (s *subject) connections() {
	for _, r := range s.Redirects {
		v := r.Target.Value
		if !r.Target.Static {
			v = r.Target.Prefix
		}
		if v == "" || !r.Write && !r.Read {
			continue
		}
		v = resolvePath(r.Dir, v)
		switch {
		case strings.HasPrefix(v, "/dev/tcp/") || strings.HasPrefix(v, "/dev/udp/"):
			s.connection(r)
		case r.Write && s.tables.devices.match(v):
			s.report(finding{
				check: "pattern", rule: "write-device", severity: policy.Critical, mark: deny, span: r.Span,
				message: fmt.Sprintf("%s writes to a disk or to memory", quote(r.Target.Raw)), hint: "write to a file in the workspace",
			})
		case r.Write && (strings.HasPrefix(v, "/proc/sys") || strings.HasPrefix(v, "/sys/")):
			s.report(finding{
				check: "pattern", rule: "kernel-setting", severity: policy.Critical, mark: deny, span: r.Span,
				message: fmt.Sprintf("%s changes a setting of the kernel", quote(r.Target.Raw)), hint: "leave the kernel's settings alone",
			})
		}
	}
}

// connection reports one connection; that of a shell is a reverse shell.
func (s *subject) connection(r lineRedirect) {
	f := finding{
		check: "pattern", rule: "shell-connection", severity: policy.High, mark: never, span: r.Span,
		message: fmt.Sprintf("%s opens a connection of the shell itself", quote(r.Target.Raw)),
		hint:    "use a program that speaks the protocol, such as curl",
	}
	own := r.Target.Static && loopback(r.Target.Value)
	if own {
		f.severity, f.mark = policy.Low, plain
	}
	for i := range s.calls {
		k := &s.calls[i]
		if !k.is(isShell|isInterpreter) && (own || !s.tables.through(k, isShell)) {
			continue
		}
		f.rule, f.severity, f.mark = "reverse-shell", policy.Critical, deny
		f.message = fmt.Sprintf("%s gives a shell to the other end of %s", k.program, quote(r.Target.Raw))
		f.hint = "do not connect shells to the network"
	}
	s.report(f)
}

// loopback reports whether a connection of the shell leads to a port of the
// sandbox itself: /dev/tcp/localhost/5432.
func loopback(target string) bool {
	parts := strings.Split(target, "/")
	if len(parts) != 5 || parts[0] != "" || parts[1] != "dev" {
		return false
	}
	host, port := parts[3], parts[4]
	return (host == "localhost" || host == "127.0.0.1" || host == "::1") && isNumber(port)
}

// forkBombs reports functions that start themselves in a pipe or in the
// background.
func (s *subject) forkBombs() {
	syntax.Walk(s.File, func(n syntax.Node) bool {
		f, ok := n.(*syntax.FuncDecl)
		if !ok || f.Name == nil || f.Body == nil {
			return true
		}
		if multiplies(f.Body, f.Name.Value) {
			s.report(finding{
				check: "pattern", rule: "fork-bomb", severity: policy.Critical, mark: deny, span: spanOf(f),
				message: fmt.Sprintf("the function %s starts itself again and again, a fork bomb", quote(f.Name.Value)),
				hint:    "use a loop with an end",
			})
		}
		return true
	})
}

// multiplies reports whether a function's body calls it in a pipe or in the
// background.
func multiplies(body *syntax.Stmt, name string) bool {
	parallel, calls := false, false
	syntax.Walk(body, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.FuncDecl:
			return false // judged on its own
		case *syntax.Stmt:
			parallel = parallel || n.Background
		case *syntax.BinaryCmd:
			parallel = parallel || n.Op == syntax.Pipe || n.Op == syntax.PipeAll
		case *syntax.CallExpr:
			calls = calls || len(n.Args) > 0 && n.Args[0].Lit() == name
		}
		return true
	})
	return parallel && calls
}

// setsID reports whether a mode makes a program act as its owner or group.
func setsID(k *call) bool {
	for _, w := range k.all {
		mode := strings.TrimPrefix(strings.TrimPrefix(w.Value, "--mode="), "-m")
		if mode == "" {
			continue
		}
		if strings.Trim(mode, "01234567") == "" {
			if digits := strings.TrimLeft(mode, "0"); len(digits) == 4 && digits[0] >= '2' {
				return true
			}
			continue
		}
		who, what, ok := strings.Cut(mode, "+")
		if !ok {
			who, what, ok = strings.Cut(mode, "=")
		}
		if ok && strings.Trim(who, "ugoa,+-=rwxXst") == "" && strings.Trim(what, "ugoa,+-=rwxXst") == "" && strings.Contains(what, "s") {
			return true
		}
	}
	return false
}

// killsAll reports whether the target of kill is -1, which is every process;
// -1 as the number of the signal does not count.
func killsAll(k *call) bool {
	for i, w := range k.all {
		if w.Value == "-1" && w.Static && i > 0 {
			return true
		}
	}
	return false
}

// onDisk reports whether a program that makes file systems or changes disks is
// given anything but plain files outside of the folders of the system: an image
// of a disk in the work, or in a temporary folder, is a file like any other.
func onDisk(k *call) bool {
	named := false
	for _, w := range k.Words[1:] {
		if !w.Static || w.Glob || strings.Contains(w.Value, "/dev") {
			return true
		}
	}
	for _, w := range k.operands {
		abs := resolvePath(k.Dir, w.Value)
		if !strings.HasPrefix(abs, "/") || abs == "/" {
			return true
		}
		for root := range strings.FieldsSeq(systemRoots + " /run /media /mnt") {
			if below(abs, root) && !below(abs, "/var/tmp") {
				return true
			}
		}
		named = true
	}
	return !named || k.Open
}

// killsUnreported reports whether a target of kill is calculated, or is a group of
// processes that the text does not tell: it may be -1.
func killsUnreported(k *call) bool {
	for i, w := range k.all {
		if !w.Static && (strings.Contains(w.Raw, "$((") || strings.Contains(w.Raw, "$[") || i > 0 && strings.HasPrefix(w.Prefix, "-")) {
			return true
		}
	}
	return false
}
