package launch

// A Process is the first process of a wall, as the host numbers it.
type recordProcess = ID
