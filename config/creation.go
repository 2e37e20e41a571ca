package config

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/policy/network"
)

// A Creation is what the creator of a sandbox asks for beside what the settings
// give. The zero value asks for nothing. It is kept with the sandbox and holds for
// each of its commands; [Creation.Layer] holds it to the ceilings of daemon.create.
type Creation struct {
	Image      string            `json:"image,omitempty" maxlen:"255" doc:"Image of the sandbox; the settings' own, or one that daemon.create.images permits"`
	Preset     string            `json:"preset,omitempty" enum:"strict,restricted,normal,permissive" doc:"Preset under the settings; their own, or one that daemon.create.presets permits"`
	Env        map[string]string `json:"env,omitempty" doc:"Variables of every command, by names that daemon.create.env permits"`
	Resources  *Resources        `json:"resources,omitempty" doc:"Bounds of the sandbox, each at most that of the settings or of daemon.create"`
	Network    *NetworkRules     `json:"network,omitempty" doc:"Which hosts can be reached, within what the settings and daemon.create.allowedDomains allow"`
	Labels     map[string]string `json:"labels,omitempty" doc:"At most 64 labels, by which lists filter. They are no labels of the container"`
	Metadata   map[string]string `json:"metadata,omitempty" doc:"At most 64 texts that are kept with the sandbox and shown with it"`
	Timeout    int64             `json:"timeout,omitempty" min:"0" max:"31536000" doc:"Seconds from now after which the sandbox ends as onTimeout says, whatever runs in it; 0 is no end"`
	OnTimeout  string            `json:"onTimeout,omitempty" enum:"kill,pause" doc:"What happens at the end of timeout: kill, the default, removes the sandbox; pause freezes it"`
	AutoResume *bool             `json:"autoResume,omitempty" doc:"Whether the next call resumes a paused sandbox. Without it, one that was paused by a request is resumed, and one that was paused at the end of its timeout is not"`
}

// Resources are bounds of a sandbox. 0 leaves a bound to the settings.
type Resources struct {
	Memory    int64   `json:"memory,omitempty" min:"0" doc:"Bytes, docker.memory"`
	CPUs      float64 `json:"cpus,omitempty" min:"0" doc:"Processors, docker.cpus"`
	Processes int64   `json:"processes,omitempty" min:"0" doc:"Processes and threads, docker.pidsLimit"`
	Disk      int64   `json:"disk,omitempty" min:"0" doc:"Bytes of the workspace, workspaceQuota"`
}

// NetworkRules say which hosts a sandbox reaches.
type NetworkRules struct {
	AllowedDomains *[]string `json:"allowedDomains,omitempty" doc:"Replaces network.allowedDomains; an empty list is no host. Absent leaves it to the settings"`
	DeniedDomains  []string  `json:"deniedDomains,omitempty" doc:"Added to network.deniedDomains; * is every host"`
}

// CreateSettings are the ceilings of what a request to create a sandbox may ask for.
// What is not set permits no more than the settings give to every sandbox.
type CreateSettings struct {
	Images         []string `json:"images,omitempty" doc:"Images that a request may name; one that ends with * permits every image that begins so. Default the image of the settings alone."`
	Presets        []string `json:"presets,omitempty" enum:"strict,restricted,normal,permissive" doc:"Presets that a request may name. What the settings say themselves stands above a preset. Default the preset of the settings alone."`
	Env            []string `json:"env,omitempty" doc:"Names of variables that a request may set; one that ends with * permits every name that begins so, except those that change how programs are found or loaded (PATH, HOME, LD_PRELOAD and the like), which are named in full. Default none."`
	MaxMemory      *Size    `json:"maxMemory,omitempty" min:"33554432" doc:"Most bytes of memory; default docker.memory."`
	MaxCPUs        *float64 `json:"maxCPUs,omitempty" min:"0.01" max:"4096" doc:"Most processors; default docker.cpus."`
	MaxProcesses   *int64   `json:"maxProcesses,omitempty" min:"16" max:"4194304" doc:"Most processes and threads; default docker.pidsLimit."`
	MaxDisk        *Size    `json:"maxDisk,omitempty" min:"1" doc:"Most bytes of the workspace; default workspaceQuota."`
	AllowedDomains []string `json:"allowedDomains,omitempty" form:"hostRule" doc:"Hosts that a request may allow beyond network.allowedDomains, written in the same way. Default none."`
}

