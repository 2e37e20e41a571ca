package tenant

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
)

func TestCheck(t *testing.T) {
	for name, tt := range map[string]struct {
		limits Limits
		field  string // at fault, or empty
	}{
		"nothing":                       {Limits{}, ""},
		"no limits":                     {NoLimits(), ""},
		"a burst":                       {Limits{RequestsPerSecond: 5, RequestBurst: 50}, ""},
		"negative":                      {Limits{Memory: -2}, "quota.memory"},
		"unlimited burst":               {Limits{RequestsPerSecond: 5, RequestBurst: Unlimited}, "quota.requestBurst"},
		"unlimited burst of no request": {Limits{RequestBurst: Unlimited}, ""},
	} {
		err := tt.limits.Check()
		if tt.field == "" && err != nil || tt.field != "" && (sandbox.CodeOf(err) != sandbox.CodeValidation || !strings.Contains(err.Error(), tt.field)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWithin(t *testing.T) {
	most := Limits{Sandboxes: 2, Commands: Unlimited, Memory: 100, RequestsPerSecond: 10, RequestBurst: 20}
	for name, tt := range map[string]struct {
		limits Limits
		more   string // the kind of which it is more, or empty
	}{
		"the same":          {most, ""},
		"nothing":           {Limits{}, ""},
		"one more":          {most.With(Sandboxes, 3), "sandboxes"},
		"no limit":          {most.With(Memory, Unlimited), "memory"},
		"of what has none":  {most.With(Commands, 1<<60), ""},
		"a larger burst":    {most.With(RequestBurst, 21), "requestBurst"},
		"burst of its rate": {most.With(RequestBurst, 0), ""},
		"unlimited rate":    {most.With(RequestsPerSecond, Unlimited), "requestsPerSecond"},
		"of nothing":        {most.With(Disk, 1), "disk"},
	} {
		k, ok := tt.limits.Within(most)
		if ok != (tt.more == "") || !ok && k.String() != tt.more {
			t.Errorf("%s: %v, %v", name, k, ok)
		}
	}
}

func someLimits(r *rand.Rand) Limits {
	for {
		var v [NumKinds]int64
		for k := range v {
			v[k] = r.Int64N(5) - 1
		}
		if l := fromValues(v); l.Check() == nil {
			return l
		}
	}
}

func TestKindsHaveNames(t *testing.T) {
	seen := map[string]bool{}
	for k := range NumKinds {
		l := NoLimits().With(k, 7)
		if seen[k.String()] || strings.Contains(k.String(), " ") || l.Of(k) != 7 || l == NoLimits() {
			t.Errorf("%v: %+v", k, l)
		}
		seen[k.String()] = true
	}
}
