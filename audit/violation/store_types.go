package violation

import (
	"slices"

	"github.com/bulkhead-dev/sandbox/policy"
)

// A Type is the kind of an attempt. The values are stable; programs may depend
// on them.
type Type string

// Types of attempts that the rules for commands, paths, hosts and tools stopped
// before they ran.
const (
	heredocInjection    Type = "heredoc_injection"     // a here-document whose body or end is not what it seems
	metacharacterAbuse  Type = "metacharacter_abuse"   // a line that reads otherwise than it runs, or cannot be read
	variableInjection   Type = "variable_injection"    // a variable that changes what runs
	dangerousPattern    Type = "dangerous_pattern"     // code handed to an interpreter, a shell that is sent away, and the like
	CriticalPathRemoval Type = "critical_path_removal" // removing a path that must never be removed
	sensitiveFileAccess Type = "sensitive_file_access" // keys, credentials, what shells and editors run
	pathAccessDenied    Type = "path_access_denied"    // a path that the settings close or do not open
	CommandBlocked      Type = "command_blocked"       // a rule of the settings blocks the command
	disallowedTempWrite Type = "disallowed_temp_write" // a temporary file outside of the allowed prefixes
	NetworkViolation    Type = "network_violation"     // a host or port that is not allowed
	ToolDenied          Type = "tool_denied"           // a tool that may not be used
)

// What the sandbox stopped at run time.
const (
	WallPath        Type = "wall_path"      // reading or writing a path
	providerNetwork Type = "wall_network"   // a connection
	providerSyscall Type = "wall_syscall"   // a system call
	LimitExceeded   Type = "limit_exceeded" // a limit of the command or the sandbox
)

// LoginMisuse is a login link of the console that was used a second time.
const LoginMisuse Type = "login_misuse"

// Types returns all types, those of the policies first.
func Types() []Type {
	return []Type{
		heredocInjection, metacharacterAbuse, variableInjection, dangerousPattern, CriticalPathRemoval, sensitiveFileAccess,
		pathAccessDenied, CommandBlocked, disallowedTempWrite, NetworkViolation, ToolDenied,
		WallPath, providerNetwork, providerSyscall, LimitExceeded, LoginMisuse,
	}
}

// Known reports whether t is one of [Types].
func (t Type) Known() bool { return slices.Contains(Types(), t) }

// byCheck is the type of what a check of a policy finds.
func byCheck(check string) Type {
	switch check {
	case "heredoc":
		return heredocInjection
	case "metacharacter", "syntax":
		return metacharacterAbuse
	case "variable":
		return variableInjection
	case "pattern", "interpreter":
		return dangerousPattern
	case "removal":
		return CriticalPathRemoval
	case "sensitive-file":
		return sensitiveFileAccess
	case "path":
		return pathAccessDenied
	case "temporary":
		return disallowedTempWrite
	case "network", "host":
		return NetworkViolation
	case "tool", "profile":
		return ToolDenied
	case "limit":
		return LimitExceeded
	}
	return CommandBlocked
}

// severityOf is how grave a violation is of which nothing more is known than
// its type.
func severityOf(t Type) policy.Severity {
	switch t {
	case LimitExceeded:
		return policy.Low
	case CriticalPathRemoval:
		return policy.Critical
	case LoginMisuse, heredocInjection, variableInjection, dangerousPattern, sensitiveFileAccess:
		return policy.High
	}
	return policy.Medium
}
