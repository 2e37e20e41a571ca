// Package mcpserver lets agents that speak the Model Context Protocol use
// sandboxes: the tools of a session, and what makes and takes away sandboxes.
package mcpserver

import _ "github.com/modelcontextprotocol/go-sdk/mcp" // what follows is built on it
