package server

import (
	"bytes"
	"strings"
	"testing"
)

const token = "0123456789abcdef"

func TestScript(t *testing.T) {
	const ask, answer = `\__sandbox ` + token + "\n", `\__sandbox "$?" `
	long := strings.Repeat("x", 2000)
	for _, tt := range []struct {
		name, program string
		line          protocolLine
		want          []string
		slot          bool
	}{
		{"bash", "bash", protocolLine{Text: "echo 'a'", Stdout: true, Stderr: true},
			[]string{`\builtin eval 'echo '\''a'\''' </dev/null >|/proc/7/fd/3 2>|/proc/7/fd/4; ` + answer + "new " + token + "\n\n"}, false},
		{"bash, all", "bash", protocolLine{Text: "a\n", Stdin: true, Stdout: true, Merge: true},
			[]string{`\builtin eval 'a` + "\n" + `' </proc/7/fd/5 >|/proc/7/fd/3 2>&1; ` + answer + "new " + token + "\n\n"}, false},
		{"bash, nothing", "bash", protocolLine{},
			[]string{`\builtin eval '' </dev/null >|/dev/null 2>|/dev/null; ` + answer + "new " + token + "\n\n"}, false},
		{"bash, long", "bash", protocolLine{Text: long},
			[]string{`\builtin eval "$(</proc/7/fd/7)" </dev/null >|/dev/null 2>|/dev/null; ` + answer + "new " + token + "\n\n"}, true},
		{"bash, what evaluates", "bash", protocolLine{Text: "eval x"},
			[]string{`\builtin eval 'eval x' </dev/null >|/dev/null 2>|/dev/null; ` + answer + "new+ " + token + "\n\n"}, false},
		{"bash, sets errexit", "bash", protocolLine{Text: "set -e"},
			[]string{`\builtin eval 'set -e` + "\n" + `{ \__SandboX "$?" && \:; } 2>/dev/null' </dev/null >|/dev/null 2>|/dev/null; ` + answer + "new " + token + "\n\n"}, false},
		{"bash, takes its outputs", "bash", protocolLine{Text: "a", Stdout: true, Stderr: true, Outputs: protocolTaken},
			[]string{`\builtin eval 'a' </dev/null >|/proc/7/fd/3 2>|/proc/7/fd/4; ` + answer + "take " + token + "\n\n"}, false},
		{"bash, has its outputs", "bash", protocolLine{Text: "a", Stdout: true, Stderr: true, Outputs: protocolOwn},
			[]string{`\builtin eval 'a' </dev/null >&250- 2>&251-; ` + answer + "own " + token + "\n\n"}, false},
		{"bash, has its outputs, all", "bash", protocolLine{Text: "a", Stdout: true, Merge: true, Outputs: protocolOwn},
			[]string{`\builtin eval 'a' </dev/null >&250- 2>&1 251>&-; ` + answer + "own " + token + "\n\n"}, false},
		{"bash, has its outputs, none", "bash", protocolLine{Text: "a", Outputs: protocolOwn},
			[]string{`\builtin eval 'a' </dev/null >|/dev/null 2>|/dev/null 250>&- 251>&-; ` + answer + "own " + token + "\n\n"}, false},
		{"bash, drops its outputs", "bash", protocolLine{Text: "a", Stdout: true, Drop: true},
			[]string{answer + "drop " + token + "\n" + `\builtin eval 'a' </dev/null >|/proc/7/fd/3 2>|/dev/null; ` + answer + "new " + token + "\n\n"}, false},
		{"bash, left as it is", "bash", protocolLine{Text: "a", Stdout: true, Stderr: true, Effect: protocolLeaves},
			[]string{`\builtin eval 'a' </dev/null >|/proc/7/fd/3 2>|/proc/7/fd/4; \__sandboX "$?" new ` + token + "\n\n"}, false},
		{"bash, left as it is, has its outputs", "bash", protocolLine{Text: "a", Stdout: true, Stderr: true, Outputs: protocolOwn, Effect: protocolLeaves},
			[]string{`\builtin eval 'a' </dev/null >&250- 2>&251-; \__sandboX "$?" own ` + token + "\n\n"}, false},
		{"bash, left as it is, takes its outputs", "bash", protocolLine{Text: "a", Stdout: true, Stderr: true, Outputs: protocolTaken, Effect: protocolLeaves},
			[]string{`\builtin eval 'a' </dev/null >|/proc/7/fd/3 2>|/proc/7/fd/4; ` + answer + "take " + token + "\n\n"}, false},
		{"bash, prints", "bash", protocolLine{Text: "a", Stdout: true, Stderr: true, Outputs: protocolOwn, Effect: protocolPrints},
			[]string{"{ a\n}>&250 2>&251;__SandboX \"$?\" " + token + "\n\n"}, false},
		{"bash, prints, merged", "bash", protocolLine{Text: "a", Stdout: true, Merge: true, Outputs: protocolOwn, Effect: protocolPrints},
			[]string{"{ a\n}>&250 2>&250;__SandboX \"$?\" " + token + "\n\n"}, false},
		{"bash, prints, has no outputs", "bash", protocolLine{Text: "a", Stdout: true, Stderr: true, Effect: protocolPrints},
			[]string{`\builtin eval 'a' </dev/null >|/proc/7/fd/3 2>|/proc/7/fd/4; \__sandboX "$?" new ` + token + "\n\n"}, false},
		{"bash, prints, with input", "bash", protocolLine{Text: "a", Stdin: true, Stdout: true, Stderr: true, Outputs: protocolOwn, Effect: protocolPrints},
			[]string{`\builtin eval 'a' </proc/7/fd/5 >&250- 2>&251-; \__sandboX "$?" own ` + token + "\n\n"}, false},
		{"bash, prints, nobody hears it", "bash", protocolLine{Text: "a", Stdout: true, Outputs: protocolOwn, Effect: protocolPrints},
			[]string{`\builtin eval 'a' </dev/null >&250- 2>|/dev/null 251>&-; \__sandboX "$?" own ` + token + "\n\n"}, false},
		{"sh", "sh", protocolLine{Text: "a", Stderr: true},
			[]string{`\eval 'a' </dev/null >|/dev/null 2>|/proc/7/fd/4` + "\n", ask, "\n"}, false},
		{"sh, long", "sh", protocolLine{Text: long},
			[]string{`\. /proc/7/fd/7 </dev/null >|/dev/null 2>|/dev/null` + "\n", ask, "\n"}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d, ok := forProtocol(tt.program, 7)
			if !ok || d.Packets() != (tt.program == "sh") {
				t.Fatal(ok)
			}
			tt.line.Token = token
			got := d.Script(tt.line)
			if strings.Join(got.Writes, "|") != strings.Join(tt.want, "|") || got.Slot != tt.slot {
				t.Errorf("got %+v", got)
			}
		})
	}
	if _, ok := forProtocol("zsh", 7); ok {
		t.Error("zsh is known")
	}
}

