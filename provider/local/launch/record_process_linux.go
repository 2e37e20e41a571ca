package launch

// A Process is the first process of an instance, as the host numbers it.
type recordProcess = ID
