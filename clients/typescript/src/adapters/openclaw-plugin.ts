/** The entry of the plugin for OpenClaw, which resolves its own package for it. */
// @ts-ignore: OpenClaw has no types for this part of its plugin SDK.
import { registerSandboxBackend } from 'openclaw/plugin-sdk/sandbox'
import { pluginId, registration, type PluginConfig } from './openclaw.js'

interface PluginApi {
  registrationMode: string
  pluginConfig?: PluginConfig
}

export default {
  id: pluginId,
  name: 'Sandbox',
  description: 'Runs the tools of agents in sandboxes of a sandbox daemon.',
  register(api: PluginApi): void {
    if (api.registrationMode === 'full') registerSandboxBackend(pluginId, registration(api.pluginConfig))
  },
}