// TestScriptSizes holds what the pipe of a script relies on: a write is
// atomic, and a packet is read as a whole.
func TestScriptSizes(t *testing.T) {
	for program, limit := range map[string]int{"bash": 4096, "sh": 1000} {
		d, _ := forProtocol(program, 1<<30-1)
		for _, filler := range []string{"x", "'", "\n"} {
			for n := range 1200 {
				script := d.Script(protocolLine{Text: strings.Repeat(filler, n), Token: token, Stdin: n%2 == 0, Stdout: true, Stderr: true, Outputs: protocolOwn, Effect: protocolPrints})
				for _, w := range append(script.Writes, d.Begin(token, true).Writes...) {
					if len(w) > limit {
						t.Fatalf("%s: %d bytes for %d of %q", program, len(w), n, filler)
					}
				}
			}
		}
	}
}

// TestAnswersOpenNothing holds what an answer costs: where opening for
// writing is observed, each file is a round trip to the guest.
func TestAnswersOpenNothing(t *testing.T) {
	for _, program := range []string{"bash", "sh"} {
		d, _ := forProtocol(program, 7)
		text, _, _ := strings.Cut(strings.ReplaceAll(d.Prelude(false), "eval ')' 2>|/dev/null", ""), "readonly -f")
		text = strings.ReplaceAll(text, "exec 250>|/proc/7/fd/3 251>|/proc/7/fd/4", "") // it was asked to, for lines to come
		if strings.Contains(text, "</") || strings.Contains(text, ">/") || strings.Contains(text, "|/") {
			t.Errorf("%s opens something for an answer:\n%s", program, text)
		}
	}
}

