package resource

import (
	"net/http"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/internal/jsonschema"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/server/auth"
	"github.com/bulkhead-dev/sandbox/tenant/token"
)

// SettingsOf returns the settings that the header [api.HeaderSettings] of r
// holds, nil where it has none. The header of a caller that is no admin is
// [sandbox.CodePermissionDeny]. A header that occurs twice, that is not valid,
// or that route does not take is [sandbox.CodeValidation]: settings that have no
// effect would leave a sandbox less closed than its caller believes. A nil route
// is that of a handler that is no route.
func SettingsOf(r *http.Request, c auth.Caller, route *Route) (*config.SandboxSettings, error) {
	values := r.Header.Values(api.HeaderSettings)
	switch {
	case len(values) == 0:
		return nil, nil
	case c.Role != token.Admin:
		return nil, &sandbox.Error{
			Code: sandbox.CodePermissionDeny, Op: "serve", Field: api.HeaderSettings, Message: "settings of a single call are for admins",
			Hint: "leave out --provider, --image, --workspace, --allow-domain and the like, or have the settings of the daemon changed",
		}
	case len(values) > 1:
		return nil, Invalid(api.HeaderSettings, "is there more than once")
	case route == nil || !route.Settings:
		return nil, Invalid(api.HeaderSettings, "has no effect on this route; leave it out")
	}
	var f api.Flags
	if err := jsonschema.Decode([]byte(values[0]), &f); err != nil {
		return nil, Invalid(api.HeaderSettings, `is not {"settings":{…},"workspace":"…"}`)
	}
	return f.Layer()
}

// takingSettings returns routes with Settings set.
func takingSettings(routes []Route) []Route {
	for i := range routes {
		routes[i].Settings = true
	}
	return routes
}
