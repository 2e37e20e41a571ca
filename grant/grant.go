// Package grant decides what one call of a tool may do. It combines a [Grant],
// which says what the subject was granted, a [Manifest], which says what the
// tool needs, and a [Policy], which says what the settings allow at all, into
// one [Profile], which never allows what any of the three forbids. A guard then
// checks every [Operation] against the profile before it runs. The package is
// pure.
//
// The rules: capabilities intersect, each to its narrowest resource, action and
// attribute; safety is the highest of the three; side effects are the union,
// while the intersection still bounds what is carried out; limits and lists are
// the strictest.
package grant

import "time"

// A Kind says what a capability is about.
type Kind string

// The kinds of capability.
const (
	FSRead  Kind = "fs.read"
	FSWrite Kind = "fs.write"
	FSList  Kind = "fs.list"
	NetHTTP Kind = "net.http"
	Browser Kind = "browser"
	Process Kind = "proc"
	Temp    Kind = "tmp"
	GPU     Kind = "gpu"
)

// A Domain is the first part of a kind: what executors and metrics are by.
type Domain string

// The domains.
const (
	DomainFS      Domain = "fs"
	DomainNet     Domain = "net.http"
	DomainBrowser Domain = "browser"
	DomainProc    Domain = "proc"
	DomainTmp     Domain = "tmp"
)

// A Capability is one permitted thing. Only the fields of its kind are set; an
// empty list of methods or actions means none, not all.
type Capability struct {
	Kind Kind `json:"kind"`

	// Path is the folder or file inside, absolute and clean, with all below
	// it: fs.read, fs.write, fs.list.
	Path string `json:"path,omitempty"`

	// Host is a rule as network.allowedDomains has it, without scheme and
	// port (see [network.ParseHosts]; "*" is every name and no address); Port
	// 0 is the ports that such a rule means, that of the scheme where there is
	// one; Scheme is http, https or empty for both; Methods are of HTTP, in
	// capitals, "*" for all.
	Host    string   `json:"host,omitempty"`
	Port    int      `json:"port,omitempty"`
	Scheme  string   `json:"scheme,omitempty"`
	Methods []string `json:"methods,omitempty"`

	// Actions of a browser: open, screenshot, extract, pdf, wait, which look;
	// click, type, upload, download, which write. They say what is done; which
	// hosts are opened is for net.http with GET to say.
	Actions []string `json:"actions,omitempty"`

	// Tool is the name of a program that may be executed, looked up in PATH
	// inside: proc. It is no path and no pattern.
	Tool string `json:"tool,omitempty"`

	// Bytes bounds the temporary space: tmp. 0 is what limits.maxTmpBytes says.
	Bytes int64 `json:"bytes,omitempty"`

	// Class is that of a GPU.
	Class string `json:"class,omitempty"`
}

// SafetyClass says how much harm a tool can do.
type SafetyClass string

// The classes, from harmless to not.
const (
	SafetyLow    SafetyClass = "low"
	SafetyMedium SafetyClass = "medium"
	SafetyHigh   SafetyClass = "high"
)

// SideEffect is a kind of change that a tool makes outside of itself.
type SideEffect string

// The side effects. Write, and Process, need consent.
const (
	EffectRead       SideEffect = "read"
	EffectWrite      SideEffect = "write"
	EffectNetwork    SideEffect = "network"
	EffectFilesystem SideEffect = "filesystem"
	EffectBrowser    SideEffect = "browser"
	EffectProcess    SideEffect = "process"
)

// A Budget is an amount of everything that is counted. In a grant 0 is nothing
// of it, and [Unlimited] no bound.
type Budget struct {
	Calls    int64 `json:"calls"`
	BytesIn  int64 `json:"bytesIn"`
	BytesOut int64 `json:"bytesOut"`
	CPUMs    int64 `json:"cpuMs"`
	GPUMs    int64 `json:"gpuMs"`
	Files    int64 `json:"files"`
	WallMs   int64 `json:"wallMs"`
}

// Unlimited is an amount without bound.
const Unlimited int64 = -1

// A Consent is a person's approval of a call that has side effects or is
// unsafe.
type Consent struct {
	By      string    `json:"by"` // who gave it
	At      time.Time `json:"at"`
	Expires time.Time `json:"expires"` // required
}

