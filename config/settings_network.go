package config

// NetworkSettings say which hosts can be reached.
type NetworkSettings struct {
	AllowedDomains    []string `json:"allowedDomains,omitempty" merge:"flag-append" form:"hostRule" doc:"Hosts that may be reached: example.com, *.example.com for those below it, an address or a range like 10.0.0.0/8, each with :443 or :8000-8100 where that is all; https:// or http:// before it for TLS or plain HTTP alone, GET,HEAD http://example.com/pub for some requests, tcp://example.com:22 for any bytes. Without a port 80, 443 and from 1024 on. Default none."`
	DeniedDomains     []string `json:"deniedDomains,omitempty" form:"hostRule" doc:"Hosts that may not be reached even when allowed, written in the same way; * is every host, and without a port every port is meant."`
	AllowPrivate      *bool    `json:"allowPrivate,omitempty" doc:"Whether private addresses may be reached, of hosts that are allowed; default false."`
	AllowPublic       *bool    `json:"allowPublic,omitempty" doc:"Whether any public host may be reached, by TLS and plain HTTP at the ports 80, 443 and from 1024 on; default false, true under permissive."`
	Ask               *bool    `json:"ask,omitempty" doc:"Whether a host that no rule names is asked about rather than refused; default false, true under normal."`
	AllowLocalBinding *bool    `json:"allowLocalBinding,omitempty" doc:"Whether programs inside may listen on a local port; default false. Without effect on Linux, where they may on the loopback interface of their own sandbox anyway."`
	HTTPProxyPort     *int64   `json:"httpProxyPort,omitempty" min:"0" max:"65535" doc:"Port of the proxy inside; 0, the default, is a free one."`

	Registries    []string          `json:"registries,omitempty" merge:"flag-append" enum:"npm,pypi,go,cargo,maven,debian" doc:"Package registries whose hosts may be reached, beside allowedDomains. Default none."`
	RegistryHosts *RegistrySettings `json:"registryHosts,omitempty" doc:"Rules that registries stand for, where they differ from the public ones."`

	Limits  *NetworkLimitSettings     `json:"limits,omitempty" doc:"Bounds of what a sandbox sends and gets; 0 is unbounded."`
	Secrets map[string]SecretSettings `json:"secrets,omitempty" merge:"key" doc:"Variables that hold a stand-in inside, which is replaced by a secret in the headers of requests to certain hosts, by the name of the variable."`
}

// RegistrySettings say which rules each of network.registries stands for. A list
// replaces the public hosts of its registry.
type RegistrySettings struct {
	NPM    []string `json:"npm,omitempty" form:"hostRule" doc:"Of npm, in place of registry.npmjs.org."`
	PyPI   []string `json:"pypi,omitempty" form:"hostRule" doc:"Of pypi, in place of pypi.org and files.pythonhosted.org."`
	Go     []string `json:"go,omitempty" form:"hostRule" doc:"Of go, in place of proxy.golang.org and sum.golang.org."`
	Cargo  []string `json:"cargo,omitempty" form:"hostRule" doc:"Of cargo, in place of index.crates.io and static.crates.io."`
	Maven  []string `json:"maven,omitempty" form:"hostRule" doc:"Of maven, in place of repo.maven.apache.org."`
	Debian []string `json:"debian,omitempty" form:"hostRule" doc:"Of debian, in place of deb.debian.org."`
}

// NetworkLimitSettings bound what goes through the proxy, of all commands of a
// sandbox together.
type NetworkLimitSettings struct {
	Connections  *int64    `json:"connections,omitempty" min:"0" max:"65536" doc:"Connections at once; default 1024. Further ones wait for their turn."`
	BytesIn      *Size     `json:"bytesIn,omitempty" min:"0" doc:"Bytes that come in, in the life of a sandbox's way out; default 0."`
	BytesOut     *Size     `json:"bytesOut,omitempty" min:"0" doc:"Bytes that go out; default 0."`
	RequestBytes *Size     `json:"requestBytes,omitempty" min:"0" doc:"Bytes of the body of one request that can be read; default 0."`
	Idle         *Duration `json:"idle,omitempty" doc:"How long a connection may be silent; default 5m, which 0 stands for too."`
	Total        *Duration `json:"total,omitempty" doc:"How long a connection may last; default 0."`
}

// SecretSettings bind a secret to hosts. The secret itself cannot be written
// here, so that no settings file and no command line holds one.
type SecretSettings struct {
	Hosts []string     `json:"hosts" required:"true" form:"hostTarget" doc:"Hosts that get the secret, without wildcards: api.example.com, which is TLS at 443, or api.example.com:8443."`
	From  SecretSource `json:"from,omitzero" doc:"Where the secret comes from; default the orchestrator's variable of the same name."`
}

// SecretSource says where a secret comes from: one of the three.
type SecretSource struct {
	Env     string   `json:"env,omitempty" form:"variable" doc:"Variable of the orchestrator that holds it."`
	File    string   `json:"file,omitempty" doc:"Host file that holds it; ~ and $VAR are replaced."`
	Command []string `json:"command,omitempty" doc:"Program of the host, with arguments, that prints it. Only a settings file can name one."`
}
