package images

import (
	"io"

	"github.com/bulkhead-dev/sandbox/images/about"
)

// What images are spoken of in, see package about.
type (
	Image    = about.Image
	Origin   = about.Origin
	Options  = about.Options
	Phase    = about.Phase
	Event    = about.Event
	Progress = about.Progress
	Lines    = about.Lines
	Terminal = about.Terminal
)

// The origins.
const (
	OriginForeign   = about.OriginForeign
	OriginSandbox   = about.OriginSandbox
	OriginBrowser   = about.OriginBrowser
	OriginCode      = about.OriginCode
	OriginLanguage  = about.OriginLanguage
	OriginProject   = about.OriginProject
	OriginBootstrap = about.OriginBootstrap
	OriginSetup     = about.OriginSetup
)

// The phases.
const (
	PhaseWait      = about.PhaseWait
	PhasePull      = about.PhasePull
	PhaseBootstrap = about.PhaseBootstrap
	PhaseBuild     = about.PhaseBuild
	PhaseSetup     = about.PhaseSetup
	PhaseOutdated  = about.PhaseOutdated
)

// NewLines is [about.NewLines].
func NewLines(w io.Writer) *Lines { return about.NewLines(w) }
