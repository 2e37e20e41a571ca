package registry

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
)

// A Document is what is kept of one name elsewhere than in a folder; Documents keep
// them.
type (
	Document  = statedir.Document
	Documents = statedir.Documents
)

// Keep has the store keep the records of a provider, with claims and creations of its
// sandboxes, in docs. It is called before the store is used.
func (s *Store) Keep(provider string, docs Documents) {
	if s.elsewhere == nil {
		s.elsewhere = map[string]Documents{}
	}
	s.elsewhere[provider] = docs
}

// documents returns where the records of this view lie; nil is the folder.
func (s *Store) documents() Documents { return s.elsewhere[s.provider] }

// Unanswered is the error of a list that lacks what some providers keep elsewhere,
// because that does not answer.
type Unanswered struct {
	Providers map[string]error // by name
}

func (u *Unanswered) Error() string { return errors.Join(u.Unwrap()...).Error() }

// Unwrap returns the errors of the providers.
func (u *Unanswered) Unwrap() []error {
	var out []error
	for _, name := range slices.Sorted(maps.Keys(u.Providers)) {
		out = append(out, u.Providers[name])
	}
	return out
}

// behind returns the view whose provider keeps something of name elsewhere, where
// has reports that of a document. A view of one provider is asked about that alone.
// A store that is no such view is asked only about what the folder does not have.
func (s *Store) behind(name string, has func(Document) bool) (*Store, error) {
	if s.provider != "" {
		return s, nil
	}
	for provider, docs := range s.elsewhere {
		d, err := docs.Get(name)
		if err != nil {
			return nil, err
		}
		if has(d) {
			return s.Of(provider), nil
		}
	}
	return s, nil
}

// behindRecord is behind for the record of a kind and name.
func (s *Store) behindRecord(kind sandbox.Kind, name string) (*Store, error) {
	if s.provider != "" || len(s.elsewhere) == 0 || s.inFolder(kind, name) {
		return s, nil
	}
	return s.behind(name, func(d Document) bool { return d.Record != nil && sameKind(d.Record, kind) })
}

// inFolder reports whether the folder has a record of that name, of any provider.
func (s *Store) inFolder(kind sandbox.Kind, name string) bool {
	_, err := s.read(kind, name)
	return err == nil || !sandbox.IsNotFound(err)
}

// sameKind reports whether a record may be of that kind. One that cannot be read may.
func sameKind(record []byte, kind sandbox.Kind) bool {
	var head struct {
		Kind sandbox.Kind `json:"kind"`
	}
	_ = json.Unmarshal(record, &head)
	have, err := kindDir(head.Kind)
	want, wantErr := kindDir(kind)
	return err != nil || wantErr == nil && have == want
}

// in are the records of one provider in its documents.
type in struct {
	Documents
	provider string
}

func (s *Store) in() (in, bool) {
	d := s.documents()
	return in{d, s.provider}, d != nil
}

// decoded returns the record of a document.
func (i in) decoded(d Document, kind sandbox.Kind) (file, error) {
	if d.Record == nil || !sameKind(d.Record, kind) {
		return file{}, fs.ErrNotExist
	}
	if len(d.Record) > maxRecord {
		return file{}, fmt.Errorf("%w: it has %d bytes", ErrCorrupt, len(d.Record))
	}
	f, err := decode(d.Record, d.Name, kind)
	if err == nil && f.Provider != i.provider {
		err = fmt.Errorf("%w: it is of the provider %q", ErrCorrupt, f.Provider)
	}
	return f, err
}

// glance returns the document of a name as it was reported last, where that is known.
func (i in) glance(name string) (d Document, ok bool) {
	g, ok := i.Documents.(statedir.Glancer)
	if !ok || statedir.CheckName(name) != nil {
		return d, false
	}
	return g.Glance(name)
}

// absent reports whether nothing was kept of the name when that was reported last.
func (i in) absent(name string) bool {
	d, ok := i.glance(name)
	return ok && d.Empty()
}

// Recall is [Store.Get] for what is shown and decides nothing: of what is kept elsewhere
// than in a folder the record may be out of date, and no one is asked for it where it was
// reported before.
func (s *Store) Recall(kind sandbox.Kind, name string) (Record, error) {
	if in, ok := s.in(); ok {
		if d, ok := in.glance(name); ok {
			if f, err := in.decoded(d, kind); err == nil {
				f.Record.Spec = specIn(d.Spec, f.SpecDigest)
				return f.Record, nil
			}
		}
	}
	return s.Get(kind, name)
}

// claims is [Store.Claims].
func (i in) claims() (map[string]SlotClaim, error) {
	docs, err := i.List()
	if err != nil {
		return nil, err
	}
	known := map[string]bool{}
	for _, d := range docs {
		if d.Claim != nil {
			_, ok, err := i.readClaim(d.Name, d.Claim, func(c Claim) string { return c.Name })
			known[d.Name] = ok && err == nil
		}
	}
	out := map[string]SlotClaim{}
	for _, d := range docs {
		if d.Claimed == nil {
			continue
		}
		c, _, err := i.readClaim(d.Name, d.Claimed, func(c Claim) string { return c.Slot })
		out[d.Name] = SlotClaim{Claim: c, Whole: err == nil && known[c.Name], Err: err}
	}
	return out, nil
}

