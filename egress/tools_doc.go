// Tools: this part of the package holds tests only: the programs that people fetch things with
// (curl, wget, git, pip, npm, go, requests, node) run in sandboxes without
// network, unmodified and with nothing but the environment that the proxy
// gives to commands, and reach exactly the hosts that are allowed.

package egress
