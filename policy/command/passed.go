package command

import (
	"fmt"

	"github.com/bulkhead-dev/sandbox/policy"
)

// talkers are programs whose arguments may well be the names of other
// programs, or whose own commands are called like those.
const talkers = "man which whereis type command whatis apropos info help tldr hash grep egrep fgrep rg ag ack git hg svn jj docker podman kubectl " +
	"aws gsutil gcloud az gh npm yarn pnpm cargo apt apt-get apk dnf yum brew busybox toybox find gfind fd fdfind xargs basename dirname alias unalias set local"

// passedOn is the net behind the programs that are known to run others: of a
// program about which nothing is known, words that would be a command which
// removes a critical folder are asked about.
func (s *subject) passedOn(k *call, at places) {
	if k.program == "" || k.is(isSpeaker) || s.tables.removers[k.program] != nil {
		return
	}
	for i := 1; i < len(k.Words)-2; i++ {
		if w := k.Words[i]; !w.Static || w.Glob || w.Value != "rm" && w.Value != "/bin/rm" && w.Value != "/usr/bin/rm" {
			continue
		}
		if hasWord(talkers, k.program) {
			return
		}
		rest := grammar{}.parse(k.Words[i+1:], k.Open)
		if _, ok := rest.given("-r -R --recursive"); !ok {
			return
		}
		for _, target := range rest.operands {
			if s.losesAll(k, target, at) {
				s.removal(k, "passed-on", policy.High, unknown, k.Words[i], fmt.Sprintf("if %s runs what its words say, rm removes %s, without which the machine, a home or the work is lost", k.program, quote(target.Raw)), "name the files or folders below the workspace that are to go")
				return
			}
		}
		return
	}
}

// losesAll reports whether a target is a critical place.
func (s *subject) losesAll(k *call, target lineWord, at places) bool {
	if !target.Static {
		return false
	}
	for _, dir := range s.dirs(k.lineCommand) {
		if at.of(resolvePath(dir, target.Value), target.Glob) == critical {
			return true
		}
	}
	return false
}
