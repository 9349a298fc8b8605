{{- define "ottla.fullname" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "ottla.labels" -}}
{{ include "ottla.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "ottla.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "ottla.image" -}}
{{ printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) }}
{{- end }}

{{- define "ottla.fullImage" -}}
{{ printf "%s:%s" .Values.image.full.repository (.Values.image.full.tag | default .Chart.AppVersion) }}
{{- end }}

{{- define "ottla.serviceAccount" -}}
{{ .Values.serviceAccount.name | default (include "ottla.fullname" .) }}
{{- end }}

{{- define "ottla.brokersDomain" -}}
{{ printf "%s-brokers.%s.svc.%s" (include "ottla.fullname" .) .Release.Namespace .Values.clusterDomain }}
{{- end }}

{{- define "ottla.bootstrap" -}}
{{ printf "%s.%s.svc.%s:%v" (include "ottla.fullname" .) .Release.Namespace .Values.clusterDomain .Values.listeners.inside.port }}
{{- end }}

{{- define "ottla.zookeeperConnect" -}}
{{- if .Values.zookeeper.enabled -}}
{{- $servers := list -}}
{{- range $each := until (int .Values.zookeeper.replicas) -}}
{{- $servers = append $servers (printf "%s-zookeeper-%d.%s-zookeeper.%s.svc.%s:2181" (include "ottla.fullname" $) $each (include "ottla.fullname" $) $.Release.Namespace $.Values.clusterDomain) -}}
{{- end -}}
{{ join "," $servers }}{{ .Values.zookeeper.chroot }}
{{- else -}}
{{ required "zookeeper.connect names the existing ensemble, for zookeeper.enabled=false" .Values.zookeeper.connect }}{{ .Values.zookeeper.chroot }}
{{- end -}}
{{- end }}

{{- define "ottla.listeners" -}}
INSIDE://:{{ .Values.listeners.inside.port }}{{ if .Values.listeners.outside.enabled }},OUTSIDE://:{{ .Values.listeners.outside.port }}{{ end }}
{{- end }}

{{- define "ottla.advertisedListeners" -}}
{{- $outside := .Values.listeners.outside -}}
INSIDE://$(POD_NAME).{{ include "ottla.brokersDomain" . }}:{{ .Values.listeners.inside.port }}
{{- if $outside.enabled -}}
{{- $service := printf "%s-outside-{broker}.%s.svc.%s" (include "ottla.fullname" .) .Release.Namespace .Values.clusterDomain -}}
{{- $host := $outside.host | default $service | replace "%d" "{broker}" -}}
,OUTSIDE://{{ $host }}:{{ if eq $outside.type "NodePort" }}{{ $outside.firstNodePort }}+{broker}{{ else }}{{ $outside.port }}{{ end }}
{{- end -}}
{{- end }}

{{- define "ottla.usesTls" -}}
{{- $protocols := list .Values.listeners.inside.protocol -}}
{{- if .Values.listeners.outside.enabled }}{{ $protocols = append $protocols .Values.listeners.outside.protocol }}{{ end -}}
{{- if contains "SSL" (join "," $protocols) }}true{{ end -}}
{{- end }}

{{- define "ottla.tlsSecret" -}}
{{- if .Values.tls.certManager.enabled -}}
{{ .Values.tls.secretName | default (printf "%s-tls" (include "ottla.fullname" .)) }}
{{- else -}}
{{ required "tls.secretName names the certificate's secret, for listeners with SSL" .Values.tls.secretName }}
{{- end -}}
{{- end }}

{{/* Environment variables of settings: dots are one underscore, underscores two, dashes three. */}}
{{- define "ottla.settings" -}}
{{- range $name, $value := . }}
- name: KAFKA_{{ $name | replace "_" "__" | replace "-" "___" | replace "." "_" | upper }}
  value: {{ if and (kindIs "float64" $value) (eq (floor $value) $value) }}{{ $value | int64 | toString | quote }}{{ else }}{{ $value | toString | quote }}{{ end }}
{{- end }}
{{- end }}

{{- define "ottla.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "ottla.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}
