package resource

import (
	"reflect"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/grant"
)

// wordsPublished returns the values of the constants of type t, nil where they are not
// all that its values can be.
func wordsPublished(t reflect.Type) []string {
	switch t {
	case reflect.TypeFor[grant.Kind]():
		return list(grant.FSRead, grant.FSWrite, grant.FSList, grant.NetHTTP, grant.Browser, grant.Process, grant.Temp, grant.GPU)
	case reflect.TypeFor[grant.SafetyClass]():
		return list(grant.SafetyLow, grant.SafetyMedium, grant.SafetyHigh)
	case reflect.TypeFor[grant.SideEffect]():
		return list(grant.EffectRead, grant.EffectWrite, grant.EffectNetwork, grant.EffectFilesystem, grant.EffectBrowser, grant.EffectProcess)
	case reflect.TypeFor[grant.OpKind]():
		return list(grant.OpFsRead, grant.OpFsWrite, grant.OpFsList, grant.OpNetHTTP, grant.OpBrowserNav, grant.OpBrowserScreenshot,
			grant.OpBrowserExtract, grant.OpBrowserPDF, grant.OpBrowserWait, grant.OpBrowserClick, grant.OpBrowserType,
			grant.OpBrowserUpload, grant.OpBrowserDownload, grant.OpProcExec, grant.OpTmpAlloc)
	case reflect.TypeFor[evidence.Status]():
		return list(evidence.OK, evidence.Denied, evidence.Failed, evidence.Aborted)
	case reflect.TypeFor[sandbox.Code]():
		return list(sandbox.CodePermissionDeny, sandbox.CodeCapabilityBlocked, sandbox.CodeNotFound, sandbox.CodeBusy, sandbox.CodeUnsupported,
			sandbox.CodeDenyTool, sandbox.CodeBudgetExceeded, sandbox.CodeValidation, sandbox.CodeUnavailable, sandbox.CodeTimeout,
			sandbox.CodeExecution, sandbox.CodeInternal)
	}
	return nil
}

func list[T ~string](words ...T) []string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = string(w)
	}
	return out
}
