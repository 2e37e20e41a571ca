package operation

import (
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/grant"
)

// An Observer receives an event for everything that is decided and done, for
// metrics. It is safe for concurrent use, does not block, and cannot fail.
type Observer interface {
	// Built is called after a profile was built or refused, with the time that
	// took.
	Built(d time.Duration)

	// Validated is called after a guard has judged, with the time that took.
	Validated(d time.Duration)

	// Ended is called after an operation has ended, including one that was
	// refused.
	Ended(e Ended)
}

// An Ended is an operation that has ended. Its texts may be unchecked input of
// the caller, when the operation was refused before validation.
type Ended struct {
	Tenant string
	Tool   string       // whose call it was
	Domain grant.Domain // empty for a kind that there is not
	// Resource is the kind of thing that was used, never its name; empty for a
	// kind of operation that there is not.
	Resource Resource
	Safety   grant.SafetyClass
	Effects  []grant.SideEffect

	// Denied says that the operation was refused before anything was done.
	Denied    bool
	Code      sandbox.Code // empty where it was carried out
	Retryable bool         // of the error

	Used     grant.Budget
	Duration time.Duration // of all of it, the decision too
}

// A Resource is a kind of thing that operations and calls without a grant use.
type Resource string

// The resources.
const (
	ResourceCommand Resource = "command" // a program with arguments, without a grant
	ResourceLine    Resource = "line"    // a line of a shell, without a grant
	ResourceSandbox Resource = "sandbox" // a sandbox that is used for neither
	ResourceFile    Resource = "file"
	ResourceFolder  Resource = "folder"
	ResourceHost    Resource = "host"
	ResourcePage    Resource = "page"
	ResourceProgram Resource = "program" // under a grant
	ResourceSpace   Resource = "space"   // temporary space
)

// ResourceOf is what operations of a kind use, empty for a kind that there is
// not.
func ResourceOf(k grant.OpKind) Resource {
	switch k {
	case grant.OpFsRead, grant.OpFsWrite:
		return ResourceFile
	case grant.OpFsList:
		return ResourceFolder
	case grant.OpNetHTTP:
		return ResourceHost
	case grant.OpBrowserNav, grant.OpBrowserScreenshot, grant.OpBrowserExtract, grant.OpBrowserPDF, grant.OpBrowserWait,
		grant.OpBrowserClick, grant.OpBrowserType, grant.OpBrowserUpload, grant.OpBrowserDownload:
		return ResourcePage
	case grant.OpProcExec:
		return ResourceProgram
	case grant.OpTmpAlloc:
		return ResourceSpace
	}
	return ""
}