const (
	maxLabels    = 64
	maxLabelName = 128      // bytes
	maxLabel     = 256      // bytes of a value
	maxMetadata  = 4096     // bytes of a value
	maxTexts     = 16 << 10 // bytes of all metadata
	maxEnv       = 256
	maxEnvBytes  = 32 << 10
	maxHostRules = 256
	maxNumber    = 1 << 53 // above it JSON numbers are not exact
)

// Asks reports whether c asks for anything that is kept with the sandbox.
func (c Creation) Asks() bool {
	return c.Confines() ||
		len(c.Labels) > 0 || len(c.Metadata) > 0 || c.OnTimeout != "" || c.AutoResume != nil || c.Timeout != 0
}

// Confines reports whether c asks for anything that settings say.
func (c Creation) Confines() bool {
	return c.Image != "" || c.Preset != "" || len(c.Env) > 0 || c.Resources != nil && *c.Resources != (Resources{}) || c.Network != nil
}

// Differs returns the first field in which c asks for something else than had,
// which the sandbox was created with, or "". A field that c does not name asks for
// nothing. The timeout is no such field: each request sets it anew.
func (c Creation) Differs(had Creation) string {
	same := func(a, b map[string]string) bool { return len(a) == 0 || maps.Equal(a, b) }
	switch r, old := c.Resources, had.Resources; {
	case c.Image != "" && c.Image != had.Image:
		return "image"
	case c.Preset != "" && c.Preset != had.Preset:
		return "preset"
	case !same(c.Env, had.Env):
		return "env"
	case r != nil && *r != (Resources{}) && (old == nil || *r != *old):
		return "resources"
	case c.Network != nil && !c.Network.same(had.Network):
		return "network"
	case !same(c.Labels, had.Labels):
		return "labels"
	case !same(c.Metadata, had.Metadata):
		return "metadata"
	case c.OnTimeout != "" && c.OnTimeout != cmp.Or(had.OnTimeout, OnTimeoutKill):
		return "onTimeout"
	case c.AutoResume != nil && (had.AutoResume == nil || *c.AutoResume != *had.AutoResume):
		return "autoResume"
	}
	return ""
}

// What happens at the end of a timeout.
const (
	OnTimeoutKill  = "kill"
	OnTimeoutPause = "pause"
)

func (n *NetworkRules) same(o *NetworkRules) bool {
	if o == nil {
		return false
	}
	a, b := n.AllowedDomains, o.AllowedDomains
	return (a == nil) == (b == nil) && (a == nil || slices.Equal(*a, *b)) && slices.Equal(n.DeniedDomains, o.DeniedDomains)
}

// Check refuses what no settings permit: malformed names, numbers and rules. The
// error is [sandbox.CodeValidation] with the field.
func (c Creation) Check() error {
	for _, check := range []func() error{c.checkImage, c.checkPreset, c.checkEnv, c.checkResources, c.checkTexts, c.checkTimeout} {
		if err := check(); err != nil {
			return err
		}
	}
	return c.Network.check()
}

func badCreation(field, format string, args ...any) error {
	return &sandbox.Error{Code: sandbox.CodeValidation, Op: "create", Field: field, Message: fmt.Sprintf(format, args...)}
}

func (c Creation) checkImage() error {
	if c.Image == "" || isImage(c.Image) {
		return nil
	}
	return badCreation("image", "%q is no reference of an image", short(c.Image))
}

func (c Creation) checkPreset() error {
	if _, ok := presetSettings(c.Preset); c.Preset == "" || ok {
		return nil
	}
	return badCreation("preset", "%q is none of strict, restricted, normal, permissive", short(c.Preset))
}

func (c Creation) checkEnv() error {
	total := 0
	for _, name := range slices.Sorted(maps.Keys(c.Env)) {
		if !isVariable(name) {
			return badCreation("env", "%q is no name of a variable", short(name))
		}
		if strings.IndexByte(c.Env[name], 0) >= 0 || !utf8.ValidString(c.Env[name]) {
			return badCreation("env."+name, "the value holds a NUL byte or is no UTF-8")
		}
		total += len(name) + len(c.Env[name])
	}
	if len(c.Env) > maxEnv || total > maxEnvBytes {
		return badCreation("env", "%d variables of %d bytes are too many; %d of %d bytes in all are allowed", len(c.Env), total, maxEnv, maxEnvBytes)
	}
	return nil
}

