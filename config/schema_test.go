package config_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/tailscale/hujson"

	"github.com/bulkhead-dev/sandbox/config"
)

func compile(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(config.Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource(config.SchemaID, doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile(config.SchemaID)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func validate(t *testing.T, s *jsonschema.Schema, in []byte) error {
	t.Helper()
	std, err := hujson.Standardize(bytes.Clone(in))
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(std))
	if err != nil {
		t.Fatal(err)
	}
	return s.Validate(doc)
}

func TestSchemaGolden(t *testing.T) { goldenBytes(t, "schema.golden.json", config.Schema()) }

func TestSchemaTakesDefaultsAndEveryKey(t *testing.T) {
	s := compile(t)
	defaults, err := json.Marshal(config.Settings{Agents: &config.Agents{Defaults: &config.AgentDefaults{Sandbox: config.Defaults()}}})
	if err != nil {
		t.Fatal(err)
	}
	every, err := os.ReadFile("testdata/every-key.json")
	if err != nil {
		t.Fatal(err)
	}
	for name, in := range map[string][]byte{"defaults": defaults, "every key": every, "empty": []byte("{}")} {
		if err := validate(t, s, in); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := config.Parse(name, in); err != nil {
			t.Errorf("%s: Parse does not agree: %v", name, err)
		}
	}
}

// TestSchemaAndParseAgree holds that what the schema refuses Parse refuses too.
func TestSchemaAndParseAgree(t *testing.T) {
	s := compile(t)
	for name, in := range map[string]string{
		"unknown key":       `{"agent":{}}`,
		"unknown key below": inDefaults(`"docker":{"memroy":"1g"}`),
		"null":              inDefaults(`"docker":null`),
		"bool as string":    inDefaults(`"enabled":"yes"`),
		"list as string":    inDefaults(`"docker":{"binds":"/a:/b"}`),
		"bad word":          inDefaults(`"mode":"some"`),
		"bad word in list":  inDefaults(`"enabledPlatforms":["beos"]`),
		"bad size":          inDefaults(`"docker":{"memory":"2 gig"}`),
		"negative size":     inDefaults(`"limits":{"memory":-1}`),
		"small memory":      inDefaults(`"docker":{"memory":1}`),
		"bad duration":      inDefaults(`"prune":{"idle":"1 day"}`),
		"duration number":   inDefaults(`"prune":{"idle":24}`),
		"number too large":  inDefaults(`"browser":{"cdpPort":70000}`),
		"bad prefix":        inDefaults(`"docker":{"containerPrefix":"A"}`),
		"variable number":   inDefaults(`"docker":{"env":{"A":1}}`),
		"bad limit":         inDefaults(`"docker":{"ulimits":{"nofile":"x"}}`),
		"limit key":         inDefaults(`"docker":{"ulimits":{"nofile":{"sfot":1}}}`),
		"bad sync":          inDefaults(`"evidence":{"sync":"sometimes"}`),
		"no checkpoints":    inDefaults(`"evidence":{"checkpointEvery":0}`),
		"less than nothing": inDefaults(`"budgets":{"session":{"calls":-2}}`),
		"negative volume":   inDefaults(`"budgets":{"agent":{"bytesIn":"-1g"}}`),
		"no such account":   inDefaults(`"budgets":{"user":{"calls":1}}`),
		"no such kind":      inDefaults(`"budgets":{"tenant":{"cpu":1}}`),
		"no id":             `{"agents":{"list":[{}]}}`,
	} {
		t.Run(name, func(t *testing.T) {
			if err := validate(t, s, []byte(in)); err == nil {
				t.Error("the schema takes it")
			}
			if _, err := config.Parse("f", []byte(in)); err == nil {
				t.Error("Parse takes it")
			}
		})
	}
}

// TestSchemaHasEveryField compares the schema with the list of fields that the
// documentation promises, so that neither can lose one unnoticed.
func TestSchemaHasEveryField(t *testing.T) {
	promised := map[string]string{
		"": "enabled failIfUnavailable enabledPlatforms provider providerOptions preset mode scope workspaceAccess " +
			"workspaceRoot workspaceQuota driftPolicy fsTransport requireEvidence docker filesystem network commands limits browser tools prune pool checkpoint cache idle permissions budgets profile evidence",
		"docker": "image containerPrefix workdir readOnlyRoot tmpfs network user capDrop env setup buildNetwork buildTimeout buildSize caFile onStart pidsLimit memory memorySwap " +
			"cpus ulimits seccompProfile apparmorProfile dns extraHosts binds runtime gpus shmSize home homeSize dangerouslyAllowBindSources " +
			"dangerouslyAllowMissingLimits dangerouslyAllowReservedTargets dangerouslyAllowWritableRoot dangerouslyKeepCapabilities privileged capAdd pid ipc userns",
		"filesystem": "allowRead denyRead allowWrite denyWrite tempPrefixes allowUnixSockets whitelist blacklist",
		"network":    "allowedDomains deniedDomains allowPrivate allowPublic ask allowLocalBinding httpProxyPort registries registryHosts limits secrets",
		"commands":   "strictness allow block excluded subagentBlock allowUnsandboxed autoAllowIfSandboxed",
		"limits":     "timeout maxOutputBytes memory cpuSeconds fileSize openFiles processes",
		"browser": "enabled image containerPrefix network cdpPort vncPort noVncPort headless enableNoVnc allowHostControl autoStart " +
			"autoStartTimeout cdpSourceRange binds hostCdpUrl allowDownloads allowDataUrls dangerouslyNoSandbox limits",
		"tools":      "allow alsoAllow deny",
		"prune":      "idle maxAge every",
		"pool":       "size max window memory from",
		"checkpoint": "means auto keep max maxDisk folders",
		"cache":      "tools size",
		"idle":       "pauseAfter",

		"permissions": "allow deny ask",

		"budgets":  "session agent tenant",
		"evidence": "sync checkpointEvery commands",
		"profile":  "mime tools methods paths maxBytesIn maxBytesOut maxTmpBytes maxFiles maxDepth maxConcurrency timeout",
	}
	var doc any
	if err := json.Unmarshal(config.Schema(), &doc); err != nil {
		t.Fatal(err)
	}
	props := func(v any, path ...string) map[string]any {
		for _, p := range path {
			v = v.(map[string]any)["properties"].(map[string]any)[p]
		}
		return v.(map[string]any)["properties"].(map[string]any)
	}
	for group, names := range promised {
		path := []string{"agents", "defaults", "sandbox"}
		if group != "" {
			path = append(path, group)
		}
		have := maps.Clone(props(doc, path...))
		for name := range strings.FieldsSeq(names) {
			if d, _ := have[name].(map[string]any)["description"].(string); d == "" {
				t.Errorf("%s.%s is missing or has no description", group, name)
			}
			delete(have, name)
		}
		for name := range have {
			t.Errorf("%s.%s is in the schema and not promised", group, name)
		}
	}
}
