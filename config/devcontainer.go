package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/tailscale/hujson"

	sandbox "github.com/bulkhead-dev/sandbox"
)

// A Devcontainer is what a devcontainer.json says that a sandbox can have. Its
// author is the author of the project, and untrusted.
type Devcontainer struct {
	Image string             // or empty
	Build *DevcontainerBuild // or nil

	ContainerEnv map[string]string // of the sandbox
	RemoteEnv    map[string]string // of the commands
	PostCreate   []string          // shell lines that run once in a new sandbox
	ForwardPorts []int

	// Notes name each field that does nothing here, with the reason.
	Notes []Notice
}

// A DevcontainerBuild is the Dockerfile of a devcontainer. Paths are relative to the
// folder of the devcontainer.json.
type DevcontainerBuild struct {
	Dockerfile string            `json:"dockerfile"`
	Context    string            `json:"context"`
	Target     string            `json:"target"`
	Args       map[string]string `json:"args"`
}

// devcontainerRefused are fields that ask for more than a sandbox gives. Set to
// anything but nothing they are an error.
func devcontainerRefused() map[string]string {
	return map[string]string{
		"privileged":        "a privileged container has the rights of the host",
		"capAdd":            "a sandbox gets no capability",
		"securityOpt":       "a sandbox keeps its seccomp filter and profiles",
		"runArgs":           "arguments for the engine could take any part of the isolation away",
		"dockerComposeFile": "a sandbox is one container, without Compose",
	}
}

// devcontainerIgnored are fields that do nothing here.
func devcontainerIgnored() map[string]string {
	return map[string]string{
		"mounts":                      "a project mounts no folder of the host; docker.binds of the settings do",
		"workspaceMount":              "the workspace is what --workspace names",
		"workspaceFolder":             "the workspace is at " + sandbox.WorkspaceDir,
		"hostRequirements":            "docker.memory and docker.cpus of the settings hold",
		"features":                    "features are not installed; build an image that has them",
		"overrideFeatureInstallOrder": "features are not installed",
		"initializeCommand":           "it would run on the host",
		"onCreateCommand":             "only postCreateCommand runs",
		"updateContentCommand":        "only postCreateCommand runs",
		"postStartCommand":            "only postCreateCommand runs",
		"postAttachCommand":           "only postCreateCommand runs",
		"waitFor":                     "commands run after postCreateCommand",
		"containerUser":               "commands run as the sandbox's own user",
		"updateRemoteUserUID":         "commands run as the sandbox's own user",
		"userEnvProbe":                "commands run without a login shell",
		"init":                        "the guest is the first process of every sandbox",
		"overrideCommand":             "the guest is the first process of every sandbox",
		"appPort":                     "no port of a sandbox is published; see sandbox port forward",
		"portsAttributes":             "it is for editors",
		"otherPortsAttributes":        "it is for editors",
		"shutdownAction":              "the settings say how long a sandbox is kept",
		"secrets":                     "secrets are bound with --secret or network.secrets",
		"service":                     "a sandbox is one container, without Compose",
		"runServices":                 "a sandbox is one container, without Compose",
	}
}

// ParseDevcontainer reads a devcontainer.json: JSON with comments and trailing
// commas. name is for messages.
//
// Fields that ask for less isolation are [sandbox.CodeCapabilityBlocked] with the field;
// wrong types are [sandbox.CodeValidation].
func ParseDevcontainer(name string, data []byte) (Devcontainer, error) {
	var out Devcontainer
	bad := func(field, format string, args ...any) error {
		return &sandbox.Error{Code: sandbox.CodeValidation, Op: "read devcontainer.json", Field: field, Resource: name, Message: fmt.Sprintf(format, args...)}
	}
	if len(data) > maxFileBytes {
		return out, bad("", "it has more than %d bytes", maxFileBytes)
	}
	if _, err := parseTree(data); err != nil { // which bounds its depth
		return out, bad("", "it is not valid: %v", err)
	}
	plain, err := hujson.Standardize(data)
	if err != nil {
		return out, bad("", "it is not valid: %v", err)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(plain, &fields); err != nil {
		return out, bad("", "it is no object: %v", err)
	}
	refused, ignored := devcontainerRefused(), devcontainerIgnored()
	note := func(field, value, why string) {
		out.Notes = append(out.Notes, Notice{Path: field, Value: value, Why: why})
	}
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		v := fields[field]
		if why, ok := refused[field]; ok && !emptyJSON(v) {
			return out, &sandbox.Error{
				Code: sandbox.CodeCapabilityBlocked, Op: "read devcontainer.json", Field: field, Resource: name,
				Message: fmt.Sprintf("%s is refused: %s", field, why), Hint: "take it out, or use --image or --from-dockerfile in place of --devcontainer",
			}
		}
		var err error
		switch field {
		case "name", "$schema", "customizations":
		case "image":
			err = json.Unmarshal(v, &out.Image)
		case "build":
			out.Build, err = devcontainerBuild(v, note)
		case "dockerFile": // the older form
			out.Build = &DevcontainerBuild{Context: "."}
			err = json.Unmarshal(v, &out.Build.Dockerfile)
		case "context":
			note(field, "", "write it as build.context")
		case "containerEnv":
			out.ContainerEnv, err = devcontainerEnv(field, v, note)
		case "remoteEnv":
			out.RemoteEnv, err = devcontainerEnv(field, v, note)
		case "remoteUser":
			var user string
			if err = json.Unmarshal(v, &user); err == nil && user != "sandbox" {
				note(field, quoted(user), "commands run as the sandbox's own user, which is never root")
			}
		case "postCreateCommand":
			out.PostCreate, err = devcontainerCommand(v)
		case "forwardPorts":
			out.ForwardPorts, err = devcontainerPorts(v, note)
		default:
			why, known := ignored[field]
			switch {
			case known && !emptyJSON(v):
				note(field, "", why)
			case !known && refused[field] == "":
				note(field, "", "the field is not known")
			}
		}
		if err != nil {
			return out, bad(field, "it has a value of the wrong type: %v", err)
		}
	}
	switch {
	case out.Image != "" && out.Build != nil:
		return out, bad("image", "it names an image and a Dockerfile; it must name one of them")
	case out.Image != "" && !isImage(out.Image):
		return out, bad("image", "%s is no reference of an image", quoted(out.Image))
	case out.Build != nil && out.Build.Dockerfile == "":
		return out, bad("build.dockerfile", "it is missing")
	}
	return out, nil
}

