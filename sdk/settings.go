package sdk

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/sirupsen/logrus"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/server/api"
)

// maxSettings is the largest header with settings that is sent: a daemon takes
// 32 KiB of all headers.
const maxSettings = 24 << 10

// WithSettings returns a client of the same daemon, over the same connections,
// whose calls have settings of their own, which are for admins; nil is none.
// Calls on which they would have no effect are refused.
func (c *API) WithSettings(s *config.SandboxSettings) (*API, error) {
	d := *c
	var err error
	d.o.settings, err = settingsHeader(s)
	return &d, err
}

// settingsHeader returns the value of the header [api.HeaderSettings]: JSON in
// ASCII.
func settingsHeader(s *config.SandboxSettings) (string, error) {
	f, err := api.FlagsOf(s)
	if f == nil || err != nil {
		return "", err
	}
	b, err := json.Marshal(f)
	if err != nil {
		return "", sandbox.Errorf(sandbox.CodeInternal, "send settings", "the settings cannot be written: %w", err)
	}
	var out strings.Builder
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		switch {
		case r < 0x7f:
			out.WriteByte(byte(r))
		case r > 0xffff:
			r -= 0x10000
			fmt.Fprintf(&out, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
		b = b[n:]
	}
	if out.Len() > maxSettings {
		return "", &sandbox.Error{
			Code: sandbox.CodeValidation, Op: "send settings", Field: api.HeaderSettings, Message: fmt.Sprintf("the settings of the call have %d bytes, and at most %d can be sent", out.Len(), maxSettings),
			Hint: "put them into the settings file of the daemon",
		}
	}
	return out.String(), nil
}

func silent() logrus.FieldLogger {
	l := logrus.New()
	l.SetOutput(io.Discard)
	return l
}
