package cli

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	ucli "github.com/urfave/cli/v2"

	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/audit/journal"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
)

func (a *app) evidenceVerifyCommand() *ucli.Command {
	keys, signed, all := &texts{check: notEmpty}, &text{check: notEmpty}, false
	return &ucli.Command{
		Name:      "verify",
		Usage:     "check that nothing of what was recorded is missing or changed",
		UsageText: "sandbox evidence verify [flags]",
		Description: "Every tenant's, or with --tenant that one's. Exits with 1 and names the first broken record when something\n" +
			"is not as it was written. A write that did not come to its end is reported and is no failure.\n" +
			"Who may write the state folder may have the key too: keep the public key and the last signed line, which\n" +
			"are shown, somewhere else, and give them with --key and, for one tenant, --signed.",
		Flags: []ucli.Flag{
			&ucli.GenericFlag{Name: "key", Usage: "only signatures of this `KEY` count, or of any that is given: base64, or a file that holds it", Value: keys},
			&ucli.GenericFlag{Name: "signed", Usage: "this `LINE:HASH` of the tenant must be there and signed", Value: signed},
			&ucli.BoolFlag{Name: "all", Usage: "every tenant's, as without --tenant", Destination: &all},
		},
		Action: func(c *ucli.Context) error {
			if err := noArguments(c); err != nil {
				return err
			}
			what, err := a.evidenceCheck(all, keys.values, signed.value)
			if err != nil {
				return err
			}
			return a.withEvidence(func(e EvidenceStore) error { return a.verifyEvidence(c.Context, e, what) })
		},
	}
}

// evidenceCheck reads the flags of verify.
func (a *app) evidenceCheck(all bool, keys []string, signed string) (evidence.Check, error) {
	c := evidence.Check{Tenant: a.globals.tenant.value, AllTenants: !a.globals.tenant.given}
	if all && a.globals.tenant.given {
		return c, usagef("evidence verify", "--all and --tenant exclude each other")
	}
	for _, text := range keys {
		k, err := publicKey(text)
		if err != nil {
			return c, err
		}
		c.Keys = append(c.Keys, k)
	}
	if signed == "" {
		return c, nil
	}
	line, hash, ok := strings.Cut(signed, ":")
	seq, err := strconv.ParseUint(line, 10, 64)
	if !ok || err != nil || len(hash) != 64 || strings.Trim(hash, "0123456789abcdef") != "" {
		return c, usagef("evidence verify", "--signed is the number of a line, a colon and its hash of 64 hex digits, as verify shows them")
	}
	if c.AllTenants {
		return c, usagef("evidence verify", "--signed needs --tenant: each has a chain of its own")
	}
	c.Signed = &journal.Place{Seq: seq, Hash: hash}
	return c, nil
}

// maxKeyFile bounds a file that holds a public key, in bytes.
const maxKeyFile = 4 << 10

// publicKey reads a key that is given as it is, or as the name of a file.
func publicKey(text string) (ed25519.PublicKey, error) {
	if k, err := evidence.ParsePublic(text); err == nil {
		return k, nil
	}
	f, err := os.Open(text)
	if err != nil {
		return nil, usagef("evidence verify", "--key is neither a public key in base64 nor a file that can be read: %v", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxKeyFile))
	if err != nil {
		return nil, usagef("evidence verify", "--key: %v", err)
	}
	return evidence.ParsePublic(string(data))
}

// verifyView is what verify prints.
type verifyView struct {
	OK     bool        `json:"ok"`
	Keys   []keyView   `json:"keys"` // whose signatures count
	Chains []chainView `json:"chains"`
}

type keyView struct {
	ID     string `json:"id"`
	Public string `json:"public"`
}

type chainView struct {
	OK bool `json:"ok"`
	evidence.Chain
}

// place is where a file of the chain lies, which may be the chain itself.
func (c chainView) place(file string) string {
	if file == c.Folder {
		return file
	}
	return c.Folder + "/" + file
}

