package schema

// The tags of the types below are the schemas: doc is the description, required
// says that a field has to be there, min and max bound a number, minlen and
// maxlen a text in characters, maxitems a list or map, enum lists the words there are,
// default is what a field that is left out is, and names says what a text names:
// a file, a pattern of files, or a page. [Decode] reads the same tags.

// Exec is the input of exec.
type Exec struct {
	Command    string            `json:"command" maxlen:"1000000" doc:"Shell text to run: one line or many. Working directory, variables and functions stay from call to call, unless it runs in the background."`
	Dir        string            `json:"dir" maxlen:"4096" names:"file" doc:"Working directory for a command in the background or on a terminal; the workspace by default. Other commands say cd."`
	Env        map[string]string `json:"env" maxitems:"256" maxlen:"131072" doc:"Variables for a command in the background or on a terminal. Other commands say export."`
	Stdin      string            `json:"stdin" maxlen:"1048576" doc:"What the command reads from its standard input; nothing by default."`
	Timeout    int               `json:"timeout" min:"1" max:"86400" doc:"Seconds after which the command and all that it has started are ended; the limit of the settings holds as well."`
	Background bool              `json:"background" doc:"Start the command and answer at once with an id, by which the tool process finds it."`
	Tag        string            `json:"tag" maxlen:"128" doc:"With background: a name for the command, by which process finds it too; not only digits, and none that another command has that runs."`
	TTY        bool              `json:"tty" doc:"Run the command on a terminal of its own; its output is then one stream with control sequences."`
	Rows       int               `json:"rows" min:"1" max:"1000" default:"24" doc:"Lines of the terminal."`
	Cols       int               `json:"cols" min:"1" max:"1000" default:"80" doc:"Columns of the terminal."`
	Restart    bool              `json:"restart" doc:"End the shell with all that it has left running, and start a new one, before the command if there is one."`
}

// Check implements the rules between fields.
func (e Exec) Check() error {
	apart := e.Background || e.TTY
	switch {
	case e.Command == "" && !e.Restart:
		return wrong("command", "is missing", "give the shell text to run, or restart")
	case e.Command == "" && (apart || e.Stdin != "" || e.Timeout != 0):
		return wrong("command", "is missing", "restart alone takes nothing else")
	case e.Tag != "" && !e.Background:
		return wrong("tag", "goes with background only", "")
	case e.Restart && apart:
		return wrong("restart", "does not go with background and tty, which use no shell that stays", "")
	case e.Dir != "" && !apart:
		return wrong("dir", "goes with background or tty only", "begin the command with cd")
	case len(e.Env) > 0 && !apart:
		return wrong("env", "goes with background or tty only", "begin the command with export")
	}
	return nil
}

// RunCode is the input of run_code.
type RunCode struct {
	Code     string            `json:"code" maxlen:"1000000" doc:"The code. The value of its last expression is shown."`
	Language string            `json:"language" enum:"python,javascript,bash" default:"python" doc:"Each language has a kernel of its own, whose variables stay from call to call."`
	Env      map[string]string `json:"env" maxitems:"256" maxlen:"131072" doc:"Variables for this call alone."`
	Timeout  int               `json:"timeout" min:"1" max:"86400" doc:"Seconds after which the code is interrupted; the limit of the settings holds as well."`
	Restart  bool              `json:"restart" doc:"Start the kernel of the language anew, without its variables, before the code if there is one."`
}

// Check implements the rules between fields.
func (r RunCode) Check() error {
	if r.Code == "" && !r.Restart {
		return wrong("code", "is missing", "give the code to run, or restart")
	}
	if r.Code == "" && (len(r.Env) > 0 || r.Timeout != 0) {
		return wrong("code", "is missing", "restart alone takes nothing else")
	}
	return nil
}

// Process is the input of process.
type Process struct {
	Action string `json:"action" required:"true" enum:"list,poll,write,kill,resize,ports" doc:"list: the commands in the background. ports: the TCP ports at which programs in the sandbox listen. poll: what one has written since the last poll, and whether it has ended. write: data to its standard input. kill: end it with all that it has started, or send a signal. resize: change the size of its terminal."`
	ID     string `json:"id" maxlen:"128" doc:"The command, as exec has named it, or its process number or its tag; for all actions but list and ports."`
	Wait   int    `json:"wait" min:"0" max:"300" doc:"For poll: seconds to wait for output or the end if there is none yet."`
	Data   string `json:"data" maxlen:"1048576" doc:"For write: the text, with its newline if it needs one."`
	EOF    bool   `json:"eof" doc:"For write: close the standard input after the data."`
	Signal string `json:"signal" enum:"HUP,INT,QUIT,KILL,USR1,USR2,TERM,STOP,CONT" doc:"For kill: a signal for the command alone; by default the whole tree is ended."`
	Rows   int    `json:"rows" min:"1" max:"1000" default:"24" doc:"For resize: lines of the terminal."`
	Cols   int    `json:"cols" min:"1" max:"1000" default:"80" doc:"For resize: columns of the terminal."`
}

