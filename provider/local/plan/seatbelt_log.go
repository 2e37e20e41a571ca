package plan

import (
	"bytes"
	"encoding/json"
	"path"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/hostpath"
)

// Log is the program that shows the system log. On macOS only administrators
// can follow the log with it.
const Log = "/usr/bin/log"

// MaxLogLine bounds a line of the log in bytes. A longer line is not a refusal:
// a path has at most 1024 bytes.
const MaxLogLine = 64 << 10

// logReady begins the line that the log program writes when it starts to follow
// the log.
const logReady = "Filtering the log data using"

// LogArgs returns the arguments that follow the system log for refusals by
// profiles whose tags begin with prefix. The program writes one line of text,
// see [LogReady], and then one JSON object a line. LogArgs returns an error if
// the prefix has characters that a tag cannot have.
func LogArgs(prefix string) ([]string, error) {
	if prefix == "" || len(prefix) > 64 || strings.Trim(prefix, tagSigns) != "" {
		return nil, seatbeltInvalid(prefix, "the tag has signs in it that a log line must not have")
	}
	// The kernel logs refusals; its sandbox extension is the sender, and newer
	// systems use a subsystem of their own.
	predicate := `((processID == 0 AND senderImagePath CONTAINS "/Sandbox") OR subsystem == "com.apple.sandbox.reporting") AND eventMessage CONTAINS "` + prefix + `"`
	return []string{Log, "stream", "--style", "ndjson", "--level", "debug", "--predicate", predicate}, nil
}

// LogReady reports whether the line says that the program follows the log from
// now on.
func LogReady(line []byte) bool { return bytes.HasPrefix(line, []byte(logReady)) }

// A Refusal is an operation that a profile refused, as the kernel logs it.
type Refusal struct {
	Program   string // the process's own name for itself, made printable
	PID       int
	Operation string // the profile language's name, such as "file-read-data"
	Target    string // a path, an address, a name; may be empty
	Tag       string // of the profile
	Count     int    // how often the refusal occurred: the kernel counts repetitions
	Time      time.Time
}

// An event holds the fields that matter of a line of the log.
type event struct {
	Message   string `json:"eventMessage"`
	Timestamp string `json:"timestamp"`
}

// ParseRefusal reads one line of the log; ok is false if the line is not a
// refusal with a tag. The message is
//
//	Sandbox: PROGRAM(PID) deny(N) OPERATION TARGET
//	TAG
//
// after "N duplicate report for " or "N duplicate reports for " if the kernel has
// counted repetitions. Code inside the sandbox chooses the program name and the
// target, which may contain line breaks, so the tag is the last line only.
func ParseRefusal(line []byte) (r Refusal, ok bool) {
	if len(line) > MaxLogLine || !utf8.Valid(line) {
		return r, false
	}
	var e event
	if json.Unmarshal(line, &e) != nil {
		return r, false
	}
	at := strings.LastIndexByte(e.Message, '\n')
	if at < 0 {
		return r, false
	}
	text, tag := e.Message[:at], e.Message[at+1:]
	if tag == "" || len(tag) > 64 || strings.Trim(tag, tagSigns) != "" {
		return r, false
	}
	count := 1
	text, found := strings.CutPrefix(text, "Sandbox: ")
	if !found {
		if text, count, found = repeated(text); !found {
			return r, false
		}
	}
	// The program name may contain anything, including the text that follows it
	// here.
	head, rest, found := cutDeny(text)
	if !found {
		return r, false
	}
	open := strings.LastIndexByte(head, '(')
	if open < 0 || !strings.HasSuffix(head, ")") {
		return r, false
	}
	pid, err := strconv.Atoi(head[open+1 : len(head)-1])
	if err != nil || pid <= 0 {
		return r, false
	}
	operation, target, _ := strings.Cut(rest, " ")
	if operation == "" || strings.Trim(operation, "abcdefghijklmnopqrstuvwxyz0123456789*-") != "" {
		return r, false
	}
	when, err := time.Parse("2006-01-02 15:04:05.999999-0700", e.Timestamp)
	if err != nil {
		when = time.Time{}
	}
	return Refusal{Program: printable(head[:open]), PID: pid, Operation: operation, Target: target, Tag: tag, Count: count, Time: when}, true
}

// repeated removes "N duplicate report(s) for Sandbox: " from the beginning.
func repeated(text string) (rest string, count int, ok bool) {
	number, rest, ok := strings.Cut(text, " duplicate report")
	if !ok {
		return text, 0, false
	}
	count, err := strconv.Atoi(number)
	if err != nil || count < 1 {
		return text, 0, false
	}
	rest, ok = strings.CutPrefix(strings.TrimPrefix(rest, "s"), " for Sandbox: ")
	return rest, count, ok
}

// cutDeny cuts the text at the first " deny(N) " that follows a process number.
func cutDeny(text string) (head, rest string, ok bool) {
	for from := 0; ; {
		i := strings.Index(text[from:], ") deny(")
		if i < 0 {
			return "", "", false
		}
		i += from
		end := strings.IndexByte(text[i+len(") deny("):], ')')
		if end > 0 {
			end += i + len(") deny(")
			if _, err := strconv.ParseUint(text[i+len(") deny("):end], 10, 32); err == nil && strings.HasPrefix(text[end+1:], " ") {
				return text[:i+1], text[end+2:], true
			}
		}
		from = i + 1
	}
}

func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return '?'
		}
		return r
	}, s)
}

// Attempt returns the part of a refusal that concerns the rules of the sandbox.
// It returns false for accesses that programs try routinely without need, and
// for operations that no rule covers (system services, the name and size of a
// file).
func (r Refusal) Attempt() (kind string, op sandbox.Operation, resource string, ok bool) {
	switch {
	case r.Operation == "network-outbound" && !strings.HasPrefix(r.Target, "/"):
		host := strings.TrimPrefix(r.Target, "remote:")
		if host == "" || strings.ContainsAny(host, " \n/") {
			return "", "", "", false
		}
		return sandbox.ResourceNetwork, sandbox.OpConnect, host, true
	case !strings.HasPrefix(r.Target, "/") || strings.IndexByte(r.Target, 0) >= 0 || path.Clean(r.Target) != r.Target || idle(r.Target):
		return "", "", "", false
	case r.Operation == "network-outbound":
		return sandbox.ResourcePath, sandbox.OpConnect, r.Target, true
	case r.Operation == "file-read-data":
		return sandbox.ResourcePath, sandbox.OpRead, r.Target, true
	case strings.HasPrefix(r.Operation, "file-write"):
		return sandbox.ResourcePath, sandbox.OpWrite, r.Target, true
	}
	return "", "", "", false
}

// idle reports whether system libraries try p in most programs and work without
// it.
func idle(p string) bool {
	for _, dir := range []string{"/dev", "/Library/Preferences", "/private/var/db", "/private/var/run", "/private/var/select", "/System", "/AppleInternal"} {
		if hostpath.Within(p, dir) {
			return true
		}
	}
	return strings.HasSuffix(p, "/.CFUserTextEncoding") || p == "/"
}
