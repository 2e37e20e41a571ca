// The host provider runs commands on the host itself, without isolation.
//
// It exists for sessions that settings leave outside on purpose. It shares the
// guest with the other providers, so that commands, their time limits and the
// end of their process trees are the same; the guest, and with it everything
// it starts, runs as our own user and ends with us. Nothing is isolated: of a
// Spec only the workspace, the environment and the limits of a command hold,
// and nothing below docker of the settings does.

package provider

// Name is what the manager knows the provider by. Settings cannot name it.
const Name = "host"
