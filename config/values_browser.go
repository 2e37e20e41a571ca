package config

// Browser is [BrowserSettings] with every layer applied.
type Browser struct {
	Enabled          bool     `json:"enabled"`
	Image            string   `json:"image"`
	ContainerPrefix  string   `json:"containerPrefix"`
	Network          string   `json:"network"`
	CDPPort          int64    `json:"cdpPort"`
	VNCPort          int64    `json:"vncPort"`
	NoVNCPort        int64    `json:"noVncPort"`
	Headless         bool     `json:"headless"`
	EnableNoVNC      bool     `json:"enableNoVnc"`
	AllowHostControl bool     `json:"allowHostControl"`
	HostCDPURL       string   `json:"hostCdpUrl"`
	AutoStart        bool     `json:"autoStart"`
	AutoStartTimeout Duration `json:"autoStartTimeout"`
	CDPSourceRange   string   `json:"cdpSourceRange"`
	AllowDownloads   bool     `json:"allowDownloads"`
	AllowDataURLs    bool     `json:"allowDataUrls"`
	Binds            []string `json:"binds,omitempty"`

	DangerouslyNoSandbox bool `json:"dangerouslyNoSandbox"`

	Limits BrowserLimits `json:"limits"`
}

// BrowserLimits is [BrowserLimitSettings] with every layer applied.
type BrowserLimits struct {
	Navigation           Duration `json:"navigation"`
	Navigations          int64    `json:"navigations"`
	Redirects            int64    `json:"redirects"`
	PageBytes            Size     `json:"pageBytes"`
	ScreenshotPixels     int64    `json:"screenshotPixels"`
	ScreenshotsPerMinute int64    `json:"screenshotsPerMinute"`
	TransferBytes        Size     `json:"transferBytes"`
}
