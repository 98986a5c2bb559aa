{{- define "switchyard.image" -}}
{{- $name := printf "switchyard-%s:%s" .part .root.Values.image.tag -}}
{{- with .root.Values.image.registry }}{{ . }}/{{ end }}{{ $name }}
{{- end }}

{{- define "switchyard.labels" -}}
app.kubernetes.io/name: switchyard
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .part }}
{{- end }}

{{- define "switchyard.pod" -}}
automountServiceAccountToken: false
securityContext: {runAsNonRoot: true, runAsUser: 1000, runAsGroup: 0, fsGroup: 0, seccompProfile: {type: RuntimeDefault}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- end }}

{{- define "switchyard.container" -}}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
{{- end }}

{{/* Variables by which commands and jobs find the state and their logins. */}}
{{- define "switchyard.environment" -}}
- {name: SWITCHYARD_ZOOKEEPER, value: {{ .Values.zookeeper.hosts | quote }}}
- {name: SWITCHYARD_ROOT, value: {{ .Values.zookeeper.root | quote }}}
{{- if .Values.zookeeper.securitySecret }}
- {name: SWITCHYARD_ZOOKEEPER_SECURITY_FILE, value: /run/secrets/zookeeper/zookeeper.yaml}
{{- end }}
{{- if .Values.clusterSecuritySecret }}
- {name: SWITCHYARD_SECURITY_FILE, value: /run/secrets/clusters/security.yaml}
{{- end }}
{{- end }}

{{- define "switchyard.mounts" -}}
- {name: tmp, mountPath: /tmp}
{{- if .Values.zookeeper.securitySecret }}
- {name: zookeeper, mountPath: /run/secrets/zookeeper, readOnly: true}
{{- end }}
{{- if .Values.clusterSecuritySecret }}
- {name: clusters, mountPath: /run/secrets/clusters, readOnly: true}
{{- end }}
{{- end }}

{{- define "switchyard.volumes" -}}
- name: tmp
  emptyDir: {}
{{- with .Values.zookeeper.securitySecret }}
- name: zookeeper
  secret: {secretName: {{ . }}, defaultMode: 0440}
{{- end }}
{{- with .Values.clusterSecuritySecret }}
- name: clusters
  secret: {secretName: {{ . }}, defaultMode: 0440}
{{- end }}
{{- end }}
