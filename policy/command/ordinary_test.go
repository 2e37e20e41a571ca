package command

import (
	"os"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox/policy"
)

// ordinary are lines that coding agents run, ⏎ standing for a newline.
func ordinary(t testing.TB) []string {
	t.Helper()
	text, err := os.ReadFile("testdata/ordinary.txt")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	for i, l := range lines {
		lines[i] = strings.ReplaceAll(l, "⏎", "\n")
	}
	return lines
}

// TestOrdinary holds how many lines of coding agents are asked about where no
// sandbox answers for the user, and that none is denied.
func TestOrdinary(t *testing.T) {
	lines := ordinary(t)
	most := map[Strictness]int{Normal: 9, Restricted: 18}
	for s, most := range most {
		p := newPolicy(t, Rules{Strictness: s})
		asked := 0
		for _, l := range lines {
			d := p.Judge(Input{Text: l, Dir: caseDir})
			holds(t, l, d)
			switch d.Verdict {
			case policy.Deny:
				t.Errorf("%s denies %q: %+v", s, l, d.Reasons[0])
			case policy.Ask:
				asked++
				t.Logf("%s asks about %q: %s/%s", s, l, d.Reasons[0].Check, d.Reasons[0].Rule)
			}
		}
		t.Logf("%s asks about %d of %d", s, asked, len(lines))
		if asked > most {
			t.Errorf("%s asks about %d of %d lines, at most %d are allowed", s, asked, len(lines), most)
		}
	}
}

// TestPassing holds that lines pass under the strictness of the settings, and
// that those near to them, which hide something, do not.
func TestPassing(t *testing.T) {
	p := newPolicy(t, Rules{Strictness: Restricted})
	for text, want := range map[string]policy.Verdict{
		"source .venv/bin/activate":                                        policy.Allow,
		`source "$PWD/.venv/bin/activate"`:                                 policy.Allow,
		". venv/bin/activate && pytest":                                    policy.Allow,
		"source /tmp/x/bin/activate":                                       policy.Ask,
		"source ../x/bin/activate":                                         policy.Ask,
		"source $X/bin/activate":                                           policy.Ask,
		"source ~/x/bin/activate":                                          policy.Ask,
		"source .venv/bin/activate x":                                      policy.Ask,
		"source .env.sh":                                                   policy.Ask,
		"export PATH=$PWD/bin:$PATH":                                       policy.Allow,
		`export PATH="$PWD/bin:$PATH"; x`:                                  policy.Allow,
		"PATH=$PWD/bin:$PATH make":                                         policy.Allow,
		"export PATH=$PATH:$HOME/.local/bin":                               policy.Allow,
		"export PATH=$PWD/bin":                                             policy.Ask,
		"export PATH=/tmp/x:$PATH":                                         policy.Ask,
		"export PATH=$PWD/../x:$PATH":                                      policy.Ask,
		"export PATH=.:$PATH":                                              policy.Ask,
		"export PATH=$X/bin:$PATH":                                         policy.Ask,
		"export PATH=$(id):$PATH":                                          policy.Ask,
		"git commit -m \"$(cat <<'EOF'\nFix $(rm -rf ~)\nEOF\n)\"":         policy.Allow,
		"git commit -m \"$(cat <<EOF\nFix $(id)\nEOF\n)\"":                 policy.Ask,
		"git commit -m $(cat <<'EOF'\n-m x --template=/etc/shadow\nEOF\n)": policy.Ask,
		"cat \"$(cat <<'EOF'\n/home/dev/.ssh/id_rsa\nEOF\n)\"":             policy.Ask,
		"bash -c \"$(cat <<'EOF'\nid\nEOF\n)\"":                            policy.Ask,
		"eval \"$(cat <<'EOF'\nid\nEOF\n)\"":                               policy.Ask,
		"\"$(cat <<'EOF'\nid\nEOF\n)\"":                                    policy.Ask,
		"python3 - <<'EOF'\nprint(1)\nEOF":                                 policy.Allow,
		"python3 <<'EOF'\nprint(1)\nEOF":                                   policy.Allow,
		"python3 - <<EOF\nprint($x)\nEOF":                                  policy.Ask,
		"echo 'print(1)' | python3 -":                                      policy.Ask,
		"bash <<'EOF'\nrm -rf ~\nEOF":                                      policy.Deny,
		"make -j$(nproc)":                                                  policy.Allow,
		`make -j"$(nproc)" test`:                                           policy.Allow,
		"make -j$(id)":                                                     policy.Ask,
		"$(date)":                                                          policy.Ask,
		"GIT_PAGER=cat git diff":                                           policy.Allow,
		"GIT_PAGER= git log":                                               policy.Allow,
		"GIT_PAGER='sh -c id' git diff":                                    policy.Ask,
		"GIT_PAGER=$x git diff":                                            policy.Ask,
		"GIT_EXTERNAL_DIFF=cat git diff":                                   policy.Ask,
		"GIT_DIR=/tmp/x git status":                                        policy.Ask,
	} {
		d := p.Judge(Input{Text: text, Dir: caseDir})
		holds(t, text, d)
		if d.Verdict != want {
			t.Errorf("%q: %s, want %s: %+v", text, d.Verdict, want, d.Reasons)
		}
	}
}
