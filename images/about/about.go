// Package about holds the types that describe images: what an image is, where
// it came from, the progress of a build, and where the engine listens that holds
// them. It imports no engine client, so
// that a program that builds no images does not load one.
package about

import "time"

const (
	// DefaultImage is the image of a sandbox when settings name none. It
	// is built from Dockerfile.sandbox.
	DefaultImage = "sandbox:bookworm-slim"
	// BrowserImage is the image of a browser when settings name none. It
	// is built from Dockerfile.browser.
	BrowserImage = "sandbox-browser:bookworm-slim"
	// CodeImage is the image of the code interpreter. It is built from
	// Dockerfile.code.
	CodeImage = "sandbox-code:bookworm-slim"
	// CodeHost is the kernel host in [CodeImage].
	CodeHost = "/usr/local/bin/sandbox-code"
	// BaseImage is what all are built on where it can be had.
	BaseImage = "debian:bookworm-slim"
)

// An Image is what the engine knows about one image.
type Image struct {
	Ref     string            // as asked for; in a list the first tag, or the ID
	ID      string            // "sha256:…", the identity
	Created time.Time         // zero when the engine does not tell
	Size    int64             // bytes, layers shared with other images included
	Tags    []string          // every reference the engine has for it
	Labels  map[string]string // as found; text from outside, see [Origin]
	User    string            // the user that the image runs as, or empty
	Origin  Origin
	Stale   bool     // made by us from another recipe than the one in this program
	Volumes []string // folders that it declares as volumes, in order

	// Platform is what its programs run on. In a list, and where the engine
	// does not tell, it is zero.
	Platform Platform
}

// A Platform is what programs run on, in the words of the OCI image
// specification. The type of that specification is not used: its package
// compiles regular expressions before main begins.
type Platform struct {
	OS           string // "linux"
	Architecture string // "amd64"
	Variant      string // "v8" of "arm64", or empty
	OSVersion    string // of Windows, or empty
}

// Origin says how an image was made, as far as its labels show. The builder of
// an image can forge labels; they inform people and decide nothing about
// security.
type Origin string

// The origins.
const (
	OriginForeign   Origin = ""          // not made by this program
	OriginSandbox   Origin = "sandbox"   // built from Dockerfile.sandbox
	OriginBrowser   Origin = "browser"   // built from Dockerfile.browser
	OriginCode      Origin = "code"      // built from Dockerfile.code
	OriginLanguage  Origin = "language"  // built from Dockerfile.sandbox with the tools of one language
	OriginProject   Origin = "project"   // built from a Dockerfile of a project
	OriginBootstrap Origin = "bootstrap" // a base made from the host's package sources
	OriginSetup     Origin = "setup"     // an image with setup commands applied
)

// Options are the options of one call.
type Options struct {
	// Progress hears what happens while the caller waits; nil is silence.
	// Callers that share one pull or build all hear it from where they
	// joined.
	Progress Progress
	// Image is what Build makes, and what Bootstrap makes a base for:
	// [DefaultImage], which is also meant by "", [BrowserImage], [CodeImage], or one
	// of [sandbox.LanguageImage].
	Image string
	// Base replaces [BaseImage] in a build. Empty means BaseImage where it
	// can be had and a bootstrapped base otherwise.
	Base string
}

// A Project is a Dockerfile of a project, which is untrusted, and what its build may use.
type Project struct {
	Dockerfile string            // absolute path
	Context    string            // absolute path of the folder whose files it can copy
	Args       map[string]string // of the build
	Target     string            // stage that is built; empty is the last one
	Network    string            // of the containers that run instructions; never that of the host
	Memory     int64             // bytes that they have
	CPUs       float64           // processors that they have
	Size       int64             // bytes that one of them may write, and that the image may have
	Timeout    time.Duration     // of the whole build
}

// A Program is what a container of an image runs, as the image says.
type Program struct {
	Args   []string          // entrypoint and command
	Env    map[string]string // variables that the image sets
	Dir    string            // where it starts; empty is /
	Ports  []int             // TCP ports that the image exposes, sorted
	Health []string          // command that succeeds when the program is ready; empty is none
}