func (i in) read(kind sandbox.Kind, name string) (file, Document, error) {
	if err := statedir.CheckName(name); err != nil {
		return file{}, Document{}, err
	}
	if _, err := kindDir(kind); err != nil {
		return file{}, Document{}, err
	}
	d, err := i.Get(name)
	if err != nil {
		return file{}, d, err
	}
	f, err := i.decoded(d, kind)
	if err != nil {
		return file{}, d, i.problem(name, kind, err).Err
	}
	return f, d, nil
}

func (i in) put(r Record) error {
	set, err := setting(r)
	if err != nil {
		return err
	}
	return i.Change(r.Name, func(d *Document) error { set(d); return nil })
}

// setting returns what puts r into its document.
func setting(r Record) (func(*Document), error) {
	if err := statedir.CheckName(r.Name); err != nil {
		return nil, err
	}
	if _, err := kindDir(r.Kind); err != nil {
		return nil, err
	}
	spec, digest, err := encodeSpec(r.Spec)
	if err != nil {
		return nil, err
	}
	data, err := encode(file{Format: Format, Record: r, SpecDigest: digest})
	return func(d *Document) { d.Record, d.Spec, d.Damaged = data, spec, nil }, err
}

// change is [Store.change]. later says that it need not be written at once.
func (i in) change(kind sandbox.Kind, name string, later bool, fn func(*file) bool) error {
	if err := statedir.CheckName(name); err != nil {
		return err
	}
	to := i.Change
	if later {
		to = i.Note
	}
	err := to(name, func(d *Document) error {
		f, err := i.decoded(*d, kind)
		if err != nil || !fn(&f) {
			return err
		}
		d.Record, err = encode(f)
		return err
	})
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrCorrupt) || errors.Is(err, ErrNewer) {
		return i.problem(name, kind, err).Err
	}
	return err
}

func (i in) delete(kind sandbox.Kind, name string) error {
	if err := statedir.CheckName(name); err != nil {
		return err
	}
	return i.Change(name, func(d *Document) error {
		if d.Record == nil || sameKind(d.Record, kind) {
			d.Record, d.Spec, d.Damaged = nil, nil, nil
		}
		return nil
	})
}

// list returns the records of any of the kinds.
func (i in) list(kinds []sandbox.Kind) (records []Record, problems []Problem, err error) {
	docs, err := i.List()
	if err != nil {
		return nil, nil, err
	}
	for _, d := range docs {
		for _, kind := range kinds {
			f, err := i.decoded(d, kind)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err == nil {
				records = append(records, f.Record)
			} else if p := i.problem(d.Name, kind, err); !sandbox.IsNotFound(p.Err) {
				problems = append(problems, *p)
			}
			break
		}
	}
	return records, problems, nil
}

// problem is [Store.problem].
func (i in) problem(name string, kind sandbox.Kind, err error) *Problem {
	p := &Problem{Kind: kind, Name: name, Path: i.provider + ":" + name}
	e := &sandbox.Error{Op: "read record", Resource: name, Err: err}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		e.Code, e.Message = sandbox.CodeNotFound, "no record of sandbox "+name
	case errors.Is(err, ErrNewer):
		e.Code, e.Message = sandbox.CodeUnavailable, "cannot read the record of sandbox "+name
		e.Hint = "use the version of sandbox that wrote it"
	default:
		e.Code, e.Message = sandbox.CodeUnavailable, "the record of sandbox "+name+" is damaged"
		if e.Err = errors.Join(err, i.setAside(name, kind)); errors.Is(e.Err, errSetAside) {
			p.SetAside = p.Path
			e.Hint = "it was set aside and is rebuilt from the labels of the sandbox"
		} else {
			e.Retryable, e.Hint = true, "try again"
		}
	}
	p.Err = e
	return p
}

// maxDamaged is how much is kept of a record that is none.
const maxDamaged = 1 << 10

var errSetAside = errors.New("it was set aside")

// setAside takes a record that is none out of the way. It returns errSetAside where
// it has, and nil where another process has repaired it meanwhile.
func (i in) setAside(name string, kind sandbox.Kind) error {
	err := i.Change(name, func(d *Document) error {
		if _, err := i.decoded(*d, kind); !errors.Is(err, ErrCorrupt) {
			return fs.ErrNotExist
		}
		d.Damaged = d.Record[:min(len(d.Record), maxDamaged)]
		d.Record, d.Spec = nil, nil
		return nil
	})
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err == nil:
		return errSetAside
	}
	return err
}