func (a *app) verifyEvidence(ctx context.Context, e EvidenceStore, what evidence.Check) error {
	view := verifyView{OK: true, Keys: []keyView{}, Chains: []chainView{}}
	v, err := e.Verified(ctx, what)
	if err != nil {
		return err
	}
	for _, k := range v.Keys {
		view.Keys = append(view.Keys, keyView{evidence.KeyID(k), evidence.Public(k)})
	}
	for _, c := range v.Chains {
		view.Chains = append(view.Chains, chainView{c.OK(), c})
		view.OK = view.OK && c.OK()
	}
	if err := a.writeVerified(view); err != nil {
		return err
	}
	if view.OK {
		return nil
	}
	if !a.globals.json() {
		a.sayBroken(view)
	}
	return silentStatus(statusFailed)
}

// sayBroken names the first broken record of each chain.
func (a *app) sayBroken(view verifyView) {
	a.say("the evidence is not as it was written")
	if len(view.Keys) == 0 {
		a.say("there is no key in the state folder, so no signature counts; if only the key is gone, give the public one with --key")
	}
	for _, c := range view.Chains {
		b := c.Broken
		if b == nil {
			continue
		}
		where := c.place(b.File)
		if b.Line > 0 {
			where += fmt.Sprintf(" line %d", b.Line)
		}
		if b.Seq > 0 {
			where += fmt.Sprintf(", record %d", b.Seq)
		}
		if b.Type != "" {
			where += " (" + strings.TrimSpace(string(b.Type)+" "+b.ID) + ")"
		}
		a.say("%s", termsafe.Line(fmt.Sprintf("the first broken record of %s: %s: %s", ownerOf(c), where, b.Detail)))
	}
}

func ownerOf(c chainView) string {
	switch {
	case c.Folder == ".":
		return "the folder itself"
	case c.Tenant == "":
		return "the tenant without a name"
	}
	return "tenant " + strconv.Quote(c.Tenant)
}

func (a *app) writeVerified(view verifyView) error {
	if a.globals.json() {
		return writeJSON(a.Stdout, view)
	}
	t := a.newTable([]string{"TENANT", "RECORDS", "FILES", "UNSIGNED", "STATE", "LAST SIGNED LINE"}, "FILES", "UNSIGNED")
	damaged := false
	for _, c := range view.Chains {
		signed := ""
		if c.Signed != nil {
			signed = fmt.Sprintf("%d %s", c.Signed.Seq, c.Signed.Hash)
		}
		t.add(tenantCell(c), strconv.FormatInt(c.Records, 10), strconv.Itoa(c.Files), strconv.FormatInt(c.Unsigned, 10), stateCell(c), signed)
		damaged = damaged || len(c.Damage) > 0
	}
	if err := t.write(a.Stdout); err != nil {
		return err
	}
	for _, k := range view.Keys {
		if _, err := fmt.Fprintf(a.Stdout, "key %s: %s\n", k.ID, k.Public); err != nil {
			return err
		}
	}
	if !damaged {
		return nil
	}
	return a.writeDamage(view)
}

func (a *app) writeDamage(view verifyView) error {
	t := a.newTable([]string{"TENANT", "DAMAGE", "FILE", "LINE", "OFFSET", "WHAT"}, "TENANT", "OFFSET")
	for _, c := range view.Chains {
		for _, d := range c.Damage {
			line := ""
			if d.Line > 0 {
				line = strconv.Itoa(d.Line)
			}
			t.add(tenantCell(c), d.Kind, c.place(d.File), line, strconv.FormatInt(d.Offset, 10), d.Detail)
		}
		if c.Omitted > 0 {
			t.add(tenantCell(c), "", "", "", "", fmt.Sprintf("and %d more", c.Omitted))
		}
	}
	return t.write(a.Stdout)
}

func tenantCell(c chainView) string {
	if c.Tenant == "" {
		return "-"
	}
	return c.Tenant
}

func stateCell(c chainView) string {
	var notes []string
	switch {
	case c.Broken != nil:
		notes = append(notes, "broken")
	case c.Old:
		notes = append(notes, "old, without signatures")
	case c.Files == 0:
		notes = append(notes, "nothing recorded")
	default:
		notes = append(notes, "whole")
	}
	if c.Torn > 0 {
		notes = append(notes, fmt.Sprintf("%d torn", c.Torn))
	}
	if c.Dropped > 0 {
		notes = append(notes, fmt.Sprintf("begins with line %d", c.First.Seq))
	}
	return strings.Join(notes, ", ")
}