func (c Creation) checkResources() error {
	r := c.Resources
	if r == nil {
		return nil
	}
	for _, n := range []struct {
		field string
		v     int64
		least int64
	}{{"resources.memory", r.Memory, 32 << 20}, {"resources.processes", r.Processes, 16}, {"resources.disk", r.Disk, 1}} {
		if n.v != 0 && (n.v < n.least || n.v > maxNumber) {
			return badCreation(n.field, "%d is not between %d and %d", n.v, n.least, int64(maxNumber))
		}
	}
	if r.CPUs != 0 && !(r.CPUs >= 0.01 && r.CPUs <= 4096) { // NaN too
		return badCreation("resources.cpus", "%v is not between 0.01 and 4096", r.CPUs)
	}
	return nil
}

func (c Creation) checkTexts() error {
	for _, of := range []struct {
		field  string
		texts  map[string]string
		name   func(string) bool
		longer int
	}{{"labels", c.Labels, isLabel, maxLabel}, {"metadata", c.Metadata, isMetadata, maxMetadata}} {
		if len(of.texts) > maxLabels {
			return badCreation(of.field, "%d are too many; %d are allowed", len(of.texts), maxLabels)
		}
		total := 0
		for _, name := range slices.Sorted(maps.Keys(of.texts)) {
			v := of.texts[name]
			if !of.name(name) {
				return badCreation(of.field, "%q is no name; letters, digits and . _ - / are allowed in labels, and in all at most %d bytes", short(name), maxLabelName)
			}
			if len(v) > of.longer || !plain(v, of.field == "metadata") {
				return badCreation(of.field+"."+name, "the value has more than %d bytes, is no UTF-8 or has a character that cannot be printed", of.longer)
			}
			total += len(name) + len(v)
		}
		if total > maxTexts {
			return badCreation(of.field, "%d bytes are too many; %d are allowed in all", total, maxTexts)
		}
	}
	return nil
}

func (c Creation) checkTimeout() error {
	switch {
	case c.Timeout < 0 || c.Timeout > 31536000:
		return badCreation("timeout", "%d is not between 0 and 31536000 seconds", c.Timeout)
	case c.OnTimeout != "" && c.OnTimeout != OnTimeoutKill && c.OnTimeout != OnTimeoutPause:
		return badCreation("onTimeout", "%q is none of kill, pause", short(c.OnTimeout))
	}
	return nil
}

func (n *NetworkRules) check() error {
	if n == nil {
		return nil
	}
	for _, of := range []struct {
		field string
		rules []string
	}{{"network.allowedDomains", deref(n.AllowedDomains)}, {"network.deniedDomains", n.DeniedDomains}} {
		if len(of.rules) > maxHostRules {
			return badCreation(of.field, "%d rules are too many; %d are allowed", len(of.rules), maxHostRules)
		}
		for i, text := range of.rules {
			if _, err := network.ParseRule(text); err != nil {
				return &sandbox.Error{Code: sandbox.CodeValidation, Op: "create", Field: fmt.Sprintf("%s[%d]", of.field, i), Message: "the rule cannot be read", Err: err}
			}
		}
	}
	return nil
}

func deref(p *[]string) []string {
	if p == nil {
		return nil
	}
	return *p
}

// short is the beginning of a text of a caller, for messages.
func short(s string) string {
	if len(s) > 80 {
		return strings.ToValidUTF8(s[:80], "") + "…"
	}
	return s
}

// isLabel reports whether s can be the name of a label.
func isLabel(s string) bool {
	return s != "" && len(s) <= maxLabelName && !strings.ContainsFunc(s, func(r rune) bool {
		return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("._-/", r)
	})
}

func isMetadata(s string) bool { return s != "" && len(s) <= maxLabelName && plain(s, false) }

// plain reports whether a text is UTF-8 of characters that can be printed, and
// where lines says so line feeds and tabs.
func plain(s string, lines bool) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool {
		return !unicode.IsPrint(r) && !(lines && (r == '\n' || r == '\t'))
	})
}