// TestState holds what of a shell's standard output is its state.
func TestState(t *testing.T) {
	const begin = "\x00" + token + "\n"
	for _, tt := range []struct {
		name, in, want string
		reported       bool
		rest           string // what follows the state
	}{
		{"alone", begin + "a\nb\n\x00", "a\nb\n", true, ""},
		{"empty", begin + "\x00", "", true, ""},
		{"noise around", "x\x00y" + token + "\n" + begin + "a\n\x00trap\n", "a\n", true, "trap\n"},
		{"of another line", "\x00fedcba9876543210\na\n\x00" + begin + "b\n\x00", "b\n", true, ""},
		{"two beginnings", begin + "a\n" + begin + "b\n\x00", "a\n", true, begin[1:] + "b\n\x00"},
		{"half a beginning first", begin[:9] + begin + "a\n\x00", "a\n", true, ""},
		{"no end", begin + "a\n", "a\n", false, ""},
		{"no beginning", "a\n\x00" + token, "", false, ""},
		{"nothing", "", "", false, ""},
		{"much noise", strings.Repeat("\x00", 100000) + begin + "a\x00", "a", true, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, step := range []int{1, 2, 3, 7, len(tt.in) + 1} {
				a, got, rest := newAnswer(token), "", ""
				for p := []byte(tt.in); len(p) > 0; p = p[min(step, len(p)):] {
					state, after := a.State(p[:min(step, len(p))])
					got += string(state)
					rest += string(after)
				}
				if got != tt.want || a.Reported() != tt.reported {
					t.Errorf("in steps of %d: got %q, %v", step, got, a.Reported())
				}
				if step > len(tt.in) && rest != tt.rest {
					t.Errorf("in steps of %d: %q follows", step, rest)
				}
			}
		})
	}
}

func TestAnswer(t *testing.T) {
	const first, second = "\x00" + token + " 42\n", "\x00" + token + ".\n"
	for _, tt := range []struct {
		name, in        string
		ended, complete bool
		status          uint8
	}{
		{"both", first + second, true, true, 42},
		{"noise around", "+ printf '\\0' " + token + " 7\nbash: x\n\x00\x00" + first + "noise\x00" + second + "more", true, true, 42},
		{"only the first", first, true, false, 42},
		{"first twice", first + first, true, false, 42},
		{"second first", second, false, false, 0},
		{"nothing", "", false, false, 0},
		{"another token", "\x00fedcba9876543210 1\n", false, false, 0},
		{"cut token", "\x000123456789abcde 1\n" + first, true, false, 42},
		{"no digits", "\x00" + token + " \n", false, false, 0},
		{"too large", "\x00" + token + " 256\n", false, false, 0},
		{"too long", "\x00" + token + " 0001\n" + first, true, false, 42},
		{"negative", "\x00" + token + " -1\n", false, false, 0},
		{"zeros", strings.Repeat("\x00", 100000) + first + second, true, true, 42},
		{"largest", "\x00" + token + " 255\n", true, false, 255},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, step := range []int{1, 2, 3, 7, len(tt.in) + 1} {
				a := newAnswer(token)
				for p := []byte(tt.in); len(p) > 0; p = p[min(step, len(p)):] {
					a.Feed(p[:min(step, len(p))])
				}
				status, ended := a.Ended()
				if ended != tt.ended || a.Complete() != tt.complete || status != tt.status {
					t.Errorf("in steps of %d: got %d, %v, %v", step, status, ended, a.Complete())
				}
			}
		})
	}
}

