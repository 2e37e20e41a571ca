/**
 * The sandbox client of the OpenAI Agents SDK, set up for a daemon: the daemon speaks
 * the protocol of the client that takes the URL of a worker, CloudflareSandboxClient.
 */
import { errorOf, type SandboxError } from '../errors.js'

/** Where the daemon is. What else is given goes to the client as it is. */
export interface AgentsOptions {
  /** Address of the daemon, over TCP: `tcp:HOST:PORT` or a URL. `$SANDBOX_SERVER` without it. */
  url?: string
  /** A token of the daemon; `$SANDBOX_TOKEN` without it. */
  token?: string
}

/**
 * Returns a client for a daemon. The class is given by the caller, so that it is the one
 * that its own agents are checked against:
 *
 *     import { CloudflareSandboxClient } from "@openai/agents-extensions/sandbox/cloudflare"
 *     const client = sandboxClient(CloudflareSandboxClient)
 *     await run(agent, "…", { sandbox: { client } })
 *
 * It connects to nothing. It throws a SandboxError when there is no address, or one
 * that the client cannot use.
 */
export function sandboxClient<O extends { workerUrl?: string; apiKey?: string }, C>(
  Client: new (options?: O) => C,
  { url, token, ...rest }: AgentsOptions & Omit<O, 'workerUrl' | 'apiKey'> = {} as AgentsOptions & Omit<O, 'workerUrl' | 'apiKey'>,
): C {
  const address = url ?? process.env['SANDBOX_SERVER']
  if (!address) throw unusable('no daemon is named: give url, or set SANDBOX_SERVER')
  const apiKey = token ?? process.env['SANDBOX_TOKEN']
  if (!apiKey)
    throw errorOf('SANDBOX.PERMISSION_DENY', 'no token is given: give token, or set SANDBOX_TOKEN to what "sandbox token create" prints', { field: 'token' })
  return new Client({ ...rest, workerUrl: workerUrl(address), apiKey } as unknown as O)
}

/** The address of a daemon as a URL. */
function workerUrl(address: string): string {
  const text = address.startsWith('tcp:') ? 'http://' + address.slice('tcp:'.length) : address
  let url: URL
  try {
    url = new URL(text)
  } catch {
    throw unusable(`${JSON.stringify(address)} is no address: write tcp:HOST:PORT or https://HOST`)
  }
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    throw unusable(
      `the client of the Agents SDK speaks HTTP over TCP alone, and ${address} is something else: start the daemon with --listen tcp:127.0.0.1:8421 and give that`,
    )
  }
  return url.href.replace(/\/$/, '')
}

function unusable(message: string): SandboxError {
  return errorOf('SCHEMA.VALIDATION_FAILED', message, { field: 'url' })
}
