package config

// DockerSettings describe the container.
//
// The keys privileged, capAdd, pid, ipc and userns are known only so that
// asking for them is refused with its own message.
type DockerSettings struct {
	Image           *string           `json:"image,omitempty" form:"image" doc:"Image of the sandbox; default sandbox:bookworm-slim."`
	ContainerPrefix *string           `json:"containerPrefix,omitempty" form:"prefix" doc:"Start of container names; default sbx-."`
	Workdir         *string           `json:"workdir,omitempty" doc:"Folder in which commands start; default /workspace."`
	ReadOnlyRoot    *bool             `json:"readOnlyRoot,omitempty" doc:"Whether the root file system is read-only; default true, and false needs dangerouslyAllowWritableRoot."`
	Tmpfs           []string          `json:"tmpfs,omitempty" doc:"Folders in memory as TARGET:size=SIZE[,exec][,mode=MODE], which belong to the sandbox's user; together with shmSize at most half of memory; /tmp must be among them. Default /tmp, /home/sandbox, /var/tmp and /run."`
	Home            *string           `json:"home,omitempty" enum:"auto,disk,memory" doc:"Where the home lies: disk (a file system of its own beside the workspaces, of homeSize bytes, which is removed with the sandbox), memory (a folder in memory, see tmpfs), or auto: disk where this machine can bound it, else memory; default auto. Disk needs root, mkfs.ext4 and loop devices."`
	HomeSize        *Size             `json:"homeSize,omitempty" min:"16777216" doc:"Most bytes of a home on disk, which takes no more of the disk than what is in it; default 4g."`
	Network         *string           `json:"network,omitempty" doc:"none (default), own (a bridge network for this sandbox alone, with everything in reach), bridge or the name of a network; host and container:NAME are refused."`
	User            *string           `json:"user,omitempty" doc:"Numeric uid or uid:gid, never 0; default one of its own for each scope."`
	CapDrop         []string          `json:"capDrop,omitempty" form:"capability" doc:"Linux capabilities that are dropped; default ALL, and less needs dangerouslyKeepCapabilities."`
	Env             map[string]string `json:"env,omitempty" merge:"key" doc:"Environment; default LANG and HOME."`
	Setup           []string          `json:"setup,omitempty" doc:"Commands run as root with network when the image is made; they become an image layer."`
	BuildNetwork    *string           `json:"buildNetwork,omitempty" doc:"Network of the instructions of a project's Dockerfile (--from-dockerfile, --devcontainer): none, bridge or the name of a network; host is refused. Default none."`
	BuildTimeout    *Duration         `json:"buildTimeout,omitempty" doc:"How long the build of a Dockerfile may take; default 15m."`
	BuildSize       *Size             `json:"buildSize,omitempty" min:"1048576" doc:"Most bytes of the image of a Dockerfile, and that one of its instructions writes; default 8g."`
	CAFile          *string           `json:"caFile,omitempty" doc:"Host file of PEM certificates, such as those of a company's authority, that programs inside trust beside the roots of the image, by the variables that they read; the proxy trusts them too. ~ and $VAR are replaced. Default the variable SANDBOX_CA_FILE; empty is none."`
	OnStart         []string          `json:"onStart,omitempty" doc:"Shell lines run inside at each start."`
	PIDsLimit       *int64            `json:"pidsLimit,omitempty" min:"16" max:"4194304" doc:"Most processes and threads; default 512."`
	Memory          *Size             `json:"memory,omitempty" min:"33554432" doc:"Bytes of memory, files in tmpfs included; default 2g, at least 32m."`
	MemorySwap      *Size             `json:"memorySwap,omitempty" min:"33554432" doc:"Bytes of memory and swap together; default equal to memory, which is no swap."`
	CPUs            *float64          `json:"cpus,omitempty" min:"0.01" max:"4096" doc:"Processors; default 2, at most those of the host."`
	Ulimits         map[string]Ulimit `json:"ulimits,omitempty" merge:"key" doc:"Resource limits by setrlimit name in lower case; a number, SOFT:HARD or an object. nproc is refused because it counts across containers. Default nofile 16384 and core 0."`
	SeccompProfile  *string           `json:"seccompProfile,omitempty" doc:"Host file with a seccomp profile in place of the built-in one; unconfined is refused."`
	AppArmorProfile *string           `json:"apparmorProfile,omitempty" doc:"Name of an AppArmor profile; unconfined is refused. Default the engine's."`
	DNS             []string          `json:"dns,omitempty" doc:"Addresses of name servers."`
	ExtraHosts      []string          `json:"extraHosts,omitempty" doc:"Further names as NAME:ADDRESS."`
	Binds           []string          `json:"binds,omitempty" merge:"append" doc:"Host folders as SOURCE:TARGET[:ro|rw], read-only when not said; ~ and $VAR are replaced in SOURCE."`
	Runtime         *string           `json:"runtime,omitempty" doc:"Engine runtime, such as runsc; default the engine's."`
	GPUs            *string           `json:"gpus,omitempty" form:"gpus" doc:"all, a number of processors, or device=IDS; default none."`
	ShmSize         *Size             `json:"shmSize,omitempty" min:"1048576" doc:"Bytes of /dev/shm; default a 32nd of memory."`

	DangerouslyAllowBindSources     []string `json:"dangerouslyAllowBindSources,omitempty" doc:"Break-glass: canonical host paths, each exact, that may be bound although a rule refuses them; never the engine's socket or /."`
	DangerouslyAllowMissingLimits   *bool    `json:"dangerouslyAllowMissingLimits,omitempty" doc:"Break-glass: memory, cpus and pidsLimit may have no effect where the engine cannot enforce them, such as one without root on control groups of version 1; else it makes no sandbox."`
	DangerouslyAllowReservedTargets *bool    `json:"dangerouslyAllowReservedTargets,omitempty" doc:"Break-glass: binds may lie over the workspace, the agent's folder, the home and the user database."`
	DangerouslyAllowWritableRoot    *bool    `json:"dangerouslyAllowWritableRoot,omitempty" doc:"Break-glass: readOnlyRoot may be false."`
	DangerouslyKeepCapabilities     *bool    `json:"dangerouslyKeepCapabilities,omitempty" doc:"Break-glass: capDrop may lack ALL."`

	Privileged *bool    `json:"privileged,omitempty" refused:"true" doc:"Refused when true."`
	CapAdd     []string `json:"capAdd,omitempty" refused:"true" doc:"Refused unless empty."`
	PID        *string  `json:"pid,omitempty" refused:"true" doc:"Refused unless private."`
	IPC        *string  `json:"ipc,omitempty" refused:"true" doc:"Refused unless private."`
	UserNS     *string  `json:"userns,omitempty" refused:"true" doc:"Refused unless private."`
}
