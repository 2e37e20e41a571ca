package command

import "strings"

// A fileRole is one entry of the table of the sensitive-file check: what a
// program does with the files that its words name. Of a program without entry
// every word may be a file that is read.
type fileRole struct {
	programs string
	text     int    // operands at the front that are no files: the pattern of grep
	unless   string // options that give that text, so that every operand is a file
	write    writes // which operands are written
	when     string // options without which nothing is written: sed -i
	into     string // options whose value is written
	tree     string // options that take what lies below along; "always" when it does anyway
	starts   bool   // only the operands before the first option are read, as of find
	none     bool   // no word is a file that is opened
	message  bool   // words with blanks are text for people
}

type writes int

const (
	writesNone writes = iota
	writesAll
	writesLast
)

// fileRoles is the table, by program.
func fileRoles() map[string]*fileRole {
	rows := fileRoleRows()
	m := make(map[string]*fileRole, 8*len(rows))
	for i := range rows {
		for name := range strings.FieldsSeq(rows[i].programs) {
			m[name] = &rows[i]
		}
	}
	return m
}

func fileRoleRows() []fileRole {
	return []fileRole{
		{programs: "echo printf : true false cd pushd popd dirs pwd kill sleep export unset set shift return exit break continue wait jobs fg bg umask ulimit type which whereis whoami id uname hostname basename dirname expr seq yes test [ man alias unalias let read local declare typeset readonly getopts hash shopt trap tput clear nproc uptime free nslookup dig host ping", none: true},
		{programs: "git hg svn jj gh glab hub", text: 1, message: true},
		{programs: "logger notify-send say wall", message: true},
		{programs: "npm yarn pnpm cargo pip kubectl helm", text: 1},
		{programs: "docker podman", text: 1, tree: "always"},
		{programs: "rg ag ack", text: 1, unless: "-e --regexp -f --file --files", tree: "always"},
		{programs: "grep egrep fgrep zgrep ugrep", text: 1, unless: "-e --regexp -f --file --files", tree: "-r -R --recursive"},
		{programs: "sed gsed", text: 1, unless: "-e --expression -f --file", write: writesAll, when: "-i --in-place"},
		{programs: "awk gawk mawk nawk original-awk", text: 1, unless: "-f --file"},
		{programs: "jq yq", text: 1, unless: "-f --from-file --rawfile --slurpfile"},
		{programs: "diff", tree: "-r --recursive"},
		{programs: "perl ruby", write: writesAll, when: "-i"},
		{programs: "tr", none: true},
		{programs: "rm srm", write: writesAll, tree: "-r -R --recursive"},
		{programs: "tee touch mkdir rmdir unlink shred truncate sponge mkfifo mknod vim nvim vi ex ed nano emacs pico micro gzip gunzip bzip2 xz zstd dos2unix unix2dos rename setfacl chattr shfmt", write: writesAll},
		{programs: "mv", write: writesAll, tree: "always", into: "-t --target-directory"},
		{programs: "cp install ln link rsync scp", write: writesLast, tree: "-r -R -a --recursive --archive", into: "-t --target-directory"},
		{programs: "chmod chown chgrp", text: 1, unless: "--reference -r -w -x -X -s -t", write: writesAll, tree: "-R --recursive"},
		{programs: "sort", into: "-o --output"},
		{programs: "curl", into: "-o --output --output-dir -c --cookie-jar --trace --trace-ascii --dump-header -D"},
		{programs: "wget", into: "-O --output-document -o --output-file -a --append-output -P --directory-prefix"},
		{programs: "tar bsdtar", into: "-C --directory", tree: "-c --create -r --append -u --update"},
		{programs: "zip 7z", tree: "-r a"},
		{programs: "unzip", into: "-d"},
		{programs: "gcc g++ cc clang clang++ go tsc esbuild ld", into: "-o --output --outfile --outdir"},
		{programs: "openssl", into: "-out -keyout"},
		{programs: "ssh-keygen", into: "-f"},
		{programs: "gpg", into: "-o --output"},
		{programs: "strace ltrace script", into: "-o --output"},
		{programs: "patch", write: writesAll, into: "-o --output -d --directory"},
		{programs: "find gfind", starts: true, into: "-fprint -fprintf -fls -fprint0"},
	}
}
