package grant

import (
	"slices"
	"strconv"
)

// Meet returns what both of two lists of capabilities allow, in normal form.
// It says exactly that: an operation is allowed by the result when it is
// allowed by one capability of each. Malformed capabilities are
// [sandbox.CodeValidation].
func Meet(a, b []Capability) ([]Capability, error) {
	x, err := boxes("a", a)
	if err != nil {
		return nil, err
	}
	y, err := boxes("b", b)
	if err != nil {
		return nil, err
	}
	out, err := meet("a", x, y)
	if err != nil {
		return nil, err
	}
	return spelled(out), nil
}

// Normal returns capabilities in normal form: sorted, each spelled in one way,
// those of the same resource joined, and none that another one contains. Lists
// that allow the same have the same normal form, but for a resource that is
// covered only by several capabilities together.
func Normal(list []Capability) ([]Capability, error) {
	out, err := boxes("capabilities", list)
	if err != nil {
		return nil, err
	}
	return spelled(out), nil
}

// meet returns the meets of every two boxes, in normal form. Both lists are in
// normal form, so that those of one kind stand together. Lists that cross each
// other in more ways than anybody means, which would take long to sort out, are
// refused; field is for that error.
func meet(field string, a, b []*box) ([]*box, error) {
	list := make([]box, 0, max(len(a), len(b)))
	var out box
	from := 0
	for i := range a {
		if i > 0 && a[i].kind != a[i-1].kind {
			from = 0
		}
		for from < len(b) && b[from].kind != a[i].kind {
			from++
		}
		for j := from; j < len(b) && b[j].kind == a[i].kind; j++ {
			if a[i].meet(b[j], &out) {
				list = append(list, out)
			}
		}
		if len(list) > maxMeets {
			return nil, invalid(field, "the capabilities cross those that they are met with in more than "+strconv.Itoa(maxMeets)+" ways", "name fewer, or wider ones")
		}
	}
	return normal(list), nil
}

// normal returns boxes in normal form; the list is used up. What it keeps are
// the greatest of the boxes with a single word each, joined again where only
// the word differs: that does not depend on order or repetition, and stays the
// same when boxes are met with themselves.
func normal(list []box) []*box {
	all := make([]*box, len(list))
	for i := range list {
		all[i] = &list[i]
	}
	slices.SortFunc(all, (*box).order)
	joined := all[:0]
	for _, b := range all {
		if n := len(joined); n > 0 && joined[n-1].order(b) == 0 {
			joined[n-1].words |= b.words
			continue
		}
		joined = append(joined, b)
	}
	left := make([]words, len(joined))
	covered := make([]bool, len(joined))
	for i, b := range joined {
		left[i] = b.words
		for j, o := range joined {
			if i != j && o.holds(b) {
				left[i] &^= o.words
				covered[i] = left[i] == 0
			}
		}
	}
	out := joined[:0]
	for i, b := range joined {
		if b.words = left[i]; !covered[i] && !b.empty() {
			out = append(out, b)
		}
	}
	return out
}

// spelled writes boxes as capabilities. It is never nil, since nothing allowed
// is a list of none. Neighbours with the same words share the list of them.
func spelled(list []*box) []Capability {
	out := make([]Capability, len(list))
	for i, b := range list {
		if i > 0 && b.kind == NetHTTP && list[i-1].kind == NetHTTP && b.words == list[i-1].words {
			out[i] = b.capability(out[i-1].Methods)
			continue
		}
		out[i] = b.capability(nil)
	}
	return out
}

// holding returns the first box that allows the need, or nil.
func holding(list []*box, need *box) *box {
	for _, b := range list {
		if b.holds(need) && need.words&^b.words == 0 {
			return b
		}
	}
	return nil
}

// within reports whether boxes allow all that o says. Each of its words may be
// allowed by another of them.
func within(list []*box, o *box) bool {
	left, some := o.words, false
	for i := range list {
		if list[i].holds(o) {
			left, some = left&^list[i].words, true
		}
	}
	return some && left == 0
}
