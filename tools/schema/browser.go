package schema

// Browser is the input of browser.
type Browser struct {
	Action   string   `json:"action" required:"true" enum:"navigate,screenshot,extract,pdf,wait,click,type,upload,download,close" doc:"What to do. The page stays from call to call, until close."`
	URL      string   `json:"url" maxlen:"8192" names:"page" doc:"For navigate: the address, or the path of a file in the workspace."`
	Selector string   `json:"selector" maxlen:"4096" doc:"An element, as CSS selects it: for click, type, upload and download, and if wanted for screenshot, extract and wait."`
	Text     string   `json:"text" maxlen:"1048576" doc:"For type: what is typed. For wait: what has to be on the page."`
	Gone     bool     `json:"gone" doc:"For wait: until nothing matches the selector."`
	Full     bool     `json:"full" doc:"For screenshot: the whole page."`
	Parts    []string `json:"parts" maxitems:"3" enum:"text,links,tree" doc:"For extract: what is wanted; the text by default."`
	Files    []string `json:"files" maxitems:"32" maxlen:"4096" names:"file" doc:"For upload: files of the workspace."`
	Path     string   `json:"path" maxlen:"4096" names:"file" doc:"For download: the folder of the workspace into which the file goes. For pdf: the file to write. For screenshot: a file to write, instead of showing it."`
	Timeout  int      `json:"timeout" min:"1" max:"600" doc:"For wait: seconds."`
}

// takesOf are the fields that an action takes; ! is one that it needs.
var takesOf = map[string][]string{
	"navigate":   {"!url"},
	"screenshot": {"selector", "full", "path"},
	"extract":    {"selector", "parts"},
	"pdf":        {"!path"},
	"wait":       {"selector", "text", "gone", "timeout"},
	"click":      {"!selector"},
	"type":       {"!selector", "!text"},
	"upload":     {"!selector", "!files"},
	"download":   {"!selector", "path"},
	"close":      {},
}

// Check implements the rules between fields.
func (b Browser) Check() error {
	given := []struct {
		name string
		set  bool
	}{
		{"url", b.URL != ""}, {"selector", b.Selector != ""}, {"text", b.Text != ""}, {"gone", b.Gone}, {"full", b.Full},
		{"parts", len(b.Parts) > 0}, {"files", len(b.Files) > 0}, {"path", b.Path != ""}, {"timeout", b.Timeout != 0},
	}
	for _, g := range given {
		takes, needs := false, false
		for _, name := range takesOf[b.Action] {
			takes = takes || name == g.name || name == "!"+g.name
			needs = needs || name == "!"+g.name
		}
		if g.set && !takes {
			return wrong(g.name, "does not go with "+b.Action, "")
		}
		if needs && !g.set {
			return wrong(g.name, "is missing", b.Action+" needs it")
		}
	}
	switch {
	case b.Action == "wait" && (b.Selector == "") == (b.Text == ""):
		return wrong("selector", "or text has to be there, and not both", "")
	case b.Gone && b.Selector == "":
		return wrong("gone", "goes with selector", "")
	case b.Full && b.Selector != "":
		return wrong("full", "does not go with selector", "")
	}
	return nil
}
