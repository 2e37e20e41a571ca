package config

// BrowserSettings describe the browser container.
type BrowserSettings struct {
	Enabled          *bool     `json:"enabled,omitempty" doc:"Whether a browser can be used; default false."`
	Image            *string   `json:"image,omitempty" form:"image" doc:"Image of the browser."`
	ContainerPrefix  *string   `json:"containerPrefix,omitempty" form:"prefix" doc:"Start of container names; default sbx-browser-."`
	Network          *string   `json:"network,omitempty" doc:"Network of the browser: none, the default, with the rules of network as its only way out; own, a bridge network made and removed with the browser, which no rule bounds; or the name of a network of the engine."`
	CDPPort          *int64    `json:"cdpPort,omitempty" min:"1024" max:"65535" doc:"Port of the DevTools protocol inside; default 9222."`
	VNCPort          *int64    `json:"vncPort,omitempty" min:"1024" max:"65535" doc:"Port of VNC inside; default 5900."`
	NoVNCPort        *int64    `json:"noVncPort,omitempty" min:"1024" max:"65535" doc:"Port of noVNC inside; default 6080."`
	Headless         *bool     `json:"headless,omitempty" doc:"Whether the browser has no display; default true."`
	EnableNoVNC      *bool     `json:"enableNoVnc,omitempty" doc:"Whether people can look at the display, which headless browsers have none of; default false."`
	AllowHostControl *bool     `json:"allowHostControl,omitempty" doc:"Whether an agent may drive the host's own browser, at hostCdpUrl; default false."`
	HostCDPURL       *string   `json:"hostCdpUrl,omitempty" doc:"Where the DevTools protocol of a browser of the host listens, such as http://127.0.0.1:9222. With allowHostControl it is used in place of a container, and nothing isolates it."`
	AutoStart        *bool     `json:"autoStart,omitempty" doc:"Whether the browser starts on first use; default true."`
	AutoStartTimeout *Duration `json:"autoStartTimeout,omitempty" doc:"How long that may take; default 12s."`
	CDPSourceRange   *string   `json:"cdpSourceRange,omitempty" doc:"Addresses, as CIDR, that may use a bridge to the DevTools protocol; default those of the loopback interface."`
	AllowDownloads   *bool     `json:"allowDownloads,omitempty" doc:"Whether pages may download, into the workspace; default false."`
	AllowDataURLs    *bool     `json:"allowDataUrls,omitempty" doc:"Whether data: addresses may be opened; default false."`
	Binds            []string  `json:"binds,omitempty" merge:"append" doc:"Host folders as SOURCE:TARGET[:ro|rw], read-only when not said."`

	DangerouslyNoSandbox *bool `json:"dangerouslyNoSandbox,omitempty" doc:"Starts Chromium without its own sandbox, for machines without user namespaces: one hole in it is then a hole into all its pages. Default false."`

	Limits *BrowserLimitSettings `json:"limits,omitempty" doc:"Bounds of one browser session."`
}

// BrowserLimitSettings bound what one session does with a browser.
type BrowserLimitSettings struct {
	Navigation           *Duration `json:"navigation,omitempty" doc:"How long a page may take to load; default 30s."`
	Navigations          *int64    `json:"navigations,omitempty" min:"1" max:"1000000" doc:"Pages that are opened; default 200."`
	Redirects            *int64    `json:"redirects,omitempty" min:"0" max:"20" doc:"Redirects on the way to a page; default 10."`
	PageBytes            *Size     `json:"pageBytes,omitempty" min:"1" doc:"Bytes received for one page; default 128m."`
	ScreenshotPixels     *int64    `json:"screenshotPixels,omitempty" min:"1" max:"268435456" doc:"Pixels of one picture; default 25 million."`
	ScreenshotsPerMinute *int64    `json:"screenshotsPerMinute,omitempty" min:"1" max:"6000" doc:"Pictures taken in any minute; default 60."`
	TransferBytes        *Size     `json:"transferBytes,omitempty" min:"1" doc:"Bytes of one download, upload or PDF; default 64m."`
}