// Check implements the rules between fields.
func (p Process) Check() error {
	switch {
	case (p.Action == "list" || p.Action == "ports") && p.ID != "":
		return wrong("id", "does not go with "+p.Action, "")
	case p.Action != "list" && p.Action != "ports" && p.ID == "":
		return wrong("id", "is missing", "the action list names the commands")
	case p.Action != "poll" && p.Wait != 0:
		return wrong("wait", "goes with poll only", "")
	case p.Action != "write" && (p.Data != "" || p.EOF):
		return wrong("data", "goes with write only", "")
	case p.Action == "write" && p.Data == "" && !p.EOF:
		return wrong("data", "is missing", "give the text, or eof")
	case p.Action != "kill" && p.Signal != "":
		return wrong("signal", "goes with kill only", "")
	}
	return nil
}

// Read is the input of read.
type Read struct {
	Path   string `json:"path" required:"true" minlen:"1" maxlen:"4096" names:"file" doc:"The file, relative to the workspace or as the sandbox sees it. Pictures come as pictures."`
	Offset int    `json:"offset" min:"1" max:"1000000000" default:"1" doc:"The first line, from 1."`
	Limit  int    `json:"limit" min:"1" max:"10000" default:"2000" doc:"The most lines."`
}

// Write is the input of write.
type Write struct {
	Path    string `json:"path" required:"true" minlen:"1" maxlen:"4096" names:"file" doc:"The file. Missing folders are made; what is there is replaced as one step."`
	Content string `json:"content" required:"true" maxlen:"10485760" doc:"The whole content."`
}

// Edit is the input of edit: one edit, or a list of them.
type Edit struct {
	Path  string     `json:"path" required:"true" minlen:"1" maxlen:"4096" names:"file" doc:"The file."`
	Old   string     `json:"old" maxlen:"10485760" doc:"What is to be replaced, exactly as it stands in the file, without line numbers, and with enough around it to be there once. Empty for a new file."`
	New   string     `json:"new" maxlen:"10485760" doc:"What is to stand there instead."`
	All   bool       `json:"all" doc:"Replace every place."`
	Edits []EditPart `json:"edits" maxitems:"100" doc:"Several edits in their order, instead of old and new: all are made, or none."`
}

// EditPart is one of several edits.
type EditPart struct {
	Old string `json:"old" required:"true" maxlen:"10485760" doc:"What is to be replaced, as the edits before have left it."`
	New string `json:"new" required:"true" maxlen:"10485760" doc:"What is to stand there instead."`
	All bool   `json:"all" doc:"Replace every place."`
}

// Check implements the rules between fields.
func (e Edit) Check() error {
	single := e.Old != "" || e.New != "" || e.All
	switch {
	case len(e.Edits) > 0 && single:
		return wrong("edits", "goes without old, new and all", "put everything into edits")
	case len(e.Edits) == 0 && e.Old == "" && e.New == "":
		return wrong("old", "is missing", "give old and new, or edits")
	}
	return nil
}

// ApplyPatch is the input of apply_patch.
type ApplyPatch struct {
	Patch string `json:"patch" required:"true" minlen:"1" maxlen:"8388608" doc:"A unified diff, or lines between *** Begin Patch and *** End Patch. All of it is carried out, or nothing."`
}

// Ls is the input of ls.
type Ls struct {
	Path   string `json:"path" maxlen:"4096" default:"." names:"file" doc:"The folder."`
	Offset int    `json:"offset" min:"0" max:"1000000000" doc:"Entries to leave out at the beginning."`
	Limit  int    `json:"limit" min:"1" max:"10000" default:"500" doc:"The most entries."`
}

// Glob is the input of glob.
type Glob struct {
	Pattern string `json:"pattern" required:"true" minlen:"1" maxlen:"1024" names:"pattern" doc:"What paths have to match: *, ?, [class], {a,b}, and ** for any number of folders."`
	Path    string `json:"path" maxlen:"4096" names:"file" doc:"The folder below which to look; the workspace by default."`
	Limit   int    `json:"limit" min:"1" max:"10000" default:"500" doc:"The most paths."`
}

// Grep is the input of grep.
type Grep struct {
	Pattern    string `json:"pattern" required:"true" minlen:"1" maxlen:"4096" doc:"What lines have to match, as RE2 writes regular expressions."`
	Literal    bool   `json:"literal" doc:"The pattern is plain text."`
	IgnoreCase bool   `json:"ignoreCase" doc:"Upper and lower case are the same."`
	Path       string `json:"path" maxlen:"4096" names:"file" doc:"A file, or the folder below which to look; the workspace by default."`
	Glob       string `json:"glob" maxlen:"1024" doc:"Look only into files whose paths match this."`
	Context    int    `json:"context" min:"0" max:"20" doc:"Lines to show before and after each match."`
	Mode       string `json:"mode" enum:"lines,files,count" default:"lines" doc:"lines: the lines that match. files: the files that have one. count: how many each has."`
	Limit      int    `json:"limit" min:"1" max:"10000" default:"200" doc:"The most lines that match, or files."`
}

// Image is the input of image.
type Image struct {
	Path string `json:"path" required:"true" minlen:"1" maxlen:"4096" names:"file" doc:"The picture: PNG, JPEG, GIF or WebP."`
}
