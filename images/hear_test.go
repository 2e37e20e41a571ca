package images

// hear makes a Progress of a function.
type hear func(Event)

func (h hear) Report(e Event) { h(e) }
