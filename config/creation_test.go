package config

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	sandbox "github.com/bulkhead-dev/sandbox"
)

const ceilings = `{"daemon": {"create": {
	"images": ["python:3.12", "registry.example.com/team/*"], "env": ["APP_*", "PATH", "*"], "maxMemory": "4g", "maxCPUs": 4, "maxProcesses": 1000, "maxDisk": "1g",
	"allowedDomains": ["*.example.com"]}},
	"agents": {"defaults": {"sandbox": {"workspaceQuota": "100m", "network": {"allowedDomains": ["packages.example.org"], "deniedDomains": ["bad.example.com"]}}}}}`

// TestCreationCeilings holds what a request may ask for: what is above a ceiling, or
// can be no value, is refused with the field and the ceiling.
func TestCreationCeilings(t *testing.T) {
	domains := func(list ...string) *NetworkRules { return &NetworkRules{AllowedDomains: &list} }
	many := map[string]string{}
	for i := range 65 {
		many[strings.Repeat("a", i+1)] = ""
	}
	for name, c := range map[string]struct {
		settings string
		ask      Creation
		code     sandbox.Code // empty is no error
		field    string
		says     string
	}{
		"nothing":                  {ceilings, Creation{}, "", "", ""},
		"own image":                {"{}", Creation{Image: "sandbox:bookworm-slim"}, "", "", ""},
		"another image":            {"{}", Creation{Image: "python:3.12"}, sandbox.CodeCapabilityBlocked, "image", "sandbox:bookworm-slim"},
		"image of the list":        {ceilings, Creation{Image: "python:3.12"}, "", "", ""},
		"image with a digest":      {ceilings, Creation{Image: "python:3.12@sha256:0000"}, sandbox.CodeCapabilityBlocked, "image", "python:3.12"},
		"image below a prefix":     {ceilings, Creation{Image: "registry.example.com/team/x@sha256:0000"}, "", "", ""},
		"image beside a prefix":    {ceilings, Creation{Image: "registry.example.com/teams/x"}, sandbox.CodeCapabilityBlocked, "image", "team/*"},
		"image like a flag":        {ceilings, Creation{Image: "--privileged"}, sandbox.CodeValidation, "image", ""},
		"image with a line feed":   {ceilings, Creation{Image: "python:3.12\nx"}, sandbox.CodeValidation, "image", ""},
		"own preset":               {"{}", Creation{Preset: "restricted"}, "", "", ""},
		"another preset":           {"{}", Creation{Preset: "permissive"}, sandbox.CodeCapabilityBlocked, "preset", "restricted"},
		"a stricter preset":        {"{}", Creation{Preset: "strict"}, sandbox.CodeCapabilityBlocked, "preset", "restricted"},
		"preset of the list":       {`{"daemon": {"create": {"presets": ["normal"]}}}`, Creation{Preset: "normal"}, "", "", ""},
		"preset beside the list":   {`{"daemon": {"create": {"presets": ["normal"]}}}`, Creation{Preset: "permissive"}, sandbox.CodeCapabilityBlocked, "preset", "restricted, normal"},
		"preset that is none":      {`{"daemon": {"create": {"presets": ["normal"]}}}`, Creation{Preset: "Normal"}, sandbox.CodeValidation, "preset", "strict, restricted, normal, permissive"},
		"env without a ceiling":    {"{}", Creation{Env: map[string]string{"A": "1"}}, sandbox.CodeCapabilityBlocked, "env.A", "none"},
		"env of a pattern":         {ceilings, Creation{Env: map[string]string{"OTHER": "1"}}, "", "", ""},
		"PATH in full":             {ceilings, Creation{Env: map[string]string{"PATH": "/x"}}, "", "", ""},
		"LD_PRELOAD by a pattern":  {ceilings, Creation{Env: map[string]string{"LD_PRELOAD": "/x"}}, sandbox.CodeCapabilityBlocked, "env.LD_PRELOAD", ""},
		"a proxy by a pattern":     {ceilings, Creation{Env: map[string]string{"https_proxy": "x"}}, sandbox.CodeCapabilityBlocked, "env.https_proxy", ""},
		"a name with =":            {ceilings, Creation{Env: map[string]string{"A=B": "x"}}, sandbox.CodeValidation, "env", ""},
		"a value with NUL":         {ceilings, Creation{Env: map[string]string{"APP_A": "a\x00b"}}, sandbox.CodeValidation, "env.APP_A", ""},
		"a value that is no text":  {ceilings, Creation{Env: map[string]string{"APP_A": "\xff"}}, sandbox.CodeValidation, "env.APP_A", ""},
		"less memory":              {"{}", Creation{Resources: &Resources{Memory: 1 << 30}}, "", "", ""},
		"more memory":              {"{}", Creation{Resources: &Resources{Memory: 3 << 30}}, sandbox.CodeCapabilityBlocked, "resources.memory", "2147483648"},
		"memory of the ceiling":    {ceilings, Creation{Resources: &Resources{Memory: 4 << 30}}, "", "", ""},
		"memory above the ceiling": {ceilings, Creation{Resources: &Resources{Memory: 4<<30 + 1}}, sandbox.CodeCapabilityBlocked, "resources.memory", "4294967296"},
		"negative memory":          {ceilings, Creation{Resources: &Resources{Memory: -1}}, sandbox.CodeValidation, "resources.memory", ""},
		"endless memory":           {ceilings, Creation{Resources: &Resources{Memory: math.MaxInt64}}, sandbox.CodeValidation, "resources.memory", ""},
		"NaN processors":           {ceilings, Creation{Resources: &Resources{CPUs: math.NaN()}}, sandbox.CodeValidation, "resources.cpus", ""},
		"endless processors":       {ceilings, Creation{Resources: &Resources{CPUs: math.Inf(1)}}, sandbox.CodeValidation, "resources.cpus", ""},
		"more processors":          {ceilings, Creation{Resources: &Resources{CPUs: 4.5}}, sandbox.CodeCapabilityBlocked, "resources.cpus", "4"},
		"more processes":           {"{}", Creation{Resources: &Resources{Processes: 513}}, sandbox.CodeCapabilityBlocked, "resources.processes", "512"},
		"more disk":                {ceilings, Creation{Resources: &Resources{Disk: 1<<30 + 1}}, sandbox.CodeCapabilityBlocked, "resources.disk", "1073741824"},
		"disk where none is bound": {"{}", Creation{Resources: &Resources{Disk: 1 << 40}}, "", "", ""},
		"no hosts":                 {"{}", Creation{Network: domains()}, "", "", ""},
		"a host":                   {"{}", Creation{Network: domains("packages.example.org")}, sandbox.CodeCapabilityBlocked, "network.allowedDomains[0]", "no hosts"},
		"a host of the settings":   {ceilings, Creation{Network: domains("packages.example.org:443")}, "", "", ""},
		"a host of the ceiling":    {ceilings, Creation{Network: domains("a.example.com")}, "", "", ""},
		"every host":               {ceilings, Creation{Network: domains("a.example.com", "*")}, sandbox.CodeCapabilityBlocked, "network.allowedDomains[1]", "*.example.com"},
		"the service of a cloud":   {ceilings, Creation{Network: domains("169.254.169.254")}, sandbox.CodeCapabilityBlocked, "network.allowedDomains[0]", ""},
		"a host that is none":      {ceilings, Creation{Network: domains("a b")}, sandbox.CodeValidation, "network.allowedDomains[0]", ""},
		"a label":                  {"{}", Creation{Labels: map[string]string{"sandbox.instance": "other"}}, "", "", ""},
		"a label with =":           {"{}", Creation{Labels: map[string]string{"a=b": ""}}, sandbox.CodeValidation, "labels", ""},
		"a label of no letters":    {"{}", Creation{Labels: map[string]string{"ä": ""}}, sandbox.CodeValidation, "labels", ""},
		"a label with an escape":   {"{}", Creation{Labels: map[string]string{"a": "\x1b[31m"}}, sandbox.CodeValidation, "labels.a", ""},
		"too many labels":          {"{}", Creation{Labels: many}, sandbox.CodeValidation, "labels", "64"},
		"metadata":                 {"{}", Creation{Metadata: map[string]string{"größe": "a\nb"}}, "", "", ""},
		"long metadata":            {"{}", Creation{Metadata: map[string]string{"a": strings.Repeat("x", 4097)}}, sandbox.CodeValidation, "metadata.a", ""},
		"a negative timeout":       {"{}", Creation{Timeout: -1}, sandbox.CodeValidation, "timeout", ""},
		"another end":              {"{}", Creation{Timeout: 1, OnTimeout: "stop"}, sandbox.CodeValidation, "onTimeout", ""},
	} {
		s, err := Parse("test", []byte(c.settings))
		if err != nil {
			t.Fatal(err)
		}
		base, err := Resolve(s, Who{Agent: "main", Session: "s"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		var most *CreateSettings
		if s.Daemon != nil {
			most = s.Daemon.Create
		}
		_, err = c.ask.Layer(base, most)
		if c.code == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		var e *sandbox.Error
		if !errors.As(err, &e) || e.Code != c.code || e.Field != c.field || !strings.Contains(e.Message, c.says) {
			t.Errorf("%s: %v, field %q; want %s of %q with %q", name, err, e.Field, c.code, c.field, c.says)
		}
	}
}

// TestCreationResolved holds that what a request asks for holds over the settings, and
// below the flags of a call; lists of hosts are replaced, and those that are denied
// are added to.
func TestCreationResolved(t *testing.T) {
	s, err := Parse("test", []byte(ceilings))
	if err != nil {
		t.Fatal(err)
	}
	who := Who{Agent: "main", Session: "s"}
	base, err := Resolve(s, who, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := Creation{
		Image: "python:3.12", Env: map[string]string{"APP_A": "1"}, Resources: &Resources{Memory: 1 << 30, CPUs: 0.5, Processes: 64, Disk: 1 << 20},
		Network: &NetworkRules{AllowedDomains: &[]string{}, DeniedDomains: []string{"*"}},
	}
	if s.Request, err = c.Layer(base, s.Daemon.Create); err != nil {
		t.Fatal(err)
	}
	r, err := Resolve(s, who, nil)
	if err != nil {
		t.Fatal(err)
	}
	d := r.Docker
	if d.Image != "python:3.12" || d.Env["APP_A"] != "1" || d.Env["LANG"] == "" || d.Memory != 1<<30 || d.MemorySwap != 1<<30 || d.CPUs != 0.5 || d.PIDsLimit != 64 || r.WorkspaceQuota != 1<<20 {
		t.Errorf("%+v, %v", d, r.WorkspaceQuota)
	}
	if len(r.Network.AllowedDomains) != 0 || !reflect.DeepEqual(r.Network.DeniedDomains, []string{"bad.example.com", "*"}) || r.Network.AllowPublic {
		t.Errorf("%+v", r.Network)
	}
	if o := r.Origin("docker.image"); o != "request" {
		t.Error(o)
	}
	if r, err = Resolve(s, who, Overrides{Image: "other"}.Layer()); err != nil || r.Docker.Image != "other" {
		t.Errorf("with a flag: %s, %v", r.Docker.Image, err)
	}
}

// TestCreationPreset holds that the preset of a request lies below what the settings
// say themselves, and what the request asks for above both.
func TestCreationPreset(t *testing.T) {
	s, err := Parse("test", []byte(`{"daemon": {"create": {"presets": ["strict"]}}, "agents": {"defaults": {"sandbox": {"preset": "normal", "docker": {"cpus": 1.5}}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	who := Who{Agent: "main", Session: "s"}
	base, err := Resolve(s, who, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := Creation{Preset: "strict", Resources: &Resources{Processes: 64}}
	if s.Request, err = c.Layer(base, s.Daemon.Create); err != nil {
		t.Fatal(err)
	}
	r, err := Resolve(s, who, nil)
	if err != nil {
		t.Fatal(err)
	}
	if r.Preset != "strict" || r.Docker.Memory != 512<<20 || r.Docker.CPUs != 1.5 || r.Docker.PIDsLimit != 64 || r.WorkspaceAccess != "none" {
		t.Errorf("%s %d %v %d %s", r.Preset, r.Docker.Memory, r.Docker.CPUs, r.Docker.PIDsLimit, r.WorkspaceAccess)
	}
}

// TestCreateSettings holds that ceilings that can match nothing are refused.
func TestCreateSettings(t *testing.T) {
	for text, field := range map[string]string{
		`{"images": ["*"]}`: "", `{"images": ["python:*"], "env": ["*", "A_*"]}`: "",
		`{"presets": ["strict"]}`: "", `{"presets": ["other"]}`: "daemon.create.presets[0]",
		`{"images": ["a b"]}`: "daemon.create.images[0]", `{"images": ["a*b"]}`: "daemon.create.images[0]", `{"images": [""]}`: "daemon.create.images[0]",
		`{"env": ["A", "B-*"]}`: "daemon.create.env[1]", `{"maxCPUs": 0}`: "daemon.create.maxCPUs", `{"maxMemory": "1k"}`: "daemon.create.maxMemory",
		`{"allowedDomains": ["a b"]}`: "daemon.create.allowedDomains[0]", `{"memory": 1}`: "daemon.create.memory",
	} {
		_, err := Parse("test", []byte(`{"daemon": {"create": `+text+`}}`))
		if field == "" && err != nil || field != "" && (err == nil || !strings.Contains(err.Error(), field)) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestCreationDiffers holds that a field that a request does not name asks for nothing.
func TestCreationDiffers(t *testing.T) {
	had := Creation{Image: "a", Preset: "strict", Env: map[string]string{"A": "1"}, Labels: map[string]string{"l": "1"}, OnTimeout: "pause", AutoResume: new(true)}
	for field, c := range map[string]Creation{
		"": {}, "image": {Image: "b"}, "preset": {Preset: "normal"}, "env": {Image: "a", Env: map[string]string{"A": "2"}}, "labels": {Labels: map[string]string{"l": "1", "m": ""}},
		"resources": {Resources: &Resources{CPUs: 1}}, "network": {Network: &NetworkRules{}}, "metadata": {Metadata: map[string]string{"a": ""}},
		"onTimeout": {OnTimeout: "kill"}, "autoResume": {AutoResume: new(false)},
	} {
		if got := c.Differs(had); got != field {
			t.Errorf("%+v differs in %q, not in %q", c, got, field)
		}
	}
	if got := had.Differs(had); got != "" {
		t.Error(got)
	}
}
