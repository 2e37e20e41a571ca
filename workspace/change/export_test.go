package change

// SetStep makes an application of the plan call step between its steps.
func SetStep(p *Plan, step func(string)) { p.step = step }

// WithStep returns options that make Undo call step between its steps.
func WithStep(o UndoOptions, step func(string)) UndoOptions {
	o.step = step
	return o
}
