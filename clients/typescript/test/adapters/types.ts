// The adapters are what the frameworks declare. This is compiled and not run.
import { HarnessAgent, type HarnessAgentAdapter } from '@ai-sdk/harness/agent'
import type { HarnessV1NetworkSandboxSession, HarnessV1SandboxProvider } from '@ai-sdk/harness'
import { sandboxProvider, type NetworkSandboxSession } from '@bulkhead/sandbox/ai-sdk'
import { SandboxBackend } from '@bulkhead/sandbox/deepagents'
import { sandboxClient } from '@bulkhead/sandbox/openai-agents'
import { CloudflareSandboxClient } from '@openai/agents-extensions/sandbox/cloudflare'
import { createDeepAgent, type SandboxBackendProtocolV2 } from 'deepagents'

export const provider: HarnessV1SandboxProvider = sandboxProvider({ ports: [4000], image: 'alpine' })
export const session = (s: NetworkSandboxSession): HarnessV1NetworkSandboxSession => s
export const harnessAgent = (harness: HarnessAgentAdapter) => new HarnessAgent({ harness, sandbox: sandboxProvider() })

export const backend = (b: SandboxBackend): SandboxBackendProtocolV2 => b
export const deepAgent = (b: SandboxBackend) => createDeepAgent({ backend: b })

export const client: CloudflareSandboxClient = sandboxClient(CloudflareSandboxClient, { url: 'tcp:a:1', token: 't', timeoutMs: 5 })
