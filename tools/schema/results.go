package schema

import (
	"encoding/json"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/registry/pool"
)

// The types below are what the tools answer with, as JSON with stable keys.
// Texts are bounded, and what is not valid UTF-8 in them is replaced.

// Page says how much of something an answer holds.
type Page struct {
	Shown int    `json:"shown" doc:"Items in this answer."`
	Total int    `json:"total" doc:"Items that there are; at least as many, if there is more."`
	More  bool   `json:"more" doc:"There are items that this answer does not have."`
	Hint  string `json:"hint,omitempty" doc:"How to see more, or why there is nothing."`
}

// Stream is what a command has written to one of its outputs.
type Stream struct {
	Text    string `json:"text" doc:"What was written; of much, the beginning and the end."`
	Bytes   int64  `json:"bytes" doc:"Bytes that were written in all."`
	Omitted int64  `json:"omitted,omitempty" doc:"Bytes that are left out in the middle of the text, or lost before it."`
}

// ExecResult is the answer of exec.
type ExecResult struct {
	State     string `json:"state" enum:"ended,running,restarted" doc:"running: in the background, under id. restarted: the shell is a new one, and nothing was run."`
	ID        string `json:"id,omitempty" doc:"The command in the background, for the tool process."`
	ExitCode  int    `json:"exitCode" doc:"Exit status; 128 and the number of a signal that ended it."`
	Signal    string `json:"signal,omitempty" doc:"The signal that ended it."`
	TimedOut  bool   `json:"timedOut,omitempty" doc:"It was ended at its time limit, with all that it had started."`
	Restarted bool   `json:"restarted,omitempty" doc:"The shell ended and is a new one, with the state of the last line before that came to its end."`
	LostDir   string `json:"lostDir,omitempty" doc:"The working folder of the shell, which a rollback has taken away: the line began in the workspace."`
	Stdout    Stream `json:"stdout" doc:"Standard output; on a terminal everything."`
	Stderr    Stream `json:"stderr" doc:"Standard error."`
	Truncated bool   `json:"truncated,omitempty" doc:"Not all of the output is in this answer, and the rest was not kept."`

	Limit           *sandbox.LimitHit   `json:"limit,omitempty" doc:"The limit that was reached."`
	Left            *sandbox.Left       `json:"left,omitempty" doc:"Processes that it had left running, which were ended with it."`
	Waited          *sandbox.Waited     `json:"waited,omitempty" doc:"What its connections waited for their turn, because of network.limits.connections."`
	Warnings        []string            `json:"warnings,omitempty" doc:"What of the command line strictness strict would refuse, where the line needed an approval."`
	Blocked         bool                `json:"blocked,omitempty" doc:"A rule stopped the command, with evidence."`
	BlockedReason   string              `json:"blockedReason,omitempty" doc:"Which rule, and what can be done."`
	BlockedResource string              `json:"blockedResource,omitempty" doc:"What was not to be reached."`
	Violations      []sandbox.Violation `json:"violations,omitempty" doc:"All that was tried and stopped."`

	Sandbox    string `json:"sandbox,omitempty" doc:"The sandbox in which it ran."`
	Created    bool   `json:"created,omitempty" doc:"The sandbox was made for this call."`
	Claimed    bool   `json:"claimed,omitempty" doc:"The sandbox was kept ready, and claimed for this call."`
	DurationMS int64  `json:"durationMs" doc:"How long it ran, in milliseconds."`
	CPUMS      int64  `json:"cpuMs,omitempty" doc:"Processor time, in milliseconds; unknown for lines of the shell that stays."`

	Miss *pool.Miss `json:"miss,omitempty" doc:"Why the sandbox was made although some are kept ready, and how long that took."`
}

