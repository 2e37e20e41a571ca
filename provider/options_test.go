package provider_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/provider"
)

// choosy is a provider with the one option "region", a text.
type choosy struct{ named }

func (choosy) CheckOptions(options map[string]any) error {
	for key, value := range options {
		if _, ok := value.(string); key != "region" || !ok {
			return provider.OptionError(key, "it is not known", "it has region")
		}
	}
	return nil
}

// vague is a provider whose answer is no error of ours.
type vague struct{ named }

func (vague) CheckOptions(map[string]any) error { return errors.New("not today") }

func TestCheckOptions(t *testing.T) {
	plain, own := named{name: "plain"}, choosy{named{name: "own"}}
	tests := []struct {
		name    string
		p       sandbox.Provider
		options map[string]any
		field   string // empty: taken
	}{
		{"none for a provider without options", plain, nil, ""},
		{"an empty object", plain, map[string]any{}, ""},
		{"one for a provider without options", plain, map[string]any{"y": 1, "x": nil}, "providerOptions.x"},
		{"an empty name", plain, map[string]any{"": true}, "providerOptions."},
		{"none", own, nil, ""},
		{"a good one", own, map[string]any{"region": "eu"}, ""},
		{"a misspelt one", own, map[string]any{"regoin": "eu"}, "providerOptions.regoin"},
		{"a wrong value", own, map[string]any{"region": 3}, "providerOptions.region"},
		{"null", own, map[string]any{"region": nil}, "providerOptions.region"},
		{"another name in other letters", own, map[string]any{"Région": "x"}, "providerOptions.Région"},
		{"an error of another kind", vague{named{name: "vague"}}, nil, "providerOptions"},
		{"one that cannot be used here", provider.Unusable("own", errors.New("no")), map[string]any{"x": 1}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := provider.CheckOptions(tt.p, tt.options)
			if taken := provider.TakesOptions(tt.p, tt.options); taken != (err == nil) {
				t.Errorf("TakesOptions is %v", taken)
			}
			e, _ := errors.AsType[*sandbox.Error](err)
			if tt.field == "" {
				if err != nil {
					t.Error(err)
				}
			} else if e == nil || e.Code != sandbox.CodeValidation || e.Field != tt.field {
				t.Errorf("%v, want the field %s", err, tt.field)
			}
		})
	}
}

func TestCheckAutoOptions(t *testing.T) {
	s, err := provider.New(named{name: "docker"}, choosy{named{name: "local"}}, provider.Unusable("gone", errors.New("no")))
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name    string
		options map[string]any
		order   []string
		says    string // empty: taken
	}{
		{"none", nil, []string{"docker", "local"}, ""},
		{"of the second", map[string]any{"region": "eu"}, []string{"docker", "local"}, ""},
		{"of none", map[string]any{"regoin": "eu"}, []string{"docker", "local"}, "it has region"},
		{"of none, and none has any", map[string]any{"x": 1}, []string{"docker", "absent"}, "no options at all"},
		{"one that cannot be used does not vouch for them", map[string]any{"regoin": "eu"}, []string{"gone", "local"}, "it has region"},
	}
	for _, tt := range tests {
		err := s.CheckAutoOptions(tt.options, tt.order...)
		if (err == nil) != (tt.says == "") || err != nil && (!strings.Contains(err.Error(), tt.says) || sandbox.CodeOf(err) != sandbox.CodeValidation) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.says)
		}
	}
}