// emptyJSON reports whether v asks for nothing.
func emptyJSON(v json.RawMessage) bool {
	switch strings.TrimSpace(string(v)) {
	case "null", "false", "[]", "{}", `""`:
		return true
	}
	return false
}

func devcontainerBuild(v json.RawMessage, note func(field, value, why string)) (*DevcontainerBuild, error) {
	b := &DevcontainerBuild{}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(v, &all); err != nil {
		return nil, err
	}
	for _, field := range slices.Sorted(maps.Keys(all)) {
		if !slices.Contains([]string{"dockerfile", "context", "target", "args"}, field) {
			note("build."+field, "", "only dockerfile, context, target and args have an effect")
		}
	}
	if err := json.Unmarshal(v, b); err != nil {
		return nil, err
	}
	if b.Context == "" {
		b.Context = "."
	}
	for _, name := range sortedKeys(b.Args) {
		value, ok := devcontainerValue(b.Args[name])
		if !ok {
			note("build.args."+name, "", "variables of the host are not handed to a project")
			delete(b.Args, name)
			continue
		}
		b.Args[name] = value
	}
	return b, nil
}

// devcontainerEnv reads variables. A value that takes one of the host, or one that
// is only known inside, is left out.
func devcontainerEnv(field string, v json.RawMessage, note func(field, value, why string)) (map[string]string, error) {
	var all map[string]*string
	if err := json.Unmarshal(v, &all); err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, name := range sortedKeys(all) {
		if all[name] == nil { // which takes the variable away
			continue
		}
		if !isVariable(name) {
			note(field+"."+name, "", "it is no name of a variable")
			continue
		}
		value, ok := devcontainerValue(*all[name])
		if !ok {
			note(field+"."+name, "", "its value takes a variable of the host or of the image, which is not replaced")
			continue
		}
		out[name] = value
	}
	return out, nil
}

// devcontainerValue replaces what stands for the workspace. ok is false where
// another ${…} remains.
func devcontainerValue(s string) (value string, ok bool) {
	s = strings.NewReplacer(
		"${containerWorkspaceFolder}", sandbox.WorkspaceDir,
		"${containerWorkspaceFolderBasename}", path.Base(sandbox.WorkspaceDir),
	).Replace(s)
	return s, !strings.Contains(s, "${")
}

// devcontainerCommand returns the shell lines of a command: a line, the arguments of
// a program, or an object of several, which run one after the other by name.
func devcontainerCommand(v json.RawMessage) ([]string, error) {
	var line string
	if json.Unmarshal(v, &line) == nil {
		if strings.TrimSpace(line) == "" {
			return nil, nil
		}
		return []string{line}, nil
	}
	var args []string
	if json.Unmarshal(v, &args) == nil {
		if len(args) == 0 {
			return nil, nil
		}
		quoted := make([]string, len(args))
		for i, a := range args {
			quoted[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
		return []string{strings.Join(quoted, " ")}, nil
	}
	var several map[string]json.RawMessage
	if err := json.Unmarshal(v, &several); err != nil {
		return nil, err
	}
	var out []string
	for _, name := range sortedKeys(several) {
		if strings.HasPrefix(strings.TrimSpace(string(several[name])), "{") {
			return nil, fmt.Errorf("%s holds an object", quoted(name))
		}
		lines, err := devcontainerCommand(several[name])
		if err != nil {
			return nil, err
		}
		out = append(out, lines...)
	}
	return out, nil
}

func devcontainerPorts(v json.RawMessage, note func(field, value, why string)) ([]int, error) {
	var all []any
	if err := json.Unmarshal(v, &all); err != nil {
		return nil, err
	}
	var out []int
	for i, one := range all {
		n, ok := one.(float64)
		if !ok || n != float64(int(n)) || n < 1 || n > 65535 {
			note(fmt.Sprintf("forwardPorts[%d]", i), fmt.Sprint(one), "only numbers of ports inside are forwarded")
			continue
		}
		out = append(out, int(n))
	}
	return out, nil
}
