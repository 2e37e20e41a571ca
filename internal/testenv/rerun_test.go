package testenv

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// failOnce is the body of a test that fails in its first run alone: it leaves
// a file behind.
const failOnce = `
	if _, err := os.Stat("%[1]s"); err != nil {
		os.WriteFile("%[1]s", nil, 0o600)
		t.Fatal("the first run fails")
	}
`

// TestScript holds what scripts/test.sh makes of tests that fail: once, always,
// too many of them once, and outside of all tests. Those that need a cluster run where
// that is asked for alone. Packages with more lines of
// tests run first.
func TestScript(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and tests a module several times")
	}
	gotestsum := filepath.Join(t.TempDir(), "gotestsum")
	if out, err := exec.Command("go", "build", "-o", gotestsum, "gotest.tools/gotestsum").CombinedOutput(); err != nil {
		t.Fatalf("build gotestsum: %v\n%s", err, out)
	}
	script, err := filepath.Abs("../../scripts/test.sh")
	if err != nil {
		t.Fatal(err)
	}
	once := func(n int) (body string) {
		for i := range n {
			body += fmt.Sprintf("func TestOnce%d(t *testing.T) {", i) + fmt.Sprintf(failOnce, fmt.Sprintf("once%d", i)) + "}\n"
		}
		return body
	}
	const leak = `
func TestMain(m *testing.M) {
	m.Run()
	if _, err := os.Stat("left"); err != nil {
		os.WriteFile("left", nil, 0o600)
		os.Exit(1)
	}
	os.Exit(%s)
}
`
	for name, tt := range map[string]struct {
		body  string
		fails bool
		want  []string // in the output
		no    string   // not in the output
		args  []string // of the script
	}{
		"all pass":               {body: "", no: "flaky"},
		"one fails once":         {body: once(1), want: []string{"flaky", "    m/a.TestOnce0\n"}, no: "TestFine\n"},
		"three fail once":        {body: once(3), want: []string{"(3, at most 3)"}},
		"four fail once":         {body: once(4), fails: true, want: []string{"(4, at most 3)", "the run fails"}},
		"seven fail once":        {body: once(7), fails: true},
		"a subtest fails once":   {body: "func TestTop(t *testing.T) { t.Run(\"sub\", func(t *testing.T) {" + fmt.Sprintf(failOnce, "sub") + "}) }", want: []string{"(1, at most 3)", "    m/a.TestTop\n"}},
		"one fails always":       {body: `func TestBad(t *testing.T) { t.Fatal("bad") }`, fails: true, want: []string{"TestBad"}, no: "flaky"},
		"outside of tests, once": {body: fmt.Sprintf(leak, "0"), want: []string{"m/a (outside of its tests)"}},
		"outside of tests":       {body: fmt.Sprintf(leak, "1"), fails: true, no: "flaky"},
		"with a cluster":         {args: []string{"--kube"}, fails: true, want: []string{"TestKubeRuns"}, no: "TestEngine"},
		"does not compile":       {body: "func TestX(t *testing.T) { undefined() }", fails: true, no: "flaky"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for file, text := range map[string]string{
				"go.mod":        "module m\n\ngo 1.26.0\n",
				"a/a_test.go":   "package a\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nvar _ = os.Stat\n\nfunc TestFine(t *testing.T) {}\n\n" + tt.body,
				"b/b_test.go":   "package b\n\nimport \"testing\"\n\nfunc TestB(t *testing.T) {}\n" + strings.Repeat("\n", 200),
				"eng/e_test.go": "package eng\n\nimport \"testing\"\n\n// testenv.Require(t, \"docker\")\nfunc TestEngine(t *testing.T) {}\n\nfunc TestKubeRuns(t *testing.T) { t.Fatal(\"it runs\") }\n",
			} {
				path := filepath.Join(dir, file)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			cmd := exec.Command("bash", append([]string{script}, tt.args...)...)
			cmd.Env = append(os.Environ(), "SANDBOX_TEST_MODULE="+dir, "GOTESTSUM="+gotestsum, "TEST_FLAGS=-count=1 -vet=off", "TEST_PARALLEL=1", "GOFLAGS=")
			out, err := cmd.CombinedOutput()
			if failed := err != nil; failed != tt.fails {
				t.Errorf("failed: %v, want %v", err, tt.fails)
			}
			for _, want := range append(tt.want, " eng") {
				if !strings.Contains(string(out), want) {
					t.Errorf("the output lacks %q", want)
				}
			}
			if a, b := strings.Index(string(out), " a ("), strings.Index(string(out), " b ("); a >= 0 && a < b {
				t.Error("the package with fewer lines of tests ran first")
			}
			if tt.no != "" && strings.Contains(string(out), tt.no) {
				t.Errorf("the output has %q", tt.no)
			}
			if t.Failed() {
				t.Logf("%s", out)
			}
		})
	}
}
