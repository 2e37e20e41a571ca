package config

import (
	"time"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/toolpolicy"
)

// DefaultPreset is the preset under settings that name none.
const DefaultPreset = "restricted"

// Defaults returns the built-in layer under all others. Where a default
// depends on the world or on other values it is left out here: workspaceRoot,
// docker.user, docker.tmpfs, docker.memorySwap and docker.shmSize. Budgets, of
// which nothing is bounded, are left out as well: see [unbounded].
func Defaults() *SandboxSettings {
	return &SandboxSettings{
		Enabled:           new(true),
		FailIfUnavailable: new(true),
		EnabledPlatforms:  []string{"linux", "darwin", "macos", "wsl", "windows"},
		Provider:          new("docker"),
		Preset:            new(DefaultPreset),
		Mode:              new(sandbox.ModeAll),
		Scope:             new(sandbox.ScopeSession),
		WorkspaceAccess:   new(sandbox.AccessNone),
		WorkspaceQuota:    new(Size(0)),
		DriftPolicy:       new(sandbox.DriftKeep),
		FSTransport:       new(sandbox.FSAuto),
		RequireEvidence:   new(false),
		Docker:            defaultDocker(),
		Filesystem:        defaultFilesystem(),
		Network: &NetworkSettings{
			AllowPrivate: new(false), AllowPublic: new(false), Ask: new(false),
			AllowLocalBinding: new(false), HTTPProxyPort: new(int64(0)),
			Limits: &NetworkLimitSettings{
				Connections: new(int64(1024)), BytesIn: new(Size(0)), BytesOut: new(Size(0)), RequestBytes: new(Size(0)),
				Idle: span(5 * time.Minute), Total: span(0),
			},
		},
		Commands: &CommandSettings{
			Strictness: new("restricted"), AllowUnsandboxed: new(false), AutoAllowIfSandboxed: new(true),
		},
		Limits: &LimitSettings{
			Timeout: span(10 * time.Minute), MaxOutputBytes: new(Size(1 << 20)), Memory: new(Size(0)),
			CPUSeconds: new(int64(0)), FileSize: new(Size(0)), OpenFiles: new(int64(0)), Processes: new(int64(0)),
		},
		Browser: defaultBrowser(),
		Tools:   defaultTools(),
		Prune:   &PruneSettings{Idle: span(day), MaxAge: span(7 * day), Every: span(5 * time.Minute)},
		Pool:    &PoolSettings{Size: new(int64(0)), Max: new(int64(0)), Window: span(10 * time.Minute), Memory: new(Size(0))},
		Checkpoint: &CheckpointSettings{
			Means: new(MeansAuto), Auto: new(AutoOff), Keep: new(int64(20)), Max: new(int64(1000)), MaxDisk: new(Size(0)),
		},
		Cache: &CacheSettings{Size: new(Size(10 << 30))},
		Idle:  &IdleSettings{PauseAfter: span(0)},
		Evidence: &EvidenceSettings{
			Sync: new(SyncCheckpoint), CheckpointEvery: new(int64(256)), Commands: new(false),
		},
	}
}

func span(d time.Duration) *Duration { return new(Duration(d)) }

func defaultDocker() *DockerSettings {
	return &DockerSettings{
		Image:           new("sandbox:bookworm-slim"),
		ContainerPrefix: new("sbx-"),
		Workdir:         new(sandbox.WorkspaceDir),
		ReadOnlyRoot:    new(true),
		Home:            new(HomeAuto),
		HomeSize:        new(Size(4 << 30)),
		Network:         new("none"),
		BuildNetwork:    new("none"),
		BuildTimeout:    span(15 * time.Minute),
		BuildSize:       new(Size(8 << 30)),
		CapDrop:         []string{"ALL"},
		Env:             map[string]string{"LANG": "C.UTF-8", "HOME": sandbox.HomeDir},
		PIDsLimit:       new(int64(512)),
		Memory:          new(Size(2 << 30)),
		CPUs:            new(2.0),
		Ulimits: map[string]Ulimit{
			"nofile": {Soft: 16384, Hard: 16384},
			"core":   {Soft: 0, Hard: 0},
		},
		DangerouslyAllowMissingLimits:   new(false),
		DangerouslyAllowReservedTargets: new(false),
		DangerouslyAllowWritableRoot:    new(false),
		DangerouslyKeepCapabilities:     new(false),
	}
}

// defaultFilesystem holds the built-in denies. /etc/passwd is not among them:
// it is replaced by a minimal one, because tools need names.
func defaultFilesystem() *FilesystemSettings {
	deny := func() []string {
		return []string{
			"~/.ssh", "~/.aws", "~/.gnupg", "~/.config/gcloud", "~/.azure", "~/.kube", "~/.docker",
			"/etc/shadow", "**/.env", "**/.env.*", "**/.envrc", "**/credentials.json", "**/secrets.json",
		}
	}
	return &FilesystemSettings{DenyRead: deny(), DenyWrite: deny()}
}

func defaultBrowser() *BrowserSettings {
	return &BrowserSettings{
		Enabled: new(false), Image: new("sandbox-browser:bookworm-slim"), ContainerPrefix: new("sbx-browser-"),
		Network: new("none"), CDPPort: new(int64(9222)), VNCPort: new(int64(5900)), NoVNCPort: new(int64(6080)),
		Headless: new(true), EnableNoVNC: new(false), AllowHostControl: new(false),
		AutoStart: new(true), AutoStartTimeout: span(12 * time.Second),
		AllowDownloads: new(false), AllowDataURLs: new(false), DangerouslyNoSandbox: new(false),
		Limits: &BrowserLimitSettings{
			Navigation: span(30 * time.Second), Navigations: new(int64(200)), Redirects: new(int64(10)), PageBytes: new(Size(128 << 20)),
			ScreenshotPixels: new(int64(25_000_000)), ScreenshotsPerMinute: new(int64(60)), TransferBytes: new(Size(64 << 20)),
		},
	}
}

func defaultTools() *ToolSettings {
	return &ToolSettings{Allow: toolpolicy.Allowed(), Deny: toolpolicy.Denied()}
}

// presetSettings returns the layer of a preset. No preset touches hardening.
// restricted is the defaults, so its layer is empty.
func presetSettings(name string) (*SandboxSettings, bool) {
	switch name {
	case "strict":
		return &SandboxSettings{
			WorkspaceAccess: new(sandbox.AccessNone),
			DriftPolicy:     new(sandbox.DriftRefuse),
			RequireEvidence: new(true),
			Docker:          &DockerSettings{Network: new("none"), CPUs: new(1.0), Memory: new(Size(512 << 20)), PIDsLimit: new(int64(128))},
			Network:         &NetworkSettings{AllowedDomains: []string{}},
			Commands:        &CommandSettings{Strictness: new("strict")},
			Limits:          &LimitSettings{Timeout: span(2 * time.Minute)},
			Browser:         &BrowserSettings{Enabled: new(false)},
		}, true
	case "restricted":
		return &SandboxSettings{}, true
	case "normal":
		return &SandboxSettings{
			WorkspaceAccess: new(sandbox.AccessRW),
			Network:         &NetworkSettings{Ask: new(true)},
			Commands:        &CommandSettings{Strictness: new("normal")},
		}, true
	case "permissive":
		return &SandboxSettings{
			Filesystem: &FilesystemSettings{AllowRead: []string{"/"}},
			Network:    &NetworkSettings{AllowPublic: new(true)},
			Commands:   &CommandSettings{Strictness: new("permissive")},
		}, true
	}
	return nil, false
}