// ProcessResult is the answer of process.
type ProcessResult struct {
	Action   string          `json:"action" enum:"list,poll,write,kill,resize,ports" doc:"What was asked."`
	Commands []ProcessStatus `json:"commands" doc:"The commands: all of them for list, the one that was named otherwise."`
	Output   *Stream         `json:"output,omitempty" doc:"For poll: standard output since the last poll."`
	Errors   *Stream         `json:"errors,omitempty" doc:"For poll: standard error since the last poll."`
	Next     int64           `json:"next,omitempty" doc:"For poll: how far the output was read."`
	More     bool            `json:"more,omitempty" doc:"For poll: there is more output already; poll again."`
	Ports    []ProcessPort   `json:"ports,omitempty" doc:"For ports: where programs listen, by number."`
}

// ProcessPort is a TCP port at which a program in the sandbox listens.
type ProcessPort struct {
	Address string `json:"address" doc:"The address that it is bound to; 0.0.0.0 and :: are all."`
	Port    int    `json:"port" doc:"The port."`
	PID     int    `json:"pid,omitempty" doc:"The process number of the program, where the sandbox can tell."`
	Command string `json:"command,omitempty" doc:"The program with its arguments, or the beginning of them."`
}

// ProcessStatus is how a command in the background is.
type ProcessStatus struct {
	ID       string            `json:"id" doc:"What names it."`
	PID      int               `json:"pid,omitempty" doc:"Its process number inside of the sandbox, where that is known."`
	Tag      string            `json:"tag,omitempty" doc:"The name that it was started with."`
	Command  string            `json:"command" doc:"The beginning of its text."`
	State    string            `json:"state" enum:"running,ended,failed" doc:"failed: it is not known how it ended."`
	TTY      bool              `json:"tty,omitempty" doc:"It runs on a terminal."`
	Started  time.Time         `json:"started" doc:"When it was started."`
	Ended    *time.Time        `json:"ended,omitempty" doc:"When it ended."`
	ExitCode *int              `json:"exitCode,omitempty" doc:"Its exit status, once it has ended."`
	Signal   string            `json:"signal,omitempty" doc:"The signal that ended it."`
	TimedOut bool              `json:"timedOut,omitempty" doc:"It was ended at its time limit."`
	Limit    *sandbox.LimitHit `json:"limit,omitempty" doc:"The limit that was reached."`
	Left     *sandbox.Left     `json:"left,omitempty" doc:"Processes that it had left running, which were ended with it."`
	Warnings []string          `json:"warnings,omitempty" doc:"What of the command line strictness strict would refuse, where the line needed an approval."`
	Blocked  string            `json:"blocked,omitempty" doc:"The rule that stopped it, and what can be done."`
	Code     sandbox.Code      `json:"code,omitempty" doc:"What failed, by its stable name."`
	Message  string            `json:"message,omitempty" doc:"What failed."`
	Bytes    int64             `json:"bytes" doc:"Bytes that it has written in all."`
}

// ReadResult is the answer of read and of image.
type ReadResult struct {
	Path   string   `json:"path" doc:"The file, as it was named."`
	Kind   string   `json:"kind" enum:"text,picture,binary" doc:"What it is. A picture comes beside this object."`
	Size   int64    `json:"size" doc:"Bytes of the file."`
	MIME   string   `json:"mime,omitempty" doc:"Of a picture."`
	Width  int      `json:"width,omitempty" doc:"Of a picture, in pixels."`
	Height int      `json:"height,omitempty" doc:"Of a picture, in pixels."`
	Text   string   `json:"text,omitempty" doc:"The lines, each with its number and a tab before it."`
	First  int      `json:"first,omitempty" doc:"Number of the first line."`
	Last   int      `json:"last,omitempty" doc:"Number of the last line."`
	Lines  int      `json:"lines,omitempty" doc:"Lines of the file; at least as many, if it is partial."`
	More   bool     `json:"more,omitempty" doc:"There are lines that this answer does not have."`
	Hint   string   `json:"hint,omitempty" doc:"How to see more, or what to do instead."`
	Notes  []string `json:"notes,omitempty" doc:"What the text does not show of the file."`
	Part   bool     `json:"partial,omitempty" doc:"The file is so large that only its beginning was looked at."`
}