// ParseLabels reads labels in the form NAME=VALUE, as lists filter by them. Of a
// name that occurs twice both must hold, so two values are no sandbox: that is
// refused as [sandbox.CodeValidation] of the field "label".
func ParseLabels(texts []string) (map[string]string, error) {
	if len(texts) > maxLabels {
		return nil, badCreation("label", "%d are too many; %d are allowed", len(texts), maxLabels)
	}
	if len(texts) == 0 {
		return nil, nil
	}
	out := map[string]string{}
	for _, t := range texts {
		name, value, ok := strings.Cut(t, "=")
		if !ok || !isLabel(name) || len(value) > maxLabel || !plain(value, false) {
			return nil, badCreation("label", "%q is no label; write NAME=VALUE", short(t))
		}
		if had, twice := out[name]; twice && had != value {
			return nil, badCreation("label", "%q has two values, which no sandbox has", name)
		}
		out[name] = value
	}
	return out, nil
}

// Layer returns what c asks for as a layer of settings over base, which are the
// settings of the session without it. What is above a ceiling is
// [sandbox.CodeCapabilityBlocked] with the field, and the message names the ceiling.
// The layer is nil where c asks for nothing that settings say.
func (c Creation) Layer(base Resolved, ceilings *CreateSettings) (*SandboxSettings, error) {
	if err := c.Check(); err != nil || !c.Confines() {
		return nil, err
	}
	if ceilings == nil {
		ceilings = &CreateSettings{}
	}
	s := &SandboxSettings{Docker: &DockerSettings{}}
	if err := c.layImage(s, base, ceilings); err != nil {
		return nil, err
	}
	if err := c.layPreset(s, base, ceilings); err != nil {
		return nil, err
	}
	if err := c.layEnv(s, base, ceilings); err != nil {
		return nil, err
	}
	if err := c.layResources(s, base, ceilings); err != nil {
		return nil, err
	}
	return s, c.Network.lay(s, base, ceilings)
}

// above says that a request asks for more than it may.
func above(field, what, ceiling, setting string) error {
	return &sandbox.Error{
		Code: sandbox.CodeCapabilityBlocked, Op: "create", Field: field, Message: what + " is more than a request may ask for: " + ceiling,
		Hint: "ask for less, or have the operator raise " + setting,
	}
}

// listed is a list of ceilings as text.
func listed(list []string, none string) string {
	if len(list) == 0 {
		return none
	}
	return strings.Join(list, ", ")
}

func (c Creation) layImage(s *SandboxSettings, base Resolved, ceilings *CreateSettings) error {
	if c.Image == "" {
		return nil
	}
	if c.Image != base.Docker.Image && !slices.ContainsFunc(ceilings.Images, func(p string) bool { return matches(p, c.Image) }) {
		return above("image", fmt.Sprintf("%q", c.Image), "allowed are "+listed(append([]string{base.Docker.Image}, ceilings.Images...), ""), "daemon.create.images")
	}
	s.Docker.Image = &c.Image
	return nil
}

func (c Creation) layPreset(s *SandboxSettings, base Resolved, ceilings *CreateSettings) error {
	if c.Preset == "" {
		return nil
	}
	if c.Preset != base.Preset && !slices.Contains(ceilings.Presets, c.Preset) {
		return above("preset", strconv.Quote(c.Preset), "allowed are "+listed(append([]string{base.Preset}, ceilings.Presets...), ""), "daemon.create.presets")
	}
	s.Preset = &c.Preset
	return nil
}

// matches reports whether a pattern, which may end with *, permits s.
func matches(pattern, s string) bool {
	if start, any := strings.CutSuffix(pattern, "*"); any {
		return strings.HasPrefix(s, start)
	}
	return pattern == s
}

// loads reports whether a variable changes how programs are found, loaded or
// connected, so that a pattern with * does not permit it.
func loads(name string) bool {
	upper := strings.ToUpper(name)
	switch upper {
	case "PATH", "HOME", "USER", "SHELL", "ENV", "BASH_ENV", "IFS", "CDPATH", "GCONV_PATH", "LOCPATH", "TMPDIR", "NODE_OPTIONS", "PERL5OPT", "PERL5LIB",
		"RUBYOPT", "JAVA_TOOL_OPTIONS", "GIT_SSH_COMMAND", "SSH_AUTH_SOCK", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "GIT_SSL_CAINFO":
		return true
	}
	for _, start := range []string{"LD_", "GLIBC_", "MALLOC_", "PYTHON", "SANDBOX_", "SSL_CERT_", "BASH_FUNC", "DYLD_"} {
		if strings.HasPrefix(upper, start) {
			return true
		}
	}
	return strings.HasSuffix(upper, "_PROXY")
}

