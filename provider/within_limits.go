package provider

// Sampled is the sentence of explain for limits.processes where processes cannot be
// counted before they are made, with the reason.
func Sampled(why string) string {
	return "limits.processes is held by looking from time to time: more processes than it allows may be there for a moment; " + why
}