// WriteResult is the answer of write.
type WriteResult struct {
	Path    string `json:"path" doc:"The file, as it was named."`
	Bytes   int    `json:"bytes" doc:"Bytes that it has now."`
	Created bool   `json:"created" doc:"There was no such file."`
}

// EditResult is the answer of edit.
type EditResult struct {
	Path    string       `json:"path" doc:"The file, as it was named."`
	Bytes   int          `json:"bytes" doc:"Bytes that it has now."`
	Created bool         `json:"created" doc:"There was no such file."`
	Edits   []EditChange `json:"edits" doc:"The edits, in their order."`
}

// EditChange is where one edit went.
type EditChange struct {
	Places int `json:"places" doc:"Places that were replaced."`
	Line   int `json:"line" doc:"Line of the first one, as the edit found the file."`
}

// PatchResult is the answer of apply_patch.
type PatchResult struct {
	Files []PatchChange `json:"files" doc:"The files, in the order of the patch."`
}

// PatchChange is what became of one file.
type PatchChange struct {
	Action  string   `json:"action" enum:"write,delete,rename" doc:"What was done."`
	Path    string   `json:"path" doc:"The file."`
	From    string   `json:"from,omitempty" doc:"What it was called before."`
	Created bool     `json:"created,omitempty" doc:"There was no such file."`
	Added   int      `json:"added" doc:"Lines that it got."`
	Removed int      `json:"removed" doc:"Lines that it lost."`
	Notes   []string `json:"notes,omitempty" doc:"What was not exactly as the patch says."`
}

// LsResult is the answer of ls.
type LsResult struct {
	Path    string  `json:"path" doc:"The folder, as it was named."`
	Entries []Entry `json:"entries" doc:"What is in it, by name."`
	Page    Page    `json:"page" doc:"How much of it this is."`
}

// Entry is one of a folder.
type Entry struct {
	Name     string     `json:"name" doc:"Its name."`
	Kind     string     `json:"kind" enum:"file,folder,link,other" doc:"What it is."`
	Size     int64      `json:"size" doc:"Bytes of a file."`
	Modified *time.Time `json:"modified,omitempty" doc:"When its content last changed."`
	Target   string     `json:"target,omitempty" doc:"What a link names."`
}

// GlobResult is the answer of glob.
type GlobResult struct {
	Paths []string `json:"paths" doc:"The paths, folders before what is in them."`
	Page  Page     `json:"page" doc:"How much of it this is."`
}

// GrepResult is the answer of grep.
type GrepResult struct {
	Lines  []GrepLine `json:"lines,omitempty" doc:"In the mode lines: those that match, and those around them."`
	Files  []GrepFile `json:"files,omitempty" doc:"In the modes files and count: the files that have a line that matches."`
	Search Searched   `json:"search" doc:"What was searched, and what was not."`
	Page   Page       `json:"page" doc:"How much of it this is."`
}

// GrepLine is a line of a file.
type GrepLine struct {
	Path string `json:"path" doc:"The file."`
	Line int    `json:"line" doc:"Its number, from 1."`
	Text string `json:"text" doc:"Its text, or the beginning of it."`
	Hit  bool   `json:"hit" doc:"It matches; others stand around one that does."`
}

// GrepFile is a file that has lines that match.
type GrepFile struct {
	Path  string `json:"path" doc:"The file."`
	Count int    `json:"count,omitempty" doc:"In the mode count: how many."`
}

// Searched is what a search has come to.
type Searched struct {
	Files      int    `json:"files" doc:"Files that were searched."`
	Bytes      int64  `json:"bytes" doc:"Bytes that were read."`
	Binary     int    `json:"binary,omitempty" doc:"Files that were left out because they are no text."`
	Unreadable int    `json:"unreadable,omitempty" doc:"Files and folders that could not be read."`
	Repository int    `json:"repository,omitempty" doc:"Folders named .git that were left out; name one as path to search it."`
	Partial    int    `json:"partial,omitempty" doc:"Files with a part that was not searched, because they or a line of them are very long."`
	Stopped    string `json:"stopped,omitempty" doc:"Why the search ended before everything was searched."`
}