// FuzzAnswer holds that the pieces in which an answer comes do not matter,
// and that nothing but the marks ends a line.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte("\x00"+token+" 0\n"), []byte("\x00"+token+".\n"))
	f.Add([]byte("x\x00"+token), []byte(" 255\n\x00"+token+"."))
	f.Fuzz(func(t *testing.T, x, y []byte) {
		a, b := newAnswer(token), newAnswer(token)
		a.Feed(x)
		a.Feed(y)
		all := append(append([]byte(nil), x...), y...)
		b.Feed(all)
		sa, ea := a.Ended()
		sb, eb := b.Ended()
		if sa != sb || ea != eb || a.Complete() != b.Complete() {
			t.Errorf("%d %v %v, and at once %d %v %v", sa, ea, a.Complete(), sb, eb, b.Complete())
		}
		if ea && !bytes.Contains(all, []byte("\x00"+token+" ")) || a.Complete() && !bytes.Contains(all, []byte("\x00"+token+".\n")) {
			t.Error("a mark that was not there")
		}
	})
}

// TestUnread holds that a line counts as not begun only where the shell
// cannot have read the end of the command that runs it.
func TestUnread(t *testing.T) {
	for _, program := range []string{"bash", "sh"} {
		d, _ := forProtocol(program, 7)
		script := d.Script(protocolLine{Text: "echo a\necho b", Token: token})
		all := strings.Join(script.Writes, "")
		rest := "\n" // bash reads the line with what asks for its answer
		if program == "sh" {
			rest = `\__sandbox ` + token + "\n\n"
		}
		for n := range len(all) + 1 {
			left := all[n:]
			if got, want := script.Unread(left), len(left) > len(rest); got != want {
				t.Errorf("%s: %q: got %v", program, left, got)
			}
		}
		if !script.Unread("\n" + all) {
			t.Errorf("%s: what the line before has left makes it read", program)
		}
		for _, left := range []string{"", rest, "x" + rest, all + "\n", all + all, "\n" + rest + all, all[1:] + "x"} {
			if script.Unread(left) {
				t.Errorf("%s: %q counts as unread", program, left)
			}
		}
	}
	if (protocolScript{}).Unread("") {
		t.Error("nothing counts as unread")
	}
}

func TestMayEnd(t *testing.T) {
	head := func(traps string) []byte {
		return []byte("__sandbox_traps() {\nbuiltin unset -f __sandbox_traps\n" + traps + "}\n__sandbox_begin /\n")
	}
	for traps, want := range map[string]bool{
		"": false,
		"trap -- - DEBUG\ntrap -- 'echo failed' ERR\n":                       false,
		"trap -- 'echo failed' ERR\n":                                        false,
		"trap -- 'd=\"it'\\''s\"' DEBUG\ntrap -- 'echo a\necho b >&2' ERR\n": false,
		"trap -- ':' DEBUG\ntrap -- 'exit 7' ERR\n":                          true,
		"trap -- 'echo failed; exit 7' ERR\n":                                true,
		"trap -- 'die $LINENO' ERR\n":                                        true,
		"trap -- 'x=1 exit' DEBUG\n":                                         true,
		"trap -- 'echo a &&exit' RETURN\n":                                   true,
		"trap -- '[ $x ] && exit' DEBUG\n":                                   true,
		"trap -- '{ exit; }' ERR\n":                                          true,
		"trap -- 'echo a\n}\nexit' ERR\n":                                    true,
	} {
		if got := mayEnd(head(traps)); got != want {
			t.Errorf("%q: %v, want %v", traps, got, want)
		}
	}
	if long := head("trap -- '" + strings.Repeat("echo a;", 2000) + "' ERR\n")[:trapsHeadLen]; !mayEnd(long) {
		t.Error("traps of which only the beginning is known cannot end the shell")
	}
	if mayEnd([]byte("__sandbox_begin /\n")) {
		t.Error("a state without traps has some")
	}
}
