package token

import "errors"

// ListBelow returns the token id and those that were made from it, as List
// does. The origin of a damaged token is unknown, so ListBelow does not mention
// such tokens; but when a token cannot be read now, ListBelow returns
// [sandbox.CodeUnavailable], because it may be one of those.
func (s *Store) ListBelow(id string) (Listing, error) {
	l, err := s.list(func(r record, err error) (bool, error) {
		if err == nil {
			return s.descends(r, id)
		}
		return false, ignore(err)
	})
	l.Damaged = nil
	return l, err
}

// Find returns the token id, even when it is no longer valid, as List does. The
// error is [sandbox.CodeNotFound] when there is no readable token with that id,
// and when top is not empty and the token is neither top nor was made from it.
func (s *Store) Find(id, top string) (Listed, error) {
	const op = "find token"
	if !isID(id) {
		return Listed{}, badID(op)
	}
	r, err := s.look(id)
	mine := err == nil
	if mine && top != "" {
		mine, err = s.descends(r, top)
	}
	switch {
	case ignore(err) != nil:
		return Listed{}, s.why(err)
	case !mine:
		return Listed{}, noToken(op, id)
	}
	return s.listed(r)
}

// descends reports whether the record is that of the token id, or of one that
// was made from it. A token below one that is gone or damaged does not descend
// from any; when a token cannot be read now, descends returns an error.
func (s *Store) descends(r record, id string) (bool, error) {
	for range maxDepth {
		if r.ID == id || r.Parent == id {
			return id != "", nil
		}
		if r.Parent == "" {
			return false, nil
		}
		var err error
		if r, err = s.look(r.Parent); err != nil {
			return false, ignore(err)
		}
	}
	return false, nil
}

// ignore returns the error that leaves the existence of a token undetermined:
// nil when there is certainly no readable token.
func ignore(err error) error {
	if errors.Is(err, errMissing) || errors.Is(err, errDamaged) {
		return nil
	}
	return err
}