// claim is [Store.Claim], and where r is not nil [Store.ClaimRecorded]. The claim on the
// slot is written first, as in a folder.
func (i in) claim(c Claim, r *Record, last bool) error {
	data, err := json.Marshal(c)
	if err != nil {
		return sandbox.Errorf(sandbox.CodeInternal, "claim slot", "cannot encode the claim: %w", err)
	}
	set := func(*Document) {}
	if r != nil {
		if set, err = setting(*r); err != nil {
			return err
		}
	}
	taken := &sandbox.Error{Code: sandbox.CodeBusy, Op: "claim slot", Resource: c.Slot, Message: "the slot is claimed", Retryable: true}
	var before Document
	err = i.Change(c.Slot, func(d *Document) error {
		if d.Claimed != nil {
			return taken
		}
		before = *d
		d.Claimed = data
		if r != nil {
			d.Record, d.Spec = nil, nil
		}
		return nil
	})
	if err != nil {
		return err
	}
	change := i.Change
	if f, ok := i.Documents.(statedir.Finisher); ok && last {
		change = f.Finish
	}
	err = change(c.Name, func(d *Document) error {
		if d.Claim != nil {
			return taken
		}
		d.Claim = data
		set(d)
		return nil
	})
	if err != nil && mayBeDone(err) {
		return err // with the claim taken off the slot two sandboxes could have it; who keeps the pool removes a slot whose claim is not whole
	}
	if err != nil {
		undo := i.Change(c.Slot, func(d *Document) error {
			d.Claimed, d.Record, d.Spec = nil, before.Record, before.Spec
			return nil
		})
		return errors.Join(err, undo)
	}
	return nil
}

// mayBeDone reports whether a change with that error may have been made, or may still be.
func mayBeDone(err error) bool {
	switch sandbox.CodeOf(err) {
	case sandbox.CodeBusy, sandbox.CodeValidation, sandbox.CodePermissionDeny, sandbox.CodeUnsupported:
		return false
	}
	return true
}

// readClaim is [Store.readClaim] for a claim that lies in data.
func (i in) readClaim(name string, data []byte, of func(Claim) string) (c Claim, ok bool, err error) {
	if data == nil {
		return c, false, nil
	}
	if len(data) > maxClaim {
		err = ErrCorrupt
	} else {
		err = json.Unmarshal(data, &c)
	}
	switch {
	case err == nil && c.Format > Format:
		err = fmt.Errorf("%w: format %d", ErrNewer, c.Format)
	case err == nil && (of(c) != name || statedir.CheckName(c.Slot) != nil || statedir.CheckName(c.Name) != nil):
		err = fmt.Errorf("%w: it is about %q", ErrCorrupt, of(c))
	case err == nil:
		return c, true, nil
	}
	return Claim{}, false, &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "read claim", Resource: name, Message: "the claim cannot be read", Err: err,
		Hint: "remove the sandbox " + name + " with its pod, and make it again"}
}

// Known reports whether there is a claim of the sandbox name, and a record of its kind,
// also where these cannot be read. It is for the view of a provider whose records are
// kept elsewhere, and looks once. That there is neither may be out of date: a caller that
// makes the sandbox calls Known under the ensure lock of the name again.
func (s *Store) Known(kind sandbox.Kind, name string) (claimed, recorded bool, err error) {
	in, ok := s.in()
	if !ok {
		return false, false, sandbox.Errorf(sandbox.CodeInternal, "find record", "the provider %q has its records in the folder", s.provider)
	}
	if in.absent(name) {
		return false, false, nil
	}
	d, err := in.Get(name)
	return d.Claim != nil, d.Record != nil && sameKind(d.Record, kind), err
}

// encodeCreation returns the content of what a sandbox was created with.
func encodeCreation(name string, request json.RawMessage) ([]byte, error) {
	data, err := json.Marshal(creation{Format: Format, Name: name, Request: request})
	if err != nil {
		return nil, sandbox.Errorf(sandbox.CodeInternal, "write creation", "cannot encode it: %w", err)
	}
	if len(data) > maxRecord {
		return nil, sandbox.Errorf(sandbox.CodeValidation, "write creation", "it has %d bytes; %d are allowed", len(data), maxRecord)
	}
	return data, nil
}

// decodeCreation is the opposite of encodeCreation.
func decodeCreation(name string, data []byte) (json.RawMessage, error) {
	var c creation
	err := json.Unmarshal(data, &c)
	if err == nil && (len(data) > maxRecord || c.Format != Format || c.Name != name || len(c.Request) == 0) {
		err = fmt.Errorf("format %d of %q", c.Format, c.Name)
	}
	if err != nil {
		return nil, unreadableCreation(name, err)
	}
	return c.Request, nil
}

func unreadableCreation(name string, err error) error {
	return &sandbox.Error{
		Code: sandbox.CodeUnavailable, Op: "read creation", Resource: name, Message: "what the sandbox was created with cannot be read", Err: err,
		Hint: "remove the sandbox and create it again",
	}
}

func stampOf(data []byte) CreationStamp {
	if data == nil {
		return CreationStamp{}
	}
	return CreationStamp{digest: sha256.Sum256(data), size: int64(len(data))}
}
