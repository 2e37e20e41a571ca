package config

// DaemonSettings say how sandbox serve answers requests.
type DaemonSettings struct {
	RequestTimeout *Duration     `json:"requestTimeout,omitempty" doc:"How long one request may take that is no stream; default 15m, more than 0."`
	DrainTimeout   *Duration     `json:"drainTimeout,omitempty" doc:"How long requests may go on after the daemon was asked to end; default 30s."`
	MaxBody        *Size         `json:"maxBody,omitempty" min:"1024" max:"1073741824" doc:"Bytes of the body of a request, those that carry files excepted; default 1m."`
	MaxImport      *Size         `json:"maxImport,omitempty" min:"1024" doc:"Bytes of the file that a request imports as a checkpoint; default 10g."`
	Hosts          []string      `json:"hosts,omitempty" form:"hostName" doc:"Names without a port under which clients reach the daemon over TCP, beyond localhost and the address that it listens at."`
	PortDomain     *string       `json:"portDomain,omitempty" form:"hostName" doc:"The domain below which each shared port has a host name, PORT-ID.DOMAIN; all names below it have to resolve to the daemon. Default localhost."`
	Instances      []string      `json:"instances,omitempty" doc:"Has no effect: the paths below /v1/walls are gone. Accepted in this version, and refused in the next."`
	Fair           *FairSettings `json:"fair,omitempty" doc:"How commands of many tenants take turns when they begin."`

	Create *CreateSettings `json:"create,omitempty" doc:"What a request to create a sandbox may ask for beyond what the settings give to every sandbox."`
	Compat *CompatSettings `json:"compat,omitempty" doc:"Which protocols of other systems are served beside /v1."`
}

// CompatSettings say which protocols of other systems are served. Each is translated
// into /v1, with the rights that the caller's token has there.
type CompatSettings struct {
	E2B    *bool `json:"e2b,omitempty" doc:"Whether clients of E2B are served, with this daemon's tokens as their keys; default true."`
	Agents *bool `json:"agents,omitempty" doc:"Whether the OpenAI Agents SDK's sandbox clients that take the URL of a worker are served, with this daemon's tokens as their keys; default true."`
	Codex  *bool `json:"codex,omitempty" doc:"Whether Codex is served as its exec-server, with this daemon's tokens as its bearer tokens; default true."`
	SWERex *bool `json:"swerex,omitempty" doc:"Whether clients of SWE-ReX, such as SWE-agent, are served, with this daemon's tokens as their keys; default true."`
}

// FairSettings say how commands take turns.
type FairSettings struct {
	Slots   *int64    `json:"slots,omitempty" min:"1" max:"4096" doc:"Commands that begin at one time; default 16."`
	Waiting *int64    `json:"waiting,omitempty" min:"0" max:"65536" doc:"Commands of one tenant that may wait for their turn; default 1024."`
	Hold    *Duration `json:"hold,omitempty" doc:"How long a command counts as one that begins, unless it ends sooner; default 100ms, more than 0 and at most 1m."`
}

// TenantsSettings say what tenants may hold and use at one time.
type TenantsSettings struct {
	Closed   *bool            `json:"closed,omitempty" doc:"Whether tenants that the list does not name are refused; default false."`
	Defaults *TenantLimits    `json:"defaults,omitempty" doc:"Limits of each tenant where the list says nothing else. What is not set (but tokens), or -1, is not bounded; 0 is nothing of it."`
	List     []TenantSettings `json:"list,omitempty" doc:"Limits of single tenants, by id, laid over those of all."`
}

// TenantLimits are those of each tenant.
type TenantLimits struct {
	Sandboxes         *int64   `json:"sandboxes,omitempty" min:"-1" max:"1000000" doc:"Sandboxes that exist at one time."`
	Commands          *int64   `json:"commands,omitempty" min:"-1" max:"1000000" doc:"Commands that run at one time."`
	Memory            *Volume  `json:"memory,omitempty" min:"-1" doc:"Bytes of docker.memory of all sandboxes together."`
	CPUs              *float64 `json:"cpus,omitempty" min:"-1" max:"1000000" doc:"Processors of docker.cpus of all sandboxes together."`
	Disk              *Volume  `json:"disk,omitempty" min:"-1" doc:"Bytes of workspaceQuota and of homes on the disk of all sandboxes together. Where it is bounded, sandboxes whose workspace is not are refused."`
	RequestsPerSecond *int64   `json:"requestsPerSecond,omitempty" min:"-1" max:"1000000" doc:"Requests in a second, on average."`
	RequestBurst      *int64   `json:"requestBurst,omitempty" min:"0" max:"1000000" doc:"Requests at once after a rest; default as many as in a second."`
	Weight            *int64   `json:"weight,omitempty" min:"1" max:"1000" doc:"How many commands begin when it is the tenant's turn; default 1."`
	Tokens            *int64   `json:"tokens,omitempty" min:"-1" max:"16384" doc:"Tokens that are good at one time and were made from others; default 4096, and never more than 16384."`
}

