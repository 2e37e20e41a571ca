/** What the adapters share. */
import { SandboxError } from '../errors.js'

/**
 * Returns what the sandbox refuses as a sentence for a model. It throws every other
 * error again: the daemon is away, the caller is not known, or the sandbox cannot work.
 */
export function refusal(error: unknown): string {
  if (!isRefusal(error)) throw error
  const absent = isNotFound(error) && !/not found|no such/.test(error.detail) ? ' is not there' : ''
  return `sandbox: ${error.detail}${absent} (${error.code})`
}

/** Whether an error is an answer about the request, and not a failure to work on it. */
export function isRefusal(error: unknown): error is SandboxError {
  return error instanceof SandboxError && !['PROVIDER.UNAVAILABLE', 'PROVIDER.TIMEOUT', 'UNKNOWN.INTERNAL'].includes(error.code) && error.status !== 401
}

/** Takes a refusal for "no such thing", for the catch of a look at something. */
export function unlessRefused(error: unknown): undefined {
  refusal(error)
  return undefined
}

/** Whether an error says that something is not there. */
export function isNotFound(error: unknown): boolean {
  return error instanceof SandboxError && error.code === 'SANDBOX.NOT_FOUND'
}

/** Joins pieces of so many bytes. */
export function join(pieces: Uint8Array[], length: number): Uint8Array {
  const whole = new Uint8Array(length)
  let at = 0
  for (const piece of pieces) {
    whole.set(piece, at)
    at += piece.length
  }
  return whole
}
