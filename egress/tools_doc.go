// This file documents tests: common programs that download (curl, wget, git,
// pip, npm, go, requests, node) run unmodified in sandboxes without network,
// with only the environment that the proxy gives to commands, and reach
// exactly the allowed hosts.

package egress