// TenantSettings are those of one tenant. Beside the id they have the fields of
// [TenantLimits]; a test holds that.
type TenantSettings struct {
	ID                *string  `json:"id,omitempty" required:"true" form:"name" doc:"Name of the tenant."`
	Sandboxes         *int64   `json:"sandboxes,omitempty" min:"-1" max:"1000000" doc:"Sandboxes that exist at one time."`
	Commands          *int64   `json:"commands,omitempty" min:"-1" max:"1000000" doc:"Commands that run at one time."`
	Memory            *Volume  `json:"memory,omitempty" min:"-1" doc:"Bytes of docker.memory of all sandboxes together."`
	CPUs              *float64 `json:"cpus,omitempty" min:"-1" max:"1000000" doc:"Processors of docker.cpus of all sandboxes together."`
	Disk              *Volume  `json:"disk,omitempty" min:"-1" doc:"Bytes of workspaceQuota and of homes on the disk of all sandboxes together. Where it is bounded, sandboxes whose workspace is not are refused."`
	RequestsPerSecond *int64   `json:"requestsPerSecond,omitempty" min:"-1" max:"1000000" doc:"Requests in a second, on average."`
	RequestBurst      *int64   `json:"requestBurst,omitempty" min:"0" max:"1000000" doc:"Requests at once after a rest; default as many as in a second."`
	Weight            *int64   `json:"weight,omitempty" min:"1" max:"1000" doc:"How many commands begin when it is the tenant's turn; default 1."`
	Tokens            *int64   `json:"tokens,omitempty" min:"-1" max:"16384" doc:"Tokens that are good at one time and were made from others; default 4096, and never more than 16384."`
}

// limits are the settings without the id.
func (t TenantSettings) limits() *TenantLimits {
	return &TenantLimits{
		Sandboxes: t.Sandboxes, Commands: t.Commands, Memory: t.Memory, CPUs: t.CPUs, Disk: t.Disk,
		RequestsPerSecond: t.RequestsPerSecond, RequestBurst: t.RequestBurst, Weight: t.Weight, Tokens: t.Tokens,
	}
}

// MediaSettings say where media may be taken from and how much.
type MediaSettings struct {
	Folders  []string              `json:"folders,omitempty" doc:"Host folders below which files may be staged; ~ and $VAR are replaced. Where a part of the path is {tenant} the folder is that of each tenant; one without is for calls without a tenant alone. Default none."`
	MaxFile  *Size                 `json:"maxFile,omitempty" min:"1" doc:"Bytes of one file; default 64m."`
	MaxTotal *Size                 `json:"maxTotal,omitempty" min:"1" doc:"Bytes of all files of one call; default 256m."`
	MaxFiles *int64                `json:"maxFiles,omitempty" min:"1" max:"1000" doc:"Files of one call; default 32."`
	Timeout  *Duration             `json:"timeout,omitempty" doc:"How long one call may take; default 5m, more than 0."`
	Remote   []MediaRemoteSettings `json:"remote,omitempty" doc:"Machines from which files may be taken over SSH, as scp://HOST/PATH."`
}

// MediaRemoteSettings name a machine that media may be taken from.
type MediaRemoteSettings struct {
	Host       *string  `json:"host,omitempty" required:"true" form:"hostName" doc:"Name of the machine, as references write it."`
	Address    *string  `json:"address,omitempty" form:"hostTarget" doc:"Host name or address to connect to; default host."`
	Port       *int64   `json:"port,omitempty" min:"1" max:"65535" doc:"Port of its SSH server; default 22."`
	User       *string  `json:"user,omitempty" required:"true" form:"login" doc:"Whom to log in as."`
	KeyFile    *string  `json:"keyFile,omitempty" required:"true" doc:"Host file of the private key, readable for its owner alone; ~ and $VAR are replaced."`
	KnownHosts *string  `json:"knownHosts,omitempty" required:"true" doc:"Host file with the machine's key, as ssh has it; ~ and $VAR are replaced."`
	Folders    []string `json:"folders,omitempty" required:"true" doc:"Folders of that machine below which files may be taken: absolute and clean; {tenant} as in media.folders."`
}
