package testenv

import (
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// SystemPath is where programs lie that sandboxes mount by default.
const SystemPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// SystemPython is the distribution's own Python, whose packages it has.
const SystemPython = "/usr/bin/python3"

// netToolsMissing asks once a process for the programs that people fetch things
// with, in the folders that sandboxes mount, and for go wherever it is.
var netToolsMissing = sync.OnceValue(func() string {
	var lacks []string
	for _, name := range []string{"curl", "wget", "git", "node", "npm"} {
		if systemProgram(name) == "" {
			lacks = append(lacks, name)
		}
	}
	if out, err := exec.Command(SystemPython, "-c", "import pip, requests").CombinedOutput(); err != nil {
		lacks = append(lacks, SystemPython+" with pip and requests ("+err.Error()+" "+strings.TrimSpace(string(out))+")")
	}
	if _, err := exec.LookPath("go"); err != nil {
		lacks = append(lacks, "go")
	}
	if len(lacks) == 0 {
		return ""
	}
	return "missing in " + SystemPath + ": " + strings.Join(lacks, ", ")
})

// systemProgram is the path of a program in SystemPath, or empty.
func systemProgram(name string) string {
	for dir := range strings.SplitSeq(SystemPath, ":") {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path
		}
	}
	return ""
}
