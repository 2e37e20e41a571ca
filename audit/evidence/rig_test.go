package evidence

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
)

// helperEnv makes the test binary a process that writes evidence; see helper.
const helperEnv = "EVIDENCE_TEST_HELPER"

func TestMain(m *testing.M) {
	if what := os.Getenv(helperEnv); what != "" {
		if err := helper(what); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// of returns records of a tenant, numbered from..to-1.
func of(tenant string, from, to int) []Record {
	var out []Record
	for n := from; n < to; n++ {
		out = append(out, numbered(Record{Tenant: tenant, Command: fmt.Sprint("op-", n), Share: Exact}, n))
	}
	return out
}

// each appends records one by one.
func each(t testing.TB, s *Store, rs []Record) {
	t.Helper()
	for _, r := range rs {
		add(t, s, r)
	}
}

// everything returns what Verify says of all chains, by tenant; "." is what
// lies in the folder itself.
func everything(t testing.TB, s *Store, c Check) map[string]Chain {
	t.Helper()
	c.AllTenants = true
	out := map[string]Chain{}
	for r, err := range s.Verify(context.Background(), c) {
		if err != nil {
			t.Fatal(err)
		}
		name := r.Tenant
		if r.Folder == "." {
			name = "."
		}
		out[name] = r
	}
	return out
}

// wantWhole holds that a chain is as it was written, with so many records,
// checkpoints that count, and records behind the last of these.
func wantWhole(t testing.TB, r Chain, records, checkpoints, unsigned int64) {
	t.Helper()
	if !r.OK() || r.Broken != nil || r.Records != records || r.Checkpoints != checkpoints || r.Unsigned != unsigned {
		t.Fatalf("%d records, %d checkpoints, %d unsigned, broken %+v; want %d, %d, %d", r.Records, r.Checkpoints, r.Unsigned, r.Broken, records, checkpoints, unsigned)
	}
}

func wantCode(t testing.TB, err error, code sandbox.Code, message string) {
	t.Helper()
	if sandbox.CodeOf(err) != code || !strings.Contains(err.Error(), message) {
		t.Fatalf("error %v, want %s with %q", err, code, message)
	}
}

// fileOf is the first file of a tenant's chain.
func fileOf(dir, tenant string) string {
	return filepath.Join(dir, folderOf(tenant), "0000000001.jsonl")
}

// load returns the lines of the first file of a chain, without line feeds.
func load(t testing.TB, dir, tenant string) []string {
	t.Helper()
	data, err := os.ReadFile(fileOf(dir, tenant))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
}

// save puts lines into the first file of a chain as they are.
func save(t testing.TB, dir, tenant string, lines []string) {
	t.Helper()
	if err := os.WriteFile(fileOf(dir, tenant), []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// forge saves lines as an attacker who knows the journal format: every line
// gets the number and the hashes that fit, and the head says where it ends.
func forge(t testing.TB, dir, tenant string, lines []string) {
	t.Helper()
	prev := strings.Repeat("0", 64)
	seq := 0
	var text bytes.Buffer
	for _, line := range lines {
		var l struct {
			Time, Kind string
			Data       json.RawMessage
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatal(err)
		}
		seq++
		rest := fmt.Sprintf(`"prev":"%s","seq":%d,"time":"%s","kind":"%s","data":%s}`, prev, seq, l.Time, l.Kind, l.Data)
		sum := sha256.Sum256([]byte(rest))
		prev = hex.EncodeToString(sum[:])
		fmt.Fprintf(&text, "{\"hash\":\"%s\",%s\n", prev, rest)
	}
	if err := os.WriteFile(fileOf(dir, tenant), text.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	head := fmt.Sprintf("journal 1 file %016x size %016x seq %016x oldest %016x hash %s", 1, text.Len(), seq, 1, prev)
	sum := sha256.Sum256([]byte(head))
	head += " " + hex.EncodeToString(sum[:8]) + "\n"
	if err := os.WriteFile(filepath.Join(dir, folderOf(tenant), "head"), []byte(head), 0o600); err != nil {
		t.Fatal(err)
	}
}
