package token

import "errors"

// ListBelow returns the token id and those that were made from it, as List does.
// Whose token cannot be read nobody knows, so it says nothing of those.
func (s *Store) ListBelow(id string) (Listing, error) {
	l, err := s.list(func(r record) bool { return s.descends(r, id) })
	l.Damaged = nil
	return l, err
}

// Find returns the token id, also one that is not good any more, as List does. It
// is [sandbox.CodeNotFound] where there is none that can be read, and where top is
// not empty and it is neither top nor was made from that.
func (s *Store) Find(id, top string) (Listed, error) {
	const op = "find token"
	if !isID(id) {
		return Listed{}, badID(op)
	}
	r, err := s.look(id)
	switch {
	case errors.Is(err, errMissing), errors.Is(err, errDamaged):
		return Listed{}, noToken(op, id)
	case err != nil:
		return Listed{}, s.why(err)
	case top != "" && !s.descends(r, top):
		return Listed{}, noToken(op, id)
	}
	return s.listed(r)
}

// descends reports whether the record is that of the token id, or of one that was
// made from it. One below a token that cannot be read descends from nobody.
func (s *Store) descends(r record, id string) bool {
	for range maxDepth {
		if r.ID == id || r.Parent == id {
			return id != ""
		}
		if r.Parent == "" {
			return false
		}
		var err error
		if r, err = s.look(r.Parent); err != nil {
			return false
		}
	}
	return false
}
