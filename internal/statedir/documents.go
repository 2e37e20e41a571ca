package statedir

// A Document is all that is kept of one name elsewhere than in a folder. Each field
// is what the file of the folder would hold, or nil.
type Document struct {
	Name     string
	Record   []byte // of the sandbox or the slot
	Spec     []byte // that the record was written with
	Creation []byte // what the sandbox was created with
	Claim    []byte // of the sandbox Name on a slot
	Claimed  []byte // on the slot Name
	Damaged  []byte // the beginning of a record that was none and was set aside
}

// Empty reports whether nothing is kept.
func (d Document) Empty() bool {
	return d.Record == nil && d.Spec == nil && d.Creation == nil && d.Claim == nil && d.Claimed == nil && d.Damaged == nil
}

// Documents keep the documents of one provider where several machines reach them.
// They are safe for concurrent use, also by several programs. Errors are of type
// *[sandbox.Error].
type Documents interface {
	// Get returns the document of a name, which is empty where nothing is kept.
	Get(name string) (Document, error)

	// Change replaces the document of a name by what change makes of it. Where
	// another caller has changed it meanwhile, change is called again with the new
	// one. Its error is returned as it is, and nothing is written. A document that
	// becomes empty is removed.
	Change(name string, change func(*Document) error) error

	// Note is Change for what need not outlast this process: it may be written
	// later, together with other changes. Get sees it at once.
	Note(name string, change func(*Document) error) error

	// List returns the documents that are not empty, without their Specs.
	List() ([]Document, error)
}

// A Glancer are Documents that mostly know without asking what is kept of a name.
type Glancer interface {
	// Glance returns the document of a name as it was reported last; ok is false where
	// that is not known. It may be out of date: a caller decides under the lock of the
	// name, by [Documents.Get] or a change.
	Glance(name string) (d Document, ok bool)
}

// A Finisher are Documents that are kept in the same place as the locks of their names.
type Finisher interface {
	// Finish is [Documents.Change] for the last change that a caller makes under the
	// ensure lock of the name: the lock is given up with it, and other programs may take
	// it before the caller has released it, which it does as it would after a Change.
	// With an error the lock may still be held.
	Finish(name string, change func(*Document) error) error
}
