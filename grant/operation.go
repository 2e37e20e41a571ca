package grant

// domainOf returns the domain of an operation; ok is false for a kind that
// there is not.
func domainOf(k OpKind) (d Domain, ok bool) {
	switch k {
	case OpFsRead, OpFsWrite, OpFsList:
		return DomainFS, true
	case OpNetHTTP:
		return DomainNet, true
	case OpBrowserNav, OpBrowserScreenshot, OpBrowserExtract, OpBrowserPDF, OpBrowserWait,
		OpBrowserClick, OpBrowserType, OpBrowserUpload, OpBrowserDownload:
		return DomainBrowser, true
	case OpProcExec:
		return DomainProc, true
	case OpTmpAlloc:
		return DomainTmp, true
	}
	return "", false
}

// effectsOf returns the side effects of an operation.
func effectsOf(k OpKind) []SideEffect {
	switch k {
	case OpFsRead, OpFsList:
		return []SideEffect{EffectRead}
	case OpFsWrite:
		return []SideEffect{EffectWrite, EffectFilesystem}
	case OpNetHTTP:
		return []SideEffect{EffectNetwork}
	case OpBrowserNav:
		return []SideEffect{EffectBrowser, EffectNetwork}
	case OpBrowserScreenshot, OpBrowserExtract, OpBrowserPDF, OpBrowserWait:
		return []SideEffect{EffectBrowser}
	case OpBrowserClick, OpBrowserType:
		return []SideEffect{EffectBrowser, EffectWrite}
	case OpBrowserUpload:
		return []SideEffect{EffectBrowser, EffectRead, EffectWrite}
	case OpBrowserDownload:
		return []SideEffect{EffectBrowser, EffectWrite, EffectFilesystem}
	case OpProcExec:
		return []SideEffect{EffectProcess}
	case OpTmpAlloc:
		return []SideEffect{EffectFilesystem}
	}
	return nil
}

// fields are the fields that an operation may set besides kind and timeout.
type fields struct {
	path, span, data, overwrite, web, url, selector, fullPage, text, gone, program, bytes bool
}

func fieldsOf(k OpKind) fields {
	switch k {
	case OpFsRead:
		return fields{path: true, span: true}
	case OpFsWrite:
		return fields{path: true, data: true, overwrite: true}
	case OpFsList:
		return fields{path: true}
	case OpNetHTTP:
		return fields{web: true, url: true, data: true}
	case OpBrowserNav:
		return fields{url: true}
	case OpBrowserScreenshot:
		return fields{selector: true, fullPage: true}
	case OpBrowserExtract, OpBrowserClick:
		return fields{selector: true}
	case OpBrowserType:
		return fields{selector: true, text: true}
	case OpBrowserWait:
		return fields{selector: true, text: true, gone: true}
	case OpBrowserUpload, OpBrowserDownload:
		return fields{selector: true, path: true}
	case OpProcExec:
		return fields{program: true}
	case OpTmpAlloc:
		return fields{bytes: true}
	}
	return fields{}
}

// alien returns the first field that is set but does not belong to the kind:
// the operation would silently ignore it.
func (op *Operation) alien() string {
	f := fieldsOf(op.Kind)
	switch {
	case op.Path != "" && !f.path:
		return "path"
	case op.Offset != 0 && !f.span:
		return "offset"
	case op.Length != 0 && !f.span:
		return "length"
	case len(op.Data) > 0 && !f.data:
		return "data"
	case op.Overwrite && !f.overwrite:
		return "overwrite"
	case op.Method != "" && !f.web:
		return "method"
	case op.URL != "" && !f.url:
		return "url"
	case len(op.Header) > 0 && !f.web:
		return "header"
	case op.Selector != "" && !f.selector:
		return "selector"
	case op.FullPage && !f.fullPage:
		return "fullPage"
	case op.Text != "" && !f.text:
		return "text"
	case op.Gone && !f.gone:
		return "gone"
	case op.Tool != "" && !f.program:
		return "tool"
	case len(op.Args) > 0 && !f.program:
		return "args"
	case op.Bytes != 0 && !f.bytes:
		return "bytes"
	}
	return ""
}
