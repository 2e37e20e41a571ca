package violation

import (
	"path"
	"slices"
	"strings"

	"github.com/bulkhead-dev/sandbox"
)

// maxLine bounds what is read of one line, from its end: that is where the
// cause stands.
const maxLine = 4 << 10

// A sentence is what one line of output says.
type sentence struct {
	denial bool              // it has the text of a denial
	op     sandbox.Operation // what failed; empty when the line does not say
	names  [3][]string       // what may be paths, the surest reading first
}

// read reads one line without its end.
func read(line string) sentence {
	line = line[max(0, len(line)-maxLine):]
	lower := strings.ToLower(line)
	s := sentence{denial: holdsAny(lower, denials) || hasWord(lower, errnos)}
	s.op = operation(lower)
	s.names = names(line, s.denial)
	return s
}

// denials are the texts of EACCES, EPERM and EROFS in lower case, as in libc
// and thus in coreutils, Python, Node, Go, Git, Perl, Ruby and Rust; and the
// names of Java's exceptions, which come without a text.
var denials = []string{
	"permission denied", "operation not permitted", readOnlyText,
	"accessdeniedexception", "readonlyfilesystemexception",
}

const readOnlyText = "read-only file system"

// errnos are names of those errors that stand as words of their own.
var errnos = []string{"eacces", "eperm", "erofs"}

// operation determines from a line in lower case which operation failed. An
// error of a read-only file system is a write whatever else the line says.
func operation(lower string) sandbox.Operation {
	switch {
	case holdsAny(lower, []string{readOnlyText, "readonlyfilesystem"}) || hasWord(lower, []string{"erofs"}):
		return sandbox.OpWrite
	case holdsAny(lower, writing) || hasWord(lower, changes):
		return sandbox.OpWrite
	case holdsAny(lower, reading) || hasWord(lower, looks):
		return sandbox.OpRead
	}
	first, _, _ := strings.Cut(lower, ": ")
	switch program := path.Base(strings.TrimSpace(first)); {
	case slices.Contains(writers, program):
		return sandbox.OpWrite
	case slices.Contains(readers, program):
		return sandbox.OpRead
	}
	return ""
}

var writing = []string{
	"cannot create", "can't create", "could not create", "couldn't create", "unable to create", "failed to create",
	"cannot touch", "cannot remove", "can't remove", "failed to remove", "cannot move", "cannot overwrite",
	"cannot make", "cannot link", "cannot unlink", "unable to unlink", "cannot write", "unable to write", "failed to write",
	"could not write", "couldn't write", "cannot change", "cannot set", "could not lock", "cannot lock", "unable to lock",
	"failed to rename", "cannot rename", "couldn't open temporary", "for writing", "for appending", "for append",
	"changing permissions", "changing ownership", "setting permissions", "setting times", "adding an object",
	"dir_s_mkdir", "dir_s_rmdir", "apply2files", "file_s_rename",
}

// changes are names of calls that stand before a path in messages.
var changes = []string{"mkdir", "mkdirat", "unlink", "unlinkat", "rename", "renameat", "rmdir", "chmod", "fchmodat", "chown", "lchown", "symlink", "truncate", "mknod", "utime"}

var reading = []string{
	"for reading", "cannot read", "can't read", "could not read", "couldn't read", "unable to read", "failed to read", "error reading",
	"cannot access", "unable to access", "cannot stat", "cannot open", "can't open file", "can't open '", "couldn't open file",
}

var looks = []string{"scandir", "readdir", "readlink", "opendir", "stat", "lstat", "fstatat", "access", "chdir", "execve"}

var writers = []string{"touch", "mkdir", "rm", "rmdir", "mv", "ln", "tee", "chmod", "chown", "chgrp", "truncate", "install", "dd", "unlink", "mktemp", "mkfifo"}

var readers = []string{
	"cat", "tac", "head", "tail", "less", "more", "ls", "grep", "egrep", "fgrep", "rg", "wc", "find", "stat", "file", "diff", "cmp",
	"od", "hexdump", "xxd", "md5sum", "sha1sum", "sha256sum", "sha512sum", "uniq", "cut", "nl", "readlink", "du", "tree", "base64",
}

func holdsAny(s string, parts []string) bool {
	for _, p := range parts {
		if strings.Contains(s, p) {
			return true
		}
	}
	return false
}

// hasWord reports whether one of words stands in s with no letter or digit
// next to it.
func hasWord(s string, words []string) bool {
	for _, w := range words {
		for from := 0; ; {
			i := strings.Index(s[from:], w)
			if i < 0 {
				break
			}
			start, end := from+i, from+i+len(w)
			if (start == 0 || !inWord(s[start-1])) && (end == len(s) || !inWord(s[end])) {
				return true
			}
			from = end
		}
	}
	return false
}

// inWord reports whether b is part of a word. A slash and a dot are, because
// a file may be called like a program.
func inWord(b byte) bool {
	return b == '_' || b == '/' || b == '.' || b == '-' || b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= 0x80
}

// plain takes the colours out of a line.
func plain(s string) string {
	if !strings.Contains(s, "\x1b[") {
		return s
	}
	var b strings.Builder
	for {
		before, after, found := strings.Cut(s, "\x1b[")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		end := strings.IndexFunc(after, func(r rune) bool { return r >= 0x40 && r <= 0x7e })
		if end < 0 {
			return b.String()
		}
		s = after[end+1:]
	}
}