// A Grant is what a caller was given for one call of one tool.
type Grant struct {
	ID      string `json:"id"`               // of this grant, unguessable; what revocation names
	Parent  string `json:"parent,omitempty"` // grant that it was derived from
	Tenant  string `json:"tenant"`           // empty where the settings know no tenants
	Subject string `json:"subject"`          // on whose behalf
	Agent   string `json:"agent,omitempty"`
	Session string `json:"session,omitempty"`
	Tool    string `json:"tool"`
	Call    string `json:"call"` // of the tool call; one grant serves one

	Capabilities []Capability `json:"capabilities"`
	Budget       Budget       `json:"budget"`
	Issued       time.Time    `json:"issued"`
	Expires      time.Time    `json:"expires"` // required
	Consent      *Consent     `json:"consent,omitempty"`

	// Limits and Lists make the profile narrower than manifest and policy do, and
	// never wider.
	Limits Limits  `json:"limits,omitzero"`
	Lists  Granted `json:"lists,omitzero"`

	// DecisionKey is the fingerprint of the decision that gave the grant. It
	// may be used for one call only.
	DecisionKey string `json:"decisionKeyFingerprint"`
}

// A Manifest is what a tool declares of itself.
type Manifest struct {
	Tool         string       `json:"tool"`
	Version      string       `json:"version"` // SemVer
	Capabilities []Capability `json:"capabilities"`
	Safety       SafetyClass  `json:"safety"`
	SideEffects  []SideEffect `json:"sideEffects"`
	Limits       Limits       `json:"limits"`

	// Commands are the templates of arguments of programs that the tool runs.
	// A program without one may be run without arguments alone.
	Commands []Template `json:"commands,omitempty"`
}

// A Template says which arguments a program may be given.
type Template struct {
	Tool string     `json:"tool"`
	Args []Argument `json:"args"` // in order
	Rest *Argument  `json:"rest,omitempty"`
}

// An Argument is an allowed argument: one of the words, or a text that matches
// the regular expression as a whole.
type Argument struct {
	OneOf    []string `json:"oneOf,omitempty"`
	Pattern  string   `json:"pattern,omitempty"` // RE2; has to match the whole argument
	Optional bool     `json:"optional,omitempty"`
}

// Limits bound single operations. 0 means unset, so the bound of another source
// applies; when no source sets one, the defaults of the builder apply.
type Limits struct {
	MaxBytesIn     int64         `json:"maxBytesIn,omitempty"`
	MaxBytesOut    int64         `json:"maxBytesOut,omitempty"`
	MaxTmpBytes    int64         `json:"maxTmpBytes,omitempty"` // of one temporary space
	MaxFiles       int64         `json:"maxFiles,omitempty"`    // written by one call
	MaxDepth       int           `json:"maxDepth,omitempty"`    // of folders, and of navigations
	MaxConcurrency int           `json:"maxConcurrency,omitempty"`
	Timeout        time.Duration `json:"timeout,omitempty"`
}

// Lists are what is allowed by name. A nil list says nothing; an empty one
// allows nothing.
type Lists struct {
	Domains []string `json:"domains"` // rules of network.allowedDomains, with ports and schemes; "*" is any public host
	Paths   []string `json:"paths"`   // absolute, each with all below it
	Tools   []string `json:"tools"`
	MIME    []string `json:"mime"` // type/subtype, type/*
	Methods []string `json:"methods"`
}

// Granted are the lists of a grant, as those of [Lists]. Which hosts may be
// reached its capabilities say.
type Granted struct {
	Paths   []string `json:"paths,omitzero"`
	Tools   []string `json:"tools,omitzero"`
	MIME    []string `json:"mime,omitzero"`
	Methods []string `json:"methods,omitzero"`
}

// Denied is what is denied by name whatever else allows it.
type Denied struct {
	Domains []string `json:"domains,omitempty"` // rules of network.deniedDomains
	Paths   []string `json:"paths,omitempty"`   // absolute, each with all below it; no patterns
}

// Mappings say where inside things are. Both are absolute, and neither is /.
type Mappings struct {
	Root string `json:"root"` // below which files are: the workspace
	Tmp  string `json:"tmp"`  // below which temporary space is
}

// Policy is what settings say for all calls of a tenant and agent. Code that
// makes one from settings (config.GrantPolicy) fills it like this:
//
//	fs.read, fs.list  the workspace, the temporary folder, /agent where it is there, filesystem.allowRead where it is no pattern
//	fs.write          the workspace unless access is ro, the temporary folder, filesystem.allowWrite where it is no pattern
//	net.http          one for each host of network.allowedDomains, methods "*"; "*" under allowPublic
//	browser           every action where browser.enabled is set, less those that its settings refuse
//	proc              each program of the manifest that the command policy allows, since settings list no programs
//	tmp, gpu          tmp always, up to the size of the temporary folder; the classes of docker.gpus
//	Lists.Domains     network.allowedDomains as it stands; under allowPublic "*" is added, and with allowPrivate private ranges are
//	Denied            network.deniedDomains; filesystem.denyRead and denyWrite where they are no pattern
//	Limits            limits.timeout and the like
//	Version           a hash of the settings that any policy is made of
//
// Patterns of paths are left to the sandbox and to policy/path, which are
// consulted as well: a profile narrows what they allow and never widens it.
type Policy struct {
	Version      string       `json:"version"` // hash of the settings it was made from
	Capabilities []Capability `json:"capabilities"`
	Safety       SafetyClass  `json:"safety"` // the least that calls count as
	SideEffects  []SideEffect `json:"sideEffects,omitempty"`
	Limits       Limits       `json:"limits"`
	Lists        Lists        `json:"lists"`
	Denied       Denied       `json:"denied,omitzero"`
	Mappings     Mappings     `json:"mappings"`

	// Commands are templates that apply in addition to those of manifests, to
	// the programs that have one here.
	Commands []Template `json:"commands,omitempty"`
}

