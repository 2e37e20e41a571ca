package server

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/bulkhead-dev/sandbox/server/resource"
)

// maxText is the most bytes of a parameter without a bound of its own.
const maxText = 4096

// unescape decodes the escapes of a part of a path. The result must be valid
// text.
func unescape(s string) (string, error) {
	out, err := url.PathUnescape(s)
	if err == nil && (!utf8.ValidString(out) || strings.ContainsRune(out, 0)) {
		err = url.EscapeError(s)
	}
	return out, err
}

// queryOf parses the query of a request and checks it against the route.
func queryOf(r *http.Request, of *resource.Route) (url.Values, error) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, resource.Invalid("query", "is no query that can be read")
	}
	for name, values := range q {
		p := find(of.Query, name)
		switch {
		case p == nil:
			return nil, unknownParam(of, name)
		case len(values) > 1 && !p.Repeat:
			return nil, resource.Invalid(name, "appears twice in the query")
		case len(values) > 64:
			return nil, resource.Invalid(name, "appears too often in the query")
		}
		for _, v := range values {
			if why := faultIn(p, v); why != "" {
				return nil, resource.Invalid(name, why)
			}
		}
	}
	for _, p := range of.Query {
		if p.Required && !q.Has(p.Name) {
			return nil, resource.Invalid(p.Name, "is missing in the query")
		}
	}
	return q, nil
}

func find(params []resource.Param, name string) *resource.Param {
	i := slices.IndexFunc(params, func(p resource.Param) bool { return p.Name == name })
	if i < 0 {
		return nil
	}
	return &params[i]
}

func unknownParam(of *resource.Route, name string) error {
	names := []string{}
	for _, p := range of.Query {
		names = append(names, p.Name)
	}
	message := "is no parameter that this takes"
	if len(names) > 0 {
		message += "; there are " + strings.Join(names, ", ")
	}
	if len(name) > 64 || !isID(name) {
		name = "query"
	}
	return resource.Invalid(name, message)
}

// faultIn returns what is wrong with the value of a parameter, or "".
func faultIn(p *resource.Param, v string) string {
	most := maxText
	if p.Length > 0 {
		most = p.Length
	}
	switch {
	case len(v) > most:
		return fmt.Sprintf("has more than %d bytes", most)
	case !utf8.ValidString(v) || strings.ContainsRune(v, 0):
		return "is no text"
	case len(p.Enum) > 0 && !slices.Contains(p.Enum, v):
		return "must be one of " + strings.Join(p.Enum, ", ")
	}
	switch p.Type {
	case resource.Integer:
		n, err := strconv.ParseInt(v, 10, 64)
		switch {
		case err != nil:
			return "must be a whole number"
		case (p.Min != 0 || p.Max != 0) && (n < p.Min || n > p.Max):
			return fmt.Sprintf("must be from %d to %d", p.Min, p.Max)
		}
	case resource.Boolean:
		if v != "" && v != "true" && v != "false" {
			return "must be true or false"
		}
	}
	return ""
}