// BrowserResult is the answer of browser. What pages say is not to be trusted.
type BrowserResult struct {
	Action    string        `json:"action" enum:"navigate,screenshot,extract,pdf,wait,click,type,upload,download,close" doc:"What was done."`
	URL       string        `json:"url,omitempty" doc:"Where the page is in the end."`
	Status    int64         `json:"status,omitempty" doc:"Of HTTP."`
	Title     string        `json:"title,omitempty" doc:"Of the page."`
	MIME      string        `json:"mime,omitempty" doc:"Of the page, or of a picture."`
	Redirects []string      `json:"redirects,omitempty" doc:"Addresses passed on the way."`
	Bytes     int64         `json:"bytes,omitempty" doc:"That were received, or are in a file."`
	Text      string        `json:"text,omitempty" doc:"Of the page."`
	Links     []BrowserLink `json:"links,omitempty" doc:"Of the page."`
	Tree      []BrowserNode `json:"tree,omitempty" doc:"Of the page, in document order."`
	Truncated bool          `json:"truncated,omitempty" doc:"There is more on the page."`
	Path      string        `json:"path,omitempty" doc:"The file that was written or downloaded."`
	Width     int           `json:"width,omitempty" doc:"Of a picture, in pixels."`
	Height    int           `json:"height,omitempty" doc:"Of a picture, in pixels."`
}

// BrowserLink is a link of a page.
type BrowserLink struct {
	Text string `json:"text" doc:"What it says."`
	URL  string `json:"url" doc:"Where it leads."`
}

// BrowserNode is a node of the accessibility tree.
type BrowserNode struct {
	Depth int    `json:"depth" doc:"How deep it lies."`
	Role  string `json:"role" doc:"What it is."`
	Name  string `json:"name,omitempty" doc:"What it is called."`
	Value string `json:"value,omitempty" doc:"What it holds."`
}

// RunCodeResult is the answer of run_code.
type RunCodeResult struct {
	State          string               `json:"state" enum:"ended,restarted" doc:"restarted: the kernel is a new one, and nothing was run."`
	Stdout         Stream               `json:"stdout" doc:"Standard output."`
	Stderr         Stream               `json:"stderr" doc:"Standard error."`
	Results        []CodeValue          `json:"results" doc:"What the code displays, and the value of its last expression. Pictures come beside this answer."`
	Error          *sandbox.CodeFailure `json:"error,omitempty" doc:"Why the code has failed."`
	ExecutionCount int64                `json:"executionCount,omitempty" doc:"The number of the execution in its kernel."`
	TimedOut       bool                 `json:"timedOut,omitempty" doc:"The code was interrupted at its time limit."`
	Dropped        int64                `json:"dropped,omitempty" doc:"Characters of output that were not kept."`
	Sandbox        string               `json:"sandbox,omitempty" doc:"The sandbox."`
	DurationMS     int64                `json:"durationMs" doc:"How long it took."`
}

// CodeValue is one value in the forms that are text.
type CodeValue struct {
	Text     string          `json:"text,omitempty" doc:"As text."`
	HTML     string          `json:"html,omitempty" doc:"As HTML, such as a table."`
	Markdown string          `json:"markdown,omitempty" doc:"As Markdown."`
	LaTeX    string          `json:"latex,omitempty" doc:"As LaTeX."`
	JSON     json.RawMessage `json:"json,omitempty" doc:"As JSON."`
	Chart    json.RawMessage `json:"chart,omitempty" doc:"A figure as data: type, title, labels of the axes and elements."`
	Picture  int             `json:"picture,omitempty" doc:"The number of the picture beside this answer, counted from 1."`
	Omitted  []string        `json:"omitted,omitempty" doc:"Forms that there are and that are left out here."`
	Main     bool            `json:"main,omitempty" doc:"The value of the last expression."`
}
