package api

import "time"

// OpenShell asks for a shell that keeps its state.
type OpenShell struct {
	Env map[string]string `json:"env,omitempty" maxitems:"256"`
	Dir string            `json:"dir,omitempty" maxlen:"4096" doc:"Where it begins; the workspace without"`
}

// A Shell keeps working folder, variables and functions from line to line.
type Shell struct {
	ID         string    `json:"id"`
	Sandbox    string    `json:"sandbox"`
	Program    string    `json:"program" doc:"bash, or sh where there is no bash"`
	OpenedAt   time.Time `json:"openedAt"`
	LastUsedAt time.Time `json:"lastUsedAt"`
}

// A ShellList holds the shells of a session.
type ShellList struct {
	Items []Shell `json:"items"`
}

// RunLine is a line for a shell to run.
type RunLine struct {
	Line           string  `json:"line" required:"true" maxlen:"1000000"`
	Stdin          string  `json:"stdin,omitempty" maxlen:"1048576"`
	StdinBase64    []byte  `json:"stdinBase64,omitempty" maxlen:"1048576"`
	TimeoutSeconds float64 `json:"timeoutSeconds,omitempty" min:"0" max:"604800"`
	Ask            bool    `json:"ask,omitempty"`
	Tool           string  `json:"tool,omitempty" maxlen:"64"`
}