// Sources are the capabilities that a profile is the intersection of, in normal
// form. They allow nothing; they show which of the three does not contain what
// was refused.
type Sources struct {
	Grant    []Capability `json:"grant"`
	Manifest []Capability `json:"manifest"`
	Policy   []Capability `json:"policy"`
	Lists    Granted      `json:"lists,omitzero"` // of the grant
}

// A Profile is what one call may do. [Build] makes it; a guard takes it only as
// it was made.
type Profile struct {
	Grant   string `json:"grant"` // its id
	Tenant  string `json:"tenant"`
	Subject string `json:"subject"`
	Agent   string `json:"agent,omitempty"`
	Session string `json:"session,omitempty"`
	Tool    string `json:"tool"`
	Call    string `json:"call"`

	Capabilities []Capability `json:"capabilities"`
	Safety       SafetyClass  `json:"safety"`
	SideEffects  []SideEffect `json:"sideEffects"`
	Limits       Limits       `json:"limits"`
	Lists        Lists        `json:"lists"`
	Denied       Denied       `json:"denied,omitzero"`
	Mappings     Mappings     `json:"mappings"`
	Budget       Budget       `json:"budget"`
	Expires      time.Time    `json:"expires"`
	Consent      *Consent     `json:"consent,omitempty"`
	DecisionKey  string       `json:"decisionKeyFingerprint"`

	// Commands are the templates of the manifest, PolicyCommands those of the
	// policy. Arguments have to satisfy both.
	Commands       []Template `json:"commands,omitempty"`
	PolicyCommands []Template `json:"policyCommands,omitempty"`

	PolicyVersion   string `json:"policyVersion"`
	ManifestVersion string `json:"manifestVersion"`

	Sources Sources `json:"sources"`
	Hash    string  `json:"profileHash"` // what is allowed, without what is of this call alone: see [Profile.Sum]
}

// An Operation is one thing that a tool wants done. Exactly the field of its
// kind is set.
type Operation struct {
	Kind OpKind `json:"kind"`

	Path      string `json:"path,omitempty"` // FsRead, FsWrite, FsList; the file of BrowserUpload, the folder of BrowserDownload
	Offset    int64  `json:"offset,omitempty"`
	Length    int64  `json:"length,omitempty"` // 0 is to the end
	Data      []byte `json:"-"`                // FsWrite, and the body of NetHttp
	Overwrite bool   `json:"overwrite,omitempty"`

	Method string            `json:"method,omitempty"` // NetHttp
	URL    string            `json:"url,omitempty"`    // NetHttp, BrowserNav
	Header map[string]string `json:"header,omitempty"`

	Selector string `json:"selector,omitempty"` // BrowserScreenshot and others
	FullPage bool   `json:"fullPage,omitempty"`
	Text     string `json:"text,omitempty"` // BrowserType; BrowserWait: that is on the page
	Gone     bool   `json:"gone,omitempty"` // BrowserWait: that nothing matches Selector any more

	Tool    string        `json:"tool,omitempty"` // ProcExec
	Args    []string      `json:"args,omitempty"`
	Timeout time.Duration `json:"timeout,omitempty"`

	Bytes int64 `json:"bytes,omitempty"` // TmpAlloc
}

// An OpKind names a kind of operation.
type OpKind string

// The kinds of operation.
const (
	OpFsRead            OpKind = "FsRead"
	OpFsWrite           OpKind = "FsWrite"
	OpFsList            OpKind = "FsList"
	OpNetHTTP           OpKind = "NetHttp"
	OpBrowserNav        OpKind = "BrowserNav"
	OpBrowserScreenshot OpKind = "BrowserScreenshot"
	OpBrowserExtract    OpKind = "BrowserExtract"
	OpBrowserPDF        OpKind = "BrowserPDF"
	OpBrowserWait       OpKind = "BrowserWait"
	OpBrowserClick      OpKind = "BrowserClick"
	OpBrowserType       OpKind = "BrowserType"
	OpBrowserUpload     OpKind = "BrowserUpload"
	OpBrowserDownload   OpKind = "BrowserDownload"
	OpProcExec          OpKind = "ProcExec"
	OpTmpAlloc          OpKind = "TmpAlloc"
)
