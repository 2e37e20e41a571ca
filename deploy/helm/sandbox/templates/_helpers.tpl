{{- define "sandbox.name" -}}
{{- if contains "sandbox" .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-sandbox" .Release.Name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "sandbox.labels" -}}
app.kubernetes.io/name: sandbox
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "sandbox.selector" -}}
app.kubernetes.io/name: sandbox
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: daemon
{{- end }}

{{- define "sandbox.image" -}}
{{- $repository := required "image.repository: name the image that make daemon-image makes" .Values.image.repository }}
{{- if .Values.image.digest }}{{ $repository }}@{{ .Values.image.digest }}{{ else }}{{ $repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{- define "sandbox.sandboxImage" -}}
{{- required "sandbox.image: name the image of sandboxes by its digest" .Values.sandbox.image }}
{{- end }}

{{- /* Namespaces in which sandboxes may be, as a list. */ -}}
{{- define "sandbox.namespaces" -}}
{{- $names := list (.Values.sandbox.namespace | default .Release.Namespace) }}
{{- range .Values.namespaces }}{{ $names = append $names .name }}{{ end }}
{{- toJson (uniq $names) }}
{{- end }}

{{- /* The labels of the daemons, as the peer of a policy. */ -}}
{{- define "sandbox.selectorLabels" -}}
{{- include "sandbox.selector" . | fromYaml | toJson }}
{{- end }}

{{- /*
The digest of the rule that lets daemons in at the port of guests: the daemon selects
pods by it, so its text is the rule as the daemon writes it.
*/ -}}
{{- define "sandbox.guestPortDigest" -}}
{{- printf `{"ports":[{"protocol":"TCP","port":%d}],"from":[{"podSelector":{"matchLabels":%s},"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":%q}}}]}` (int .Values.guestPort.number) (include "sandbox.selectorLabels" .) .Release.Namespace | sha256sum | trunc 16 }}
{{- end }}

{{- define "sandbox.settings" -}}
{{- $name := include "sandbox.name" . }}
{{- $kubernetes := dict
  "namespace" (.Values.sandbox.namespace | default .Release.Namespace)
  "guestImage" (.Values.sandbox.guestImage | default (include "sandbox.image" .))
  "imagePullPolicy" .Values.image.pullPolicy }}
{{- if .Values.tenantNamespaces }}
{{- if .Values.imagePullSecrets }}{{ fail "imagePullSecrets: with tenantNamespaces no Secret is copied to the namespaces of tenants; give the nodes the credentials of the registry" }}{{ end }}
{{- $_ := set $kubernetes "tenantNamespaces" true }}
{{- end }}
{{- if .Values.imagePullSecrets }}{{ $_ := set $kubernetes "imagePullSecrets" .Values.imagePullSecrets }}{{ end }}
{{- if .Values.guestPort.enabled }}
{{- $_ := set $kubernetes "wayPort" (int .Values.guestPort.number) }}
{{- $_ := set $kubernetes "wayFromLabels" (include "sandbox.selectorLabels" . | fromJson) }}
{{- $_ := set $kubernetes "wayFromNamespace" .Release.Namespace }}
{{- else }}{{ $_ := set $kubernetes "way" "exec" }}
{{- end }}
{{- if .Values.seccomp.enabled }}{{ $_ := set $kubernetes "seccompProfile" .Values.seccomp.profile }}{{ end }}
{{- $hosts := concat (list $name (printf "%s.%s" $name .Release.Namespace) (printf "%s.%s.svc" $name .Release.Namespace) (printf "%s.%s.svc.cluster.local" $name .Release.Namespace)) .Values.hosts }}
{{- $own := dict
  "kubernetes" $kubernetes
  "daemon" (dict "hosts" $hosts "drainTimeout" (printf "%ds" (int .Values.drainSeconds)))
  "agents" (dict "defaults" (dict "sandbox" (dict
    "provider" "kubernetes"
    "docker" (dict "image" (include "sandbox.sandboxImage" .))))) }}
{{- mustMergeOverwrite $own (deepCopy .Values.settings) | toPrettyJson }}
{{- end }}

{{- /* The port of the collector, as the URL has it or as its scheme says. */ -}}
{{- define "sandbox.otelPort" -}}
{{- $at := urlParse .Values.otel.endpoint }}
{{- $port := regexFind ":[0-9]+$" $at.host | trimPrefix ":" }}
{{- $port | default (ternary "443" "80" (eq $at.scheme "https")) }}
{{- end }}

{{- /* The variables of OpenTelemetry, as those of a container. */ -}}
{{- define "sandbox.otel" -}}
{{- with .Values.otel }}
{{- $attributes := list "k8s.namespace.name=$(OTEL_NAMESPACE)" "k8s.pod.name=$(OTEL_POD)" "k8s.node.name=$(OTEL_NODE)" }}
{{- range $name, $value := .attributes }}{{ $attributes = append $attributes (printf "%s=%s" $name $value) }}{{ end }}
- {name: OTEL_NAMESPACE, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}
- {name: OTEL_POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
- {name: OTEL_NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
- {name: OTEL_RESOURCE_ATTRIBUTES, value: {{ join "," $attributes | quote }}}
- {name: OTEL_SERVICE_NAME, value: {{ .serviceName | default (include "sandbox.name" $) | quote }}}
- {name: OTEL_EXPORTER_OTLP_ENDPOINT, value: {{ .endpoint | quote }}}
- {name: OTEL_EXPORTER_OTLP_PROTOCOL, value: {{ .protocol | quote }}}
{{- range $signal := list "traces" "metrics" "logs" }}
{{- if not (has $signal $.Values.otel.signals) }}
- {name: OTEL_{{ upper $signal }}_EXPORTER, value: none}
{{- end }}
{{- end }}
{{- if .headers.secret }}
- {name: OTEL_EXPORTER_OTLP_HEADERS, valueFrom: {secretKeyRef: {name: {{ .headers.secret }}, key: {{ .headers.key }}}}}
{{- end }}
{{- if .ca.secret }}
- {name: OTEL_EXPORTER_OTLP_CERTIFICATE, value: /otel/{{ .ca.key }}}
{{- end }}
{{- if .sampler }}
- {name: OTEL_TRACES_SAMPLER, value: {{ .sampler }}}
{{- end }}
{{- if .samplerArg }}
- {name: OTEL_TRACES_SAMPLER_ARG, value: {{ .samplerArg | quote }}}
{{- end }}
{{- end }}
{{- end }}
