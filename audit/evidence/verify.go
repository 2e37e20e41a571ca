package evidence

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/journal"
)

// A Check says what to verify.
type Check struct {
	Tenant     string // exactly this one's chain
	AllTenants bool   // Tenant does not count
	// Keys, if there are any, are the only ones whose signatures count, before
	// Options.TrustedKeys.
	Keys []ed25519.PublicKey
	// Signed, if not nil, is a line that was signed earlier, by number and
	// hash, as the caller kept it: the line must still be there, unless
	// rotation dropped it. It requires a single tenant.
	Signed *journal.Place
}

// A Chain says whether the records of one tenant are as they were written. Its
// JSON keys are stable.
type Chain struct {
	Tenant string `json:"tenant"` // also empty when the tenant is unknown
	Folder string `json:"folder"` // below that of the evidence
	// Old is set for what lies in the folder itself: the records of all
	// tenants from before there were chains, without a signature.
	Old bool `json:"old"`

	journal.Report // Records without the checkpoints

	Checkpoints int64    `json:"checkpoints"` // that count
	Signed      *Place   `json:"signed"`      // the last place that counts as signed; nil: there is none
	Unsigned    int64    `json:"unsigned"`    // records behind it, which only hashes protect
	Keys        []string `json:"keys"`        // ids of all keys that sign there, good or not; at most 16
	Torn        int      `json:"torn"`        // writes that did not come to their end; no damage
	Broken      *Broken  `json:"broken"`      // the first place that is not as it was written; nil: there is none
}

// A Place is where a chain was signed.
type Place struct {
	journal.Place
	Records uint64 `json:"records"` // in the chain up to there, since it began
	Key     string `json:"key"`     // id of the key
}

// A Broken identifies a record that was changed, as far as it can still be
// read. What it says about itself may be false.
type Broken struct {
	journal.Damage
	ID   string `json:"id"`   // Command of the record: of an operation its id
	Type Type   `json:"type"` // of the record
}

// Verify reads the chains that are meant, one after the other, and says of
// each whether it is as it was written. The error is about reading and the
// last; what was changed is in the reports. Memory does not grow with the
// chains. Nothing is written, except counts that this Store has kept back.
func (s *Store) Verify(ctx context.Context, c Check) iter.Seq2[Chain, error] {
	return func(yield func(Chain, error) bool) {
		keys, err := s.trusted(c)
		if c.Signed != nil && c.AllTenants {
			err = sandbox.Errorf(sandbox.CodeValidation, "verify evidence", "a signed line is one of a certain tenant's chain")
		}
		if err == nil {
			err = s.Flush(ctx)
		}
		var have listing
		if err == nil {
			have, err = s.list()
		}
		if err != nil {
			yield(Chain{}, err)
			return
		}
		if !c.AllTenants {
			tenant := journal.Name(c.Tenant)
			have = have.only(folderOf(tenant))
			if len(have.chains)+len(have.orphans) == 0 {
				r := Chain{Tenant: tenant, Folder: folderOf(tenant), Report: nothing(), Keys: []string{}}
				yield(r.holding(c.Signed, false).concluded(), nil)
				return
			}
		}
		for _, folder := range have.chains {
			r, err := s.verifyChain(ctx, folder, keys, c.Signed)
			if !yield(r, err) || err != nil {
				return
			}
		}
		for _, folder := range have.orphans {
			r, err := s.missing(folder)
			if !yield(r, err) || err != nil {
				return
			}
		}
		if have.old || len(have.strangers) > 0 {
			yield(s.verifyOld(ctx, have))
		}
	}
}

// only returns what of l is about one chain.
func (l listing) only(folder string) listing {
	other := func(name string) bool { return name != folder }
	return listing{chains: slices.DeleteFunc(l.chains, other), orphans: slices.DeleteFunc(l.orphans, other)}
}

// nothing is the report of a journal that was never written to.
func nothing() journal.Report {
	return journal.Report{Clearings: []journal.Clearing{}, Damage: []journal.Damage{}}
}

// Verified is what a check of several chains came to.
type Verified struct {
	Keys   []ed25519.PublicKey // whose signatures count; none is that none does
	Chains []Chain
}

// OK reports whether nothing was changed.
func (v Verified) OK() bool {
	return !slices.ContainsFunc(v.Chains, func(c Chain) bool { return !c.OK() })
}

// Verified is [Store.Verify] to its end, with the keys.
func (s *Store) Verified(ctx context.Context, c Check) (Verified, error) {
	keys, err := s.counting(c)
	if err != nil {
		return Verified{}, err
	}
	c.Keys = keys // a key that is created meanwhile would count without being reported
	v := Verified{Keys: keys, Chains: []Chain{}}
	for chain, err := range s.Verify(ctx, c) {
		if err != nil {
			return v, err
		}
		v.Chains = append(v.Chains, chain)
	}
	return v, nil
}