func (c Creation) layEnv(s *SandboxSettings, base Resolved, ceilings *CreateSettings) error {
	for _, name := range slices.Sorted(maps.Keys(c.Env)) {
		had, set := base.Docker.Env[name]
		if set && had == c.Env[name] {
			continue
		}
		if !slices.ContainsFunc(ceilings.Env, func(p string) bool { return p == name || matches(p, name) && !loads(name) }) {
			return above("env."+name, "the variable "+name, "allowed are "+listed(ceilings.Env, "none"), "daemon.create.env")
		}
	}
	if len(c.Env) > 0 {
		s.Docker.Env = maps.Clone(c.Env)
	}
	return nil
}

func (c Creation) layResources(s *SandboxSettings, base Resolved, ceilings *CreateSettings) error {
	if c.Resources == nil {
		return nil
	}
	r := *c.Resources
	for _, n := range []struct {
		field, setting string
		want, has      int64
		most           *int64
		lay            func()
	}{
		{"resources.memory", "daemon.create.maxMemory", r.Memory, int64(base.Docker.Memory), (*int64)(ceilings.MaxMemory), func() {
			s.Docker.Memory, s.Docker.MemorySwap = new(Size(r.Memory)), new(Size(r.Memory))
		}},
		{"resources.processes", "daemon.create.maxProcesses", r.Processes, base.Docker.PIDsLimit, ceilings.MaxProcesses, func() { s.Docker.PIDsLimit = &r.Processes }},
		{"resources.disk", "daemon.create.maxDisk", r.Disk, int64(base.WorkspaceQuota), (*int64)(ceilings.MaxDisk), func() { s.WorkspaceQuota = new(Size(r.Disk)) }},
	} {
		if n.want == 0 {
			continue
		}
		most := n.has
		if n.most != nil && most != 0 {
			most = max(most, *n.most)
		}
		if most != 0 && n.want > most { // 0 is unbounded
			return above(n.field, fmt.Sprint(n.want), fmt.Sprintf("at most %d", most), n.setting)
		}
		n.lay()
	}
	if r.CPUs == 0 {
		return nil
	}
	most := base.Docker.CPUs
	if ceilings.MaxCPUs != nil {
		most = max(most, *ceilings.MaxCPUs)
	}
	if most != 0 && !(r.CPUs <= most) && most > 0 && !math.IsInf(most, 0) {
		return above("resources.cpus", fmt.Sprint(r.CPUs), fmt.Sprintf("at most %v", most), "daemon.create.maxCPUs")
	}
	s.Docker.CPUs = &r.CPUs
	return nil
}

// lay puts the rules into the layer s.
func (n *NetworkRules) lay(s *SandboxSettings, base Resolved, ceilings *CreateSettings) error {
	if n == nil {
		return nil
	}
	if base.Docker.Network != "none" {
		return &sandbox.Error{
			Code: sandbox.CodeUnsupported, Op: "create", Field: "network", Message: "docker.network is " + base.Docker.Network + ", where rules for hosts do not hold",
			Hint: "leave network out, or have the operator set docker.network to none",
		}
	}
	s.Network = &NetworkSettings{}
	if len(n.DeniedDomains) > 0 {
		s.Network.DeniedDomains = slices.Concat(base.Network.DeniedDomains, n.DeniedDomains)
	}
	if n.AllowedDomains == nil {
		return nil
	}
	var within []network.Rule
	for _, text := range slices.Concat(base.Network.AllowedDomains, ceilings.AllowedDomains) {
		if r, err := network.ParseRule(text); err == nil {
			within = append(within, r)
		}
	}
	for i, text := range *n.AllowedDomains {
		r, err := network.ParseRule(text)
		if err != nil {
			return err
		}
		public := base.Network.AllowPublic && !base.Network.AllowPrivate && r.Named()
		if !public && !slices.ContainsFunc(within, r.Within) {
			return above(fmt.Sprintf("network.allowedDomains[%d]", i), text,
				"allowed are "+listed(slices.Concat(base.Network.AllowedDomains, ceilings.AllowedDomains), "no hosts"), "daemon.create.allowedDomains")
		}
	}
	s.Network.AllowedDomains = append([]string{}, *n.AllowedDomains...)
	s.Network.Registries = []string{} // what they stand for is in the list where it was asked for
	s.Network.AllowPublic = new(false)
	return nil
}