// counting returns the keys whose signatures count.
func (s *Store) counting(c Check) ([]ed25519.PublicKey, error) {
	keys := c.Keys
	if len(keys) == 0 {
		keys = s.o.TrustedKeys
	}
	if len(keys) == 0 {
		own, err := s.PublicKey()
		if err != nil {
			return nil, err
		}
		if own != nil {
			keys = []ed25519.PublicKey{own}
		}
	}
	return keys, nil
}

// trusted returns the keys whose signatures count, by id.
func (s *Store) trusted(c Check) (map[string]ed25519.PublicKey, error) {
	keys, err := s.counting(c)
	if err != nil {
		return nil, err
	}
	out := map[string]ed25519.PublicKey{}
	for _, k := range keys {
		out[KeyID(k)] = k
	}
	return out, nil
}

// missing reports a chain of which only the file beside its folder is left.
func (s *Store) missing(folder string) (Chain, error) {
	tenant, _, err := s.readName(folder)
	r := Chain{Tenant: tenant, Folder: folder, Report: nothing(), Keys: []string{}}
	r.Damage = append(r.Damage, journal.Damage{Kind: journal.DamageMissing, File: folder, Detail: "the folder of the chain is missing"})
	return r.concluded(), err
}

// verifyChain verifies the chain in a folder.
func (s *Store) verifyChain(ctx context.Context, folder string, keys map[string]ed25519.PublicKey, kept *journal.Place) (Chain, error) {
	tenant, named, err := s.readName(folder)
	r := Chain{Tenant: tenant, Folder: folder, Keys: []string{}}
	if err != nil {
		return r, err
	}
	j, err := s.journal(folder)
	if err != nil {
		return r, err
	}
	a := &auditor{folder: folder, tenant: tenant, named: named, keys: keys, kept: kept, seen: map[string]bool{}}
	if r.Report, err = j.VerifyEach(ctx, a.check); err != nil {
		return r, err
	}
	r.Tenant = a.tenant
	if !named && r.Files > 0 && r.Last.Seq > 1 {
		d := journal.Damage{Kind: journal.DamageMissing, File: folder + nameSuffix, Detail: "the file that says whose chain it is is missing, or says something else"}
		r.Damage = append([]journal.Damage{d}, r.Damage...)
	}
	r.Records -= a.all
	r.Checkpoints, r.Signed, r.Unsigned = a.good, a.signed, a.unsigned
	r.Keys = slices.AppendSeq(r.Keys, maps.Keys(a.seen))
	slices.Sort(r.Keys)
	return r.holding(kept, a.held).concluded(), nil
}

// holding reports the line that was signed earlier as missing, unless the line
// is present or older than everything that is kept, which later signatures
// cover.
func (r Chain) holding(kept *journal.Place, held bool) Chain {
	if kept == nil || held || r.Signed != nil && r.First.Seq > kept.Seq {
		return r
	}
	r.Damage = append(r.Damage, journal.Damage{
		Kind: DamageRewritten, File: r.Folder, Seq: kept.Seq,
		Detail: fmt.Sprintf("line %d, which was signed with hash %s, is not there as a signed line", kept.Seq, journal.Text(kept.Hash, 64)),
	})
	return r
}

// verifyOld verifies what lies in the folder itself.
func (s *Store) verifyOld(ctx context.Context, have listing) (Chain, error) {
	r := Chain{Folder: ".", Old: have.old, Report: nothing(), Keys: []string{}}
	if have.old {
		j, err := s.journal(".")
		if err != nil {
			return r, err
		}
		if r.Report, err = j.Verify(ctx); err != nil {
			return r, err
		}
		r.Damage = slices.DeleteFunc(r.Damage, func(d journal.Damage) bool { return d.Kind == journal.DamageStranger })
		r.Unsigned = r.Records
	}
	for _, name := range have.strangers {
		r.Damage = append(r.Damage, journal.Damage{Kind: journal.DamageStranger, File: name, Detail: "it does not belong to the evidence"})
	}
	return r.concluded(), nil
}

// concluded fills in what follows from the damage.
func (r Chain) concluded() Chain {
	for _, d := range r.Damage {
		if d.Kind == journal.DamageTorn {
			r.Torn++
			continue
		}
		if r.Broken == nil {
			r.Broken = &Broken{Damage: d}
			var claim Record
			if json.Unmarshal(d.Claim, &claim) == nil {
				r.Broken.ID, r.Broken.Type = journal.Name(claim.Command), Type(journal.Name(string(claim.Type)))
			}
		}
	}
	return r
}
